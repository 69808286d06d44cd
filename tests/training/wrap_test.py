"""wrap keeps the user's optimizer: its class, settings, state, and how it is saved."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys

import keras
import numpy as np
import pytest

import tf_adasum
from tests.training.replicas import examples, small_model, strategy
from tf_adasum.collectives.compression import Sign

SIGN = Sign(least_elements=0)

LOAD = """
import sys
import tf_adasum, keras
model = keras.models.load_model(sys.argv[1])
optimizer = model.optimizer
print(optimizer.get_config()["adasum"]["mode"], isinstance(optimizer, keras.optimizers.Adam))
print(int(optimizer.iterations.numpy()), len(optimizer.variables))
"""


UNPICKLE = """
import pickle, sys
for optimizer in pickle.load(sys.stdin.buffer):
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    print(type(inner).__name__, inner.get_config()["adasum"]["mode"], inner.beta_1)
"""


@pytest.mark.long
def test_is_pickled_and_copied():
    wrapped = tf_adasum.wrap(keras.optimizers.Adam(beta_1=0.5), mode="gradient")
    scaled = tf_adasum.wrap(keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(beta_1=0.5)))
    command = [sys.executable, "-c", UNPICKLE]  # another process, as multiprocessing's
    output = subprocess.run(
        command, input=pickle.dumps([wrapped, scaled]), capture_output=True, timeout=100, check=True
    ).stdout
    assert output.decode().splitlines() == ["AdasumAdam gradient 0.5", "AdasumAdam delta 0.5"]
    twin = copy.deepcopy(wrapped)
    assert twin is not wrapped
    assert (type(twin), twin.get_config()["adasum"]["mode"], twin.beta_1) == (
        type(wrapped),
        "gradient",
        0.5,
    )


def test_keeps_class_settings_and_identity():
    plain = keras.optimizers.Adam(0.25, beta_1=0.5, clipnorm=2.0, name="mine")
    wrapped = tf_adasum.wrap(plain, mode="gradient")
    assert wrapped is plain
    assert isinstance(wrapped, keras.optimizers.Adam)
    assert type(wrapped).__name__ == "AdasumAdam"
    assert float(wrapped.learning_rate.numpy()) == 0.25
    assert (wrapped.beta_1, wrapped.clipnorm, wrapped.name) == (0.5, 2.0, "mine")


def test_keeps_callable_learning_rate_and_weight_decay_exclusion():
    optimizer = keras.optimizers.AdamW(lambda: 0.5, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    tf_adasum.wrap(optimizer)
    model = small_model()
    assert optimizer.learning_rate == 0.5
    assert [optimizer._use_weight_decay(v) for v in model.trainable_variables] == [True, False] * 2


def test_keeps_the_state_of_a_built_optimizer():
    model = small_model()
    model.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.9), loss="mse")
    x, y = examples(8)
    model.fit(x, y, verbose=0)
    before = [v.numpy() for v in model.optimizer.variables]
    tf_adasum.wrap(model.optimizer)
    for got, want in zip(model.optimizer.variables, before):
        np.testing.assert_array_equal(got.numpy(), want)


def test_configuration_round_trip_creates_the_same_optimizer():
    schedule = keras.optimizers.schedules.CosineDecay(0.1, 10)
    wrapped = tf_adasum.wrap(keras.optimizers.Lion(schedule, weight_decay=0.25), mode="gradient")
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(wrapped))
    assert type(copy) is type(wrapped)
    assert copy.get_config() == wrapped.get_config()
    assert copy.get_config()["adasum"]["mode"] == "gradient"


def test_configuration_keeps_accumulate_and_steps_per_sync():
    wrapped = tf_adasum.wrap(keras.optimizers.SGD(0.5), accumulate=3, steps_per_sync=5)
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(wrapped))
    settings = copy.get_config()["adasum"]
    assert (settings["mode"], settings["accumulate"], settings["steps_per_sync"]) == ("delta", 3, 5)
    assert copy.get_config() == wrapped.get_config()


@pytest.mark.parametrize("divided", [None, True, False])
def test_configuration_keeps_divided_loss(divided):
    wrapped = tf_adasum.wrap(keras.optimizers.SGD(0.5), divided_loss=divided)
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(wrapped))
    assert copy.get_config()["adasum"]["divided_loss"] is divided
    scaled = tf_adasum.wrap(
        keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()), divided_loss=divided
    )
    assert scaled.inner_optimizer.get_config()["adasum"]["divided_loss"] is divided


def test_configuration_without_these_settings_loads():
    config = tf_adasum.wrap(keras.optimizers.SGD(0.5), "gradient").get_config()
    for name in ("accumulate", "steps_per_sync", "divided_loss"):
        del config["adasum"][name]
    settings = type(tf_adasum.wrap(keras.optimizers.SGD())).from_config(config).get_config()
    assert (settings["adasum"]["mode"], settings["adasum"]["accumulate"]) == ("gradient", 1)
    assert settings["adasum"]["steps_per_sync"] == 1
    assert settings["adasum"]["divided_loss"] is None


@keras.saving.register_keras_serializable("wrap_test")
class OwnOptimizer(keras.optimizers.SGD):
    """A user's optimizer with a setting of its own."""

    def __init__(self, flavour="plain", **options):
        super().__init__(**options)
        self.flavour = flavour

    def get_config(self):
        return {**super().get_config(), "flavour": self.flavour}


def test_configuration_round_trip_of_a_user_class():
    wrapped = tf_adasum.wrap(OwnOptimizer(flavour="salty", learning_rate=0.5))
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(wrapped))
    assert isinstance(copy, OwnOptimizer)
    assert copy.flavour == "salty"
    assert copy.get_config() == wrapped.get_config()


@pytest.mark.long
def test_saved_model_loads_where_only_tf_adasum_is_imported(tmp_path):
    with strategy(2).scope():
        model = small_model()
        model.compile(optimizer=tf_adasum.wrap(keras.optimizers.Adam(0.01)), loss="mse")
    x, y = examples(16)
    model.fit(x, y, batch_size=8, verbose=0)
    path = str(tmp_path / "model.keras")
    model.save(path)
    program = [sys.executable, "-c", LOAD, path]
    output = subprocess.run(program, capture_output=True, text=True, timeout=100, check=True).stdout
    assert output.splitlines()[-2:] == ["delta True", f"2 {len(model.optimizer.variables)}"]


def test_training_continues_after_loading(tmp_path):
    """The state of a gradient-mode optimizer is complete: loading it changes nothing."""
    x, y = examples(32)
    weights = []
    for interrupted in (False, True):
        replicas = strategy(2)
        with replicas.scope():
            keras.utils.set_random_seed(3)
            model = small_model()
            optimizer = tf_adasum.wrap(keras.optimizers.Adam(0.01), mode="gradient")
            model.compile(optimizer=optimizer, loss="mse")
        model.fit(x[:16], y[:16], batch_size=8, shuffle=False, verbose=0)
        if interrupted:
            path = str(tmp_path / "model.keras")
            model.save(path)
            with strategy(2).scope():
                model = keras.models.load_model(path)
        model.fit(x[16:], y[16:], batch_size=8, shuffle=False, verbose=0)
        weights.append(model.get_weights())
    for straight, loaded in zip(*weights):
        np.testing.assert_allclose(straight, loaded, rtol=0, atol=1e-7)


def test_loss_scaling_wraps_the_inner_optimizer():
    outer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))
    assert tf_adasum.wrap(outer) is outer
    assert type(outer.inner_optimizer).__name__ == "AdasumSGD"
    with pytest.raises(ValueError, match=r"wrapped already"):
        tf_adasum.wrap(outer)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("accumulate", np.int64(3)),
        ("steps_per_sync", np.int32(3)),
        ("steps_per_sync", [np.int64(2), 3]),
    ],
)
def test_numbers_of_numpy_are_numbers(name, value):
    optimizer = tf_adasum.wrap(keras.optimizers.SGD(), **{name: value})
    config = json.loads(json.dumps(optimizer.get_config()["adasum"]))
    assert config[name] == (list(value) if isinstance(value, list) else 3)


@pytest.mark.parametrize(
    "settings",
    [{"accumulate": 4}, {"steps_per_sync": 2}, {"compression": SIGN}],
)
def test_what_is_built_again_keeps_its_variables(settings):
    """As by compile() under mixed_float16, which puts a new LossScaleOptimizer around it."""
    with tf_adasum.AdasumStrategy(["CPU:0", "CPU:1"]).scope():
        variables = [keras.Variable(np.zeros(300), name="kernel", dtype="float32")]
        optimizer = tf_adasum.wrap(keras.optimizers.SGD(0.1, momentum=0.9), **settings)
        optimizer.build(variables)
        made = _made_for(optimizer)
        keras.optimizers.LossScaleOptimizer(optimizer).build(variables)
    assert _made_for(optimizer) == made


def _made_for(optimizer):
    """Its variables, and what is lost of what travels encoded."""
    return [id(each) for each in (*optimizer.variables, *optimizer._adasum.exchange.residuals)]
