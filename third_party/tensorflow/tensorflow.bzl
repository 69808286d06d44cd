"""@tensorflow: headers and framework library of the installed TensorFlow wheel."""

load("//third_party:settings.bzl", "setting")

_FOLDERS = ["Eigen", "absl", "google", "ml_dtypes", "tensorflow", "third_party", "tsl", "unsupported", "xla"]

# The excluded folders hold compilers that no kernel includes. Without them an action has 3,000 inputs instead of 6,000.
_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "headers",
    hdrs = glob(
        [
            "include/**/*.h",
            "include/**/*.inc",
            "include/Eigen/**",
            "include/unsupported/Eigen/**",
            "declared/**/*.h",
        ],
        exclude = [
            "include/tensorflow/compiler/**",
            "include/tensorflow/lite/**",
            "include/xla/backends/**",
            "include/xla/hlo/**",
            "include/xla/service/**",
        ],
    ),
    # The wheel was compiled with these two; with others the same class has another layout here.
    defines = [
        "_GLIBCXX_USE_CXX11_ABI=1",
        "EIGEN_MAX_ALIGN_BYTES=64",
    ],
    includes = [
        "declared",
        "include",
    ],
)

cc_library(
    name = "framework",
    linkopts = [
        "-L{library_folder}",
        "-l:libtensorflow_framework.so.2",
    ],
    deps = [":headers"],
)

# For tests and programs of this checkout. The wheel finds TensorFlow relative to itself.
cc_library(
    name = "rpath",
    linkopts = ["-Wl,-rpath,{library_folder}"],
)
"""

# TensorFlow 2.19's stream_executor.h includes this header, which includes LLVM's, which are not in the wheel. It has one class, an
# argument of a function that no kernel here calls.
_DECLARED = "declared/xla/stream_executor/gpu/tma_metadata.h"
_DECLARATION = """#pragma once
namespace stream_executor::gpu {
class TmaDescriptor {};
}
"""

_VERSION = """TENSORFLOW_VERSION = "{version}"
TENSORFLOW_PACKAGE = "{package}"
"""

def _local_tensorflow_impl(ctx):
    folder = setting(ctx, "ADASUM_TENSORFLOW")
    version = setting(ctx, "ADASUM_TENSORFLOW_VERSION")
    for name in _FOLDERS:
        ctx.symlink(folder + "/include/" + name, "include/" + name)
    if version.startswith("2.19."):
        ctx.file(_DECLARED, _DECLARATION)
    ctx.file("BUILD", _BUILD.format(library_folder = folder))
    ctx.file("version.bzl", _VERSION.format(
        version = version,
        package = setting(ctx, "ADASUM_TENSORFLOW_PACKAGE"),
    ))

local_tensorflow = repository_rule(
    implementation = _local_tensorflow_impl,
    environ = ["ADASUM_TENSORFLOW", "ADASUM_TENSORFLOW_PACKAGE", "ADASUM_TENSORFLOW_VERSION"],
    local = True,
)
