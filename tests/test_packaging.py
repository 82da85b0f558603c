"""What holds for the whole package: light imports, one version number, pinned versions, rooms in order."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).parent.parent
PACKAGE = REPOSITORY / "ebfit"
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]

# Loading these takes up to a second; a command that needs one imports it when it runs.
HEAVY = {"torch", "matplotlib", "scipy", "pandas", "lmfit"}


def _heavy_modules_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint('heavy:', *sorted({HEAVY} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(result.stdout.splitlines()[-1].split()[1:])


def test_importing_ebfit_loads_nothing_heavy():
    assert _heavy_modules_after("import ebfit") == set()


def test_help_loads_nothing_heavy():
    show_help = """
import runpy
sys.argv = ["ebfit", "--help"]
try:
    runpy.run_module("ebfit", run_name="__main__")
except SystemExit as stop:
    assert not stop.code
"""
    assert _heavy_modules_after(show_help) == set()


def test_the_version_is_the_same_everywhere():
    changelog = re.findall(r"^## \[(\d[^\]]*)\]", (REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE)
    citation = re.findall(r"^version: (\S+)$", (REPOSITORY / "CITATION.cff").read_text(), re.MULTILINE)
    assert changelog[0] == PROJECT["version"]
    assert citation == [PROJECT["version"]]
    assert version("ebfit") == PROJECT["version"]


# `interop` is installed into an environment of its own; everything else goes into one.
PINNED_ALONE = {"interop": "constraints-interop.txt"}
GROUPS = {"dependencies": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}


@pytest.mark.parametrize("group", GROUPS)
def test_every_dependency_is_pinned_within_its_range(group: str):
    constraints = PINNED_ALONE.get(group, "constraints.txt")
    lines = (REPOSITORY / constraints).read_text().splitlines()
    pins = {
        canonicalize_name(name): pinned
        for name, _, pinned in (line.partition("==") for line in lines)
        if pinned
    }
    for requirement in map(Requirement, GROUPS[group]):
        name = canonicalize_name(requirement.name)
        if name != "ebfit":
            assert name in pins, f"{constraints} lacks {name}"
            assert pins[name] in requirement.specifier, (
                f"{constraints}: {name} is outside pyproject.toml's range"
            )


def test_ci_runs_on_every_python_that_is_promised():
    promised = [text.removeprefix("Programming Language :: Python :: ") for text in PROJECT["classifiers"]]
    workflow = (REPOSITORY / ".github" / "workflows" / "ci.yml").read_text()
    matrix = re.findall(r"python: \[(.*)\]", workflow)
    assert re.findall(r"3\.\d+", matrix[0]) == [text for text in promised if re.fullmatch(r"3\.\d+", text)]


# Which rooms of the house a room may import from. Data walks one way: runs, crossings, samples, fitting, trends,
# and api puts the steps together. Only `cli` knows them all. Every room may import itself and the bedrock.
BEDROCK = {"errors", "text", "writing", "batch_plan", "processes"}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "text": set(),
    "writing": set(),
    "processes": set(),
    "runs": set(),
    "laws": set(),
    "files": set(),
    "crossings": {"runs"},
    "targets": {"crossings", "fitting"},
    "fitting": {"laws"},
    "selection": {"runs"},
    "mixed": {"runs", "selection"},
    "samples": {"runs", "laws", "crossings", "fitting"},
    "points": {"samples", "fitting"},
    "trends": {"files", "laws", "fitting"},
    "batch_plan": set(),
    "schedule": {"files", "laws"},
    "records": {"files", "runs"},
    "designing": {"files", "laws", "fitting", "samples", "comparing"},
    "comparing": {"files", "laws", "fitting", "samples", "points"},
    "api": {
        "files",
        "runs",
        "records",
        "selection",
        "mixed",
        "crossings",
        "targets",
        "samples",
        "points",
        "laws",
        "fitting",
        "trends",
        "comparing",
    },
    "changes": {"files"},
    "report": {"files", "laws"},
    "sweep": {"files"},
    "simulate": {"files", "laws", "runs"},
}
KNOW_THEM_ALL = {"cli", "__init__", "__main__"}


def _room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of every module that a file imports, at its top or inside a function."""
    package = ["ebfit", *path.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            # `from ebfit import runs` imports the room runs as much as `import ebfit.runs` does.
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "ebfit" else [module]
            yield from ((node.lineno, name) for name in names)


SOURCES = sorted(PACKAGE.rglob("*.py"))
SOURCE_IDS = [path.relative_to(PACKAGE).as_posix() for path in SOURCES]


@pytest.mark.parametrize("path", SOURCES, ids=SOURCE_IDS)
def test_a_room_imports_only_from_the_rooms_below_it(path: Path):
    """A failure means that data or knowledge flows backwards, such as a fit that knows about file formats.

    Hand the values over as arguments, or move the shared thing down; widen `MAY_IMPORT` only with a reason.
    """
    room = _room(path)
    if room in KNOW_THEM_ALL:
        return
    assert room in MAY_IMPORT, f"ebfit/{room} is new: say in MAY_IMPORT which rooms it may import from"
    allowed = MAY_IMPORT[room] | BEDROCK | {room}
    wrong = [
        f"ebfit/{path.relative_to(PACKAGE)}:{line} imports {name}"
        for line, name in _imports(path)
        if name.startswith("ebfit.") and name.split(".")[1] not in allowed | {"__version__"}
    ]
    assert not wrong, f"{wrong}: ebfit/{room} may import only {sorted(allowed)} of ours"


@pytest.mark.parametrize("path", SOURCES, ids=SOURCE_IDS)
def test_only_sweep_imports_torch(path: Path):
    """A failure means that people who bring their own logs would need torch, two gigabytes of it."""
    torch = [line for line, name in _imports(path) if name.split(".")[0] in {"torch", "ray"}]
    assert not torch or _room(path) == "sweep", f"ebfit/{path.relative_to(PACKAGE)}: line {torch}"


def test_a_plan_needs_only_the_standard_library():
    """It is made to be copied beside a training script, where nothing else of ours may be installed."""
    imported = {name.split(".")[0] for _, name in _imports(PACKAGE / "batch_plan.py")}
    assert imported <= sys.stdlib_module_names
