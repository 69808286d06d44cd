"""The kernels of unlike CPUs agree: each instruction set, in a process of its own."""

import json
import sys

import numpy as np
import pytest

from tests import programs
from tests.contract import error_model
from tests.contract.compression_test import check, q_of
from tests.reference import adasum, compressed
from tf_adasum.collectives import native

LIMIT_SECONDS = 120
# From the narrowest to the widest; a CPU that lacks one falls back to the next narrower one.
SETS = ["baseline", "avx2", "avx512"]
RANKS, SIZE = 5, 777


def _inputs(dtype):
    rng = np.random.default_rng(9)
    return [rng.normal(size=SIZE).astype(dtype) for _ in range(RANKS)]


PROGRAM = """
import json, sys
import numpy as np
from tests.contract import instruction_sets_test as test
from tests.contract.compression_test import CODECS
from tf_adasum.collectives import native
from tf_adasum.collectives.simulate import simulate
results = {
    dtype: simulate([[each] for each in test._inputs(dtype)])[0][0].astype("float64").tolist()
    for dtype in ("float16", "float32", "float64")
}
encoded = {
    name: simulate([[each] for each in test._inputs("float32")], compression=codec)[0][0].tolist()
    for name, codec in CODECS.items()
}
used = native.lib.instruction_set()
print(json.dumps({"used": used, "results": results, "encoded": encoded}))
"""


def _run(instruction_set):
    command = [sys.executable, "-c", PROGRAM]
    return programs.run(command, LIMIT_SECONDS, TF_ADASUM_INSTRUCTION_SET=instruction_set)


@pytest.mark.parametrize("instruction_set", SETS)
def test_agrees_with_the_reference(instruction_set):
    done = _run(instruction_set)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    # What this process chose by itself is the widest there is.
    widest = SETS.index(native.lib.instruction_set())
    assert said["used"] == SETS[min(SETS.index(instruction_set), widest)]
    for dtype, values in said["results"].items():
        result = np.array(values).astype(dtype)
        error_model.check("adasum", result, _inputs(dtype))
    for name, values in said["encoded"].items():
        nothing = [np.zeros(SIZE, np.float32)] * RANKS
        expected, _, _ = compressed.allreduce(
            _inputs("float32"), adasum.reduce, q_of(name), nothing, nothing
        )
        check(name, np.array(values), expected)


@pytest.mark.long
def test_unknown_set_is_refused():
    done = _run("mmx")
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert "TF_ADASUM_INSTRUCTION_SET" in last
    assert last.endswith("Received: mmx. Set it to that, or unset it.")
