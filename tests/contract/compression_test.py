"""Every codec beside every reduction that it serves, against the NumPy reference."""

import importlib
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tf_adasum as adasum
from tests.reference import compressed
from tf_adasum import compression
from tf_adasum.collectives import native
from tf_adasum.collectives.compressed_simulation import arriving

ROOT = Path(__file__).absolute().parents[2]
CODECS = {
    "identity": compression.Identity(least_elements=0),
    "float16": compression.Float16(least_elements=0),
    "bfloat16": compression.BFloat16(least_elements=0),
    "sign": compression.Sign(least_elements=0),
    "top_k": compression.TopK(0.1, least_elements=0),
    "quantized": compression.Quantized(4, least_elements=0),
    "threshold": compression.Threshold(0.1, least_elements=0),
    "sketch": compression.Sketch(0.1, 0.2, 3, least_elements=0),
}
ARGUMENTS = {"top_k": (0.1,), "quantized": (4,), "threshold": (0.1,), "sketch": (0.1, 0.2, 3)}
RANKS = [1, 2, 3, 4, 5, 8, 13]
# No multiples of 8 N but for some.
SIZES = [1, 3, 17, 64, 130, 999, 1000]
REDUCTIONS = ["adasum", "mean", "sum"]
# How far an element may be off, of the largest, where a sum that was rounded otherwise is rounded
# again; few are.
STEPS = {
    "identity": 0,
    "float16": 2**-10,
    "bfloat16": 2**-7,
    "sign": 2,
    "top_k": 1,
    "quantized": 1 / 7,
    "threshold": 1,
    "sketch": 1,
}


def q_of(name):
    """The reference of a codec, with the argument that it has here."""
    reference = importlib.import_module(f"tests.reference.codecs.{name}").q
    return lambda x, *arguments: reference(x, *(arguments or ARGUMENTS.get(name, ())))


def _reduce(reduction):
    return importlib.import_module(f"tests.reference.{reduction}").reduce


def _draw(ranks, dtype, seed=0):
    rng = np.random.default_rng([seed, ranks])
    return [[rng.normal(size=size).astype(dtype) for size in SIZES] for _ in range(ranks)]


def _copies(kept):
    return [[array.copy() for array in of_rank] for of_rank in kept]


def _of(i, of_ranks):
    return [arrays[i] for arrays in of_ranks]


def check(name, result, expected, largest=0):
    """Equal to rounding of the largest element, but for few whose sums were rounded otherwise."""
    largest = np.max(np.abs(expected), initial=largest)
    off = np.abs(result - expected) > 1e-6 * largest
    assert np.mean(off) <= 0.01 if off.size > 99 else np.sum(off) <= 1
    assert np.all(np.abs(result - expected) <= (STEPS[name] + 1e-6) * largest)


def test_library_python_and_references_have_the_same_codecs():
    assert native.lib.codec_names() == sorted(CODECS)
    apart = {"codec", "codec_kernels", *(f"codec_kernels_{s}" for s in ("baseline", "avx2"))}
    files = {file.stem for file in (ROOT / "cc/compression").glob("*.cc")}
    assert files - apart - {"codec_kernels_avx512"} == set(CODECS)
    assert {codec.name for codec in CODECS.values()} == set(CODECS)


@pytest.mark.parametrize(
    ("dtype", "ranks"),
    [
        *(("float32", ranks) for ranks in RANKS),
        *(("float64", 3), ("float64", 8)),
        pytest.param("float32", 33, marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", sorted(CODECS))
def test_agrees_with_the_reference_over_two_calls(name, reduction, dtype, ranks):
    state = compression.SimulatedState(_draw(ranks, dtype), CODECS[name])
    for seed in range(2):
        inputs = _draw(ranks, dtype, seed)
        # From what the library kept: an element that was rounded otherwise stays otherwise.
        residuals, of_parts = _copies(state.residuals), _copies(state.part_residuals)
        outputs = adasum.simulate(inputs, reduction, compression=CODECS[name], state=state)
        for of_rank in outputs:
            assert [a.tobytes() for a in of_rank] == [a.tobytes() for a in outputs[0]]
        for i in range(len(SIZES)):
            expected, after, parts_after = (
                (inputs[0][i], _of(i, residuals), _of(i, of_parts))  # nothing travels
                if ranks == 1
                else compressed.allreduce(
                    _of(i, inputs),
                    _reduce(reduction),
                    q_of(name),
                    _of(i, residuals),
                    _of(i, of_parts),
                )
            )
            largest_input = np.max(np.abs(_of(i, inputs)))
            check(name, outputs[0][i], expected, largest_input)
            for rank in range(ranks):
                check("identity", state.residuals[rank][i], after[rank], largest_input)
                largest = np.max(np.abs(expected))
                off = np.abs(state.part_residuals[rank][i] - parts_after[rank]) > 1e-5 * largest
                assert np.sum(off) <= max(1, 0.01 * off.size)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_floats_are_reduced_in_float32(dtype):
    small = np.dtype(getattr(ml_dtypes, dtype) if dtype == "bfloat16" else dtype)
    inputs = [[array.astype(small) for array in arrays] for arrays in _draw(3, "float32")]
    wide = [[array.astype(np.float32) for array in arrays] for arrays in inputs]
    reduced = adasum.simulate(inputs, compression=CODECS["sign"])
    expected = adasum.simulate(wide, compression=CODECS["sign"])
    for mine, theirs in zip(reduced[0], expected[0]):
        assert mine.dtype == small
        assert mine.tobytes() == theirs.astype(small).tobytes()


@pytest.mark.parametrize("name", sorted(CODECS))
def test_what_is_short_empty_or_no_float_travels_as_it_is(name):
    inputs = [
        [np.full(shape, rank + 1, dtype) for shape, dtype in [((), "float32"), ((0, 3), "float32")]]
        + [np.full(2000, rank + 1, "int32"), np.full(999, rank + 0.1, "float32")]
        for rank in range(3)
    ]
    codec = type(CODECS[name])(*ARGUMENTS.get(name, ()))
    reduced = adasum.simulate(inputs, "mean", compression=codec)
    for mine, plain in zip(reduced[0], adasum.simulate(inputs, "mean")[0]):
        assert mine.tobytes() == plain.tobytes()
        assert mine.shape == plain.shape


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", sorted(CODECS))
def test_what_is_no_number_shows_on_all_ranks_and_stays_nowhere(name, value):
    codec = CODECS[name]
    inputs = [[np.ones(500, "float32")] for _ in range(3)]
    state = compression.SimulatedState(inputs, codec)
    inputs[1][0][7] = value
    for outputs in adasum.simulate(inputs, "sum", compression=codec, state=state):
        assert not np.all(np.isfinite(outputs[0]))
    inputs[1][0][7] = 1
    for outputs in adasum.simulate(inputs, "sum", compression=codec, state=state):
        assert np.all(np.isfinite(outputs[0]))


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("name", sorted(CODECS))
def test_what_arrives_is_what_is_reduced(name, keeps):
    ranks, codec = 3, CODECS[name]
    inputs = [[array] for array in np.random.default_rng(0).normal(size=(ranks, 999))]
    state = compression.SimulatedState(inputs, codec) if keeps else None
    lost = np.zeros((ranks, 999)) if keeps else [None] * ranks
    lost_of_result = np.zeros(999) if keeps else None
    for _ in range(3):
        arrived = [[arriving(codec, x, ranks, kept)] for (x,), kept in zip(inputs, lost)]
        (reduced,) = adasum.simulate(arrived, "adasum")[0]
        expected = arriving(codec, reduced, ranks, lost_of_result)
        ((result,), *_) = adasum.simulate(inputs, "adasum", compression=codec, state=state)
        check(name, result, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1000, 200_000])
def test_of_equal_magnitudes_the_first_are_among_the_top(n, dtype):
    x = np.round(np.random.default_rng(n).normal(size=n), 1).astype(dtype)
    x[n // 2] = np.nan
    arrived = arriving(compression.TopK(0.01), x, 1, None)
    assert arrived.tobytes() == q_of("top_k")(x, 0.01).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(4))
def test_a_threshold_of_a_sample_is_the_reference_and_near_the_largest(seed, dtype):
    n, fraction, ranks = 30_000, 0.01, 2
    codec = compression.Threshold(fraction)
    x = np.random.default_rng(seed).normal(size=n).astype(dtype)
    state = compression.SimulatedState([[x]] * ranks, codec)
    adasum.simulate([[x], [0 * x]], "sum", compression=codec, state=state)
    sent = x - state.residuals[0][0]
    parts = compressed.parts(n, ranks)
    expected = [q_of("threshold")(x[part], fraction) for part in parts]
    assert sent.tobytes() == np.concatenate(expected).tobytes()
    for part in parts:
        most = int(np.ceil(fraction * (part.stop - part.start)))
        largest = np.sort(np.abs(x[part]))[-most:]
        assert most / 2 <= np.count_nonzero(sent[part]) <= most
        assert np.sum(np.square(sent[part])) >= 0.6 * np.sum(np.square(largest))


def _largest_gap(codec, steps, keeps):
    """Between the sum of what was applied and that of the gradients, which are the same each step,
    in units of a gradient."""
    rng = np.random.default_rng(0)
    inputs = [[rng.normal(size=1000).astype("float32")] for _ in range(3)]
    mean = np.mean([arrays[0] for arrays in inputs], axis=0)
    state = compression.SimulatedState(inputs, codec) if keeps else None
    applied = np.zeros(1000)
    for _ in range(steps):
        applied += adasum.simulate(inputs, "mean", compression=codec, state=state)[0][0]
    return np.max(np.abs(applied - steps * mean)), state


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(set(CODECS) - {"identity"}))
def test_nothing_is_lost_for_ever_with_a_state_and_much_without(name):
    steps = 1000
    gap, state = _largest_gap(CODECS[name], steps, keeps=True)
    of_ranks = np.mean([np.abs(kept[0]) for kept in state.residuals], axis=0)
    of_parts = np.concatenate([np.abs(kept[0]) for kept in state.part_residuals])
    assert gap <= 1.001 * (np.max(of_ranks) + np.max(of_parts)) + 1e-3
    without, _ = _largest_gap(CODECS[name], steps, keeps=False)
    assert without > 5 * gap


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: compression.TopK(0), "above 0 and at most 1. Received: 0 of type int"),
        (lambda: compression.Threshold(0), "above 0 and at most 1. Received: 0 of type int"),
        (lambda: compression.TopK(1.5), "above 0 and at most 1. Received: 1.5"),
        (lambda: compression.Sketch(0), "fraction to be a number above 0 and at most 1"),
        (
            lambda: compression.Sketch(0.1, 1.5),
            "sketch_fraction to be a number above 0 and at most",
        ),
        (
            lambda: compression.Sketch(0.5, 0.6),
            "fraction and sketch_fraction of together at most 1. Received: 0.5 and 0.6",
        ),
        (lambda: compression.Sketch(0.1, rows=0), "rows to be an int from 1"),
        (lambda: compression.Quantized(3), "Expected bits to be 2, 4 or 8. Received: 3"),
        (lambda: compression.Quantized(4.0), "Expected bits to be an int from 2 to 8. Received: 4"),
        (lambda: compression.TopK("all"), "Received: 'all' of type str"),
        (lambda: compression.Sign(least_elements=-1), "least_elements to be an int from 0"),
        (lambda: adasum.simulate([[np.ones(9)]] * 2, compression="sign"), "Received: 'sign'"),
        (
            lambda: adasum.simulate([[np.ones(9)]] * 2, "max", compression=CODECS["sign"]),
            "a reduction among ['adasum', 'mean', 'sum'] for tensors that travel encoded",
        ),
        (
            lambda: adasum.simulate(
                [[np.ones(9)]] * 2,
                compression=CODECS["sign"],
                state=compression.SimulatedState([[np.ones(8)]] * 2, CODECS["sign"]),
            ),
            "Expected a state of 2 ranks with arrays of [((9,), 'float64')] each. "
            "Received: [[((8,), 'float64')], [((8,), 'float64')]]",
        ),
        (
            lambda: adasum.simulate(
                [[np.ones(9)]] * 2,
                compression=CODECS["sign"],
                state=compression.SimulatedState([[np.ones(9, "f4")]] * 2, CODECS["sign"]),
            ),
            "[((9,), 'float64')] each. Received: [[((9,), 'float32')], [((9,), 'float32')]]",
        ),
        (
            lambda: adasum.simulate(
                [[np.ones(9)]] * 2,
                compression=CODECS["sign"],
                state=compression.SimulatedState([[np.ones(9)]] * 3, CODECS["sign"]),
            ),
            "Expected a state of 2 ranks",
        ),
        (
            lambda: adasum.simulate(
                [[np.ones(9)]] * 2, "adasum", "sum", compression=CODECS["sign"]
            ),
            "ranks of one tree, where compression is asked for",
        ),
    ],
)
def test_bad_settings_give_one_sentence(make, message):
    with pytest.raises((TypeError, ValueError)) as raised:
        make()
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
