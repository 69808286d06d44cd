"""The shared library of C++ ops and the pybind11 module inside it: the only file that knows it."""

import atexit
import os

import tensorflow as tf

from adasumrun import job

try:
    from adasumrun import _build_info
except ImportError as error:
    raise ImportError(
        "tf_adasum was not built: adasumrun/_build_info.py is missing. Run `make build` in the "
        "checkout, or install the wheel."
    ) from error


def _check_tensorflow() -> None:
    """TensorFlow's C++ interface has no stable ABI: another version may crash, so refuse it."""
    if tf.__version__ != _build_info.TENSORFLOW_VERSION:
        raise ImportError(
            f"tf_adasum was built against TensorFlow {_build_info.TENSORFLOW_VERSION}. Received: "
            f"TensorFlow {tf.__version__}. Install that version, or build again with "
            "`./configure.py && make build`."
        )


_check_tensorflow()

# mpi4py must end on the MPI that the ops are linked with, also if that is a cluster's.
if _build_info.MPI_LIBRARY:
    os.environ.setdefault("MPI4PY_LIBMPI", _build_info.MPI_LIBRARY)

# Ours to end: mpi4py would do it in a forked child of a rank too, and wait there for ever. What
# imports mpi4py.MPI before tf_adasum keeps mpi4py's way.
if job.is_launched():
    import mpi4py

    mpi4py.rc.finalize = False

# Before MPI is loaded, below. In ranks of adasumrun it holds from the start: they may have loaded
# it by mpi4py.
if job.is_on_one_host():
    job.spare_libc()

# The ops must be registered before Python imports the same file as a module. Not resolved to a
# real path: under Bazel the file is a link, and Python must see the one address twice.
_PATH = os.path.join(os.path.dirname(os.path.dirname(__file__)), "_native.so")
ops = tf.load_op_library(_PATH)

from tf_adasum import _native as lib  # noqa: E402  (see above)

# After all other functions of atexit: what is registered first is called last.
atexit.register(lib.park_other_threads)

# Whether the library has kernels for GPUs.
HAS_CUDA = bool(_build_info.CUDA_VERSION)

__all__ = ["HAS_CUDA", "lib", "ops"]
