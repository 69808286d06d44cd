"""What the native library beside this file was built against. Written by the build."""

TENSORFLOW_VERSION = "2.21.0"
# None: the MPI of a Python package in the same environment (sys.prefix).
MPI_LIBRARY = None
MPIRUN = None
# Empty: built without CUDA.
CUDA_VERSION = "13.0"
