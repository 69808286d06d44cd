"""The codecs in NumPy: q(x, *arguments) is what comes back when x, float32 or float64, is sent."""
