"""A replicated scalar is a Python number as any variable is: `float(optimizer.learning_rate)`.

TensorFlow converts its plain variables, and none of a strategy's.
"""

from __future__ import annotations

from tensorflow.python.distribute import values

from tf_adasum.keras_hooks.core.guard import require_hooks

require_hooks(values, "DistributedVariable")
require_hooks(values.DistributedVariable, "numpy")


def install() -> None:
    """Converts a variable of any strategy: none was converted before."""
    variable = values.DistributedVariable
    for name, kind in (("__complex__", complex), ("__float__", float), ("__int__", int)):
        if not hasattr(variable, name):
            setattr(variable, name, lambda self, kind=kind: kind(self.numpy()))
