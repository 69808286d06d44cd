"""SIGTERM in the middle of an epoch: every example of the epoch is trained on by one of two starts.

Also where the second start has another number of ranks; steps then go on at the same share.
"""

from __future__ import annotations

import collections
import json
import math
import shutil
import signal
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import programs

LIMIT_SECONDS = 250
EPOCHS, PER_RANK = 3, 4
ROWS = 58  # the last batch of 2 and of 3 ranks is ragged, that of 3 leaves one without examples
ENDS_IN_EPOCH = 1
ALL_EXAMPLES = range(1, ROWS + 1)

# What a rank trains on is noted where the gradient is made, not where the data are read.
PROGRAM = """
import json, os, signal, sys, time
import keras, numpy as np, tensorflow as tf
import tf_adasum as adasum
from tf_adasum.callbacks import save_requests

kind, rows, per_rank, epochs, end_epoch, end_batch = sys.argv[2], *map(int, sys.argv[3:])
save_requests._SECONDS_BETWEEN = 0.0  # ranks ask each other after each batch
keras.utils.set_random_seed(3)
strategy = adasum.AdasumStrategy()
noted = []

class Note(keras.layers.Layer):
    def call(self, x):
        note = tf.numpy_function(lambda ids: noted.extend(ids.tolist()) or ids, [x[:, 0]], x.dtype)
        with tf.control_dependencies([note]):
            return tf.identity(x[:, 1:])

    def compute_output_shape(self, shape):
        return (*shape[:-1], shape[-1] - 1)

class Trained(keras.callbacks.Callback):
    stops_nothing = True

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        print("trained", json.dumps([self.epoch, batch, noted]), flush=True)
        noted.clear()
        if (self.epoch, batch + 1) == (end_epoch, end_batch) and adasum.rank() == 1:
            with open(f"/proc/{os.getppid()}/stat") as mpirun:
                os.kill(int(mpirun.read().rpartition(")")[2].split()[1]), signal.SIGTERM)
            while not backup._requests._mine:  # at the latest the launcher's limit ends this
                time.sleep(0.01)

with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), Note(), keras.layers.Dense(8)])
    model.compile(adasum.wrap(keras.optimizers.Adam(0.01)), loss="mse")
x = np.random.default_rng(0).normal(size=(rows, 4)).astype("float32")
x[:, 0] = np.arange(1, rows + 1)  # 0 is the row that stands in for an empty batch
y = np.repeat(np.sin(x), 2, axis=1)
data = {"x": x, "y": y, "batch_size": per_rank * adasum.size()}
if kind == "dataset":
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(rows)
    data = {"x": dataset.batch(data["batch_size"])}
backup = adasum.callbacks.BackupAndRestore(sys.argv[1])
model.fit(**data, epochs=epochs, verbose=0, callbacks=[Trained(), backup])
print("steps", int(model.optimizer.iterations.numpy()), flush=True)
"""


class Job(NamedTuple):
    """What one start did.

    Attributes:
        code: its exit code.
        batches: of all ranks, each (epoch, batch) and the numbers of its examples.
        steps: what the optimizer has counted at the end, on each rank; none before.
        said: on all streams.
    """

    code: int
    batches: dict[tuple[int, int], list[int]]
    steps: list[int]
    said: str

    def examples(self, epoch: int) -> collections.Counter:
        """How often each example of an epoch was trained on."""
        return collections.Counter(
            example for (of, _), each in self.batches.items() if of == epoch for example in each
        )

    def batches_of(self, epoch: int) -> list[int]:
        """The numbers of the epoch's batches, in order."""
        return sorted(batch for of, batch in self.batches if of == epoch)


def _run(folder: Path, ranks: int, kind: str, end_batch: int) -> Job:
    (folder / "program.py").write_text(PROGRAM)
    launcher = [*programs.ADASUMRUN, "-np", str(ranks), "--timeout", "180"]
    numbers = (ROWS, PER_RANK, EPOCHS, ENDS_IN_EPOCH, end_batch)
    words = [str(folder / "program.py"), str(folder / "backup"), kind, *map(str, numbers)]
    run = programs.run([*launcher, sys.executable, *words], LIMIT_SECONDS)
    batches, seen = {}, collections.Counter()
    for line in run.stdout.splitlines():
        if line.startswith("trained "):
            epoch, batch, examples = json.loads(line.partition(" ")[2])
            seen[epoch, batch] += 1
            batches.setdefault((epoch, batch), []).extend(int(each) for each in examples if each)
    assert set(seen.values()) == {ranks}, run.stderr  # all ranks made the same batches, once
    steps = [int(line.split()[1]) for line in run.stdout.splitlines() if line.startswith("steps ")]
    return Job(run.returncode, batches, steps, run.stdout + run.stderr)


def _num_batches(ranks: int) -> int:
    """Of an epoch."""
    return math.ceil(ROWS / (PER_RANK * ranks))


def _check_epochs(job: Job, ranks: int, epochs) -> None:
    """Whole epochs: all batches and all examples, each once."""
    for epoch in epochs:
        assert job.batches_of(epoch) == list(range(_num_batches(ranks)))
        assert job.examples(epoch) == collections.Counter(ALL_EXAMPLES)


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """Returns jobs that SIGTERM has ended: (ranks, kind, batch) -> the folder and the job."""
    made = {}

    def end(ranks, kind, end_batch):
        key = (ranks, kind, end_batch)
        if key not in made:
            folder = tmp_path_factory.mktemp("ended")
            job = _run(folder, ranks, kind, end_batch)
            assert job.code == 128 + signal.SIGTERM, job.said
            _check_epochs(job, ranks, range(ENDS_IN_EPOCH))
            assert job.batches_of(ENDS_IN_EPOCH) == list(range(end_batch)), job.said
            made[key] = (folder, job)
        return made[key]

    return end


@pytest.mark.parametrize(("ranks", "kind"), [(3, "arrays"), (2, "dataset")])
def test_as_many_ranks_see_every_example_of_the_epoch_once(ended, tmp_path, ranks, kind):
    end_batch, num = 3, _num_batches(ranks)
    folder, first = ended(ranks, kind, end_batch)
    shutil.copytree(folder / "backup", tmp_path / "backup")
    second = _run(tmp_path, ranks, kind, 0)
    assert second.code == 0, second.said
    assert second.batches_of(ENDS_IN_EPOCH) == list(range(end_batch, num))
    together = first.examples(ENDS_IN_EPOCH) + second.examples(ENDS_IN_EPOCH)
    assert together == collections.Counter(ALL_EXAMPLES)
    _check_epochs(second, ranks, range(ENDS_IN_EPOCH + 1, EPOCHS))
    assert second.steps == [EPOCHS * num] * ranks


@pytest.mark.parametrize(("before", "after", "kind"), [(3, 2, "arrays"), (2, 3, "dataset")])
def test_another_number_of_ranks_goes_on_at_the_same_share(ended, tmp_path, before, after, kind):
    """The share is rounded down: no example is lost, and up to a batch is trained on twice."""
    end_batch = 3
    folder, first = ended(before, kind, end_batch)
    shutil.copytree(folder / "backup", tmp_path / "backup")
    second = _run(tmp_path, after, kind, 0)
    assert second.code == 0, second.said
    old, new = _num_batches(before), _num_batches(after)
    assert old != new
    begin = end_batch * new // old
    assert f"goes on with epoch 1, after {end_batch} of its batches" in second.said
    assert f"an epoch had {old} batches, and has {new}" in second.said
    assert second.batches_of(ENDS_IN_EPOCH) == list(range(begin, new))
    _check_epochs(second, after, range(ENDS_IN_EPOCH + 1, EPOCHS))
    made = old + end_batch  # by the first start, and the optimizer has counted them
    assert second.steps == [made + new - begin + (EPOCHS - ENDS_IN_EPOCH - 1) * new] * after
    together = first.examples(ENDS_IN_EPOCH) + second.examples(ENDS_IN_EPOCH)
    assert set(together) == set(ALL_EXAMPLES)
    assert set(together.values()) == {1, 2}
    assert 0 < together.total() - ROWS <= PER_RANK * after
