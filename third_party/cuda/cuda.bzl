"""@cuda: the toolkit that configure.py found, or nothing: then HAS_CUDA is False."""

load("//third_party:settings.bzl", "setting")

_BUILD = """
package(default_visibility = ["//visibility:public"])

# The runtime is linked in: it looks for the driver when it is first called, so that the library loads on any machine.
cc_library(
    name = "runtime",
    srcs = ["lib64/libcudart_static.a"],
    hdrs = glob(["include/**/*.h", "include/**/*.hpp"], exclude = ["include/cccl/**"]),
    includes = ["include"],
    # TensorFlow's framework library exports names of the CUDA runtime as well: ours must bind to ours.
    linkopts = ["-Wl,--exclude-libs,libcudart_static.a", "-ldl", "-lpthread", "-lrt"],
)
"""

_EMPTY = """
package(default_visibility = ["//visibility:public"])
"""

_VERSION = """HAS_CUDA = {has_cuda}
CUDA_HOME = {home}
CUDA_VERSION = {version}
# Compute capabilities without the dot.
CUDA_ARCHS = {archs}
"""

def _local_cuda_impl(ctx):
    home = setting(ctx, "ADASUM_CUDA_HOME")
    archs = setting(ctx, "ADASUM_CUDA_ARCHS")
    if home:
        ctx.symlink(home + "/include", "include")
        ctx.symlink(home + "/lib64/libcudart_static.a", "lib64/libcudart_static.a")
    ctx.file("BUILD", _BUILD if home else _EMPTY)
    ctx.file("version.bzl", _VERSION.format(
        has_cuda = repr(bool(home)),
        home = repr(home),
        version = repr(setting(ctx, "ADASUM_CUDA_VERSION")),
        archs = repr(archs.split(",") if archs else []),
    ))

local_cuda = repository_rule(
    implementation = _local_cuda_impl,
    environ = ["ADASUM_CUDA_ARCHS", "ADASUM_CUDA_HOME", "ADASUM_CUDA_VERSION"],
    local = True,
)
