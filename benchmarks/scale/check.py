"""Predictions beside real runs on this machine, and on namespaces of it."""

from __future__ import annotations

import os

import numpy as np

from benchmarks.scale import measure
from benchmarks.scale.cases import sizes_of
from tf_adasum.advise.cost import Model
from tf_adasum.advise.machine import Cluster, Constants

# Hosts and ranks of each.
WORLDS = [(1, 2), (1, 4), (1, 8), (2, 1), (4, 1), (8, 1), (2, 2), (4, 2)]


def compare(
    constants: Constants, cases: list[str], repetitions: int, worlds: list, real_time: bool
) -> list[dict]:
    """Runs every world and predicts it.

    Args:
        constants: of this machine.
        cases: gradient lists, and elements of single tensors.
        repetitions: of each; the median counts.
        worlds: pairs of hosts and ranks on each; all hosts are this machine.
        real_time: whether ranks keep their cores from other load.

    Returns:
        A row for each world, case and method, seconds measured and predicted.
    """
    rows = []
    cores = os.cpu_count() or 1
    for hosts, ranks in worlds:
        cluster = Cluster(hosts, ranks, cores, hosts)
        model = Model(cluster, constants)
        methods = ["sum", "adasum"] + ["hierarchical"] * (hosts > 1 and ranks > 1)
        asked = {"cases": cases, "methods": methods, "repetitions": repetitions}
        found = measure.run(cluster, asked, real_time)
        for case in cases:
            for method in methods:
                measured = found["times"][case][method]
                rows.append(
                    {
                        "hosts": hosts,
                        "ranks": ranks,
                        "case": case,
                        "method": method,
                        "measured": float(np.median(measured)),
                        "quartiles": list(np.percentile(measured, [25, 75])),
                        "predicted": predict(model, method, sizes_of(case)),
                        "load": found["load"],
                    }
                )
    return rows


def predict(model: Model, method: str, sizes: list[int]) -> float:
    """Seconds of "sum", "adasum" or "hierarchical"."""
    if method == "hierarchical":
        return model.hierarchical(sizes).seconds
    return model.flat(sizes, method).seconds
