"""Times allreduces between hosts over a wire of a known rate, against MPI's own and its floor.

    .venv/bin/python -m benchmarks.hosts --hosts=2 --ranks_per_host=2 --json=hosts.json

The hosts are network namespaces of this machine, and each end of the wire sends through a token
bucket of --megabits. Needs root. Columns: median and quartiles over the repetitions (each the
time of the slowest rank), ratio to MPI's Allreduce(SUM) of one flat buffer in the same run, and
to the floor: the 2 (h - 1) / h * bytes that a host of h must send, at the wire's rate; and what
rank 0's host sent in one call, with the headers of all packets.

    .venv/bin/python -m benchmarks.hosts --run="benchmarks.step --network=transformer --turns=3"

runs another module on all ranks there.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from absl import app, flags
from tabulate import tabulate

from benchmarks.hosts.namespaces import Hosts

FLAGS = flags.FLAGS
flags.DEFINE_integer("hosts", 2, "Number of hosts.", lower_bound=2)
flags.DEFINE_integer("ranks_per_host", 1, "Ranks on each.", lower_bound=1)
flags.DEFINE_integer("megabits", 1000, "Rate of each host's end of the wire, Mbit/s.")
flags.DEFINE_integer("repetitions", 7, "Repetitions of each.", lower_bound=1)
flags.DEFINE_list(
    "case",
    ["1024", "65536", "1048576", "resnet50", "bert-base"],
    "Gradient lists, and float32 elements of single tensors.",
)
flags.DEFINE_list(
    "codec",
    [],
    "Codecs by which Adasum is timed, too: identity, float16, bfloat16, sign, top_k and threshold "
    "(1 %), quantized (4 bits), sketch (1 %, of 4 %).",
)
flags.DEFINE_string("run", None, "A module, and its arguments, to run in place of allreduces.")
flags.DEFINE_string("json", None, "Where all figures are written.")

_LIMIT_SECONDS = 1800
_ROOT = Path(__file__).resolve().parents[2]


def main(_) -> None:
    """Starts the ranks on the hosts and prints a Markdown table."""
    if os.geteuid() != 0:
        sys.exit(
            "benchmarks.hosts: expected root, which makes hosts of namespaces. Run it by sudo."
        )
    with tempfile.TemporaryDirectory() as folder:
        if FLAGS.run:
            _run_on_hosts(Path(folder), shlex.split(FLAGS.run))
            return
        measured = _measure(Path(folder))
    measured["megabits"] = FLAGS.megabits
    print(f"{measured['hosts']} hosts, {measured['ranks']} ranks, {FLAGS.megabits} Mbit/s\n")
    headers = ("case", "method", "median ms", "quartiles ms", "/ MPI", "/ floor", "MB sent")
    cells = [each for row in measured["rows"] for each in _cells(row, measured["hosts"])]
    alignment = ("left", "left", *["right"] * 5)
    print(tabulate(cells, headers, "pipe", disable_numparse=True, colalign=alignment))
    if FLAGS.json:
        Path(FLAGS.json).write_text(json.dumps(measured, indent=1))


def _measure(folder: Path) -> dict:
    results = folder / "results.json"
    codecs = ",".join(FLAGS.codec)
    arguments = [str(results), str(FLAGS.repetitions), codecs, *FLAGS.case]
    _run_on_hosts(folder, ["benchmarks.hosts.program", *arguments])
    return json.loads(results.read_text())


def _run_on_hosts(folder: Path, module: list[str]) -> None:
    with Hosts(folder, FLAGS.hosts, f"{FLAGS.megabits}mbit") as network:
        places = ",".join(f"{host.name}:{FLAGS.ranks_per_host}" for host in network.hosts)
        command = network.hosts[0].command(
            *(sys.executable, "-m", "adasumrun", f"--timeout={_LIMIT_SECONDS}"),
            *("-np", str(FLAGS.hosts * FLAGS.ranks_per_host), "-H", places),
            *("--mpi-args", f"--prtemca plm_ssh_agent {network.agent}"),
            *(sys.executable, "-m", *module),
        )
        paths = [str(_ROOT), os.environ.get("PYTHONPATH", "")]
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, paths)))
        if subprocess.run(command, env=environment, check=False).returncode != 0:
            sys.exit("benchmarks.hosts: the ranks failed; what they said stands above.")


def _cells(row: dict, num_hosts: int) -> list[list[str]]:
    floor = 2 * (num_hosts - 1) / num_hosts * row["bytes"] * 8 / (FLAGS.megabits * 1e6)
    mpi = np.median(row["seconds"]["MPI"])
    rows = []
    for method, seconds in row["seconds"].items():
        low, median, high = np.percentile(seconds, [25, 50, 75])
        cells = [row["case"], method, f"{median * 1e3:.1f}"]
        cells += [f"{low * 1e3:.1f} .. {high * 1e3:.1f}", f"{median / mpi:.2f}"]
        cells += [f"{median / floor:.2f}", f"{row['sent'][method] / 1e6:.2f}"]
        rows.append(cells)
    return rows


if __name__ == "__main__":
    app.run(main)
