"""On one host the library leaves the code of libc as it is on disk: TensorFlow's threads run it."""

import ctypes

import pytest

import tf_adasum as adasum

NUM_BYTES = 16


def _code(address):
    return bytes((ctypes.c_ubyte * NUM_BYTES).from_address(address))


def _code_on_disk(address):
    with open("/proc/self/maps") as maps:
        for line in maps:
            fields = line.split()
            begin, end = (int(bound, 16) for bound in fields[0].split("-"))
            if begin <= address < end:
                with open(fields[5], "rb") as library:
                    library.seek(int(fields[2], 16) + address - begin)
                    return library.read(NUM_BYTES)
    raise AssertionError(f"nothing is mapped at {address:x}")


@pytest.mark.parametrize("function", ["mmap", "munmap", "madvise", "brk"])
def test_code_of_libc_is_untouched(function):
    assert adasum.size() >= 1  # MPI has started
    address = ctypes.cast(getattr(ctypes.CDLL(None), function), ctypes.c_void_p).value
    assert _code(address) == _code_on_disk(address)
