"""Trains a support vector machine on the ranks of the job, and tests it.

adasumrun -np 2 python -m models.svm.train
adasumrun -np 2 python -m models.svm.train --dataset=digits --elimination=lazy --compare
"""

from __future__ import annotations

import math
import time

import numpy as np
from absl import flags

import tf_adasum
from models.common import program
from models.svm import data, reference
from models.svm.elimination import POLICIES
from models.svm.kernels import Kernel
from models.svm.model import Model
from models.svm.settings import Settings
from models.svm.solver import fit

FLAGS = flags.FLAGS
_DEFAULT = Settings()

flags.DEFINE_enum("dataset", "generated", data.NAMES, "Of models/svm/data.py.")
flags.DEFINE_integer(
    "samples", 5_000, "Of what is generated; a fifth is for tests.", lower_bound=10
)
flags.DEFINE_integer("seed", 0, "Of what is generated and of the split.")
flags.DEFINE_enum("kernel", "rbf", ["rbf", "linear"], "K of two samples.")
flags.DEFINE_float("gamma", None, "γ of rbf; default: 1 / (d variance).")
flags.DEFINE_float("cost", _DEFAULT.cost, "C, the upper bound of every a.")
flags.DEFINE_float("tolerance", _DEFAULT.tolerance, "ε; ends at a gap of 2 ε.")
for _name in ("gamma", "cost", "tolerance"):
    flags.register_validator(
        _name,
        lambda value: value is None or 0 < value < math.inf,
        message="expected a finite number above 0.",
    )
flags.DEFINE_enum("elimination", _DEFAULT.elimination, list(POLICIES), "How eager it is.")
flags.DEFINE_integer("cache_mb", 200, "Of each rank, for columns of K.", lower_bound=0)
flags.DEFINE_bool("compare", False, "Whether to train scikit-learn's SVC as well, on rank 0.")


def main() -> None:
    """Trains, tests and compares."""
    whole = data.load(FLAGS.dataset, FLAGS.samples, FLAGS.seed)
    settings = settings_of_flags(whole)
    world = tf_adasum.world()
    begin = time.perf_counter()
    mine = data.share(whole, world.rank, world.size)
    model = fit(mine.samples, mine.labels, settings, world, mine.numbers, _progress)
    seconds = time.perf_counter() - begin
    accuracy = _accuracy(model, whole, world)
    say(
        f"{'Converged' if model.is_converged else 'Not converged'}: {model.iterations} iterations, "
        f"{seconds:.2f} s, gap {model.gap:.2e}, {model.reconstructions} reconstructions, at least "
        f"{model.least_active} samples active"
    )
    say(
        f"{len(model.support)} support vectors, dual objective {model.objective:.6f}, "
        f"test accuracy {accuracy:.2%}"
    )
    if FLAGS.compare and world.rank == 0:
        _compare(model, whole, settings)


def settings_of_flags(whole: data.Data) -> Settings:
    """The settings that the flags ask for.

    Args:
        whole: the data, for the default of --gamma.
    """
    gamma = data.scale_gamma(whole.samples) if FLAGS.gamma is None else FLAGS.gamma
    return Settings(
        kernel=Kernel(FLAGS.kernel, gamma),
        cost=FLAGS.cost,
        tolerance=FLAGS.tolerance,
        elimination=FLAGS.elimination,
        cache_bytes=FLAGS.cache_mb * 1_000_000,
    )


def say(line: str) -> None:
    """Prints on rank 0."""
    if tf_adasum.rank() == 0:
        print(line, flush=True)


def _progress(iteration: int, gap: float, active: int) -> None:
    say(f"iteration {iteration}: gap {gap:.2e}, {active} samples of rank 0 active")


def _accuracy(model: Model, whole: data.Data, world: tf_adasum.Communicator) -> float:
    """Each rank tests a part."""
    part = slice(world.rank, None, world.size)
    decisions = model.decision(whole.test_samples[part])
    right = np.array([np.sum((decisions > 0) == (whole.test_labels[part] > 0))], np.int64)
    tf_adasum.allreduce_arrays(right, "sum", world, name="svm right answers")
    return right[0] / len(whole.test_labels)


def _compare(model: Model, whole: data.Data, settings: Settings) -> None:
    theirs = reference.train(whole.samples, whole.labels, settings)
    found = reference.compare(model, theirs, whole.samples, whole.labels)
    say(
        f"SVC: dual objective {found.objective:.6f}, relative error {found.relative_error:.1e}, "
        f"intercept off by {found.intercept_error:.1e}; support vectors only here "
        f"{len(found.only_here)}, only there {len(found.only_there)}, of both "
        f"{found.inexcusable} not on the margin"
    )


if __name__ == "__main__":
    program.run(main)
