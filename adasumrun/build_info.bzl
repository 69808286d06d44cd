"""Writes _build_info.py: what the native library was built against."""

load("@cuda//:version.bzl", "CUDA_VERSION")
load("@mpi//:version.bzl", "MPIRUN", "MPI_LIBRARY")
load("@tensorflow//:version.bzl", "TENSORFLOW_VERSION")

_TEXT = '''"""What the native library beside this file was built against. Written by the build."""

TENSORFLOW_VERSION = {tensorflow}
# None: the MPI of a Python package in the same environment (sys.prefix).
MPI_LIBRARY = {library}
MPIRUN = {mpirun}
# Empty: built without CUDA.
CUDA_VERSION = {cuda}
'''

def _build_info_impl(ctx):
    output = ctx.actions.declare_file("_build_info.py")
    ctx.actions.write(output, _TEXT.format(
        tensorflow = repr(TENSORFLOW_VERSION),
        library = repr(MPI_LIBRARY),
        mpirun = repr(MPIRUN),
        cuda = repr(CUDA_VERSION),
    ))
    return [DefaultInfo(files = depset([output]))]

build_info = rule(implementation = _build_info_impl)
