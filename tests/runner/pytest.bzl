"""Test targets whose cases are written for pytest: in one process, or on several MPI ranks."""

# Seconds that .bazelrc gives a target of each size; the ranks are ended a little before, so that their output is kept.
_TIME_LIMITS = {"small": 120, "medium": 600, "large": 1800, "enormous": 3600}
_RESERVE_SECONDS = 10

_LEAN = "//tests/runner:lean/sitecustomize.py"

def _env(env, lean):
    return dict(env, PYTHONPATH = "tests/runner/lean") if lean else env

def _forms(name, has_long_cases, long_tag = "gate"):
    """(name, arguments, tags) of the targets that one becomes: with its short cases, with those that are marked long."""
    if not has_long_cases:
        return [(name, [], [])]
    return [(name, ["--cases=short"], []), ("long_" + name, ["--cases=long"], [long_tag])]

def pytest_test(name, srcs, deps = [], args = [], tags = [], data = [], env = {}, lean = True, has_long_cases = False, long_tag = "gate", **kwargs):
    """Runs test files with pytest in one process.

    Zero collected cases and skipped cases are failures.

    Args:
      name: name of the target.
      srcs: the test files, and nothing else.
      deps: libraries that they import.
      args: further arguments of pytest.
      tags: further tags.
      data: files that they need.
      env: environment variables.
      lean: whether scikit-learn and matplotlib are hidden from them, so that Keras starts sooner.
      has_long_cases: whether the cases marked long are a target of their own, long_NAME.
      long_tag: its tag: gate or full.
      **kwargs: size and so on, as for py_test.
    """
    for full_name, more_args, more_tags in _forms(name, has_long_cases, long_tag):
        native.py_test(
            name = full_name,
            srcs = srcs + ["//tests/runner:run_pytest.py"],
            main = "//tests/runner:run_pytest.py",
            python_version = "PY3",
            args = ["$(location %s)" % src for src in srcs] + args + more_args,
            data = data + [_LEAN],
            deps = deps,
            env = _env(env, lean),
            tags = tags + more_tags,
            **kwargs
        )

def mpi_test(name, srcs, ranks = [1, 2, 3, 4, 5], deps = [], args = [], size = "medium", tags = [], data = [], env = {}, lean = True, has_long_cases = False, **kwargs):
    """Runs test files with pytest on every rank of an MPI job, one target for each number of ranks.

    All ranks run the same cases in the same order. A case fails if it fails on any rank.

    Args:
      name: the targets are called name_1, name_2, ... and the test suite of all of them name.
      srcs: the test files, and nothing else.
      ranks: the numbers of ranks.
      deps: libraries that they import.
      args: further arguments of pytest.
      size: small, medium, large or enormous.
      tags: further tags.
      data: files that they need.
      env: environment variables.
      lean: whether scikit-learn and matplotlib are hidden from them, so that Keras starts sooner.
      has_long_cases: whether the cases marked long are targets of their own, long_NAME_1 and so on, with the tag gate.
      **kwargs: flaky and so on, as for py_test.
    """
    for number in ranks:
        for full_name, more_args, more_tags in _forms("%s_%d" % (name, number), has_long_cases):
            native.py_test(
                name = full_name,
                srcs = srcs + ["//tests/runner:run_mpi_pytest.py"],
                main = "//tests/runner:run_mpi_pytest.py",
                python_version = "PY3",
                args = [
                    "--ranks=%d" % number,
                    "--timeout=%d" % (_TIME_LIMITS[size] - _RESERVE_SECONDS),
                ] + ["$(location %s)" % src for src in srcs] + args + more_args,
                data = data + [_LEAN],
                env = _env(env, lean),
                deps = deps + [
                    "//tests/runner",
                    "//adasumrun",
                ],
                size = size,
                # So that Bazel does not start as many of these as there are cores.
                tags = tags + more_tags + ["cpu:%d" % number],
                **kwargs
            )
    native.test_suite(
        name = name,
        tests = [":%s_%d" % (name, number) for number in ranks],
    )
