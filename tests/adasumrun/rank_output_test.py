"""Noise goes, everything else comes at once and unchanged, however the bytes are cut."""

import os

import pytest

from adasumrun import rank_output
from adasumrun.rank_output import NoiseFilter, copy, start_filter

NOTICE = b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
INFO = b"I0000 00:00:1795246689.1 9 port.cc:153] oneDNN custom operations are on.\n"
TEXT = b"Traceback:\nI0000\nWARNING: mine\n 3%\r 4%\r\nInteresting I0000 00:00:1\n"


def _filtered(*chunks):
    kept = []
    noise_filter = NoiseFilter(kept.append)
    for chunk in chunks:
        noise_filter.feed(chunk)
    noise_filter.close()
    return b"".join(kept)


def test_noise_is_dropped():
    assert _filtered(NOTICE + INFO + NOTICE + INFO) == b""


def test_text_is_kept():
    assert _filtered(TEXT) == TEXT


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
def test_cuts_do_not_matter(size):
    stream = TEXT + NOTICE + TEXT + INFO + INFO + b"end"
    chunks = [stream[i : i + size] for i in range(0, len(stream), size)]
    assert _filtered(*chunks) == TEXT + TEXT + b"end"


def test_unfinished_line_is_passed_on_at_once():
    kept = []
    noise_filter = NoiseFilter(kept.append)
    noise_filter.feed(b"epoch 1")
    assert kept == [b"epoch 1"]
    noise_filter.feed(b"I0000 00:00: is part of that line\n")
    assert b"".join(kept) == b"epoch 1I0000 00:00: is part of that line\n"


@pytest.mark.parametrize("end", [b"", b"W", b"WARNING", b"I0000 00"])
def test_unfinished_end_is_kept(end):
    assert _filtered(b"a\n", end) == b"a\n" + end


def test_process_copies_a_pipe_and_ends_with_it():
    taken, given = os.pipe()
    process, into, notices = start_filter(given)
    os.close(given)
    os.write(into, TEXT + INFO)
    os.close(into)
    with os.fdopen(taken, "rb") as kept:
        assert kept.read() == TEXT
    assert os.waitpid(process, 0) == (process, 0)
    assert os.read(notices, 1) == b""
    os.close(notices)


def test_reads_on_when_nobody_takes_the_output():
    taken, given = os.pipe()
    os.close(taken)
    out, into = os.pipe()
    os.write(into, TEXT)
    os.close(into)
    copy(out, given, given)
    assert os.read(out, 1) == b""
    os.close(out)
    os.close(given)


def test_waits_for_a_reader_where_writers_may_not(monkeypatch):
    """A program that has the same terminal or pipe may have set it so."""
    taken, given = os.pipe()
    write, turns = os.write, iter([True, False, True, False])

    def write_or_not(descriptor, text):
        if next(turns):
            raise BlockingIOError
        return write(descriptor, text[:5])

    monkeypatch.setattr(rank_output.os, "write", write_or_not)
    rank_output._write_all(given, b"all of it")
    os.close(given)
    assert os.read(taken, 100) == b"all of it"
    os.close(taken)


@pytest.mark.parametrize("drops_noise", [False, True])
def test_open_mpi_s_nul_is_left_out(drops_noise):
    taken, given = os.pipe()
    out, into = os.pipe()
    os.write(into, b"an abort\n\0" + TEXT)
    os.close(into)
    copy(out, given, given, drops_noise)
    assert os.read(taken, 1000) == b"an abort\n" + TEXT
    for descriptor in (out, taken, given):
        os.close(descriptor)
