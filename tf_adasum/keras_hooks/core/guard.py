"""Import-time check that the private TensorFlow and Keras hooks we override are there."""

from __future__ import annotations

import inspect
import types
from collections.abc import Collection, Iterable, Iterator

import keras
import tensorflow as tf

from tf_adasum.versions import OLDEST_KERAS, TESTED_KERAS, TESTED_TENSORFLOW

TESTED = f"TensorFlow {', '.join(TESTED_TENSORFLOW)} and Keras {', '.join(TESTED_KERAS)}"


def require_hooks(owner: object, *names: str) -> None:
    """Fails at import, in one line, when `owner` (a class or module) lacks one of `names`.

    Overriding a method that no longer exists would go unnoticed: the exchange of gradients
    would be skipped and every rank would train alone.

    Raises:
        ImportError: names the missing hook, the tested versions and the installed ones.
    """
    for name in names:
        if not hasattr(owner, name):
            where = getattr(owner, "__module__", "") or ""
            raise ImportError(
                f"tf_adasum needs the private hook {where}.{owner.__name__}.{name}, which is "
                f"missing here; install what it is tested with: {TESTED}. "
                f"Received: TensorFlow {tf.__version__}, Keras {keras.__version__}."
            )


def require_reads(owner: object, function: str, *names: str) -> None:
    """Fails at import, in one line, when a function does not look at one of these attributes.

    Args:
        owner: a class or module.
        function: the name of a function, method or property of it.
        *names: of attributes.

    Raises:
        ImportError: names the function and the attribute, the tested versions and the installed.
    """
    _require_found(owner, function, names, _code(owner, function).co_names, "look at")


def require_mentions(owner: object, function: str, *names: str) -> None:
    """Fails at import, in one line, when a function, or one inside it, has no such text.

    For attributes that it looks for by their names' text (`hasattr`). Args and Raises are those of
    `require_reads`.
    """
    _require_found(owner, function, names, set(_texts(_code(owner, function))), "mention")


def _code(owner: object, function: str) -> types.CodeType:
    """Of the function itself, where decorators stand around it."""
    require_hooks(owner, function)
    found = inspect.getattr_static(owner, function)
    return inspect.unwrap(found.fget if isinstance(found, property) else found).__code__


def _require_found(
    owner: object, function: str, names: Iterable[str], found: Collection[str], does: str
) -> None:
    for name in names:
        if name not in found:
            where = getattr(owner, "__module__", "") or ""
            raise ImportError(
                f"tf_adasum needs {where}.{owner.__name__}.{function} to {does} {name}, "
                f"and it doesn't here; install what it is tested with: {TESTED}. "
                f"Received: TensorFlow {tf.__version__}, Keras {keras.__version__}."
            )


def _texts(code: types.CodeType) -> Iterator[str]:
    for constant in code.co_consts:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, types.CodeType):
            yield from _texts(constant)


def _require_tensorflow_backend() -> None:
    """Fails at import where Keras computes by another library.

    The hooks are those of its TensorFlow trainer; a wrapped optimizer would fail in `fit`, for want
    of an attribute.
    """
    if keras.config.backend() != "tensorflow":
        raise ImportError(
            "tf_adasum needs Keras' backend to be tensorflow. Received: "
            f"{keras.config.backend()}. Set KERAS_BACKEND=tensorflow before keras is imported, or "
            '"backend" in ~/.keras/keras.json.'
        )


def _require_keras_version() -> None:
    """Fails at import where Keras is older than what the hooks are written for."""
    installed = tuple(int(number) for number in keras.__version__.split(".")[:2])
    if installed < OLDEST_KERAS:
        oldest = ".".join(map(str, OLDEST_KERAS))
        raise ImportError(
            f"tf_adasum needs Keras {oldest} or newer. Received: {keras.__version__}. Install one, "
            f"which any TensorFlow from 2.16 on takes: pip install 'keras>={oldest}'."
        )


_require_tensorflow_backend()
_require_keras_version()
