"""Each outside library has one home, and files stay short: the rules of docs/architecture.md."""

import ast
import re
import sys

import pytest

from tools.lint import ROOT, cxx_sources

LONGEST_FILE = 300
MOST_FILES_OF_A_WALK = 15
_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)

# What an included path starts with, and the paths that may include it.
CXX_HOMES = {
    r"mpi\.h$": r"cc/transport/",
    r"(cuda|cub/|nccl)": r".*\.cu\.(cc|h)$",
    r"(tensorflow|xla|tsl|absl)/": r"cc/ops/",
    r"(pybind11/|Python\.h)": r"cc/python/",
}
# Which folders of cc/ a folder may include besides itself and core.
CXX_LAYERS = {
    "core": set(),
    "arena": set(),
    "arithmetic": set(),
    "transport": {"arena"},
    "compression": {"arithmetic"},
    "reductions": set(),
    "algorithms": {"reductions"},
    "engine": {"arena", "arithmetic", "transport"},
    "bootstrap": {"arena", "arithmetic", "engine", "transport"},
    "collectives": {
        *("algorithms", "arithmetic", "compression", "engine", "reductions", "transport"),
    },
    "cuda": {"algorithms", "bootstrap", "collectives", "engine"},
    "ops": {"bootstrap", "collectives", "cuda", "engine"},
    "python": {
        *("arena", "arithmetic", "bootstrap", "collectives", "compression", "engine"),
        "reductions",
    },
}
# The same in Python: what a package or a folder of tf_adasum may import besides itself.
PYTHON_LAYERS = {"adasumrun": set()}
for _layer in ("collectives", "keras_hooks", "distribute", "optimizers", "callbacks"):
    PYTHON_LAYERS[_layer] = set(PYTHON_LAYERS)
PYTHON_LAYERS["advise"] = set(PYTHON_LAYERS) - {"callbacks"}  # beside each other
NATIVE_USERS = {
    *("allgather", "alltoall", "barrier", "broadcast", "communicator", "device"),
    *("gradients", "handles", "operations", "reduce_scatter", "simulate", "sparse_allreduce"),
    *("allreduce_replicas", "arena", "compressed_allreduce", "compressed_simulation"),
    *("deadline_allreduce", "partial_allreduce", "uploads", "world_start", "zeros_if"),
    *("compression/simulated_state", "compression/state", "stalls"),
}
# Variables that adasumrun hands on without looking at them, and strings that name none.
_EXPORTED_ONLY = {"CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH"}
_NO_VARIABLES = {"GLOBAL_SEED_GENERATOR", "HAS_CUDA", "RECURSIVE_DOUBLING", "RECURSIVE_HALVING"}
# These decide and count; they must be usable where there is no TensorFlow. The launcher is, too.
PURE = ("distribute/policy", "distribute/bucketing")


def _cc_files():
    return [source for source in cxx_sources() if _path(source).startswith("cc/")]


def _path(source):
    return source.relative_to(ROOT).as_posix()


def _python_modules():
    return sorted([*(ROOT / "tf_adasum").rglob("*.py"), *(ROOT / "adasumrun").glob("*.py")])


def _imported(tree):
    """Yields the full names that a syntax tree imports, wherever in it the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _imports(module):
    return _imported(ast.parse(module.read_text()))


def _imports_at_import(module):
    """Yields the full names that are imported when the module is."""
    for node in ast.parse(module.read_text()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("library", CXX_HOMES)
def test_library_is_included_in_its_home_only(library):
    strangers = [
        f"{_path(source)} includes {included}"
        for source in _cc_files()
        for included in _INCLUDE.findall(source.read_text())
        if re.match(library, included) and not re.match(CXX_HOMES[library], _path(source))
    ]
    assert not strangers


def _wrong_includes(path, text):
    """What a source of cc/ includes of layers that do not lie below its own."""
    layer = path.split("/")[1]
    allowed = CXX_LAYERS[layer] | {layer, "core"}
    included = [name for name in _INCLUDE.findall(text) if name.startswith("cc/")]
    return [f"{path} includes {name}" for name in included if name.split("/")[1] not in allowed]


def test_layers_of_cc_include_downwards():
    wrong = [_wrong_includes(_path(source), source.read_text()) for source in _cc_files()]
    assert wrong
    assert [line for lines in wrong for line in lines] == []


@pytest.mark.parametrize(
    ("includer", "included"),
    [
        ("core", "ops"),
        ("algorithms", "collectives"),
        ("engine", "collectives"),
        ("engine", "bootstrap"),
        ("bootstrap", "collectives"),
        ("collectives", "bootstrap"),
    ],
)
def test_an_include_that_runs_back_is_found(includer, included):
    text = f'#include "cc/core/error.h"\n#include "cc/{included}/y.h"\n'
    assert _wrong_includes(f"cc/{includer}/x.cc", text) == [
        f"cc/{includer}/x.cc includes cc/{included}/y.h"
    ]


def _layer_of(module):
    """The folder of tf_adasum that a full name is in, or adasumrun; None for anything else."""
    root, _, rest = module.partition(".")
    layer = rest.partition(".")[0] if root == "tf_adasum" else root
    return layer if layer in PYTHON_LAYERS else None


def _wrong_imports(path, text):
    """What a module imports of layers that do not lie below its own."""
    layer = _layer_of(path.removesuffix(".py").replace("/", "."))
    if layer is None:  # tf_adasum/__init__.py, above all layers
        return []
    allowed = PYTHON_LAYERS[layer] | {layer, None}
    imported = _imported(ast.parse(text))
    return [f"{path} imports {name}" for name in imported if _layer_of(name) not in allowed]


def test_layers_of_python_import_downwards():
    wrong = [_wrong_imports(_path(module), module.read_text()) for module in _python_modules()]
    assert wrong
    assert [line for lines in wrong for line in lines] == []


def test_an_import_that_runs_back_is_found():
    text = "def f():\n    from tf_adasum.optimizers import wrapper\n"
    assert _wrong_imports("tf_adasum/distribute/x.py", text) == [
        "tf_adasum/distribute/x.py imports tf_adasum.optimizers.wrapper"
    ]
    assert _wrong_imports("adasumrun/x.py", "import tf_adasum.collectives.names") != []


def test_hooks_import_downwards():
    """The table of section 1 of docs/architecture.md says what each folder may import."""
    text = (ROOT / "docs/architecture.md").read_text()
    table = text.partition("### The hooks by subject")[2]
    rows = re.findall(r"^\| `(\w+)` \|.*\| (.*)\|$", table, re.MULTILINE)
    allowed = {folder: {folder, "core", *re.findall(r"\w+", names)} for folder, names in rows}
    hooks = ROOT / "tf_adasum/keras_hooks"
    imported = {
        (module.parent.name, name.split(".")[2])
        for module in hooks.glob("*/*.py")
        for name in _imports(module)
        if name.startswith("tf_adasum.keras_hooks.")
    }
    assert {(folder, other) for folder, other in imported if other not in allowed[folder]} == set()
    assert set(allowed) == {module.parent.name for module in hooks.glob("*/__init__.py")}
    assert [module.name for module in hooks.glob("*.py")] == ["__init__.py"]


def test_one_file_of_cc_reads_the_environment():
    """And the arena's own, which is there before any communicator, also without this library."""
    readers = {_path(source) for source in _cc_files() if "getenv(" in source.read_text()}
    arena = {"cc/arena/heap_size.cc", "cc/arena/preload.cc"}
    assert readers == {"cc/engine/communicator_options.cc", *arena}


def test_the_arena_depends_on_nothing():
    """It is preloaded: what it includes of the project would be in the process twice."""
    sources = [source for source in _cc_files() if _path(source).startswith("cc/arena/")]
    included = {name for source in sources for name in _INCLUDE.findall(source.read_text())}
    assert "cc/arena/arena.h" in included
    assert {name for name in included if "/" in name and not name.startswith("cc/arena/")} <= {
        name for name in included if name.startswith("sys/")
    }


def test_native_library_has_few_users():
    users = {
        _path(module)
        for module in _python_modules()
        for name in _imports(module)
        if f"{name}.".startswith("tf_adasum.collectives.native.")
    }
    assert users
    assert users <= {f"tf_adasum/collectives/{name}.py" for name in NATIVE_USERS}


def test_nothing_unpickles():
    """What a pickle holds is run where it is read: nothing of a peer's may come as one."""
    users = {
        _path(module)
        for module in _python_modules()
        for name in _imports(module)
        if name.partition(".")[0] in ("pickle", "cloudpickle", "dill", "marshal", "shelve")
    }
    assert users == set()


@pytest.mark.parametrize("name", PURE)
def test_pure_module_imports_no_tensorflow(name):
    imported = set(_imports_at_import(ROOT / "tf_adasum" / f"{name}.py"))
    roots = {part.partition(".")[0] for part in imported}
    assert not roots & {"tensorflow", "keras", "numpy", "mpi4py"}


def test_launcher_imports_the_standard_library_only():
    modules = sorted((ROOT / "adasumrun").glob("*.py"))
    roots = {name.partition(".")[0] for module in modules for name in _imports(module)}
    assert modules
    assert roots <= {*sys.stdlib_module_names, "adasumrun"}


def test_files_are_short():
    own = [*cxx_sources(), *_python_modules(), ROOT / "configure.py"]
    for folder in ("tests", "tools", "models", "benchmarks", "experiments"):
        own += (ROOT / folder).rglob("*.py")
    lengths = {_path(source): len(source.read_text().splitlines()) for source in own}
    assert {path: lines for path, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_every_python_test_is_run():
    """Its name stands in the BUILD file beside it."""
    tests = list((ROOT / "tests").rglob("*_test.py"))
    idle = {_path(test) for test in tests if f'"{test.name}"' not in _build_file_of(test)}
    assert tests
    assert not idle


def _build_file_of(source):
    return (source.parent / "BUILD").read_text()


def test_every_environment_variable_is_documented():
    """A string of the code that looks like a variable's name stands in the table of settings."""
    rows = re.findall(r"^\| (`[A-Z].*?) \|", (ROOT / "docs/settings.md").read_text(), re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    name = re.compile(r'"([A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+|(?:OMPI|PRTE)_MCA_\w+)"')
    named = set()
    for source in [*_cc_files(), *_python_modules()]:
        if source.name != "_build_info.py":
            named |= set(name.findall(source.read_text()))
    own = {name for name in documented if name.startswith("TF_ADASUM_")}
    assert named - _EXPORTED_ONLY - _NO_VARIABLES <= documented
    assert own <= named


def test_the_walk_of_one_gradient_is_short():
    """The numbered list in section 3 of docs/architecture.md."""
    text = (ROOT / "docs/architecture.md").read_text()
    section = text.partition("## 3. The walk of one gradient")[2].partition("\n## ")[0]
    walk = re.findall(r"^\d+\. `(.+)`$", section, re.MULTILINE)
    assert len(walk) == len(set(walk)) <= MOST_FILES_OF_A_WALK
    assert walk[0] == "tf_adasum/optimizers/mixin.py"
    assert "MPI_Isend" in (ROOT / walk[-1]).read_text()
    assert [path for path in walk if not (ROOT / path).exists()] == []
