"""What every rank runs on two hosts: one exchange for each local reduction, then a line of JSON."""

import hashlib
import json
import socket
import sys

import numpy as np
import tensorflow as tf

import tf_adasum as adasum
from tests.contract import error_model

# Equal halves of 16 MiB, so that the ranks of a host have the same to do, and some crumbs.
SHAPES = [(2**21,), (3,), (0,), (17, 5), (2**21,)]
LOCAL_REDUCTIONS = ["adasum", "sum", "mean"]


def inputs(leaves):
    """Returns what each rank reduces: every rank can draw what all the others have."""
    rng = np.random.default_rng(leaves)
    return [[rng.normal(size=s).astype("float32") for s in SHAPES] for _ in range(leaves)]


def shared_files():
    """Returns how many ranks' shared files this process has mapped, its own included."""
    with open("/proc/self/maps") as maps:
        found = {line.split()[4] for line in maps if "/memfd:tf_adasum" in line}
    return len(found)


def main() -> None:
    """Reduces, compares with the reference and says what it saw."""
    world = adasum.world()
    of_ranks = inputs(world.size)
    digests = {}
    for local in LOCAL_REDUCTIONS:
        mine = [tf.constant(array) for array in of_ranks[world.rank]]
        results = [t.numpy() for t in adasum.allreduce(mine, local_reduction=local)]
        for variable, result in enumerate(results):
            of_hosts = [[of_ranks[rank][variable] for rank in ranks] for ranks in world.hosts]
            error_model.check_hosts(local, result, of_hosts)
        digests[local] = hashlib.sha256(b"".join(r.tobytes() for r in results)).hexdigest()
    seen = {
        "rank": world.rank,
        "host": socket.gethostname(),
        "hosts": world.hosts,
        "shared_files": shared_files(),
        "digests": digests,
    }
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main()
