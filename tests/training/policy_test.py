"""Rules choose reductions by path, shape and dtype; mistakes in rules are named."""

from __future__ import annotations

import pytest

from tf_adasum.distribute.policy import ReductionPolicy

VARIABLES = [
    ("net/embed/table", (1000, 16), "float32"),
    ("net/dense/kernel", (16, 4), "float32"),
    ("net/dense/bias", (4,), "bfloat16"),
    ("net/step", (), "int64"),
]


def chosen(rules):
    return [row.reduction for row in ReductionPolicy(rules).assign(VARIABLES)]


def test_default_is_adasum_for_floats():
    assert chosen(None) == ["adasum", "adasum", "adasum", "mean"]


def test_first_matching_rule_wins():
    assert chosen([("dense", "sum"), ("bias$", "mean"), ("embed", "mean")]) == [
        "mean",
        "sum",
        "sum",
        "mean",
    ]
    assert chosen([("bias$", "mean"), ("dense", "sum")])[1:3] == ["sum", "mean"]


def test_pattern_is_searched_for_not_matched_from_the_start():
    assert chosen([("kernel", "mean")])[1] == "mean"


def test_callable_sees_path_shape_and_dtype():
    seen = []

    def large(path, shape, dtype):
        seen.append((path, shape, dtype))
        return len(shape) == 2 and shape[0] >= 1000

    assert chosen([(large, "mean")]) == ["mean", "adasum", "adasum", "mean"]
    assert set(seen) == set(VARIABLES)


def test_plan_is_a_list_of_rows_and_a_table():
    plan = ReductionPolicy([("bias", "mean")]).assign(VARIABLES)
    assert plan[2][:4] == ("net/dense/bias", (4,), "bfloat16", "mean")
    lines = str(plan).splitlines()
    assert lines[0].split() == ["variable", "shape", "dtype", "reduction"]
    assert lines[3].split() == ["net/dense/kernel", "(16,", "4)", "float32", "adasum"]
    assert len(lines) == 2 + len(VARIABLES)


def test_rule_that_matches_nothing_names_itself_and_lists_the_paths():
    policy = ReductionPolicy([("dense", "sum"), ("attention", "mean")])
    with pytest.raises(ValueError, match=r"\('attention', 'mean'\) to match a variable") as error:
        policy.assign(VARIABLES)
    assert all(path in str(error.value) for path, _, _ in VARIABLES)


def test_rule_matched_by_an_earlier_model_is_no_mistake():
    policy = ReductionPolicy([("table", "mean")])
    policy.assign(VARIABLES)
    assert policy.assign(VARIABLES[1:2])[0].reduction == "adasum"


def test_rule_for_what_is_frozen_as_yet_or_another_model_is_no_mistake():
    policy = ReductionPolicy([("table", "mean"), ("attention", "mean")])
    policy.see(*VARIABLES[0])
    with pytest.raises(ValueError, match=r"\('attention', 'mean'\) to match a variable"):
        policy.assign(VARIABLES[1:2])
    policy.see("other/attention/kernel", (2, 2), "float32")
    assert policy.assign(VARIABLES[1:2])[0].reduction == "adasum"


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (("dense", "median"), "to be one of adasum.*Received: 'median'"),
        (("(dense", "mean"), "to be a regular expression"),
        ((7, "mean"), "regular expression or a callable"),
        ("dense", "as a pair"),
        (("dense", "mean", "sum"), "as a pair"),
    ],
)
def test_malformed_rules_fail_at_once(rule, message):
    with pytest.raises(ValueError, match=message):
        ReductionPolicy([rule])


def test_adasum_of_an_integer_is_refused():
    with pytest.raises(ValueError, match=r"adasum for float16.*Received: dtype=int64"):
        ReductionPolicy([("step", "adasum")]).assign(VARIABLES)
