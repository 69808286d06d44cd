"""Times what TCP alone takes for an allreduce's bytes: the floor of two cores that are all hosts.

    .venv/bin/python -m benchmarks.hosts.plain_sockets --hosts=2 --megabits=10000

One process a host and one connection for each two of them. At level d the host r swaps its half of
what is left with r ^ d, and on the way back the same again, as recursive halving does; no value is
looked at. Needs root, as benchmarks.hosts does. Prints the median and quartiles over repetitions.
"""

import selectors
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from absl import app, flags

from benchmarks.hosts.namespaces import Hosts

FLAGS = flags.FLAGS
flags.DEFINE_integer("hosts", 2, "Number of hosts, a power of two.", lower_bound=2)
flags.DEFINE_integer("megabits", 10000, "Rate of each host's end of the wire, Mbit/s.")
flags.DEFINE_integer("bytes", 102228128, "Bytes of the vector; as given, ResNet-50's.")
flags.DEFINE_integer("part", 1 << 20, "Bytes that send is handed at a time, at most.")
flags.DEFINE_integer("repetitions", 11, "Repetitions, after an untimed one.", lower_bound=1)
flags.DEFINE_integer("host", -1, "Internal: which host this process is.")

_PORT = 7000
_LIMIT_SECONDS = 120


def main(_) -> None:
    """Starts a process on each host, or is one of them."""
    if FLAGS.hosts & (FLAGS.hosts - 1):
        sys.exit(
            f"plain_sockets: expected --hosts to be a power of two. Received: {FLAGS.hosts}. "
            "Pass 2, 4 or 8."
        )
    if FLAGS.host >= 0:
        return _be_host(FLAGS.host)
    with (
        tempfile.TemporaryDirectory() as folder,
        Hosts(Path(folder), FLAGS.hosts, f"{FLAGS.megabits}mbit") as network,
    ):
        command = [sys.executable, "-m", "benchmarks.hosts.plain_sockets", *sys.argv[1:]]
        hosts = [
            subprocess.Popen(host.command(*command, f"--host={number}"))
            for number, host in enumerate(network.hosts)
        ]
        codes = [host.wait(_LIMIT_SECONDS) for host in hosts]
    if any(codes):
        sys.exit("plain_sockets: a host failed; what it said stands above.")


def _be_host(own: int) -> None:
    peers = _connect(own)
    given = memoryview(bytearray(b"\1") * FLAGS.bytes)
    received = memoryview(bytearray(b"\2") * FLAGS.bytes)
    seconds = []
    for _ in range(FLAGS.repetitions + 1):
        for peer in peers.values():
            _swap(peer, given[:1], received[:1])
        begin = time.perf_counter()
        for peer, size in _levels(own):
            _swap(peers[peer], given[:size], received[:size])
        seconds.append(time.perf_counter() - begin)
    low, median, high = np.percentile(seconds[1:], [25, 50, 75]) * 1e3
    print(f"host {own}: {median:.1f} ms ({low:.1f} .. {high:.1f})", flush=True)


def _levels(own: int) -> list[tuple[int, int]]:
    """Each peer, and how many bytes are swapped with it, there and back again."""
    num_levels = FLAGS.hosts.bit_length() - 1
    down = [(own ^ 1 << level, FLAGS.bytes >> level + 1) for level in range(num_levels)]
    return down + down[::-1]


def _connect(own: int) -> dict[int, socket.socket]:
    """Connects to the hosts before this one, and awaits those behind it."""
    peers = {}
    with socket.create_server(("", _PORT)) as server:
        server.settimeout(_LIMIT_SECONDS)
        for peer in range(own):
            peers[peer] = _reach(f"10.213.7.{peer + 1}")
            peers[peer].sendall(bytes([own]))
        while len(peers) < FLAGS.hosts - 1:
            connection, _ = server.accept()
            peers[connection.recv(1)[0]] = connection
    for connection in peers.values():
        connection.setblocking(False)
    return peers


def _reach(address: str) -> socket.socket:
    deadline = time.monotonic() + _LIMIT_SECONDS
    while True:
        try:
            return socket.create_connection((address, _PORT), _LIMIT_SECONDS)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _swap(peer: socket.socket, given: memoryview, received: memoryview) -> None:
    """Sends and receives at the same time."""
    both = selectors.EVENT_READ | selectors.EVENT_WRITE
    with selectors.DefaultSelector() as selector:
        selector.register(peer, both)
        while given or received:
            ready = selector.select(_LIMIT_SECONDS)
            if not ready:
                raise TimeoutError(f"Expected a peer's bytes within {_LIMIT_SECONDS} s.")
            _, events = ready[0]
            if events & selectors.EVENT_WRITE:
                given = given[peer.send(given[: FLAGS.part]) :]
                if not given:
                    selector.modify(peer, selectors.EVENT_READ)
            if events & selectors.EVENT_READ:
                count = peer.recv_into(received)
                if count == 0:
                    raise ConnectionError("Expected a peer's bytes. Received: its end.")
                received = received[count:]


if __name__ == "__main__":
    app.run(main)
