"""The CUDA kernels against NumPy float64, on a device; without one every case fails."""

import ctypes

import numpy as np
import pytest

from tests.gpu.device_arrays import open_device
from tests.gpu.element_types import BYTES, FLOATS, INTEGERS, ROUNDOFF, decode, encode
from tests.gpu.kernels import Kernels, Operands

SIZES = (0, 1, 31, 32, 33, 1023, 1_000_007, 8192, 65536)
TEN_THOUSAND = tuple(i % 257 for i in range(10_000))


@pytest.fixture(scope="module", name="kernels")
def _kernels():
    return Kernels(open_device())


class Vectors:
    """Random pairs of vectors on the device, one pair for each size, and room for results.

    All lefts lie in one buffer, as do the rights, the outs and the second places of results.
    Starts are multiples of 16 bytes, or, if `misaligned`, of an element only, and other ones for
    left, right, out and copy.
    """

    def __init__(self, kernels, dtype, sizes, misaligned=False, seed=3):
        self.dtype, self.sizes, self.device = dtype, sizes, kernels.device
        random = np.random.default_rng(seed)
        self.left, self.right, self.offsets = [], [], []
        buffers = {"left": [], "right": [], "out": [], "copy": []}
        ends = dict.fromkeys(buffers, 0)
        for size in sizes:
            offsets = {}
            for shift, (name, parts) in enumerate(buffers.items()):
                elements = encode(dtype, self._draw(random, size))
                if name in ("left", "right"):
                    getattr(self, name).append(decode(dtype, elements))
                gap = -ends[name] % 16 + (shift + 1) * BYTES[dtype] * misaligned
                parts.append(np.full(gap, 0xEE, np.uint8))
                filler = np.full(size * BYTES[dtype], 0xEE, np.uint8)
                parts.append(elements.view(np.uint8) if name in ("left", "right") else filler)
                offsets[name] = ends[name] + gap
                ends[name] += gap + size * BYTES[dtype]
            self.offsets.append(offsets)
        self.buffers = {
            name: self.device.to_device(np.concatenate([*parts, np.full(16, 0xEE, np.uint8)]))
            for name, parts in buffers.items()
        }

    def _draw(self, random, size):
        if self.dtype == "bool":
            return random.integers(0, 2, size)
        if self.dtype in INTEGERS:
            return random.integers(-(2**30), 2**30, size)
        return random.standard_normal(size) * np.exp2(random.integers(-6, 6, size))

    def pieces(self, left="left", right="right", out="out", copy=None):
        at = {name: self.device.address(buffer) for name, buffer in self.buffers.items()}
        return [
            Operands(
                *[at[name] + offsets[name] for name in (left, right, out)],
                size,
                at[copy] + offsets[copy] if copy else 0,
            )
            for size, offsets in zip(self.sizes, self.offsets)
        ]

    def work(self, kernels, **names):
        return kernels.work(self.dtype, self.pieces(**names), BYTES[self.dtype])

    def results(self, name="out"):
        host = self.device.to_host(self.buffers[name])
        ends = [o[name] + n * BYTES[self.dtype] for o, n in zip(self.offsets, self.sizes)]
        written = np.zeros(host.size, bool)
        for offsets, end in zip(self.offsets, ends):
            written[offsets[name] : end] = True
        assert np.all(host[~written] == 0xEE), "a kernel wrote beside its pieces"
        return [decode(self.dtype, host[o[name] : end]) for o, end in zip(self.offsets, ends)]


def _moments(kernels, vectors, **names):
    work = vectors.work(kernels, **names)
    work.launch_moments()
    moments = work.moments_on_host()
    assert not work.arrivals_on_host().any()
    return moments


@pytest.mark.parametrize("misaligned", [False, True])
@pytest.mark.parametrize("sizes", [SIZES, TEN_THOUSAND], ids=["sizes", "ten_thousand"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_moments(kernels, dtype, sizes, misaligned):
    vectors = Vectors(kernels, dtype, sizes, misaligned)
    moments = _moments(kernels, vectors)
    for got, a, b in zip(moments, vectors.left, vectors.right):
        terms = np.stack([a * b, a * a, b * b])
        expected = np.array([np.sum(t.astype(np.longdouble)) for t in terms])
        # Float64 sums in a tree: some 100 steps at most (see cuda_moments.cu.h).
        limit = 100 * 2.0**-52 * np.sum(np.abs(terms), axis=1)
        assert np.all(np.abs((got - expected).astype(np.float64)) <= limit)


@pytest.mark.parametrize("dtype", FLOATS)
def test_moments_are_bitwise_the_same_from_run_to_run(kernels, dtype):
    vectors = Vectors(kernels, dtype, SIZES)
    work = vectors.work(kernels)
    runs = set()
    for _ in range(20):
        work.launch_moments()
        runs.add(work.moments_on_host().tobytes())
    # Nor do they depend on where the operands lie.
    runs.add(_moments(kernels, Vectors(kernels, dtype, SIZES, misaligned=True)).tobytes())
    assert len(runs) == 1


@pytest.mark.parametrize("dtype", FLOATS)
def test_both_sides_of_a_meeting_compute_the_same_bits(kernels, dtype):
    vectors = Vectors(kernels, dtype, SIZES, misaligned=True)
    here = _moments(kernels, vectors)
    there = _moments(kernels, vectors, left="right", right="left")
    assert here.tobytes() == there[:, [0, 2, 1]].tobytes()


def _check(dtype, got, expected, magnitude):
    roundings = 1 if dtype in ("float32", "float64") else 1 + 2.0**-8
    smallest = 2.0**-24 if dtype == "float16" else 0.0  # its subnormals' distance
    limit = ROUNDOFF[dtype] * roundings * magnitude + smallest + 4 * 2.0**-53 * magnitude
    assert np.all(np.abs(got - expected) <= limit)


@pytest.mark.parametrize("misaligned", [False, True])
@pytest.mark.parametrize("out", ["out", "left", "right"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_combine(kernels, dtype, out, misaligned):
    vectors = Vectors(kernels, dtype, SIZES, misaligned)
    c = np.random.default_rng(1).uniform(-1, 1, (len(SIZES), 2))
    on_device = kernels.device.to_device(c)
    vectors.work(kernels, out=out).launch("combine", ctypes.c_void_p(_address(kernels, on_device)))
    for got, a, b, (left, right) in zip(vectors.results(out), vectors.left, vectors.right, c):
        _check(dtype, got, left * a + right * b, np.abs(left * a) + np.abs(right * b))


def _address(kernels, buffer):
    return kernels.device.address(buffer)


@pytest.mark.parametrize("misaligned", [False, True])
@pytest.mark.parametrize("copy", ["copy", "left"])
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_results_in_two_places_have_the_bits_they_have_in_one(kernels, dtype, copy, misaligned):
    ones = kernels.device.to_device(np.ones((len(SIZES), 2)))
    launches = {"add": ()}
    if dtype in FLOATS:
        launches["combine"] = (ctypes.c_void_p(_address(kernels, ones)),)
    if dtype == "bool":
        launches["logical_and"] = ()
    else:
        launches["divide"] = (ctypes.c_int64(3),)
    for name, arguments in launches.items():
        once = Vectors(kernels, dtype, SIZES, misaligned)
        twice = Vectors(kernels, dtype, SIZES, misaligned)
        once.work(kernels).launch(name, *arguments)
        twice.work(kernels, copy=copy).launch(name, *arguments)
        for expected, *got in zip(once.results(), twice.results(), twice.results(copy)):
            assert all(expected.tobytes() == place.tobytes() for place in got)


@pytest.mark.parametrize("misaligned", [False, True])
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_add(kernels, dtype, misaligned):
    vectors = Vectors(kernels, dtype, SIZES, misaligned)
    vectors.work(kernels).launch("add")
    for got, a, b in zip(vectors.results(), vectors.left, vectors.right):
        if dtype in FLOATS:
            _check(dtype, got, a + b, np.abs(a) + np.abs(b))
        else:
            assert np.array_equal(got, a | b if dtype == "bool" else a + b)


def test_logical_and(kernels):
    vectors = Vectors(kernels, "bool", SIZES, True)
    vectors.work(kernels).launch("logical_and")
    for got, a, b in zip(vectors.results(), vectors.left, vectors.right):
        assert np.array_equal(got, a & b)


@pytest.mark.parametrize("divisor", [1, 3, 64])
@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "int64"])
def test_divide(kernels, dtype, divisor):
    vectors = Vectors(kernels, dtype, SIZES, True)
    vectors.work(kernels).launch("divide", ctypes.c_int64(divisor))
    for got, a in zip(vectors.results(), vectors.left):
        if dtype in FLOATS:
            _check(dtype, got, a / divisor, np.abs(a))
        else:
            assert np.array_equal(got, np.sign(a) * (np.abs(a) // divisor))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bool"])
def test_pack_and_unpack_in_one_launch_each(kernels, dtype):
    vectors = Vectors(kernels, dtype, SIZES + TEN_THOUSAND[:1000], True)
    packed = kernels.device.empty(sum(vectors.sizes) * BYTES[dtype])
    places = np.cumsum([0, *vectors.sizes[:-1]]) * BYTES[dtype] + _address(kernels, packed)
    pieces = vectors.pieces()
    pack = [p._replace(right=0, out=int(place)) for p, place in zip(pieces, places)]
    unpack = [p._replace(right=0, left=int(place)) for p, place in zip(pieces, places)]
    for part in (pack, unpack):
        kernels.work(dtype, part, BYTES[dtype]).launch("copy")
    for got, a in zip(vectors.results(), vectors.left):
        assert np.array_equal(got, a)


def test_launches_can_be_captured_into_a_graph(kernels):
    vectors = Vectors(kernels, "float32", SIZES)
    work = vectors.work(kernels)
    expected = _moments(kernels, vectors).tobytes()
    ones = kernels.device.to_device(np.ones((len(SIZES), 2)))

    def launch():
        work.launch_moments()
        work.launch("combine", ctypes.c_void_p(_address(kernels, ones)))

    replay = kernels.device.capture(launch)
    for _ in range(3):
        replay()
        kernels.device.synchronize()
        assert work.moments_on_host().tobytes() == expected
    for got, a, b in zip(vectors.results(), vectors.left, vectors.right):
        _check("float32", got, a + b, np.abs(a) + np.abs(b))


def test_what_a_dtype_does_not_have_is_refused(kernels):
    vectors = Vectors(kernels, "int32", (8,))
    with pytest.raises(RuntimeError, match=r"Expected a dtype that has .* Received: int32"):
        vectors.work(kernels).launch_moments()
