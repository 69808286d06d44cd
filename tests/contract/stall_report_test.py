"""What ranks tell each other of a stall fits into a message, however many they are."""

import json

import pytest

from tf_adasum.collectives import stall_report
from tf_adasum.collectives.mailbox import MOST_BYTES


@pytest.mark.parametrize(
    "ranks", [[0], [7], range(5), range(1, 12_000, 2), [0, 11_999], range(12_000)]
)
def test_ranks_are_packed_and_unpacked(ranks):
    packed = stall_report.packed(ranks)
    assert stall_report.unpacked(packed) == list(ranks)
    assert len(json.dumps({"call": (0, 1), "ranks": packed})) <= MOST_BYTES


@pytest.mark.parametrize("letter", ["a", "é", "梯", "🎢", "\ud800"])
def test_an_answer_fits(letter):
    given = stall_report.answer([letter * 4000] * 9, 1.5)
    message = json.dumps({"here": (0, 1), "answer": given}, ensure_ascii=False).encode()
    assert len(message) <= MOST_BYTES
    assert len(given.operations) > 1


def test_a_text_is_cut_between_letters():
    assert stall_report.cut("aé梯", 6) == "aé梯"
    assert stall_report.cut("aé梯", 5) == "aé"
