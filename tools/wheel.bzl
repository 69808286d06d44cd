"""Builds the wheel for the Python, TensorFlow and MPI that this checkout is configured for."""

load("@mpi//:version.bzl", "MPI_PACKAGE")
load("@python//:version.bzl", "PYTHON_TAG")
load("@tensorflow//:version.bzl", "TENSORFLOW_PACKAGE", "TENSORFLOW_VERSION")

def _wheel_impl(ctx):
    # TensorFlow's version is a part of the wheel's (PEP 440's local version), since each needs a library of its own.
    version = ctx.attr.version + "+tensorflow" + TENSORFLOW_VERSION.replace("+", ".")
    wheel = ctx.actions.declare_file("tf_adasum-{version}-{tag}-{tag}-linux_x86_64.whl".format(
        version = version,
        tag = PYTHON_TAG,
    ))
    args = ctx.actions.args()
    args.add(wheel, format = "--output=%s")
    args.add(version, format = "--version=%s")
    args.add(TENSORFLOW_PACKAGE + "==" + TENSORFLOW_VERSION, format = "--require=%s")
    args.add("mpi4py>=4.1", format = "--require=%s")
    args.add("numpy", format = "--require=%s")
    args.add("keras>=3.12", format = "--require=%s")  # OLDEST_KERAS of tf_adasum/versions.py
    if MPI_PACKAGE:
        # The library was linked against this one's soname; its next minor version keeps it.
        name, _, version = MPI_PACKAGE.partition("==")
        args.add(name + "~=" + ".".join(version.split(".")[:2]), format = "--require=%s")
    args.add(ctx.file.readme, format = "--readme=%s")
    args.add(ctx.file.library, format = "--library=%s")
    args.add(ctx.file.preload, format = "--preload=%s")
    args.add_all(ctx.files.packages)
    ctx.actions.run(
        executable = ctx.executable._make_wheel,
        arguments = [args],
        inputs = ctx.files.packages + [ctx.file.library, ctx.file.preload, ctx.file.readme],
        outputs = [wheel],
        mnemonic = "Wheel",
    )
    return [DefaultInfo(files = depset([wheel]), runfiles = ctx.runfiles(files = [wheel]))]

wheel = rule(
    implementation = _wheel_impl,
    attrs = {
        "library": attr.label(allow_single_file = True, mandatory = True),
        "preload": attr.label(allow_single_file = True, mandatory = True),
        "packages": attr.label_list(allow_files = True, mandatory = True),
        "readme": attr.label(allow_single_file = True, mandatory = True),
        "version": attr.string(mandatory = True),
        "_make_wheel": attr.label(default = "//tools:make_wheel", executable = True, cfg = "host"),
    },
)
