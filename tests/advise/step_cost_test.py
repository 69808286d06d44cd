"""The model of a step by hand, and the rules of what to use."""

import dataclasses
import math

import keras
import pytest

import tf_adasum as adasum
from tf_adasum.advise import calibration, choices, machine
from tf_adasum.advise.calibration import scaled
from tf_adasum.advise.cost import Model
from tf_adasum.advise.machine import Cluster
from tf_adasum.advise.noise import Combined
from tf_adasum.advise.step_cost import Measured, StepModel

CONSTANTS = machine.load()
SIZES = [1 << 20, 1 << 18]
ONE_BUCKET = [[1, 0]]
BYTES = 4 * sum(SIZES)
# Of a rank that sleeps, on a host of two cores: no computation to share or to hide anything in.
SLEEPS = Measured(
    ranks=1,
    hosts=1,
    ranks_per_host=1,
    cores=2,
    replicas=1,
    batch=8,
    sizes=SIZES,
    buckets=ONE_BUCKET,
    local_reduction="adasum",
    finds_changes=False,
    alone_seconds=0.1,
    forward_seconds=0.0,
    cpu_seconds=0.0,
    together_seconds=None,
    reduction_seconds=None,
    small_seconds=0.0,
    long_seconds=None,
    copy_seconds=1e-9 * CONSTANTS.long.pack * BYTES,
    input_seconds=0.0,
)


def _costs(per_host=4, **changes):
    return StepModel(dataclasses.replace(SLEEPS, **changes), CONSTANTS, per_host)


def test_a_sleep_and_a_reduction_add_up():
    costs = _costs()
    assert costs.scale == pytest.approx(1)
    expected = Model(Cluster(1, 4, 2), CONSTANTS).flat([SIZES[1], SIZES[0]]).seconds
    assert costs.predict(4).reduction == pytest.approx(expected)
    assert costs.predict(4).step == pytest.approx(0.1 + expected)
    assert costs.predict(1).step == 0.1


def test_delta_mode_passes_over_the_weights():
    extra = _costs(finds_changes=True).predict(2).step - _costs().predict(2).step
    assert extra == pytest.approx(3 * SLEEPS.copy_seconds)


def test_ranks_that_share_cores_take_turns():
    """Two ranks kept two cores busy; four take twice as long, and what sleeps does not."""
    busy = _costs(ranks=2, ranks_per_host=2, cpu_seconds=0.1, reduction_seconds=1e-9)
    assert busy.predict(4).computation == pytest.approx(0.2)
    half = _costs(ranks=2, ranks_per_host=2, cpu_seconds=0.05, reduction_seconds=1e-9)
    assert half.predict(4).computation == pytest.approx(0.15)
    threads = _costs(cpu_seconds=0.2)  # of one rank on both cores
    assert threads.predict(2).computation == pytest.approx(0.2)
    crowded = _costs(ranks=4, ranks_per_host=4, cpu_seconds=0.05, reduction_seconds=1e-9)
    assert crowded.predict(2).computation == pytest.approx(0.05)


def test_what_was_measured_is_predicted():
    here = {"ranks": 2, "ranks_per_host": 2, "reduction_seconds": 0.02}
    costs = _costs(**here, together_seconds=0.15)
    assert costs.predict(2).reduction == pytest.approx(0.02)
    assert costs.predict(2).step == pytest.approx(0.15)
    assert costs.extra_seconds == pytest.approx(0.03)


def test_a_step_without_exchange_takes_no_longer_than_with_it():
    """Something else had the cores while it was timed."""
    here = {"ranks": 2, "ranks_per_host": 2, "reduction_seconds": 0.02}
    costs = _costs(**here, alone_seconds=0.3, together_seconds=0.15)
    assert costs.predict(1).step == pytest.approx(0.15)


def test_the_op_is_no_part_of_what_scales():
    of_model = Model(Cluster(1, 2, 2), CONSTANTS)
    bare, small = of_model.flat([SIZES[1], SIZES[0]]).seconds, of_model.flat([1]).seconds
    measured = {"reduction_seconds": 2 * bare + 0.001, "small_seconds": small + 0.001}
    costs = _costs(ranks=2, ranks_per_host=2, **measured)
    assert costs.scale == pytest.approx(2)
    assert costs.predict(2).reduction == pytest.approx(2 * bare + 0.001)


def test_the_backward_pass_hides_what_travels_but_not_the_last_bucket():
    """One rank a host, 25 Gbit/s: a computation of 10 s hides all but one bucket of two."""
    network = dataclasses.replace(CONSTANTS, network_gbit_s=1.0)
    slow = dataclasses.replace(SLEEPS, alone_seconds=10.0, forward_seconds=3.0)
    slow = dataclasses.replace(slow, buckets=[[1], [0]])
    cost = StepModel(slow, network, 1).predict(8)
    last = Model(Cluster(8, 1, 2), network).flat([SIZES[0]]).seconds
    assert cost.exposed == pytest.approx(last)
    assert cost.reduction > last
    unknown = dataclasses.replace(slow, forward_seconds=0.0)
    cost = StepModel(unknown, network, 1).predict(8)
    assert cost.exposed == cost.reduction


def test_constants_scale_times_on_a_host():
    twice = scaled(CONSTANTS, 2.0)
    for cluster in (Cluster(1, 2, 2), Cluster(1, 4, 2)):
        once = Model(cluster, CONSTANTS).flat(SIZES).seconds
        assert Model(cluster, twice).flat(SIZES).seconds == pytest.approx(2 * once)
    assert twice.network_gbit_s == CONSTANTS.network_gbit_s


@pytest.mark.parametrize(("gbits", "round_us"), [(1.0, 50.0), (10.0, 200.0)])
@pytest.mark.parametrize("hosts", [2, 4])
def test_several_hosts_tell_latency_and_rate(hosts, gbits, round_us):
    there = dataclasses.replace(CONSTANTS, network_gbit_s=gbits, network_round_us=round_us)
    times = [
        Model(Cluster(hosts, 1, 2), there).flat([number]).seconds
        for number in (1, calibration.LONG)
    ]
    measured = {"ranks": hosts, "hosts": hosts, "reduction_seconds": 0.01}
    costs = _costs(1, **measured, small_seconds=times[0], long_seconds=times[1])
    assert costs.constants.network_round_us == pytest.approx(round_us, rel=1e-3)
    assert costs.constants.network_gbit_s == pytest.approx(gbits, rel=0.05)
    expected = Model(Cluster(64, 1, 2), there).flat([SIZES[1], SIZES[0]]).seconds
    assert costs.predict(64).reduction == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(
    ("ranks", "scale", "gain", "expected"),
    [
        (1, 100.0, 1.0, "-"),
        (8, math.inf, 8.0, "either"),
        (8, 10_000.0, 7.9, "either"),
        (8, 100.0, 4.0, "adasum"),
        (8, 0.1, 1.1, "mean"),
    ],
)
def test_which_reduction(ranks, scale, gain, expected):
    assert choices.reduction_for(ranks, 32, scale, Combined(0.5, gain)) == expected


def test_which_batch():
    """Four times the batch hide an overhead as long as the computation; noise may forbid it."""
    assert choices.batch_for(8, 1.0, 0.1, math.inf) == 8
    assert choices.batch_for(8, 1.0, 1.0, math.inf) == 32
    assert choices.batch_for(8, 1.0, 1.0, 20.0) == 16


@pytest.mark.parametrize(
    ("optimizer", "mode", "expected"),
    [
        ("SGD", "delta", ["x1", "x1", "x1", "x1"]),
        ("Adam", "delta", ["x1", "x2", "x4", "x4+"]),
        ("Lamb", "gradient", ["x1", "x4", "x16", "x16+"]),
    ],
)
def test_which_rate_is_what_was_measured(optimizer, mode, expected):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(adasum.wrap(getattr(keras.optimizers, optimizer)(), mode), "mse")
    assert [choices.rate_for(ranks, model) for ranks in (1, 8, 32, 64)] == expected
    assert choices.describe(model) == f"{optimizer}, {mode} mode"
    assert choices.is_delta(model) is (mode == "delta")


def test_a_model_that_keeps_wrapped_optimizers_is_known_by_them():
    """As a GAN does: `compile()` without arguments leaves it Keras' default, which is not used."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile()
    assert choices.describe(model) == "RMSprop, not wrapped"
    model.d_optimizer = adasum.wrap(keras.optimizers.SGD(0.1), "gradient")
    model.g_optimizer = adasum.wrap(keras.optimizers.SGD(0.1), "gradient")
    assert choices.describe(model) == "SGD, gradient mode"
    assert choices.rate_for(8, model) == "x1"
    assert not choices.is_delta(model)
    assert not choices.finds_changes(model)


@pytest.mark.parametrize(
    ("optimizer", "settings", "expected"),
    [
        ("Adam", {"mode": "delta"}, False),
        ("Adam", {"steps_per_sync": 2}, True),
        ("Ftrl", {"mode": "delta"}, True),
        ("Ftrl", {"mode": "gradient"}, False),
    ],
)
def test_where_changes_are_found(optimizer, settings, expected):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(adasum.wrap(getattr(keras.optimizers, optimizer)(), **settings), "mse")
    assert choices.finds_changes(model) is expected
