"""wrap refuses what it can't wrap, and settings that don't go together, in one line."""

from __future__ import annotations

import keras
import numpy as np
import pytest

import tf_adasum
from tests.training.replicas import strategy
from tf_adasum.collectives.compression import Sign


def test_wrong_arguments_are_named():
    with pytest.raises(TypeError, match=r"a Keras 3 optimizer.*Received: 'adam' of type str"):
        tf_adasum.wrap("adam")
    with pytest.raises(ValueError, match=r"mode to be 'delta' or 'gradient'.*'deltas'"):
        tf_adasum.wrap(keras.optimizers.SGD(), mode="deltas")
    with pytest.raises(ValueError, match=r"divided_loss to be None, True or False\. Received.*1"):
        tf_adasum.wrap(keras.optimizers.SGD(), divided_loss=1)
    with pytest.raises(ValueError, match=r"unused_variables to be True or False\. Rec.*'no'"):
        tf_adasum.wrap(keras.optimizers.SGD(), unused_variables="no")
    with pytest.raises(ValueError, match=r"wrapped already.*'delta'"):
        tf_adasum.wrap(tf_adasum.wrap(keras.optimizers.SGD()))
    with pytest.raises(ValueError, match=r"wrapped already.*'cada.*', which needs no wrap"):
        tf_adasum.wrap(tf_adasum.optimizers.CADA())


@pytest.mark.parametrize("name", ["accumulate", "steps_per_sync"])
@pytest.mark.parametrize("value", [0, -1, 2.0, "2", None, True])
def test_wrong_numbers_are_named(name, value):
    message = rf"{name} to be an int from 1 to 65536\. Received: .* of type"
    with pytest.raises(ValueError, match=message):
        tf_adasum.wrap(keras.optimizers.SGD(), **{name: value})


@pytest.mark.parametrize("steps", [[], [2, 0], [2, 2.0], lambda rank: rank])
def test_wrong_numbers_of_ranks_are_named(steps):
    message = r"steps_per_sync to be an int from 1 to 65536\. Received: \[.*\]"
    with pytest.raises(ValueError, match=message):
        tf_adasum.wrap(keras.optimizers.SGD(), steps_per_sync=steps)


@pytest.mark.parametrize("name", ["accumulate", "steps_per_sync"])
def test_settings_that_do_not_go_together_are_refused(name):
    accumulating = keras.optimizers.SGD(gradient_accumulation_steps=2)
    with pytest.raises(ValueError, match=rf"no accumulation of Keras' own with {name}=2"):
        tf_adasum.wrap(accumulating, **{name: 2})
    built = keras.optimizers.SGD()
    built.build([keras.Variable(np.zeros(3, np.float32))])
    scaled = keras.optimizers.LossScaleOptimizer(built)
    with pytest.raises(ValueError, match=rf"an optimizer that is not built for {name}=2"):
        tf_adasum.wrap(scaled, **{name: 2})
    assert type(tf_adasum.wrap(accumulating, **{name: 1})).__name__ == "AdasumSGD"


def test_local_steps_are_for_delta_mode_without_moving_averages():
    with pytest.raises(ValueError, match=r"mode='delta' where.*Received: steps_per_sync=2"):
        tf_adasum.wrap(keras.optimizers.SGD(), mode="gradient", steps_per_sync=2)
    with pytest.raises(
        ValueError, match=r"use_ema=False with steps_per_sync=2.*Received: use_ema=True"
    ):
        tf_adasum.wrap(keras.optimizers.SGD(use_ema=True), steps_per_sync=2)


@pytest.mark.parametrize(
    "settings",
    [
        {"sync": tf_adasum.sync.Deadline(1.0)},
        {"sync": tf_adasum.sync.GroupAveraging()},
        {"sync": tf_adasum.sync.Lazy()},
        {"unused_variables": True},
    ],
)
def test_a_rule_encodes_nothing_where_wrap_would_not(settings):
    rules = [("kernel", tf_adasum.Reduction("mean", compression=Sign(least_elements=0)))]
    with strategy(2, reductions=rules).scope():
        variables = [keras.Variable(np.zeros(300), name="kernel", dtype="float32")]
        optimizer = tf_adasum.wrap(keras.optimizers.SGD(0.1), **settings)
        message = rf"as they are with {next(iter(settings))}.*Sign.*for 'kernel'\. Leave"
        with pytest.raises(ValueError, match=message):
            optimizer.build(variables)


def test_numbers_of_other_ranks_are_refused_where_replicas_meet():
    """At once; what was saved on other ranks loads, and takes no step."""
    message = r"of one a rank, 1 in all\. Received: \[2, 3\] .*each rank, not .*compile=False"
    saved = tf_adasum.wrap(keras.optimizers.SGD(), steps_per_sync=np.array([2, 3]))
    with strategy(2).scope():
        with pytest.raises(ValueError, match=message):
            tf_adasum.wrap(keras.optimizers.SGD(), steps_per_sync=[2, 3])
        model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
        model.compile(type(saved).from_config(saved.get_config()), loss="mse")
    with pytest.raises(ValueError, match=message):
        model.fit(np.zeros([4, 2]), np.zeros([4, 1]), batch_size=4, verbose=0)


def test_optimizers_that_hide_their_weights_are_refused():
    # Keras 3.12, the last for Python 3.10, has neither of the two.
    if hasattr(keras.optimizers, "MultiOptimizer"):
        plan = keras.optimizers.OptimizerMap(default_optimizer=keras.optimizers.SGD())
        with pytest.raises(
            TypeError, match=r"a single optimizer.*a MultiOptimizer\. Wrap the optimizers inside"
        ):
            tf_adasum.wrap(keras.optimizers.MultiOptimizer(plan))
    if hasattr(keras.optimizers, "ScheduleFreeAdamW"):
        with pytest.raises(TypeError, match=r"mode='gradient'"):
            tf_adasum.wrap(keras.optimizers.ScheduleFreeAdamW())
        tf_adasum.wrap(keras.optimizers.ScheduleFreeAdamW(), mode="gradient")


@pytest.mark.parametrize(
    "name, kind, known",
    [("compression", "codec", "'float16'"), ("sync", "choice", "'GroupAveraging'")],
)
def test_a_configuration_of_a_later_version(name, kind, known):
    wrapped = tf_adasum.wrap(keras.optimizers.SGD())
    config = wrapped.get_config()
    config["adasum"][name] = {"name": "of tomorrow"}
    match = rf"a {kind} among \[.*{known}.*\]\. Received: 'of tomorrow'\. .*update tf_adasum"
    with pytest.raises(ValueError, match=match):
        type(wrapped).from_config(config)
