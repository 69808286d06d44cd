"""Times training steps of two networks, with every way of combining gradients, in turns.

    adasumrun -np 2 python -m benchmarks.step --json=step.json

Every rank has the same batch size in all methods, and an equal share of the cores. Columns: median
and quartiles of the time of a step in ms, each step that of the slowest rank; and the ratio to
plain Keras in every rank at once, which computes the same and exchanges nothing. "1 process" is
plain Keras in rank 0 while the others sleep. "1 bucket" sends all gradients after the backward
pass: what is saved by default is the overlap.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import json
import time

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags
from mpi4py import MPI
from tabulate import tabulate

import tf_adasum as adasum
from benchmarks.methods import COMPILED, ENCODED, METHODS, Method
from benchmarks.networks import NETWORKS
from benchmarks.step_times import StepTimes

FLAGS = flags.FLAGS
flags.DEFINE_multi_enum("network", list(NETWORKS), list(NETWORKS), "Networks to train.")
flags.DEFINE_multi_enum(
    "method",
    list(METHODS),
    [*METHODS, *COMPILED, *ENCODED],
    "Methods to time, beside plain Keras; those that travel encoded are meant for a slow wire.",
)
flags.DEFINE_integer("batch", 8, "Examples of each replica's step.")
flags.DEFINE_integer(
    "local_replicas", 1, "Logical CPUs of each process, each a replica of its own.", lower_bound=1
)
flags.DEFINE_integer("turns", 5, "How often each method has its turn.")
flags.DEFINE_integer("steps", 4, "Steps in a turn that are timed; one more goes before them.")
flags.DEFINE_string("json", None, "Where rank 0 writes all figures.")

_PLAIN = "plain Keras"


def _methods() -> dict[str, Method]:
    """The methods to time, plain Keras first."""
    known = METHODS | COMPILED | ENCODED
    return {name: known[name] for name in dict.fromkeys([_PLAIN, *FLAGS.method])}


def main(_) -> None:
    """Times every network and prints a table on rank 0."""
    tf.get_logger().setLevel("ERROR")  # many models in one process look like retracing
    on_host = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED).size
    num_threads = max(1, len(os.sched_getaffinity(0)) // on_host)
    tf.config.threading.set_intra_op_parallelism_threads(num_threads)
    if FLAGS.local_replicas > 1:
        (cpu,) = tf.config.list_physical_devices("CPU")
        logical = [tf.config.LogicalDeviceConfiguration()] * FLAGS.local_replicas
        tf.config.set_logical_device_configuration(cpu, logical)
    world = adasum.world()
    rows = []
    for name in FLAGS.network:
        rows += _rows(name, _timings(name))
        if world.rank == 0:
            _print_rows(rows, name)
    if world.rank == 0 and FLAGS.json:
        with open(FLAGS.json, "w") as file:
            json.dump({"ranks": world.size, "cores": os.cpu_count(), "rows": rows}, file, indent=1)


def _timings(name: str) -> dict[str, list[float]]:
    """Seconds of the steps of each method; those of the slowest rank, on every rank."""
    network = NETWORKS[name]
    methods = _methods()
    models = {
        method: how.compiled(network.make, keras.optimizers.Adam, network.loss(), _devices())
        for method, how in methods.items()
    }
    seconds: dict[str, list[float]] = {f"{_PLAIN}, 1 process": []}
    seconds.update({method: [] for method in methods})
    for turn in range(FLAGS.turns + 1):  # the first traces and is not counted
        for method, model in models.items():
            replicas = adasum.size() * FLAGS.local_replicas if methods[method].strategy else 1
            x, y = network.examples(FLAGS.batch * replicas)
            data = tf.data.Dataset.from_tensors((x, y)).repeat()
            if method == _PLAIN:
                alone = _train(model, data) if adasum.rank() == 0 else []
                _sleep_until_all_are_here()
                seconds[f"{_PLAIN}, 1 process"] += MPI.COMM_WORLD.bcast(alone) if turn else []
            _sleep_until_all_are_here()
            of_ranks = MPI.COMM_WORLD.allgather(_train(model, data))
            seconds[method] += np.max(of_ranks, axis=0).tolist() if turn else []
    keras.backend.clear_session()
    return seconds


def _devices() -> list[str] | None:
    """Those of this process; None for what a strategy takes by itself."""
    local = FLAGS.local_replicas
    return [f"CPU:{index}" for index in range(local)] if local > 1 else None


def _train(model: keras.Model, data: tf.data.Dataset) -> list[float]:
    """Seconds of each step but the first."""
    times = StepTimes()
    model.fit(data, steps_per_epoch=FLAGS.steps + 1, verbose=0, shuffle=False, callbacks=[times])
    return times.seconds[1:]


def _sleep_until_all_are_here() -> None:
    """A barrier that takes no core from those who still compute."""
    request = MPI.COMM_WORLD.Ibarrier()
    while not request.Test():
        time.sleep(0.001)


def _rows(network: str, seconds: dict[str, list[float]]) -> list[dict]:
    plain = np.median(seconds[_PLAIN])
    return [
        {
            "network": network,
            "method": method,
            "median_ms": float(np.median(each)) * 1e3,
            "quartiles_ms": [float(q) * 1e3 for q in np.percentile(each, [25, 75])],
            "ratio_to_plain": float(np.median(each) / plain),
        }
        for method, each in seconds.items()
    ]


def _print_rows(rows: list[dict], network: str) -> None:
    cells = [
        (
            network,
            row["method"],
            row["median_ms"],
            "{:.1f} .. {:.1f}".format(*row["quartiles_ms"]),
            row["ratio_to_plain"],
        )
        for row in rows
        if row["network"] == network
    ]
    headers = ("network", "method", "median ms", "quartiles ms", "x plain")
    print(tabulate(cells, headers, "github", floatfmt=("", "", ".1f", "", ".2f")), flush=True)


if __name__ == "__main__":
    app.run(main)
