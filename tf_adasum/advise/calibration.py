"""Constants of another machine, made those of this one by what was measured here."""

from __future__ import annotations

import dataclasses

from tf_adasum.advise.cost import Model
from tf_adasum.advise.machine import Cluster, Constants, Passes

LONG = 2 << 20  # elements of the reduction that the network's rate is found by
_LEAST_ROUND_US, _MOST_GBITS = 0.1, 10_000.0


def scaled(constants: Constants, factor: float) -> Constants:
    """The constants of a machine on which all that happens on a host takes so many times longer.

    Args:
        constants: to begin with.
        factor: how many times.
    """

    def times(passes: Passes) -> Passes:
        return Passes(*(factor * each for each in dataclasses.astuple(passes)))

    return dataclasses.replace(
        constants,
        round_us=constants.round_us * factor,
        shared_round_us=constants.shared_round_us * factor,
        call_us=constants.call_us * factor,
        hot=times(constants.hot),
        cached=times(constants.cached),
        long=times(constants.long),
    )


def with_network(
    constants: Constants, cluster: Cluster, small_seconds: float, long_seconds: float
) -> Constants:
    """The constants with the latency and the rate at which two reductions take as long as they did.

    Args:
        constants: of which all but the network's hold.
        cluster: where both were measured, of several hosts.
        small_seconds: of a reduction of one number: latency alone, the op's own time included.
        long_seconds: of one of `LONG` numbers.
    """

    def seconds(elements: int, **network: float) -> float:
        return Model(cluster, dataclasses.replace(constants, **network)).flat([elements]).seconds

    at_once = seconds(1, network_round_us=0.0)
    of_one_us = seconds(1, network_round_us=1.0) - at_once
    round_us = max((small_seconds - at_once) / of_one_us, _LEAST_ROUND_US)
    free = seconds(LONG, network_round_us=round_us, network_gbit_s=1e9)
    of_one_gbit = seconds(LONG, network_round_us=round_us, network_gbit_s=1.0) - free
    travels = max(long_seconds - free, of_one_gbit / _MOST_GBITS)
    gbits = of_one_gbit / travels
    return dataclasses.replace(constants, network_round_us=round_us, network_gbit_s=gbits)
