"""The times that the model of cost predicts: by hand, and what must hold of any of them."""

import dataclasses
import itertools

import numpy as np
import pytest

from benchmarks.scale import report
from benchmarks.scale.cases import sizes_of
from tf_adasum.advise import machine
from tf_adasum.advise.cost import Model
from tf_adasum.advise.machine import Cluster, Constants, Passes

FREE = Passes(*[0.0] * 6)
# Nothing takes time but a round of 1 us on a host, of 100 us between hosts, and 1 byte a ns there.
WIRE = Constants(
    machine="none",
    when="never",
    call_us=0,
    round_us=1,
    shared_round_us=1,
    shared_loss=1,
    network_round_us=100,
    network_gbit_s=8,
    cache_bytes=32 << 20,
    hot=FREE,
    cached=FREE,
    long=FREE,
)
COPIES = dataclasses.replace(WIRE, hot=Passes(1, 2, 0, 3, 5, 7), cache_bytes=1 << 40)
MEASURED = machine.load()
METHODS = ["flat", "hierarchical", "ring"]


def test_two_hosts_by_hand():
    """A round of the negotiation, half a vector, 24 bytes of moments, and half a vector back."""
    num_bytes = 4 << 20
    expected = 4 * 100e-6 + (num_bytes + 24) / 1e9
    assert Model(Cluster(2, 1, 1), WIRE).flat([1 << 20]).seconds == pytest.approx(expected)


def test_two_ranks_of_a_host_by_hand():
    """Of 1 MiB: two chunks are offered, products swapped, two results fetched; then all passes.

    Packed half, moments of all, combined all, delivered half: (1 / 2 + 2 + 5 + 7 / 2) ns a byte.
    """
    expected = 1e-6 * (1 + 2 + 1 + 2) + (1 << 20) * 11e-9
    assert Model(Cluster(1, 2, 2), COPIES).flat([1 << 18]).seconds == pytest.approx(expected)
    shared = dataclasses.replace(COPIES, shared_loss=1.5)
    expected = 2 * 1e-6 * 6 + 2 * 1.5 * (1 << 20) * 11e-9
    assert Model(Cluster(1, 2, 1), shared).flat([1 << 18]).seconds == pytest.approx(expected)


def test_ring_of_four_hosts_by_hand():
    """Six steps of a quarter."""
    expected = 6 * (100e-6 + (1 << 20) / 1e9)
    ring = Model(Cluster(4, 1, 1), WIRE).ring([1 << 20])
    assert ring.seconds == pytest.approx(expected)
    assert ring.sent_bytes.tolist() == [6 << 20] * 4


def test_hosts_share_their_link():
    """Two ranks a host: each sends a quarter there and back, through the one link."""
    expected = (4 << 20) / 1e9
    seconds = Model(Cluster(2, 2, 2), WIRE).flat([1 << 20]).seconds
    assert expected < seconds < expected + 1.5e-3


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "size", [(1, 2), (1, 8), (2, 1), (3, 1), (4, 2), (16, 8), (33, 1)], ids=str
)
def test_more_bytes_take_longer(size, method):
    model = Model(Cluster(*size, 2), MEASURED)
    counts = 4 ** np.arange(6, 13)  # beyond what is swapped whole
    predictions = [getattr(model, method)([elements]) for elements in counts]
    for less, more in itertools.pairwise(predictions):
        assert less.seconds < more.seconds
        assert (less.sent_bytes < more.sent_bytes).all()


@pytest.mark.parametrize("hosts", [2, 8, 64, 512])
def test_bytes_of_a_list_are_those_of_the_formula(hosts):
    """A host sends what one rank would, 2 (h - 1) / h, within the moments and whole lines."""
    sizes = sizes_of("resnet50")
    num_bytes = 4 * sum(sizes)
    flat = Model(Cluster(hosts, 1, 1), MEASURED).flat(sizes)
    formula = 2 * (hosts - 1) / hosts * num_bytes
    levels = hosts.bit_length() - 1
    moments = 24 * len(sizes) * levels * (levels + 1) / 2
    assert flat.sent_bytes.mean() == pytest.approx(formula + moments, rel=1e-9)


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [(2, [9.06, None, 7.41]), (16, [880, 870, 1612]), (1024, [1775, 1718, 1742])],
)
def test_predictions_are_those_of_the_published_table(ranks, expected):
    """docs/performance.md, "Scale, past this machine", by the constants that are kept."""
    per_host = min(ranks, 8)
    model = Model(Cluster(ranks // per_host, per_host, 8), MEASURED)
    for method, milliseconds in zip(METHODS, expected, strict=True):
        if milliseconds is not None:
            predicted = 1e3 * getattr(model, method)(sizes_of("resnet50")).seconds
            assert predicted == pytest.approx(milliseconds, rel=2e-3)


def test_table_has_a_line_for_each_world():
    row = {"milliseconds": 1, "messages": 2, "sent_bytes": 3, "bytes": 4}
    rows = [{**row, "ranks": ranks, "method": method} for ranks in (2, 4) for method in METHODS]
    lines = report.table(rows).splitlines()
    assert len(lines) == 4
    assert lines[-1].split("|")[1].strip() == "4"
