"""Cores that a container pays for, from files as Linux writes them."""

import math
import os

import pytest

from adasumrun import control_groups, hosts


def _write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def test_nobody_says_anything(tmp_path):
    assert control_groups.cpu_limit(tmp_path) == math.inf


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"jobs/mine/cpu.max": "max 100000"}, math.inf),
        ({"jobs/mine/cpu.max": "250000 100000"}, 2.5),
        ({"jobs/mine/cpu.max": "max 100000", "jobs/cpu.max": "300000 100000"}, 3),
        ({"jobs/mine/cpu.max": "400000 100000", "cpu.max": "50000 50000"}, 1),
        ({"jobs/mine/cpu.max": "nonsense", "others/cpu.max": "100000 100000"}, math.inf),
    ],
)
def test_version_2(tmp_path, files, cores):
    _write(tmp_path / "proc/self/cgroup", "0::/jobs/mine")
    for name, text in files.items():
        _write(tmp_path / "sys/fs/cgroup" / name, text)
    assert control_groups.cpu_limit(tmp_path) == cores


@pytest.mark.parametrize("name", [b"caf\xe9", "сеть".encode(), b"a\x0cb"])
def test_groups_with_names_of_any_bytes(tmp_path, name):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_bytes(b"0::/" + name + b"\n")
    _write(tmp_path / "sys/fs/cgroup" / os.fsdecode(name) / "cpu.max", "250000 100000")
    assert control_groups.cpu_limit(tmp_path) == 2.5


@pytest.mark.parametrize(("quota", "cores"), [("-1", math.inf), ("150000", 1.5)])
def test_version_1(tmp_path, quota, cores):
    _write(tmp_path / "proc/self/cgroup", "6:cpuset:/other\n5:cpuacct,cpu:/jobs\n4:memory:/mine")
    folder = tmp_path / "sys/fs/cgroup/cpu/jobs"
    _write(folder / "cpu.cfs_quota_us", quota)
    _write(folder / "cpu.cfs_period_us", "100000")
    assert control_groups.cpu_limit(tmp_path) == cores


@pytest.mark.parametrize(("limit", "cores"), [(0.2, 1), (1.0, 1), (1e9, None), (math.inf, None)])
def test_a_rank_has_a_core_at_least(monkeypatch, limit, cores):
    monkeypatch.setattr(control_groups, "cpu_limit", lambda: limit)
    assert hosts.available_cores() == (cores or len(os.sched_getaffinity(0)))
