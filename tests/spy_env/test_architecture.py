"""Imports point one way, read from the import statements of every file; and importing the package stays cheap."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("spy_env", "trainers", "benchmarks")
FILES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
DOORS = {"spaces.py", "spy_v0.py", "seat_view.py"}  # may import what PettingZoo and Gymnasium bring
DOOR_LIBRARIES = {"pettingzoo", "gymnasium", "numpy"}
LAZY = {"documents.py": {"datasets"}}  # within a function, named by an error where it is missing
TRAINERS = {"embedded", "openrlhf", "trl", "verl", "verifiers", "openenv"}
HEAVY = ("torch", "numpy", "gymnasium", "pettingzoo", "transformers", "datasets")


def imported(tree, module, lazily):
    """Absolute names of what a file imports; ``lazily`` chooses the statements within functions, else those outside."""
    within = {id(node) for each in ast.walk(tree) if is_function(each) for node in ast.walk(each)}
    for node in ast.walk(tree):
        if (id(node) in within) != lazily:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".")[: -node.level] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)  # it may be a module


def is_function(node):
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def imports_of(file):
    """What a file imports when it is imported, and what it imports later."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return [set(imported(tree, ".".join(parts), lazily)) for lazily in (False, True)]


def tops(names):
    return {name.split(".")[0] for name in names}


def of_package(package):
    return [pytest.param(file, id=str(file.relative_to(ROOT))) for file in FILES if file.is_relative_to(ROOT / package)]


def test_the_readers_of_imports_see_every_form_of_statement():
    source = (
        "import a.b\nfrom c import d\nfrom . import e\nfrom .f import g\nfrom ..h import i\ndef k():\n    import l\n"
    )
    tree = ast.parse(source)
    outside = {"a.b", "c", "c.d", "p.q", "p.q.e", "p.q.f", "p.q.f.g", "p.h", "p.h.i"}
    assert set(imported(tree, "p.q.r", lazily=False)) == outside
    assert set(imported(tree, "p.q.r", lazily=True)) == {"l"}


def test_there_are_files_to_check():
    assert {file.name for file in FILES} > DOORS | {"game.py", "ballot.py", "documents.py"}


@pytest.mark.parametrize("file", of_package("spy_env"))
def test_the_core_imports_the_standard_library_alone_and_the_doors_their_libraries(file):
    at_once, later = (tops(names) - sys.stdlib_module_names - {"spy_env"} for names in imports_of(file))
    assert at_once <= (DOOR_LIBRARIES if file.name in DOORS else set())
    assert later <= at_once | LAZY.get(file.name, set())


@pytest.mark.parametrize("file", of_package("spy_env"))
def test_the_core_never_imports_a_door(file):
    doors = {f"spy_env.{door.removesuffix('.py')}" for door in DOORS}
    assert file.name in DOORS or not doors & set().union(*imports_of(file))


@pytest.mark.parametrize("file", of_package("spy_env"))
def test_the_game_never_imports_trainers_or_benchmarks(file):
    assert not tops(set().union(*imports_of(file))) & {"trainers", "benchmarks", "tests"}


@pytest.mark.parametrize("file", of_package("trainers"))
def test_trainers_never_import_benchmarks_nor_one_another(file):
    names = set().union(*imports_of(file))
    assert not tops(names) & {"benchmarks", "tests"}
    inside = file.relative_to(ROOT / "trainers").parts[0]
    if inside in TRAINERS:
        used = {name.split(".")[1] for name in names if name.startswith("trainers.")}
        assert not used & (TRAINERS - {inside})


@pytest.mark.parametrize("file", of_package("benchmarks"))
def test_benchmarks_import_no_trainer_but_to_measure_its_speed(file):
    for name in set().union(*imports_of(file)):
        if name.startswith("trainers.") and not file.is_relative_to(ROOT / "benchmarks" / "speed"):
            assert name.split(".")[1] not in TRAINERS


def modules():
    names = {}
    for file in FILES:
        parts = file.relative_to(ROOT).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return names


def circles(imports):
    """Groups of modules that import one another, however long the way round: strongly connected components (Tarjan)."""
    order, low, stack, found = {}, {}, [], []

    def visit(module):
        order[module] = low[module] = len(order)
        stack.append(module)
        for other in imports[module]:
            if other not in order:
                visit(other)
            if other in stack:
                low[module] = min(low[module], low[other])
        if low[module] == order[module]:
            at = stack.index(module)
            found.append(set(stack[at:]))
            del stack[at:]

    for module in imports:
        if module not in order:
            visit(module)
    return [group for group in found if len(group) > 1]


def test_circles_are_found_however_long_the_way_round():
    assert circles({"a": ["b"], "b": ["c"], "c": []}) == []
    assert circles({"a": ["b"], "b": ["c", "d"], "c": ["a"], "d": []}) == [{"a", "b", "c"}]


def test_no_modules_import_one_another_even_lazily_or_for_types():
    names = modules()
    imports = {}
    for module, file in names.items():
        used = {name for name in set().union(*imports_of(file)) if name in names}
        # a name imported from a package's module is that module, not the package on the way to it
        imports[module] = sorted(
            name for name in used if not any(other.startswith(f"{name}.") for other in used) and name != module
        )
    assert circles(imports) == []


LOADED = "import sys, spy_env.spy_v0, spy_env.seat_view; print(*sys.modules)"


def test_the_doors_load_neither_viewer_nor_diagnostics():
    run = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = [name for name in run.stdout.split() if name.startswith("spy_env.")]
    assert "spy_env.game" in loaded
    assert [name for name in loaded if name.startswith(("spy_env.viewer", "spy_env.diagnostics"))] == []


MEASURE = f"""
import sys, time
begin = time.perf_counter()
import spy_env
took = time.perf_counter() - begin
print(took, *(name for name in {HEAVY} if name in sys.modules))
"""


def test_importing_the_package_is_quick_and_loads_nothing_heavy():
    seconds = []
    for _ in range(3):
        run = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True, cwd=ROOT)
        took, *heavy = run.stdout.split()
        assert heavy == []
        seconds.append(float(took))
    assert min(seconds) < 0.5
