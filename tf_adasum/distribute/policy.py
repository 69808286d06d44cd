"""Which reduction each variable gets: rules in, plan out; nothing here touches a tensor."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tf_adasum.collectives import reductions
from tf_adasum.collectives.compression import Compression
from tf_adasum.collectives.dtypes import FLOATS
from tf_adasum.collectives.refusals import refusal, shown

RuleTest = str | Callable[[str, tuple[int, ...], str], bool]


class Reduction(str):
    """A reduction's name, with how what is reduced travels; for a rule of `AdasumStrategy`.

    Args:
        name: as `allreduce` takes it.
        compression: how the variables of the rule travel, in the place of what `wrap` says; None:
            as `wrap` says.

    Raises:
        ValueError: the name is none.
        TypeError: the compression is no codec.

    Example:
        >>> import tf_adasum as adasum
        >>> sparse = adasum.Reduction("adasum", compression=adasum.compression.TopK(0.01))
        >>> strategy = adasum.AdasumStrategy(reductions=[("embedding", sparse)])
    """

    compression: Compression | None

    def __new__(cls, name: str, compression: Compression | None = None):
        """As the class says."""
        reductions.check_name(name)
        if compression is not None:
            Compression.check(compression)
        made = super().__new__(cls, name)
        made.compression = compression
        return made


class PlanRow(NamedTuple):
    """One variable of a plan.

    Attributes:
        path: as Keras names it.
        shape: of the variable.
        dtype: name of its dtype.
        reduction: that it gets.
        codec: how it travels; "" as it is, or where a plan does not say.
        num_bytes: of the whole variable as it travels; each of P ranks sends about 2 (P - 1) / P
            times as many.
    """

    path: str
    shape: tuple[int, ...]
    dtype: str
    reduction: str
    codec: str = ""
    num_bytes: int = 0


class ReductionPlan(list):
    """A list of `PlanRow`, in the order of the variables; `str(plan)` is a table.

    It has the columns of codecs and bytes where a variable travels encoded.
    """

    def __str__(self) -> str:
        header = PlanRow("variable", "shape", "dtype", "reduction", "codec", "bytes")
        columns = slice(None if any(row.codec for row in self) else 4)
        rows = [tuple(map(str, row))[columns] for row in (header, *self)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        rows.insert(1, tuple("-" * width for width in widths))
        padded = [[cell.ljust(width) for cell, width in zip(row, widths)] for row in rows]
        return "\n".join("  ".join(row).rstrip() for row in padded)


class _Rule(NamedTuple):
    test: RuleTest
    reduction: str

    def __str__(self) -> str:
        if isinstance(self.test, str):
            return f"({self.test!r}, {self.reduction!r})"
        # Equal on all ranks, which an object's own text is not.
        name = getattr(self.test, "__name__", type(self.test).__name__)
        return f"({name}, {self.reduction!r})"

    def matches(self, path: str, shape: tuple[int, ...], dtype: str) -> bool:
        if callable(self.test):
            return bool(self.test(path, shape, dtype))
        return re.search(self.test, path) is not None


class ReductionPolicy:
    """Chooses a reduction per variable: the first matching rule wins, else adasum for floats.

    Args:
        rules: list of `(test, reduction)`. A test is a regular expression, searched for in
            the Keras path of the variable, or a callable `(path, shape, dtype) -> bool`.

    Raises:
        ValueError: a rule is not such a pair, its pattern does not compile, or its
            reduction is unknown.

    Example:
        >>> policy = ReductionPolicy([("bias$", "mean")])
        >>> print(policy.assign([("a/kernel", (2, 3), "float32"), ("a/bias", (3,), "float32")]))
        variable  shape   dtype    reduction
        --------  ------  -------  ---------
        a/kernel  (2, 3)  float32  adasum
        a/bias    (3,)    float32  mean
    """

    def __init__(self, rules: Sequence[tuple[RuleTest, str]] | None = None):
        if not isinstance(rules, (list, tuple, type(None))):
            advice = "Pass [('bias$', 'mean')], say."
            raise ValueError(refusal("a list of rules as reductions", shown(rules), advice))
        self._rules = [_checked_rule(rule) for rule in rules or ()]
        # A rule for a network whose turn comes later, or for a frozen one, is no mistake.
        self._matched: set[int] = set()

    def __str__(self) -> str:
        return ", ".join(map(str, self._rules)) or "none"

    def see(self, path: str, shape: tuple[int, ...], dtype: str) -> None:
        """Notes a variable that may be trained some time: rules that match it are no mistakes."""
        for index, rule in enumerate(self._rules):
            if index not in self._matched and rule.matches(path, shape, dtype):
                self._matched.add(index)

    def assign(self, variables: Iterable[tuple[str, tuple[int, ...], str]]) -> ReductionPlan:
        """Returns the plan for `variables` and fails if a rule has matched nothing so far.

        Args:
            variables: `(path, shape, dtype name)` of each trainable variable.

        Returns:
            A `ReductionPlan`, one row per variable.

        Raises:
            ValueError: a rule matches no variable of these and of those seen, or asks for adasum
                of a non-float.
        """
        variables = list(variables)
        for variable in variables:
            self.see(*variable)
        unmatched = [rule for i, rule in enumerate(self._rules) if i not in self._matched]
        if unmatched:
            paths = ", ".join(path for path, _, _ in variables)
            expected = f"the reduction rule {unmatched[0]} to match a variable"
            advice = "Correct or remove it, or make the model that it is for before the first step."
            raise ValueError(refusal(expected, f"the variables {paths}", advice))
        return ReductionPlan(PlanRow(*v, self.reduction(*v)) for v in variables)

    def reduction(self, path: str, shape: tuple[int, ...], dtype: str) -> str:
        """Returns the name of the reduction for one variable."""
        for rule in self._rules:
            if not rule.matches(path, shape, dtype):
                continue
            if reductions.ALL[rule.reduction].floats_only and dtype not in FLOATS:
                expected = (
                    f"{rule.reduction} for {', '.join(FLOATS)}, as the rule {rule} chooses it"
                )
                received = f"dtype={dtype} of {path}"
                raise ValueError(refusal(expected, received, "Choose 'sum' or 'mean' for it."))
            return rule.reduction
        return "adasum" if dtype in FLOATS else "mean"


def _checked_rule(rule: tuple[RuleTest, str]) -> _Rule:
    if not isinstance(rule, (tuple, list)) or len(rule) != 2:
        expected = "a reduction rule as a pair (pattern or callable, reduction)"
        raise ValueError(refusal(expected, shown(rule), "Pass ('bias$', 'mean'), say."))
    test, reduction = rule
    if reduction not in reductions.names():
        expected = f"a rule's reduction to be one of {', '.join(reductions.names())}"
        received = f"{reduction!r} in the rule {rule!r}"
        raise ValueError(refusal(expected, received, "Choose one of them."))
    if isinstance(test, str):
        try:
            re.compile(test)
        except re.error as error:
            expected = f"a rule's pattern to be a regular expression ({error})"
            line = refusal(expected, f"the rule {rule!r}", "Correct it, or pass a callable.")
            raise ValueError(line) from error
    elif not callable(test):
        expected = (
            "a rule to test by a regular expression or a callable (path, shape, dtype) -> bool"
        )
        raise ValueError(refusal(expected, f"the rule {rule!r}", "Pass one of them."))
    return _Rule(test, reduction)
