"""The examples in the docstrings run as they are printed; a missing hook is named."""

from __future__ import annotations

import doctest
import importlib
import inspect

import keras
import pytest
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads


@pytest.mark.parametrize(
    "name",
    [
        "callbacks.backup_and_restore",
        "callbacks.learning_rate_warmup",
        "callbacks.orthogonality_logger",
        "collectives.allreduce",
        "collectives.allreduce_replicas",
        "collectives.allgather",
        "collectives.as_array",
        "collectives.alltoall",
        "collectives.barrier",
        "collectives.communicator",
        "collectives.compression.bfloat16",
        "collectives.compression.compression",
        "collectives.compression.count_sketch",
        "collectives.compression.float16",
        "collectives.compression.identity",
        "collectives.compression.sign",
        "collectives.compression.simulated_state",
        "collectives.compression.sketch",
        "collectives.compression.state",
        "collectives.compression.threshold",
        "collectives.compression.top_k",
        "collectives.gathered",
        "collectives.names",
        "collectives.reduce_scatter",
        "collectives.reductions.adasum",
        "collectives.refusals",
        "collectives.simulate",
        "distribute.policy",
        "distribute.strategy",
        "distribute.variables",
        "optimizers.cada",
        "optimizers.lars",
        "optimizers.micro_batches",
        "optimizers.onebit_adam",
        "optimizers.onebit_lamb",
        "optimizers.sketched_sgd",
        "optimizers.sync.deadline",
        "optimizers.sync.group_averaging",
        "optimizers.sync.lazy",
        "optimizers.wrapper",
        "optimizers.zero_one_adam",
    ],
)
def test_examples(name):
    runner = doctest.DocTestRunner()
    for test in _Finder().find(importlib.import_module(f"tf_adasum.{name}")):
        runner.run(test)
    assert runner.tries > 0
    assert runner.failures == 0


class _Finder(doctest.DocTestFinder):
    """Finds functions behind a decorator, too, which is of another module."""

    def _from_module(self, module, object):
        return super()._from_module(module, inspect.unwrap(object))


def test_missing_hook_is_named_with_the_versions():
    with pytest.raises(ImportError, match=r"hook keras.*\.SGD\._no_such.*tested with.*Received"):
        require_hooks(keras.optimizers.SGD, "_no_such")


@pytest.mark.parametrize("function", ["fit", "jit_compile"])  # behind a decorator, and a property
def test_attribute_that_is_not_read_is_named(function):
    with pytest.raises(ImportError, match=rf"Trainer\.{function} to look at no_such, .*Received"):
        require_reads(TensorFlowTrainer, function, "no_such")
    with pytest.raises(ImportError, match=r"hook keras.*Trainer\.no_such, .*Received"):
        require_reads(TensorFlowTrainer, "no_such", function)
