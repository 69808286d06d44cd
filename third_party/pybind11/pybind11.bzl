"""@pybind11: headers of the installed pybind11 package."""

load("//third_party:settings.bzl", "setting")

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "pybind11",
    hdrs = glob(["include/**/*.h"]),
    includes = ["include"],
    deps = ["@python//:headers"],
)
"""

def _local_pybind11_impl(ctx):
    ctx.symlink(setting(ctx, "ADASUM_PYBIND11_INCLUDE"), "include")
    ctx.file("BUILD", _BUILD)

local_pybind11 = repository_rule(
    implementation = _local_pybind11_impl,
    environ = ["ADASUM_PYBIND11_INCLUDE"],
    local = True,
)
