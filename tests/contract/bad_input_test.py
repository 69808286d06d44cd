"""What no rank can make sense of: one line that says expected and received; then on as before.

On one rank and on several: what several would refuse, one refuses too, by the same error.
"""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from mpi4py import MPI

import tf_adasum as adasum

COLLECTIVES = {
    "allreduce": adasum.allreduce,
    "allreduce_arrays": adasum.allreduce_arrays,
    "allgather": adasum.allgather,
    "alltoall": adasum.alltoall,
    "barrier": lambda tensors, **arguments: adasum.barrier(**arguments),
    "broadcast": adasum.broadcast,
    "reduce_scatter": adasum.reduce_scatter,
}
ON_TENSORS = [name for name in COLLECTIVES if name != "barrier"]
REDUCING = ["allreduce", "allreduce_arrays", "reduce_scatter"]


@pytest.fixture(autouse=True)
def _usable_afterwards():
    yield
    ones = np.ones(3)
    adasum.allreduce_arrays(ones, "sum", name="afterwards")
    np.testing.assert_array_equal(ones, np.full(3, adasum.size()))


def _refused(call, expected, received, kind=(TypeError, ValueError, tf.errors.OpError)):
    """Checks the error of a call: this rank, what was expected, what was received, what to do."""
    with pytest.raises(kind) as caught:
        call()
    message = getattr(caught.value, "message", None) or str(caught.value)
    assert "\n" not in message
    line = rf"rank {adasum.rank()}: Expected .*{expected}.*\. Received: .*{received}.*\. [A-Z]"
    assert re.search(line, message), message
    return caught.value


def _valid(name):
    rows = np.zeros(2 * adasum.size(), np.float32)
    return rows if name == "allreduce_arrays" else tf.constant(rows)


def _slices(values=(2, 2), indices=(0, 1), dense_shape=(5, 2)):
    return tf.IndexedSlices(tf.zeros(values), tf.constant(indices), dense_shape)


NO_TENSORS = {
    "None": lambda: None,
    "an object": object,
    "objects": lambda: np.array([object()]),
    "a string": lambda: "text",
    "a sparse tensor": lambda: tf.sparse.from_dense([[1.0, 2.0], [1.0, 0.0]]),
    "a ragged tensor": lambda: tf.ragged.constant([[1.0, 2.0], [1.0]]),
    "a Keras input": lambda: keras.Input((3,)),
    "an index beyond": lambda: _slices(indices=(0, 9)),
    "indices of another number": lambda: _slices(indices=(0, 1, 2)),
    "a shape of a scalar": lambda: _slices(dense_shape=5),
    "slices of nothing": lambda: tf.IndexedSlices(tf.zeros([2, 2]), [0, 1]),
}


@pytest.mark.parametrize("what", NO_TENSORS)
@pytest.mark.parametrize("name", ON_TENSORS)
def test_no_tensors(name, what):
    value = NO_TENSORS[what]()
    _refused(lambda: COLLECTIVES[name](value), "", "")


@pytest.mark.parametrize("dtype", ["complex64", "int8", "uint16", "string"])
@pytest.mark.parametrize("name", REDUCING)
def test_dtypes_that_are_not_reduced(name, dtype):
    array = np.array(["a"]) if dtype == "string" else np.zeros(2, dtype)
    value = array if name == "allreduce_arrays" else tf.constant(array)
    _refused(lambda: COLLECTIVES[name](value, "sum"), "a dtype among", "")


@pytest.mark.parametrize("name", REDUCING)
def test_integers_have_no_adasum(name):
    value = np.ones(2, np.int32)
    if name == "reduce_scatter":
        _refused(lambda: adasum.reduce_scatter(value, "adasum"), "element by element", "'adasum'")
    else:
        _refused(lambda: COLLECTIVES[name](value), "float", "int32")


@pytest.mark.parametrize("reduction", ["median", "", "SUM", None, 3, b"sum", ["sum"], {"sum"}, {}])
@pytest.mark.parametrize("name", REDUCING)
def test_unknown_reductions(name, reduction):
    _refused(
        lambda: COLLECTIVES[name](_valid(name), reduction=reduction),
        r"a reduction among \['adasum', 'max', 'mean', 'min', 'product', 'sum'\]",
        re.escape(repr(reduction)),
        ValueError,
    )


@pytest.mark.parametrize("local", ["max", "median", None, 3, ["sum"]])
def test_unknown_local_reductions(local):
    call = lambda: adasum.allreduce(tf.zeros(2), local_reduction=local)  # noqa: E731
    _refused(call, "reduction among", re.escape(repr(local)), ValueError)


@pytest.mark.parametrize("name", [3, b"name", ["name"], "\ud800"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_names_that_are_no_text(collective, name):
    call = lambda: COLLECTIVES[collective](_valid(collective), name=name)  # noqa: E731
    _refused(call, "a str of Unicode", re.escape(repr(name)), TypeError)


@pytest.mark.parametrize("communicator", [0, 3, "world", MPI.COMM_WORLD, adasum.Communicator])
@pytest.mark.parametrize("name", COLLECTIVES)
def test_what_is_no_communicator(name, communicator):
    call = lambda: COLLECTIVES[name](_valid(name), communicator=communicator)  # noqa: E731
    _refused(call, "a tf_adasum.Communicator", f"of type {type(communicator).__name__}", TypeError)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_closed_communicators(name):
    part = adasum.world().split(0)
    part.close()
    _refused(
        lambda: COLLECTIVES[name](_valid(name), communicator=part),
        "an open communicator",
        "one that was closed",
        tf.errors.UnavailableError,
    )
    _refused(lambda: part.split(0), "an open communicator", "was closed", RuntimeError)
    with pytest.raises(tf.errors.UnavailableError, match="an open communicator"):
        adasum.AdasumStrategy(communicator=part)


@pytest.mark.parametrize("root", [-1, 99, 0.5, "0", None, [0]])
def test_roots_that_are_no_rank(root):
    expected = rf"a root in \[0, {adasum.size()}\)"
    weight = tf.Variable([1.0])
    for call in (
        lambda: adasum.broadcast(tf.zeros(2), root),
        lambda: adasum.broadcast_variables([weight], root),
    ):
        _refused(call, expected, re.escape(repr(root)), tf.errors.InvalidArgumentError)


@pytest.mark.parametrize("splits", [3, "ab", [1.5, 2.5], [[1, 1]], [], [2, "b"], [None], object()])
def test_splits_that_are_no_numbers(splits):
    call = lambda: adasum.alltoall(tf.zeros(4), splits)  # noqa: E731
    _refused(call, "one whole number for each rank as splits", "of type", ValueError)


@pytest.mark.parametrize("splits", [[-1, 5], [99], [1] * 9, [2**62, 2**62]])
def test_splits_that_do_not_deal_the_rows(splits):
    _refused(lambda: adasum.alltoall(tf.zeros(4), splits), "", "", tf.errors.InvalidArgumentError)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"color": 1.5}, "color to be an int"),
        ({"color": "0"}, "color to be an int"),
        ({"color": True}, "color to be an int"),
        ({"color": 2**31}, "color to be an int from 0 to 2147483647"),
        ({"color": -32766}, "color to be an int from 0"),  # MPI.UNDEFINED
        ({"color": 0, "key": None}, "key to be an int"),
        ({"color": 0, "key": -(2**31) - 1}, "key to be an int from -2147483648"),
        ({"color": 0, "name": None}, "a str of Unicode as name"),
        ({"color": 0, "name": "\ud800"}, "a str of Unicode as name"),
        ({"color": 0, "options": "x"}, "a dict of options"),
        ({"color": 0, "options": {3: 1}}, "a dict of options"),
        ({"color": 0, "options": {"timeline": None}}, "an option to be a bool or a path"),
    ],
)
def test_arguments_of_a_split(arguments, expected):
    _refused(lambda: adasum.world().split(**arguments), expected, "of type")


def test_communicators_are_not_made_by_hand():
    for arguments in ((), (3,)):
        _refused(lambda arguments=arguments: adasum.Communicator(*arguments), "split", "of type")


VECTOR = np.ones(2)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((None,), "a list for each rank"),
        ((3,), "a list for each rank"),
        (([1.0, 2.0],), "a list for each rank"),
        (([[[[1], [1, 2]]]] * 2,), "a list for each rank"),
        (([[VECTOR], [VECTOR, VECTOR]],), "the arrays of every rank"),
        (([[VECTOR], [np.ones(3)]],), "the arrays of every rank"),
        (([[VECTOR]] * 2, ["sum"]), "a reduction among"),
        (([[VECTOR]] * 2, "adasum", "sum", 3), "counts of leaves per host"),
        (([[VECTOR]] * 2, "adasum", "sum", [1.0, 1.0]), "counts of leaves per host"),
        (([[VECTOR]] * 2, "adasum", "sum", [2**40]), "counts of leaves per host"),
        (([[VECTOR]] * 2, "adasum", "sum", [0, 2]), "counts of leaves per host"),
        (([[VECTOR]] * 2, "adasum", "sum", []), "counts of leaves per host"),
        (([[VECTOR]] * 2, "adasum", "sum", [1]), "counts of leaves per host"),
        (([[VECTOR]] * 2, "adasum", "sum", [2, 1]), "add up to 2"),
    ],
)
def test_simulate(arguments, expected):
    _refused(lambda: adasum.simulate(*arguments), expected, "")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"devices": 3}, "a list of devices"),
        ({"devices": "CPU:0"}, "a list of devices"),
        ({"devices": []}, "a list of devices"),
        ({"devices": [0]}, "a list of devices"),
        ({"devices": ["XPU:0"]}, "a list of devices"),
        ({"devices": ["CPU:9"]}, "among /device:CPU:0"),
        ({"devices": ["CPU:0", "/cpu:0"]}, "each of them once"),
        ({"reductions": 3}, "a list of rules"),
        ({"reductions": "mean"}, "a list of rules"),
        ({"reductions": {"bias": "mean"}}, "a list of rules"),
        ({"communicator": 3}, "a tf_adasum.Communicator"),
        ({"bucket_bytes": 0}, "bucket_bytes to be an int from 1"),
        ({"bucket_bytes": "1M"}, "bucket_bytes to be an int from 1"),
        ({"bucket_bytes": None}, "bucket_bytes to be an int from 1"),
        ({"bucket_bytes": 1e6}, "bucket_bytes to be an int from 1"),
        ({"local_reduction": "max"}, "a local reduction among"),
        ({"local_reduction": []}, "a reduction among"),
    ],
)
def test_arguments_of_the_strategy(arguments, expected):
    _refused(lambda: adasum.AdasumStrategy(**arguments), expected, "")


@pytest.mark.parametrize("models", [None, 3, [3]])
def test_plans_of_no_model(models):
    plan = adasum.AdasumStrategy().reduction_plan
    _refused(lambda: plan(models), "a Keras model or a list of them", "of type", TypeError)


def test_scopes_of_two_strategies():
    one, other = adasum.AdasumStrategy(), adasum.AdasumStrategy()
    mirrored = tf.distribute.MirroredStrategy(["CPU:0"])
    for outer, inner in ((one, other), (one, mirrored), (mirrored, one)):
        with outer.scope():
            _refused(inner.scope, "one strategy for a model", "inside of that of", RuntimeError)
    with one.scope(), one.scope():
        pass


WARMUP, BACKUP = adasum.callbacks.LearningRateWarmup, adasum.callbacks.BackupAndRestore


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: WARMUP("x", 1), "learning_rate to be a number above 0, and finite"),
        (lambda: WARMUP(None, 1), "learning_rate to be a number above 0, and finite"),
        (lambda: WARMUP(np.inf, 1), "learning_rate to be a number above 0, and finite"),
        (lambda: BACKUP(3), "backup_dir to be a folder"),
        (lambda: BACKUP(["a"]), "backup_dir to be a folder"),
        (lambda: adasum.optimizers.LARS(momentum="a"), "momentum to be a number from 0"),
        (lambda: adasum.optimizers.LARS(weight_decay=None), "weight_decay to be a number from 0"),
        (lambda: adasum.optimizers.LARS(exclude_from_layer_adaptation="bias"), "to be a list of"),
        (lambda: adasum.optimizers.LARS(exclude_from_layer_adaptation=["("]), "to be a list of"),
        (lambda: adasum.empty([2, -1]), "a shape, a whole number from 0"),
        (lambda: adasum.empty("x"), "a shape, a whole number from 0"),
        (lambda: adasum.empty(2.5), "a shape, a whole number from 0"),
        (lambda: adasum.wrap(3), "a Keras 3 optimizer"),
        (
            lambda: adasum.wrap(adasum.wrap(keras.optimizers.SGD())),
            "not wrapped already",
        ),
        (lambda: adasum.wrap(adasum.optimizers.CADA()), "not wrapped already"),
        (lambda: adasum.wrap(keras.optimizers.SGD(), []), "mode to be 'delta' or 'gradient'"),
        (lambda: adasum.wrap(keras.optimizers.SGD(), accumulate=2**70), "from 1 to 65536"),
        (lambda: adasum.wrap(keras.optimizers.SGD(), steps_per_sync=2**70), "from 1 to 65536"),
    ],
)
def test_what_a_program_sets_up_alike_on_all_ranks(make, expected):
    _refused(make, expected, "", (TypeError, ValueError))
