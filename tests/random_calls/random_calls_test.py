"""Thousands of random calls, valid and invalid, on real ranks: no hang, no crash, clear errors.

hypothesis draws on rank 0, which tells the others what to call; each checks its own result against
NumPy, and rank 0 what all ranks say of a call.
"""

import itertools
import os

# Before the first communicator reads them. Of a rank that hangs the others would complain.
os.environ["TF_ADASUM_MISMATCH_SECONDS"] = "0.1"
os.environ["TF_ADASUM_TIMEOUT_SECONDS"] = "60"

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.random_calls import descriptions
from tests.random_calls.follower import Rank
from tests.random_calls.wire import Wire

NUM_CALLS = int(os.environ.get("RANDOM_CALLS", "300"))
CALLS_OF_AN_EXAMPLE = 40
# allreduce_arrays raises Python's own.
_OF_ARRAYS = {"InvalidArgumentError": "ValueError", "UnavailableError": "RuntimeError"}


class Group:
    """A communicator, as rank 0 knows it.

    Args:
        number: what commands call it.
        members: the ranks of the world that it has, in its order.
    """

    def __init__(self, number: int, members: list[int]):
        self.number = number
        self.members = members

    def __repr__(self) -> str:
        return f"Group({self.number}, {self.members})"


class Driver:
    """Rank 0: sends commands, takes its own part in them, and gathers what came of them."""

    def __init__(self, wire: Wire):
        self._wire = wire
        self._rank = Rank()
        self.world = Group(0, list(range(wire.size)))
        self.counts: dict[str, int] = {}
        self.numbers = itertools.count(1)

    def do(self, what: str, kind: str, group: Group, **command) -> list[dict | None]:
        """Returns what each member's call raised, in the order of the group."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        command |= {"do": what, "communicator": group.number, "members": group.members}
        self._wire.tell(command)
        outcomes = [self._rank.carry_out(command), *self._wire.answers()]
        wrong = {rank: each["wrong"] for rank, each in enumerate(outcomes) if each["wrong"]}
        assert not wrong, wrong
        members = [outcomes[member] for member in group.members]
        assert len({each["checksum"] for each in members}) == 1, members
        return [each["came"] for each in members]


def _check_refused(errors: list, classes: list[str], *texts: str) -> None:
    """Each rank's error: its class, one line, expected and received."""
    for place, (error, wanted) in enumerate(zip(errors, classes, strict=True)):
        assert error is not None, (place, errors)
        assert error["class"] == wanted, (place, error)
        message = error["message"]
        for text in ("Expected ", "Received: ", "rank ", *texts):
            assert text in message, (place, text, message)
        assert "\n" not in message, (place, message)


def _classes(calls: list[dict], kind: str) -> list[str]:
    own = [call["collective"] == "allreduce_arrays" for call in calls]
    return [_OF_ARRAYS[kind] if is_of_arrays else kind for is_of_arrays in own]


class Calls(RuleBasedStateMachine):
    """Calls in the world and in what is split from it."""

    driver: Driver

    def __init__(self):
        super().__init__()
        self._groups = [self.driver.world]

    def _group(self, data, least: int = 1) -> Group:
        """Any of the groups that have so many ranks; the world has."""
        return data.draw(st.sampled_from([g for g in self._groups if len(g.members) >= least]))

    @rule(data=st.data())
    def valid(self, data):
        group = self._group(data)
        call = data.draw(descriptions.valid_calls(len(group.members)))
        errors = self.driver.do("call", "valid", group, call=call)
        assert errors == [None] * len(group.members), errors

    @rule(data=st.data())
    def valid_again(self, data):
        self.valid(data)

    @rule(data=st.data())
    def bad_alike(self, data):
        group = self._group(data)
        size = len(group.members)
        call = data.draw(descriptions.bad_calls(size))
        errors = self.driver.do("refused", "bad", group, calls=[call] * size, leaves=None)
        classes = {error and error["class"] for error in errors}
        assert len(classes) == 1, errors
        _check_refused(errors, list(classes) * size)

    @rule(data=st.data())
    def unlike(self, data):
        group = self._group(data, least=2)
        calls = data.draw(descriptions.unlike_calls(len(group.members)))
        errors = self.driver.do("refused", "unlike", group, calls=calls, leaves=None)
        _check_refused(errors, _classes(calls, "InvalidArgumentError"), " passed ")

    @rule(data=st.data(), is_bad=st.booleans())
    def one_leaves_out_a_call(self, data, is_bad):
        """Or has it refused, goes on, and comes to the next operation."""
        group = self._group(data, least=2)
        size = len(group.members)
        call = data.draw(descriptions.valid_calls(size)) | {"compiled": False}
        calls, leaves = [call] * size, data.draw(st.integers(0, size - 1))
        calls[leaves] = data.draw(descriptions.bad_calls(size)) if is_bad else None
        errors = self.driver.do("refused", "left out", group, calls=calls, leaves=leaves)
        classes = _classes([call] * size, "InvalidArgumentError")
        if is_bad:
            classes[leaves] = errors[leaves] and errors[leaves]["class"]
        else:
            classes[leaves] = "InvalidArgumentError"  # a barrier's
        _check_refused(errors, classes)

    @rule(data=st.data())
    def split(self, data):
        group = self._group(data)
        how = data.draw(descriptions.splits(len(group.members)))
        is_bad = how.pop("is_bad")
        of_color: dict[str, list[int]] = {}
        for place in sorted(range(len(group.members)), key=lambda place: how["keys"][place]):
            if how["colors"][place] is not None:
                of_color.setdefault(str(how["colors"][place]), []).append(group.members[place])
        numbers = {color: next(self.driver.numbers) for color in of_color}
        errors = self.driver.do("split", "split", group, numbers=numbers, groups=of_color, **how)
        if is_bad:
            _check_refused(errors, ["ValueError"] * len(errors))
            return
        assert errors == [None] * len(errors), errors
        self._groups += [Group(numbers[color], of_color[color]) for color in of_color]

    @precondition(lambda self: len(self._groups) > 1)
    @rule(data=st.data())
    def close(self, data):
        group = data.draw(st.sampled_from(self._groups[1:]))
        self._groups.remove(group)
        size = len(group.members)
        call = data.draw(descriptions.valid_calls(size)) | {"compiled": False}
        leaves = data.draw(st.integers(0, size - 1))
        errors = self.driver.do("close", "close", group, call=call, leaves=leaves)
        _check_refused(errors, _classes([call] * size, "UnavailableError"), "closed")

    def teardown(self):
        self.driver.do("reset", "reset", self.driver.world)


def _drive(wire: Wire) -> None:
    machine = type("Calls", (Calls,), {"driver": Driver(wire)})
    counts = machine.driver.counts
    how = settings(
        max_examples=2,
        stateful_step_count=CALLS_OF_AN_EXAMPLE,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # to shrink takes minutes, with a wait in some calls
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    try:
        for number in itertools.count():
            run_state_machine_as_test(seed(number)(machine), settings=how)
            if sum(counts.values()) >= NUM_CALLS:
                break
    finally:
        wire.tell({"do": "end"})
    print(f"{sum(counts.values())} calls: {counts}")
    assert set(counts) >= {"valid", "bad", "unlike", "left out", "split", "close"}


def _follow(wire: Wire) -> None:
    rank = Rank()
    while (command := wire.hear())["do"] != "end":
        wire.answer(rank.carry_out(command))


def test_random_calls():
    wire = Wire()
    if wire.rank == 0:
        _drive(wire)
    else:
        _follow(wire)
