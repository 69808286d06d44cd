"""A rank that lacks the memory for a call: all ranks are told, and their next call is as ever."""

import re

from tests import programs

LIMIT_SECONDS = 100

PROGRAM = """
import resource
import tensorflow as tf
import tf_adasum as adasum

rank = adasum.rank()

def mean(num_elements):
    codec = adasum.compression.Identity()
    return adasum.allreduce([tf.fill([num_elements], 1.0 + rank)], "mean", compression=codec)[0]

mean(100_000)
large = 50_000_000
tf.fill([large], 1.0)
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
_, most = resource.getrlimit(resource.RLIMIT_AS)
if rank == 1:
    resource.setrlimit(resource.RLIMIT_AS, (size + (500 << 20), most))
try:
    mean(large)
except tf.errors.ResourceExhaustedError as error:
    print("SAID", rank, error.message, flush=True)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
print("MEAN", rank, float(mean(100_000)[0]), flush=True)
"""


def test_an_allreduce_of_encoded_tensors_after_one_that_had_no_memory(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    command = [*programs.ADASUMRUN, "-np", "2", "--timeout", "90", "python", str(path)]
    # The limit counts no memory of the arena's, which is mapped before.
    done = programs.run(command, LIMIT_SECONDS, TF_CPP_MIN_LOG_LEVEL="3", TF_ADASUM_ARENA="0")
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.findall(r"^SAID (\d) (.*)$", done.stdout, re.MULTILINE)
    line = (
        r"rank 1: Expected memory for the encoded tensors of all ranks\. Received: no memory for "
        r"2\d{8} bytes\. Pass fewer encoded tensors at a time\."
    )
    assert sorted(rank for rank, _ in said) == ["0", "1"], done.stdout
    assert all(re.search(line, text) for _, text in said), said
    means = re.findall(r"^MEAN (\d) (.*)$", done.stdout, re.MULTILINE)
    assert sorted(means) == [("0", "1.5"), ("1", "1.5")]
