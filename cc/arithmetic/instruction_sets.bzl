"""What the compiler is told for the loops that are compiled once per instruction set."""

_AVX2 = [
    "-mavx2",
    "-mfma",
    "-mf16c",
]

_AVX512 = _AVX2 + [
    "-mavx512f",
    "-mavx512bw",
    "-mavx512dq",
    "-mavx512vl",
]

def _on_x86_64(copts):
    return select({
        "//cc/arithmetic:x86_64": copts,
        "//conditions:default": [],
    })

# gcc remarks that vectors of 64 bytes change the ABI; they never cross a function border there.
KERNEL_COPTS = ["-Wno-psabi"]
AVX2 = _on_x86_64(_AVX2)
AVX512 = _on_x86_64(_AVX512)
