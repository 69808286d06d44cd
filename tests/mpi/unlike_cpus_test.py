"""Ranks of unlike CPUs: equal bits on all ranks, whatever their instruction sets are.

A split asks every rank for its settings anew, so that one launch sees many worlds: odd ranks say
that they know the baseline only, and the others use the widest that this machine has.
"""

import os
import zlib

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from mpi4py import MPI

import tf_adasum as adasum
from tests.contract import error_model
from tf_adasum.collectives import native
from tf_adasum.collectives.allreduce_replicas import allreduce_replicas

FLOATS = list(error_model.LIMITS)
CASES = [
    (reduction, dtype, kind)
    for reduction, dtypes, kind in (
        ("adasum", FLOATS, "random"),
        # Their products tell nothing of what meets on the way: the tree by halves, on any wire.
        ("adasum", FLOATS, "cancelling"),
        # In float16 a weighted sum on its way, too.
        ("mean", ["float16"], "random"),
        ("sum", ["float32", "int32", "int64", "bool"], "random"),
    )
    for dtype in dtypes
]

# Every wire that one host can have; hosts of two ranks each; slices for several cores.
WIRES = {
    "shared memory": {},
    "MPI": {"TF_ADASUM_SHARED_MEMORY": "0"},
    "hosts": {"TF_ADASUM_HOST": f"host{MPI.COMM_WORLD.rank // 2}"},
    "cores": {"TF_ADASUM_CORES": "32"},
}

MOST = 2**16
# Vectors of up to 4 KiB are swapped whole; tiles, steps and slices end at powers of two, vectors of
# the arithmetic at multiples of 8.
SIZES = [*range(1, 65)] + [2**k + i for k in range(7, 17) for i in (-9, -1, 0, 1, 9)]
SIZES = [size for size in SIZES if size <= MOST]
if os.environ.get("TEST_EVERY_SIZE_OVER"):
    # Each dtype once: it takes minutes.
    SIZES = range(1, MOST + 1)
    WIRES = {wire: WIRES[wire] for wire in [os.environ["TEST_EVERY_SIZE_OVER"]]}
    CASES = [("adasum", dtype, "random") for dtype in FLOATS]
    CASES += [("sum", dtype, "random") for dtype in ("int32", "int64", "bool")]
elif MPI.COMM_WORLD.size not in (2, 3, 4):
    SIZES = SIZES[::8]


@pytest.fixture
def narrow(monkeypatch):
    """Odd ranks have the baseline only."""
    if adasum.rank() % 2:
        monkeypatch.setenv("TF_ADASUM_INSTRUCTION_SET", "baseline")


@pytest.fixture(params=WIRES)
def unlike(request, narrow, monkeypatch):
    """All ranks, of unlike CPUs."""
    for name, value in WIRES[request.param].items():
        monkeypatch.setenv(name, value)
    part = adasum.world().split(0)
    yield part
    part.close()


def _vectors(dtype, kind):
    """All ranks' longest vectors."""
    size = adasum.size()
    rng = np.random.default_rng(size)
    if dtype == "bool":
        return rng.random((size, MOST)) < 0.7
    if dtype.startswith("int"):
        return rng.integers(-1000, 1000, (size, MOST)).astype(dtype)
    vectors = rng.normal(size=(size, MOST))
    if kind == "cancelling":
        vectors = vectors[0] * (-1.0) ** np.arange(size)[:, None] + 1e-3 * vectors
    return vectors.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def _assert_alike(checksums, sizes):
    of_ranks = MPI.COMM_WORLD.allgather(checksums)
    unlike = [
        size
        for size, sums in zip(sizes, zip(*of_ranks, strict=True), strict=True)
        if len(set(sums)) > 1
    ]
    assert unlike == [], f"unlike bits at {len(unlike)} of {len(sizes)} sizes"


@pytest.mark.parametrize(("reduction", "dtype", "kind"), CASES)
def test_equal_bits_at_every_size(unlike, reduction, dtype, kind):
    mine = _vectors(dtype, kind)[adasum.rank()]
    checksums, memory = [], np.empty_like(mine)
    for size in SIZES:
        result = memory[:size]
        result[:] = mine[:size]
        adasum.allreduce_arrays(result, reduction, unlike)
        checksums.append(zlib.crc32(result.view(np.uint8)))
    _assert_alike(checksums, SIZES)


@pytest.mark.parametrize("local", ["adasum", "sum", "mean"])
def test_equal_bits_with_replicas_and_local_reductions(unlike, local):
    for dtype in FLOATS:
        vectors = _vectors(dtype, "random")
        for size in (1, 13, 1000, 30_001):
            leaves = [[tf.constant(each[:size])] for each in (vectors[0], vectors[adasum.rank()])]
            for replicas in (1, 2):
                name = f"{dtype} {size} {replicas}"
                (result,) = allreduce_replicas(
                    leaves[-replicas:], "adasum", unlike, name=name, local_reduction=local
                )
                _assert_alike([zlib.crc32(result.numpy().view(np.uint8))], [size])


def test_a_group_uses_what_all_its_ranks_have(narrow):
    world = adasum.world()
    narrowest = world.split(0)
    assert narrowest.instruction_set == ("baseline" if world.size > 1 else world.instruction_set)
    part = narrowest.split(world.rank % 2)
    assert part.instruction_set == native.lib.instruction_set()


def test_groups_agree_anew():
    widest = native.lib.instruction_set()
    assert (
        MPI.COMM_WORLD.allgather(adasum.world().split(0).instruction_set)
        == [widest] * adasum.size()
    )


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("TF_ADASUM_INSTRUCTION_SET", "mmx", "to be baseline, avx2 or avx512. Received: mmx"),
        ("TF_ADASUM_CORES", "none", "to be a positive number. Received: none"),
    ],
)
def test_a_bad_setting_of_one_rank_fails_on_all(monkeypatch, variable, value, message):
    last = adasum.size() - 1
    if adasum.rank() == last:
        monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match=variable) as caught:
        adasum.world().split(adasum.rank() % 2)
    advice = "Set it to that, or unset it."
    assert str(caught.value) == f"rank {last}: Expected {variable} {message}. {advice}"
    # Nothing is lost.
    adasum.allreduce_arrays(np.ones(3), "sum")
    monkeypatch.undo()
    assert adasum.world().split(0).size == adasum.size()
