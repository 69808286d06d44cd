"""Ranks that load their data into one empty cache at once find whole files."""

from __future__ import annotations

import functools
import http.server
import io
import os
import tarfile
import tempfile
import threading

import keras
import pytest

from tests.training.replicas import barrier, shared_path
from tf_adasum.collectives.communicator import world

LAST = world().size - 1
CONTENT = bytes(range(256)) * 4096


class _InHalves(http.server.SimpleHTTPRequestHandler):
    """Lets others act in the midst of a download."""

    in_midst = staticmethod(lambda: None)

    def copyfile(self, source, outputfile):
        content = source.read()
        outputfile.write(content[: len(content) // 2])
        outputfile.flush()
        _InHalves.in_midst()
        outputfile.write(content[len(content) // 2 :])

    def log_message(self, format, *args):
        pass


@pytest.fixture(name="origin")
def _serve(tmp_path):
    """The address of a file of this rank's own server."""
    (tmp_path / "numbers.bin").write_bytes(CONTENT)
    with tarfile.open(tmp_path / "numbers.tar", "w") as archive:
        for name in ("numbers/a.bin", "numbers/b/c.bin"):
            member = tarfile.TarInfo(name)
            member.size = len(CONTENT)
            archive.addfile(member, io.BytesIO(CONTENT))
    handler = functools.partial(_InHalves, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_download_is_not_seen_before_it_is_whole(origin, monkeypatch):
    cache = os.path.dirname(shared_path("cache"))
    get = functools.partial(keras.utils.get_file, origin=f"{origin}/numbers.bin", cache_dir=cache)
    begun, loaded = threading.Event(), threading.Event()

    def others_load():
        begun.set()
        loaded.wait(60)

    if world().rank == LAST:
        monkeypatch.setattr(_InHalves, "in_midst", others_load)
        download = threading.Thread(target=get)
        download.start()
        assert begun.wait(60)
    barrier()  # the last rank is in the midst of its download
    if world().rank != LAST or world().size == 1:
        monkeypatch.setattr(_InHalves, "in_midst", lambda: None)
        _assert_whole(get())
    barrier()
    if world().rank == LAST:
        loaded.set()
        download.join()
    barrier()
    _assert_whole(get())
    assert os.listdir(os.path.join(cache, "datasets")) == ["numbers.bin"]


def test_a_file_that_is_unpacked_again_is_whole_all_the_while(origin):
    cache = os.path.dirname(shared_path("cache"))
    get = functools.partial(
        keras.utils.get_file, "numbers", f"{origin}/numbers.tar", extract=True, cache_dir=cache
    )
    paths = [os.path.join(get(), "numbers", name) for name in ("a.bin", os.path.join("b", "c.bin"))]
    with open(paths[0], "rb") as first:
        barrier()
        assert get() == os.path.join(cache, "datasets", "numbers")
        barrier()
        assert first.read() == CONTENT
    for path in paths:
        _assert_whole(path)
    barrier()
    assert sorted(os.listdir(os.path.join(cache, "datasets"))) == ["numbers", "numbers_archive"]


def test_links_to_another_file_system_go_on_being_links(origin, tmp_path):
    """As of a cache whose large folders lie on a scratch disk."""
    datasets = tmp_path / "cache" / "datasets"
    datasets.mkdir(parents=True)
    get = functools.partial(keras.utils.get_file, cache_dir=datasets.parent)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as far:
        for name in ("numbers", "numbers.bin"):
            (datasets / name).symlink_to(os.path.join(far, name))
        os.mkdir(os.path.join(far, "numbers"))
        get("numbers", f"{origin}/numbers.tar", extract=True)
        get("numbers.bin", f"{origin}/numbers.bin")
        _assert_whole(os.path.join(far, "numbers", "numbers", "a.bin"))
        _assert_whole(os.path.join(far, "numbers.bin"))
        assert sorted(os.listdir(far)) == ["numbers", "numbers.bin"]


def test_a_name_as_long_as_names_can_be(origin, tmp_path):
    _assert_whole(keras.utils.get_file("n" * 255, f"{origin}/numbers.bin", cache_dir=tmp_path))


def _assert_whole(path):
    with open(path, "rb") as file:
        assert file.read() == CONTENT
