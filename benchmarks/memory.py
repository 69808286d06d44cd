"""Measures how much memory a training step needs at its peak, beside weights and slots.

    python -m benchmarks.memory --ranks=2

Starts the ranks itself, anew for each method. Columns, in MiB and for one rank: peak = most memory
resident during a step, less what model and optimizer held before the first one; shared memory
counts for the rank that owns it. extra = peak less that of plain Keras in one process; the last
column is extra over the bytes of the gradients.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import gc
import json
import subprocess
import sys

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags
from tabulate import tabulate

import tf_adasum as adasum
from benchmarks.methods import METHODS, Method

FLAGS = flags.FLAGS
flags.DEFINE_integer("ranks", 2, "Number of ranks; plain Keras runs in one process.")
flags.DEFINE_integer("layers", 16, "Dense layers of the model.")
flags.DEFINE_integer("width", 1536, "Inputs and outputs of each: 9 MiB of float32 for 1536.")
flags.DEFINE_integer("batch", 4, "Examples of each rank's step; activations stay small.")
flags.DEFINE_integer("steps", 8, "Steps after the first two; the greatest peak counts.")
flags.DEFINE_string("json", None, "Where all figures are written.")
flags.DEFINE_multi_enum("method", list(METHODS), list(METHODS), "Methods to measure.")
flags.DEFINE_bool("here", False, "Measures the one method on the ranks that there are (internal).")

_MIB = 2**20
_PLAIN = "plain Keras"
# Freed blocks go back to the system at once, so that resident memory is memory in use.
_ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "65536"}


def main(_) -> None:
    """Measures every method in a job of its own and prints a table."""
    if FLAGS.here:
        return _measure(METHODS[FLAGS.method[0]])
    gradient_mib = FLAGS.layers * (FLAGS.width + 1) * FLAGS.width * 4 / _MIB
    print(f"{FLAGS.ranks} ranks, gradients of {gradient_mib:.0f} MiB")
    plain = _peak_of_job(_PLAIN, 1)
    rows = []
    for name in FLAGS.method:
        peak = plain if name == _PLAIN else _peak_of_job(name, FLAGS.ranks)
        extra = peak - plain
        print(f"{name}: peak {peak:.0f} MiB", flush=True)
        rows.append({"method": name, "peak_mib": peak, "extra_mib": extra})
    cells = [(*row.values(), row["extra_mib"] / gradient_mib) for row in rows]
    headers = ("method", "peak", "extra", "extra / gradients")
    print(tabulate(cells, headers, "github", floatfmt=("", ".0f", ".0f", ".2f")))
    if FLAGS.json:
        with open(FLAGS.json, "w") as file:
            figures = {"ranks": FLAGS.ranks, "gradient_mib": gradient_mib, "rows": rows}
            json.dump(figures, file, indent=1)


def _peak_of_job(name: str, ranks: int) -> float:
    """MiB, the mean of the ranks."""
    command = [sys.executable, "-m", "adasumrun", "-np", str(ranks), sys.executable]
    command += ["-m", "benchmarks.memory", "--here", f"--method={name}"]
    command += [f"--{flag}={FLAGS[flag].value}" for flag in ("layers", "width", "batch", "steps")]
    done = subprocess.run(
        command, env={**os.environ, **_ALLOCATOR}, capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("peak MiB ")]
    if done.returncode or len(lines) != ranks:
        raise RuntimeError(f"Expected a peak from each of {ranks} ranks. Received: {done.stderr}")
    return float(np.mean([float(line.split()[-1]) for line in lines]))


def _measure(method: Method) -> None:
    """Trains some steps and prints this rank's peak."""
    world = adasum.world()
    x = tf.random.normal([FLAGS.batch * world.size, FLAGS.width])
    model = method.compiled(_dense_layers, keras.optimizers.Adam, "mse")
    gc.collect()
    before = _status_mib("VmRSS") - sum(_shared_mib())
    peaks = _PeakOfSteps(world.size)
    data = tf.data.Dataset.from_tensors((x, x)).repeat()
    model.fit(data, steps_per_epoch=FLAGS.steps + 2, verbose=0, shuffle=False, callbacks=[peaks])
    print(f"peak MiB {max(peaks.mib[2:]) - before}", flush=True)


def _dense_layers() -> keras.Model:
    layers = [keras.layers.Dense(FLAGS.width) for _ in range(FLAGS.layers)]
    return keras.Sequential([keras.Input((FLAGS.width,)), *layers])


class _PeakOfSteps(keras.callbacks.Callback):
    """The most memory in use during each step; the first two trace, and allocate for good."""

    def __init__(self, num_ranks: int):
        super().__init__()
        self._num_ranks = num_ranks
        self.mib = []

    def on_train_batch_begin(self, batch, logs=None):
        """Forgets the peak so far."""
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")

    def on_train_batch_end(self, batch, logs=None):
        """Reads the peak. Every rank maps the files of all ranks, which are alike in size."""
        files, arenas = _shared_mib()
        of_peers = files * (self._num_ranks - 1) / self._num_ranks + arenas
        self.mib.append(_status_mib("VmHWM") - of_peers)


def _status_mib(field: str) -> float:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(field))


def _shared_mib() -> tuple[float, float]:
    """Resident memory of the files through which ranks read each other, and of peers' arenas.

    This rank's own arena holds its tensors: memory as any.
    """
    own = adasum.empty(1).ctypes.data
    kib = {"files": 0, "arenas": 0}
    kind = None
    with open("/proc/self/smaps") as smaps:
        for line in smaps:
            words = line.split()
            if not words[0].endswith(":"):
                begin, end = (int(address, 16) for address in words[0].split("-"))
                kind = "files" if "memfd:tf_adasum" in line else None
                if "memfd:tf_adasum_arena" in line:
                    kind = None if begin <= own < end else "arenas"
            elif kind and words[0] == "Rss:":
                kib[kind] += int(words[1])
    return kib["files"] / 1024, kib["arenas"] / 1024


if __name__ == "__main__":
    app.run(main)
