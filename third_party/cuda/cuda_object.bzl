"""cuda_library: C++ and CUDA sources that nvcc compiles, as a library for C++ rules."""

load("@cuda//:version.bzl", "CUDA_ARCHS", "CUDA_HOME")

def _architectures():
    """Machine code for each compute capability, and PTX of the newest for those to come."""
    flags = ["-gencode=arch=compute_%s,code=sm_%s" % (arch, arch) for arch in CUDA_ARCHS]
    newest = CUDA_ARCHS[-1]
    return flags + ["-gencode=arch=compute_%s,code=compute_%s" % (newest, newest)]

def _cuda_object_impl(ctx):
    contexts = [dep[CcInfo].compilation_context for dep in ctx.attr.deps]
    headers = depset(ctx.files.hdrs, transitive = [context.headers for context in contexts])
    includes = depset(transitive = [
        depset(transitive = [context.includes, context.quote_includes, context.system_includes])
        for context in contexts
    ])
    defines = depset(transitive = [context.defines for context in contexts])
    objects = []
    reports = []
    for source in ctx.files.srcs:
        stem = source.basename.replace(".cu.cc", "")
        output = ctx.actions.declare_file(stem + ".cu.pic.o")
        report = ctx.actions.declare_file(stem + ".ptxas")
        args = ctx.actions.args()
        # Temporary files are named after the process, and in their sandboxes two nvcc at a time are
        # process 3 and share /tmp.
        args.add_all(["-x", "cu", "-c", source.path, "-o", output.path, "--objdir-as-tempdir"])
        # TensorFlow's standard, and no fast mathematics: the ranks' bits must be equal.
        args.add_all(["-std=c++17", "-O3", "--generate-line-info"])
        args.add_all(["-Xcompiler", "-fPIC,-Wall,-Wextra,-Wno-unused-parameter", "-Xptxas", "-v"])
        args.add_all(_architectures())
        args.add_all(includes, before_each = "-I")
        args.add_all(defines, format_each = "-D%s")
        ctx.actions.run_shell(
            # What ptxas says of registers and spills goes to the report; all of it is shown if nvcc fails.
            command = '"$@" 2>"%s" || { cat "%s" >&2; exit 1; }' % (report.path, report.path),
            arguments = [CUDA_HOME + "/bin/nvcc", args],
            inputs = depset([source], transitive = [headers]),
            outputs = [output, report],
            use_default_shell_env = True,
            mnemonic = "Nvcc",
            progress_message = "Compiling %s" % source.short_path,
        )
        objects.append(output)
        reports.append(report)
    return [
        DefaultInfo(files = depset(objects)),
        OutputGroupInfo(ptxas = depset(reports)),
    ]

_cuda_object = rule(
    implementation = _cuda_object_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu.cc"]),
        "hdrs": attr.label_list(allow_files = [".h"]),
        "deps": attr.label_list(providers = [CcInfo]),
    },
)

def cuda_library(name, srcs, hdrs = [], deps = [], testonly = False, **kwargs):
    """A cc_library of sources that nvcc compiles.

    Args:
      name: name of the library. name_ptxas is what ptxas says of its kernels.
      srcs: files that end in .cu.cc.
      hdrs: headers.
      deps: libraries.
      testonly: whether only tests may depend on it.
      **kwargs: visibility and so on, as for cc_library.
    """
    _cuda_object(
        name = name + "_objects",
        srcs = srcs,
        hdrs = hdrs,
        testonly = testonly,
        deps = deps + ["@cuda//:runtime"],
    )
    native.filegroup(
        name = name + "_ptxas",
        srcs = [name + "_objects"],
        output_group = "ptxas",
        testonly = testonly,
        visibility = ["//tests/gpu:__pkg__"],
    )
    native.cc_library(
        name = name,
        srcs = [name + "_objects"],
        hdrs = hdrs,
        # Never a shared library of its own: each would have a CUDA runtime of its own.
        linkstatic = 1,
        testonly = testonly,
        deps = deps + ["@cuda//:runtime"],
        **kwargs
    )
