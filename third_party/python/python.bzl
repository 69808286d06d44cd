"""@python: headers, and the toolchain that runs py_test with the interpreter configure.py found."""

load("//third_party:settings.bzl", "setting")

_BUILD = """
load("@bazel_tools//tools/python:toolchain.bzl", "py_runtime_pair")

package(default_visibility = ["//visibility:public"])

cc_library(
    name = "headers",
    hdrs = glob(["include/**/*.h"]),
    includes = ["include"],
)

py_runtime(
    name = "runtime",
    interpreter_path = "{python}",
    python_version = "PY3",
    stub_shebang = "#!{python}",
)

py_runtime_pair(
    name = "runtime_pair",
    py3_runtime = ":runtime",
)

toolchain(
    name = "toolchain",
    toolchain = ":runtime_pair",
    toolchain_type = "@bazel_tools//tools/python:toolchain_type",
)
"""

_VERSION = """PYTHON = "{python}"
PYTHON_TAG = "{tag}"
"""

def _local_python_impl(ctx):
    python = setting(ctx, "ADASUM_PYTHON")
    ctx.symlink(setting(ctx, "ADASUM_PYTHON_INCLUDE"), "include")
    ctx.file("BUILD", _BUILD.format(python = python))
    ctx.file("version.bzl", _VERSION.format(python = python, tag = setting(ctx, "ADASUM_PYTHON_TAG")))

local_python = repository_rule(
    implementation = _local_python_impl,
    environ = ["ADASUM_PYTHON", "ADASUM_PYTHON_INCLUDE", "ADASUM_PYTHON_TAG"],
    local = True,
)
