"""Times training with and without elimination, interleaved, on the ranks of the job.

    adasumrun -np 2 python -m models.svm.benchmark --dataset=generated --json=svm.json

Columns: median and quartiles in s over the repetitions (each the time of the slowest rank from a
barrier on); ratio to the baseline, which is the same program without elimination, repetition by
repetition: median and quartiles; iterations; columns of K that were computed; reconstructions;
the fewest samples active; objective, relative to that of scikit-learn's SVC; support vectors, and
how many of them or of SVC's the other one lacks without lying on the margin.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time

import numpy as np
from absl import app, flags
from tabulate import tabulate

import tf_adasum
from models.common import outputs
from models.svm import data, reference, train
from models.svm.elimination import POLICIES
from models.svm.model import Model
from models.svm.settings import Settings
from models.svm.solver import fit

FLAGS = flags.FLAGS
flags.adopt_module_key_flags(train)
flags.DEFINE_integer("repetitions", 5, "Repetitions of each.", lower_bound=1)
flags.DEFINE_multi_enum("policy", list(POLICIES), list(POLICIES), "Which, beside none.")
flags.DEFINE_string("json", None, "Where rank 0 writes all figures.")
outputs.check("json")
_BASELINE = "none"


def main(_) -> None:
    """Measures, compares and reports on rank 0."""
    whole = data.load(FLAGS.dataset, FLAGS.samples, FLAGS.seed)
    given = train.settings_of_flags(whole)
    policies = dict.fromkeys([_BASELINE, *FLAGS.policy])
    settings = {name: dataclasses.replace(given, elimination=name) for name in policies}
    models, seconds = _measure(whole, settings)
    if tf_adasum.rank() > 0:
        return
    theirs = reference.train(whole.samples, whole.labels, given)
    rows = [
        _row(models[name], seconds[name], seconds[_BASELINE])
        | _compared(reference.compare(models[name], theirs, whole.samples, whole.labels))
        for name in policies
    ]
    _report(policies, rows, len(whole.labels), given)


def _measure(whole: data.Data, settings: dict[str, Settings]) -> tuple[dict, dict]:
    """The last model and the seconds of each elimination, by its name."""
    world = tf_adasum.world()
    mine = data.share(whole, world.rank, world.size)
    models, seconds = {}, {name: [] for name in settings}
    # One round before those that count, so that memory and messages are warm.
    for repetition in range(FLAGS.repetitions + 1):
        for name, how in settings.items():
            tf_adasum.barrier()
            begin = time.perf_counter()
            models[name] = fit(mine.samples, mine.labels, how, world, mine.numbers)
            elapsed = np.array([time.perf_counter() - begin])
            tf_adasum.allreduce_arrays(elapsed, "max", world, name="svm seconds")
            if repetition:
                seconds[name].append(float(elapsed[0]))
    return models, seconds


def _row(model: Model, seconds: list[float], of_baseline: list[float]) -> dict:
    ratios = np.array(seconds) / np.array(of_baseline)
    return {
        "seconds": np.quantile(seconds, [0.5, 0.25, 0.75]).tolist(),
        "ratio": np.quantile(ratios, [0.5, 0.25, 0.75]).tolist(),
        "iterations": model.iterations,
        "columns": model.computed_columns,
        "reconstructions": model.reconstructions,
        "least active": model.least_active,
        "support vectors": len(model.support),
        "objective": model.objective,
    }


def _compared(found: reference.Comparison) -> dict:
    return {
        "relative error": found.relative_error,
        "only here": len(found.only_here),
        "only there": len(found.only_there),
        "inexcusable": found.inexcusable,
    }


def _report(policies, rows: list[dict], samples: int, settings: Settings) -> None:
    ranks = tf_adasum.size()
    print(f"{FLAGS.dataset}, {samples} samples, {ranks} ranks, {os.cpu_count()} cores, {settings}")
    cells = [
        {
            "elimination": name,
            **row,
            "seconds": "{:.2f} ({:.2f} to {:.2f})".format(*row["seconds"]),
            "ratio": "{:.2f} ({:.2f} to {:.2f})".format(*row["ratio"]),
            "relative error": f"{row['relative error']:.0e}",
        }
        for name, row in zip(policies, rows)
    ]
    print(tabulate(cells, "keys", "github"))
    if FLAGS.json:
        with open(FLAGS.json, "w", encoding="utf-8") as file:
            figures = dict(zip(policies, rows))
            json.dump({"ranks": ranks, "samples": samples, "figures": figures}, file, indent=1)


if __name__ == "__main__":
    app.run(main)
