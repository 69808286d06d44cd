"""The values as they are."""


def q(x):
    """x."""
    return x
