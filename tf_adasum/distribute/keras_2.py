"""Keras 2 (tf_keras) under an AdasumStrategy: refused, since it would train with wrong steps."""

from __future__ import annotations

import sys
import traceback

from tf_adasum.collectives.refusals import refusal


def refuse_keras_2() -> None:
    """Raises if Keras 2 is what calls, in its `fit` or its optimizer.

    It divides the loss by the number of replicas and asks for the sum of the gradients, and the
    strategy combines what belongs to a variable by that variable's rule: by Adasum or the mean of
    such parts, steps are too short by the number of replicas.

    Raises:
        ValueError: a function of tf_keras is among those that wait for this one.
    """
    if "tf_keras" not in sys.modules:
        return
    for frame, _ in traceback.walk_stack(None):
        if frame.f_globals.get("__name__", "").startswith("tf_keras."):
            expected = "a model and an optimizer of Keras 3"
            advice = "Import keras, or use tf.keras without TF_USE_LEGACY_KERAS=1."
            raise ValueError(refusal(expected, "ones of tf_keras, which is Keras 2", advice))
