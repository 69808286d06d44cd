"""Names of the dtypes that collectives take."""

# What every reduction takes, and what a codec can compress.
FLOATS = ("float16", "bfloat16", "float32", "float64")
# What the reductions take that aren't `floats_only`.
NUMBERS = (*FLOATS, "int32", "int64", "bool")
# What can be moved as bytes.
FIXED_SIZE = (
    *FLOATS,
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"),
    *("complex64", "complex128"),
)
