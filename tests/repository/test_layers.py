"""Arrows point one way: every import in src, those inside functions too, goes from a layer to one below it."""

import ast
from pathlib import Path

import pytest
from support.repository import TESTS

import samara

SOURCE = Path(samara.__file__).parent
LAYERS = (
    "core",
    "physics",
    "propeller world",
    "vehicles",
    "compiler",
    "export plan control sensors estimate wind",
    "scenario record",
    "sim link",
    "compare identify learn campaigns",
    "view",
    "documents",
    "cli",
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names.split()}
FILES = {"scenarios", "tracks"}  # these hold files to fly, and no code
SIBLINGS = {
    ("control", "plan"),
    ("control", "export"),
    ("estimate", "sensors"),
    ("record", "scenario"),
    ("sim", "link"),
}  # (who, whom)


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of ours that a file names in any import statement"""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {own for own in full if own in known} or {str(node.module)}
    return {own for own in found if own.split(".")[0] == "samara"}


def room(module: str) -> str:
    """The folder below samara; "" for the root, which shows what all of them offer"""
    return [*module.split("."), ""][1]


def test_every_folder_of_the_package_has_its_layer():
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders - FILES == set(LEVEL)
    assert {path.name for path in SOURCE.glob("*.py")} == {"__init__.py"}


def test_arrows_point_one_way():
    known = modules()
    wrong = []
    for module, path in known.items():
        for other in imports(path, known):
            mine, theirs = room(module), room(other)
            if mine in ("", *FILES) or mine == theirs:
                continue
            from_root = mine == "cli" and not theirs  # which stands above all: only a program may start there
            if not (from_root or LEVEL.get(theirs, 99) < LEVEL[mine] or (mine, theirs) in SIBLINGS):
                wrong.append(f"{module} -> {other}")
    assert not wrong, "\n".join(sorted(wrong))


def test_within_a_layer_no_two_modules_import_each_other():
    """A cycle of imports that counts those inside functions; types alone (`if TYPE_CHECKING:`) do not count."""
    known = modules()
    edges = {module: runtime_imports(path, known) & set(known) for module, path in known.items() if module != "samara"}
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        if module in way:
            pytest.fail(" -> ".join((*way[way.index(module) :], module)))
        if module not in done:
            for other in sorted(edges.get(module, ())):
                visit(other, (*way, module))
            done.add(module)

    for module in sorted(edges):
        visit(module, ())


def runtime_imports(path: Path, known: dict[str, Path]) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id.endswith("TYPE_CHECKING"):
            node.body = [ast.Pass()]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {own for own in full if own in known} or {str(node.module)}
    return {own for own in found if own != "samara"}


def test_tests_mirror_the_source():
    """A test's folder is the package it tests, or `repository`; pytest wants names of files that are unique."""
    files = sorted(TESTS.rglob("test_*.py"))
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")} | {"repository"}
    assert [path for path in files if path.parent.parent != TESTS or path.parent.name not in rooms] == []
    assert len({path.name for path in files}) == len(files)
