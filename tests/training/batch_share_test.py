"""Ranks that train on unlike parts of each batch make the step of all its rows."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import (
    LOCAL,
    assert_equal_on_ranks,
    everywhere,
    examples,
    small_model,
    strategy,
)
from tests.training.unlike_batches import (
    BATCH,
    RATE,
    SHARES,
    assert_near,
    combined,
    model_under,
    one_process,
    optimizer_by,
    parts_of,
)
from tf_adasum.collectives.communicator import world
from tf_adasum.distribute.stated_shares import VARIABLE, check_alike


def own_batches(number):
    """As `distribute_datasets_from_function` wants them: each rank's own, of SHARES rows."""
    x, y = examples(number * BATCH)
    begin = sum(SHARES[: world().rank])
    rows = [k * BATCH + begin + row for k in range(number) for row in range(SHARES[world().rank])]
    data = tf.data.Dataset.from_tensor_slices((x[rows], y[rows]))
    return data.batch(SHARES[world().rank])


@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize("scales_loss", [False, True], ids=["", "scaled"])
@pytest.mark.parametrize("how", ["plain", "gradient", "delta", "sketched"])
def test_means_are_the_steps_of_one_process(how, scales_loss, num_local):
    """Also of a last batch that the shares do not divide, and of more ranks than it has rows."""
    x, y = examples(2 * BATCH + 3)
    replicas = strategy(num_local, reductions=[(".", "mean")], batch_share=SHARES)
    model = model_under(replicas, how, scales_loss)
    history = model.fit(x, y, BATCH, shuffle=False, verbose=0).history
    expected, loss = one_process(x, y, BATCH)
    assert_near(model.get_weights(), expected)
    np.testing.assert_allclose(history["loss"], loss, rtol=1e-5)
    assert_equal_on_ranks(model.trainable_variables)


@pytest.mark.parametrize("how", ["plain", "gradient", "delta"])
def test_rows_of_a_step_that_overflows_do_not_count(how):
    """The next batch is split otherwise: it has fewer rows than there are shares."""
    x, y = examples(BATCH + 3)
    replicas = strategy(1, reductions=[(".", "mean")], batch_share=SHARES)
    model = model_under(replicas, how, scales_loss=True)
    expected, _ = one_process(x[BATCH:], y[BATCH:], BATCH)
    x[0] = np.inf
    model.fit(x, y, BATCH, shuffle=False, verbose=0)
    assert_near(model.get_weights(), expected)
    assert_equal_on_ranks(model.trainable_variables)


@pytest.mark.parametrize("how", ["plain", "gradient"])
def test_batches_that_ranks_make_by_themselves_count_by_their_rows(how):
    replicas = strategy(1, reductions=[(".", "mean")], batch_share=SHARES)
    model = model_under(replicas, how)
    data = replicas.distribute_datasets_from_function(lambda context: own_batches(2))
    model.fit(data, verbose=0)
    expected, _ = one_process(*examples(2 * BATCH), BATCH)
    assert_near(model.get_weights(), expected)


@pytest.mark.long
@pytest.mark.parametrize(
    ("compiled", "settings"),
    [
        ({"run_eagerly": True}, {}),
        ({"steps_per_execution": 2}, {}),
        ({"jit_compile": True}, {}),
        ({}, {"compression": tf_adasum.compression.Identity(least_elements=0)}),
    ],
    ids=["eager", "two steps", "compiled", "encoded"],
)
def test_means_of_models_that_are_compiled_otherwise(compiled, settings):
    x, y = examples(2 * BATCH + 3)
    replicas = strategy(1, reductions=[(".", "mean")], batch_share=SHARES)
    model = model_under(replicas, "gradient", compiled=compiled, **settings)
    model.fit(x, y, BATCH, shuffle=False, verbose=0)
    assert_near(model.get_weights(), one_process(x, y, BATCH)[0])


def test_rows_of_embeddings_count_too():
    def embed():
        keras.utils.set_random_seed(7)
        return keras.Sequential([keras.Input((2,)), keras.layers.Embedding(20, 8)])

    x = np.random.default_rng(0).integers(0, 20, (BATCH + 3, 2))
    y = np.ones((BATCH + 3, 2, 8), np.float32)
    plain = embed()
    plain.compile(keras.optimizers.SGD(RATE), loss="mse")
    plain.fit(x, y, BATCH, shuffle=False, verbose=0)
    with strategy(1, reductions=[(".", "mean")], batch_share=SHARES).scope():
        model = embed()
        model.compile(optimizer_by("gradient"), loss="mse")
    model.fit(x, y, BATCH, shuffle=False, verbose=0)
    assert_near(model.get_weights(), plain.get_weights())


@pytest.mark.long
def test_micro_batches_count_by_the_rows_of_all_of_them():
    x, y = examples(4 * BATCH)
    replicas = strategy(1, reductions=[(".", "mean")], batch_share=SHARES)
    model = model_under(replicas, "gradient", accumulate=2)
    model.fit(x, y, BATCH, shuffle=False, verbose=0)
    assert_near(model.get_weights(), one_process(x, y, 2 * BATCH)[0])


def test_what_sketched_sgd_adds_up_counts_by_the_rows_that_it_came_of():
    """Over three epochs, whose last batch the shares deal otherwise than the others."""
    plain = small_model()
    with strategy(1, batch_share=SHARES).scope():
        model = small_model()
        optimizer = tf_adasum.optimizers.SketchedSGD(0.1, 0.9, least_elements=10**6)
        model.compile(optimizer, loss="mse")
    plain.set_weights(model.get_weights())
    plain.compile(keras.optimizers.SGD(0.1, 0.9), loss="mse")
    x, y = examples(BATCH + 3)
    for each in (plain, model):
        each.fit(x, y, BATCH, epochs=3, shuffle=False, verbose=0)
    assert_near(model.get_weights(), plain.get_weights())


@pytest.mark.parametrize("local", ["mean", "sum"])
@pytest.mark.parametrize("rows", [1, BATCH])
def test_a_host_by_itself_reduces_the_rows_of_all_its_ranks(rows, local):
    """Also of a batch in which some of them have none."""
    x, y = examples(rows)
    model = model_under(strategy(1, local_reduction=local, batch_share=SHARES), "gradient")
    before = model.get_weights()
    model.fit(x, y, BATCH, shuffle=False, verbose=0)
    factor = world().size if local == "sum" else 1
    for own, first, other in zip(model.get_weights(), before, one_process(x, y, BATCH)[0]):
        np.testing.assert_allclose(own - first, factor * (other - first), rtol=0, atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("num_batches", [2, 3])
def test_rounds_count_by_the_rows_of_all_their_steps(num_batches):
    """The last round ends early, with `fit`; in its batch of one row most ranks have none."""
    rows = (num_batches - 1) * BATCH + (1 if num_batches == 2 else BATCH)
    x, y = examples(rows)
    replicas = strategy(1, reductions=[(".", "mean")], batch_share=SHARES)
    model = model_under(replicas, "delta", steps_per_sync=2)
    weights = [np.float64(weight) for weight in model.get_weights()]
    model.fit(x, y, BATCH, shuffle=False, verbose=0)
    parts = parts_of(rows)
    for first in range(0, num_batches, 2):
        weights = combined(weights, x, y, parts[first : first + 2], "mean")
    assert_near(model.get_weights(), weights)


@pytest.mark.parametrize("how", ["plain", "gradient"])
def test_loops_of_ones_own_count_by_the_shares(how):
    x, y = examples(2 * BATCH)
    replicas = strategy(1, reductions=[(".", "mean")], batch_share=SHARES)
    model = model_under(replicas, how)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)

    def step(batch_x, batch_y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(batch_x) - batch_y) ** 2)
            loss /= replicas.num_replicas_in_sync
        gradients = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply(gradients, model.trainable_variables)

    for batch in replicas.experimental_distribute_dataset(data):
        replicas.run(step, batch)
    assert_near(model.get_weights(), one_process(x, y, BATCH)[0])


@pytest.mark.parametrize("how", ["gradient", "delta"])
def test_adasum_of_leaves_times_n_b_over_the_rows(how):
    """Ranks without rows, in the last batch, are no leaves."""
    x, y = examples(BATCH + 1)
    model = model_under(strategy(1, batch_share=SHARES), how)
    weights = [np.float64(weight) for weight in model.get_weights()]
    model.fit(x, y, BATCH, shuffle=False, verbose=0)
    for parts in parts_of(len(x)):
        weights = combined(weights, x, y, [parts], "adasum")
    assert_near(model.get_weights(), weights)


@pytest.mark.long
def test_equal_shares_are_what_no_shares_are():
    x, y = examples(3 * 4 * world().size + 1)
    weights = []
    for share in (None, [2] * world().size):
        model = model_under(strategy(1, batch_share=share), "delta")
        model.fit(x, y, 4 * world().size, shuffle=False, verbose=0)
        weights.append(model.get_weights())
    for without, equal in zip(*weights):
        np.testing.assert_array_equal(without, equal)


# TensorFlow deals sparse batches of fewer rows than devices to none.
KINDS = [(kind, local) for kind in ("dense", "ragged") for local in LOCAL] + [("sparse", 1)]


@pytest.mark.parametrize(("kind", "num_local"), KINDS)
def test_every_row_goes_to_one_rank(kind, num_local):
    replicas = strategy(num_local, batch_share=[share + 0.3 for share in SHARES])
    number = 3 * BATCH + 5
    numbers = tf.range(number)[:, None]
    if kind == "ragged":
        numbers = tf.RaggedTensor.from_tensor(numbers)
    elif kind == "sparse":
        numbers = tf.sparse.from_dense(numbers + 1)
    data = tf.data.Dataset.from_tensor_slices({"numbers": numbers}).batch(BATCH)
    counts = np.zeros(number + 1)
    for batch in replicas.experimental_distribute_dataset(data):
        for own in replicas.experimental_local_results(batch["numbers"]):
            values = own.values if kind == "sparse" else getattr(own, "flat_values", own)
            np.add.at(counts, np.ravel(values) - (kind == "sparse"), 1)
    np.testing.assert_array_equal(everywhere(counts).sum(axis=0), [1] * number + [0])


def test_evaluate_and_predict_see_all_rows():
    x, y = examples(BATCH + 7)
    model = model_under(strategy(1, batch_share=SHARES), "delta")
    predicted = model.predict(x, BATCH, verbose=0)
    assert predicted.shape == y.shape
    loss = model.evaluate(x, y, BATCH, verbose=0)
    assert loss == pytest.approx(np.mean((predicted - y) ** 2), rel=1e-5)


@pytest.mark.parametrize("share", ["mesured", [], [1] * (world().size + 1), 3, [[1], [2]], "12"])
def test_a_wrong_share_is_a_sentence(share):
    with pytest.raises(
        ValueError, match=r"Expected batch_share to be 'measured', 'hostfile' or .* Received: "
    ):
        strategy(1, batch_share=share)


@pytest.mark.parametrize("number", [0, -1, np.nan, np.inf, "a", None])
def test_a_wrong_number_is_a_sentence(number):
    with pytest.raises(ValueError, match=r"one positive number a rank, \d in all.* Received: "):
        strategy(1, batch_share=[number] * world().size)


def test_a_host_file_without_shares_is_refused_before_ranks_meet(monkeypatch):
    """By rank 0 alone: all ranks meet at the call after it."""
    monkeypatch.delenv(VARIABLE, raising=False)
    if world().rank == 0:
        with pytest.raises(ValueError, match="share=NUMBER in the host file"):
            strategy(1, batch_share="hostfile")
    count = tf_adasum.allreduce(tf.ones([]), "sum", name="afterwards")
    assert count == world().size


def test_shuffles_without_a_seed_are_no_error():
    model = model_under(strategy(1, batch_share=SHARES), "delta")
    tf.random.set_seed(None)
    strategy(1)  # gives ranks that have peers a seed
    x, y = examples(BATCH)
    assert np.isfinite(model.fit(x, y, BATCH, verbose=0).history["loss"]).all()


@pytest.mark.parametrize("of_others", [None, "measured", [2, 1, 1, 1, 1]])
def test_unlike_shares_are_an_error_on_all_ranks(of_others):
    is_other = world().rank == 1 and world().size > 1
    own = of_others if is_other else [1] * world().size
    if world().size == 1:
        assert strategy(1, batch_share=own).batch_shares == [1]
        return
    with pytest.raises(ValueError, match=r"the same batch_share on all ranks.* on rank 1"):
        strategy(1, batch_share=own)


def test_shares_of_many_ranks_are_compared_to_the_end():
    share = [1.0] * 99 + [2.0 if world().rank == 1 else 1.0]
    if world().size == 1:
        check_alike(share, world())
        return
    with pytest.raises(ValueError, match="the same batch_share on all ranks"):
        check_alike(share, world())
