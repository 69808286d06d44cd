"""Keras' own tests of distribution pass with AdasumStrategy, on two replicas of a process."""

from tests.peers.keras_tests import test_classes as _test_classes

_PACKAGE = "keras.src.backend.tensorflow"

globals().update(_test_classes(f"{_PACKAGE}.distribute_test", {}))
globals().update(
    _test_classes(
        f"{_PACKAGE}.optimizer_distribute_test",
        # The second half of test_single_step, for Keras 2.
        {"test_single_step1": "needs tf_keras, which is not installed"},
    )
)
