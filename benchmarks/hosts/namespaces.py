"""Hosts on one machine: a network namespace and a host name each, and cables to a switch.

A host lives as long as the process that holds its namespaces. They have no names, so that nothing
is left behind, however this process ends. Needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN) and the
programs of Debian's iproute2 and util-linux.
"""

from __future__ import annotations

import ctypes
import json
import os
import shlex
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

LIMIT_SECONDS = 20
_PORT = 2222
_PR_SET_PDEATHSIG = 1
_REMOTE_SHELL = Path(__file__).parent / "remote_shell.py"


class Host:
    """A host, with a server that runs commands on it, as sshd does.

    Args:
      name: the host's name.
      address: its IPv4 address on the cable.
    """

    def __init__(self, name: str, address: str):
        self.name = name
        self.address = address
        serve = f"hostname {name} && exec {sys.executable} {_REMOTE_SHELL} serve {_PORT}"
        self._holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "sh", "-c", serve],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 (no threads here)
        )

    @property
    def pid(self) -> int:
        """The process whose namespaces the host is."""
        return self._holder.pid

    def command(self, *words: str) -> list[str]:
        """Returns a command line that runs `words` on this host."""
        return ["nsenter", f"--target={self.pid}", "--net", "--uts", "--", *words]

    def await_name(self) -> None:
        """Waits until the host answers to its name, and so has namespaces of its own."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while _run(self.command("hostname")).strip() != self.name:
            if self._holder.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    "Expected to make a network and a UTS namespace with unshare, which takes root "
                    f"with CAP_SYS_ADMIN and CAP_NET_ADMIN. Received: it failed as uid "
                    f"{os.geteuid()}. Run it as root, in a container with --privileged."
                )
            time.sleep(0.02)

    def connect(self) -> None:
        """Gives the host its address; its end of the cable must be there."""
        _run(self.command("ip", "link", "set", "lo", "up"))
        _run(self.command("ip", "address", "add", f"{self.address}/24", "dev", "eth0"))
        _run(self.command("ip", "link", "set", "eth0", "up"))

    def limit(self, rate: str) -> None:
        """Lets eth0 send no faster than `rate`, by a token bucket."""
        bucket = f"tc qdisc add dev eth0 root tbf rate {rate} burst 256k latency 50ms"
        _run(self.command(*bucket.split()))

    def cut(self) -> None:
        """Takes the cable out."""
        _run(self.command("ip", "link", "set", "eth0", "down"))

    def sent_bytes(self, device: str) -> int:
        """Returns how many bytes have left through `device`: eth0, the cable, or lo."""
        said = _run(self.command("ip", "-json", "-statistics", "link", "show", "dev", device))
        return json.loads(said)[0]["stats64"]["tx"]["bytes"]

    def close(self) -> None:
        """Ends the host's server; the host is gone with the last of its processes."""
        self._holder.kill()
        self._holder.wait(LIMIT_SECONDS)


class Hosts:
    """A context in which `hosts` are connected and `agent` takes mpirun from one to the others.

    Args:
      folder: where the agent's script is written.
      number: how many hosts.
      rate: what each host may send, as tc takes it ("1gbit"); None for what the machine can do.
    """

    def __init__(self, folder: Path, number: int = 2, rate: str | None = None):
        self.agent = folder / "agent"
        self.hosts: list[Host] = []
        self._number = number
        self._rate = rate
        self._switch: Host | None = None

    def __enter__(self) -> Hosts:
        try:
            self._switch = Host("adasumswitch", "")
            for number in range(1, self._number + 1):
                self.hosts.append(Host(f"adasum{number}", f"10.213.7.{number}"))
            for host in (self._switch, *self.hosts):
                host.await_name()
            self._connect()
            self._write_agent()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _connect(self) -> None:
        """A cable from each host to a switch."""
        assert self._switch is not None
        switch = self._switch
        _run(switch.command(*"ip link add switch type bridge".split()))
        _run(switch.command(*"ip link set switch up".split()))
        for number, host in enumerate(self.hosts, 1):
            ends = f"eth0 netns {host.pid} type veth peer name port{number} netns {switch.pid}"
            _run(f"ip link add {ends}".split())
            _run(switch.command(*f"ip link set port{number} master switch up".split()))
            host.connect()
            if self._rate:
                host.limit(self._rate)

    def _write_agent(self) -> None:
        addresses = ",".join(f"{host.name}={host.address}" for host in self.hosts)
        shell = shlex.join([sys.executable, str(_REMOTE_SHELL), "run", addresses, str(_PORT)])
        self.agent.write_text(f'#!/bin/sh\nexec {shell} "$@"\n')
        self.agent.chmod(stat.S_IRWXU)

    def __exit__(self, *exception: object) -> None:
        for host in self.hosts:
            host.close()
        if self._switch is not None:
            self._switch.close()


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
        )
    except FileNotFoundError as error:
        raise RuntimeError(
            f"Expected the program {command[0]}. Received: none on PATH. Install it: "
            "apt-get install iproute2 util-linux"
        ) from error
    if done.returncode != 0 and "hostname" not in command:
        raise RuntimeError(f"Expected {shlex.join(command)} to succeed. Received: {done.stderr}")
    return done.stdout
