"""The samples that were chosen lately, and their kernel values with this rank's active samples.

SMO chooses few samples again and again. What is remembered of them saves the message with the row
and the two passes over this rank's samples that a column of the kernel matrix costs.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from models.svm.exchange import Exchange
from models.svm.kernels import Kernel
from models.svm.rows import Rows
from models.svm.working_set import Candidate

_VALUE_BYTES = 8
# The two of an iteration.
_LEAST_ENTRIES = 2


class _Entry:
    """A sample, and its kernel values with the first active samples: with all, or with fewer.

    Where samples became active again the values of those before them still hold.
    """

    def __init__(self, sample: object, square: float):
        self.sample, self.square = sample, square
        self.column = np.empty(0)


class RowCache:
    """The most recently used samples: the same ones on every rank, so that none has to ask.

    Args:
        rows: of this rank.
        kernel: K.
        exchange: for the rows of other ranks.
        num_bytes: at most so much memory for columns and rows.

    Attributes:
        computed: columns that were computed, or completed.
        used: columns that were asked for.
    """

    def __init__(self, rows: Rows, kernel: Kernel, exchange: Exchange, num_bytes: int):
        self._rows, self._kernel, self._exchange = rows, kernel, exchange
        self._num_bytes = num_bytes
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._active = self._most_entries = 0
        self._row_values = int(exchange.most([max(rows.lengths, default=0)])[0])
        self.computed = self.used = 0

    def resize(self, active: int, most_active: int) -> None:
        """Tells how long columns are from now on; collective, as all ranks must keep the same.

        Args:
            active: this rank's active samples.
            most_active: the most of any rank.
        """
        self._active = active
        of_entry = _VALUE_BYTES * (most_active + self._row_values)
        self._most_entries = max(_LEAST_ENTRIES, self._num_bytes // max(1, of_entry))
        self._evict()

    def narrow(self, kept: np.ndarray) -> None:
        """Keeps of each column the values of those samples that stay active.

        Args:
            kept: int64, ascending: which of the active ones do.
        """
        for entry in self._entries.values():
            length = len(entry.column)
            of_column = kept if length == self._active else kept[: kept.searchsorted(length)]
            entry.column = entry.column.take(of_column)

    def columns(
        self, pair: tuple[Candidate, Candidate], positions: tuple[int, int]
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """The kernel values of a pair.

        Args:
            pair: of all ranks.
            positions: where they are among this rank's rows, if they are its own.

        Returns:
            K between this rank's active samples and the first, float64 [active], the same of the
            second, and K_11 + K_22 - 2 K_12.
        """
        new = {
            candidate.number: (candidate, at)
            for candidate, at in zip(pair, positions)
            if candidate.number not in self._entries
        }
        if new:
            self._fetch(list(new.values()))
        one, other = (self._touch(candidate.number) for candidate in pair)
        self._evict()
        between = self._value(one.sample, other.sample)
        return one.column, other.column, one.square + other.square - 2 * between

    def _fetch(self, new: list[tuple[Candidate, int]]) -> None:
        rank = self._exchange.rank
        mine = [self._rows.message(at) if c.rank == rank else None for c, at in new]
        messages = self._exchange.messages([c.length for c, _ in new], mine)
        for (candidate, _), message in zip(new, messages):
            sample = self._rows.received(message)
            self._entries[candidate.number] = _Entry(sample, self._value(sample, sample))

    def _value(self, one: object, other: object) -> float:
        return self._kernel.value(self._rows.product(one, other))

    def _touch(self, number: int) -> _Entry:
        self._entries.move_to_end(number)
        entry = self._entries[number]
        self.used += 1
        begin = len(entry.column)
        if begin < self._active:
            self.computed += 1
            values = self._rows.products(entry.sample, begin, self._active)
            values = self._kernel.finish(values)
            entry.column = np.concatenate([entry.column, values]) if begin else values
        return entry

    def _evict(self) -> None:
        while len(self._entries) > self._most_entries:
            self._entries.popitem(last=False)
