"""Times what the tuner chooses from, and more of it, interleaved, beside what it chose.

    adasumrun -np 2 python -m benchmarks.tuning

One communicator for each choice, all of one job: allreduces in place of NumPy arrays ("packed",
where ranks would else copy across) and of arrays in shared memory ("nothing packed"). Columns:
bytes of a chunk, and how many chunks stay packed; median milliseconds with the defaults, and of
each other choice the ratio to them.
"""

import os
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from absl import app, flags
from mpi4py import MPI
from tabulate import tabulate

import tf_adasum as adasum
from benchmarks import gradient_lists, interleaved

FLAGS = flags.FLAGS
flags.DEFINE_integer("repetitions", 9, "Repetitions of each.")

VARIABLE = "TF_ADASUM_TUNE"
KIB = 1024
DEFAULTS = (256, 8)
# KiB of a chunk, and how many stay packed.
CHOICES = [DEFAULTS, *((kib, 8) for kib in (64, 128, 512, 1024)), *((256, n) for n in (2, 32))]
CASES = {
    "2^20": [(2**20,)],
    "2^22": [(2**22,)],
    "2^24": [(2**24,)],
    "resnet50": gradient_lists.LISTS["resnet50"](),
}


def main(_) -> None:
    """Prints what the tuner says, and one line for every case and kind of array."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tuning"
        os.environ["TF_ADASUM_VERBOSE"] = "1"
        _group(path)
        os.environ["TF_ADASUM_VERBOSE"] = "0"
        groups = {choice: _group(path, choice) for choice in CHOICES}
    rows = []
    for case, shapes in CASES.items():
        for kind, make in {"packed": np.empty, "nothing packed": adasum.empty}.items():
            rows.append([case, kind, *_times(groups, [make(shape, "float32") for shape in shapes])])
    if adasum.rank() == 0:
        headers = [f"{kib} KiB, {packed}" for kib, packed in CHOICES]
        headers[0] += ": ms"
        print(tabulate(rows, ["case", "arrays", *headers], "pipe", floatfmt=".3g"))


def _group(path: Path, choice: tuple[int, int] | None = None) -> adasum.Communicator:
    """A communicator that measures, or takes this choice."""
    if choice and adasum.rank() == 0:
        path.write_text(f"{choice[0] * KIB} {choice[1]} any host\n")
    os.environ[VARIABLE] = str(path)
    group = adasum.world().split(color=0, options={"cross_memory": False})
    adasum.allreduce_arrays([np.ones(2**20, "float32")], communicator=group)
    return group


def _times(groups: dict, arrays: list[np.ndarray]) -> list[float]:
    """Milliseconds with the defaults, and the other choices' ratios to that."""
    random = np.random.default_rng(adasum.rank())
    for array in arrays:
        array[...] = random.standard_normal(array.shape, np.float32)
    methods = {
        choice: lambda group=group: adasum.allreduce_arrays(arrays, communicator=group)
        for choice, group in groups.items()
    }
    seconds = interleaved.interleave(MPI.COMM_WORLD, methods, FLAGS.repetitions)
    medians = {choice: float(np.median(times)) for choice, times in seconds.items()}
    default = medians.pop(DEFAULTS)
    return [default * 1e3, *(median / default for median in medians.values())]


if __name__ == "__main__":
    app.run(main)
