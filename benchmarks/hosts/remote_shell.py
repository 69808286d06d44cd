"""What ssh is to mpirun, between hosts of one machine: a server that runs commands, its client.

    remote_shell.py serve PORT
    remote_shell.py run HOST=ADDRESS,... PORT HOST COMMAND...

As with sshd, a command is a child of the server, knows nothing of the client's environment and goes
on if the client ends. Its exit code is not passed on. It takes orders from everybody who reaches
the port: for a private network only.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_CHUNK_BYTES = 65536
_CONNECT_SECONDS = 10


def serve(port: int) -> None:
    """Runs what each connection sends up to its half-close; output goes back. Never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps
    with socket.create_server(("", port)) as server:
        while True:
            connection, _ = server.accept()
            with connection:
                command = b"".join(iter(lambda: connection.recv(_CHUNK_BYTES), b""))  # noqa: B023
                subprocess.Popen(
                    ["/bin/sh", "-c", command],
                    env={**_ENVIRONMENT, "HOME": os.environ.get("HOME", "/")},
                    stdin=subprocess.DEVNULL,
                    stdout=connection,
                    stderr=connection,
                    start_new_session=True,
                )


def run(address: str, port: int, words: list[str]) -> None:
    """Sends a command, as ssh joins it from its words, and copies its output until it ends."""
    with socket.create_connection((address, port), timeout=_CONNECT_SECONDS) as connection:
        connection.settimeout(None)
        connection.sendall(" ".join(words).encode())
        connection.shutdown(socket.SHUT_WR)
        while chunk := connection.recv(_CHUNK_BYTES):
            os.write(sys.stdout.fileno(), chunk)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        addresses = dict(pair.split("=") for pair in sys.argv[2].split(","))
        run(addresses[sys.argv[4]], int(sys.argv[3]), sys.argv[5:])
