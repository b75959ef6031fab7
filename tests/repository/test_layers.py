"""Imports point one way: every import in src, also inside functions, goes from a layer to one below it."""

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
    "comparison identify learn campaigns",
    "view",
    "documents",
    "cli",
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names.split()}
FILES = {"scenarios", "tracks"}  # folders of data files, without code
SIBLINGS = {
    ("control", "plan"),
    ("control", "export"),
    ("estimate", "sensors"),
    ("record", "scenario"),
    ("sim", "link"),
}  # (importer, imported)


def modules() -> dict[str, Path]:
    paths = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


def imports(path: Path, paths: dict[str, Path]) -> set[str]:
    """Return the modules of the package that a file names in any import statement"""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name for name in full if name in paths} or {str(node.module)}
    return {name for name in names if name.split(".")[0] == "samara"}


def package_folder(module: str) -> str:
    """Return the folder below samara; "" for the root, which re-exports from all of them"""
    return [*module.split("."), ""][1]


def test_every_folder_of_the_package_has_its_layer():
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders - FILES == set(LEVEL)
    assert {path.name for path in SOURCE.glob("*.py")} == {"__init__.py"}


def test_imports_point_one_way():
    paths = modules()
    wrong = []
    for module, path in paths.items():
        for other in imports(path, paths):
            folder, other_folder = package_folder(module), package_folder(other)
            if folder in ("", *FILES) or folder == other_folder:
                continue
            from_root = folder == "cli" and not other_folder  # the root is above all: only the program may import it
            if not (from_root or LEVEL.get(other_folder, 99) < LEVEL[folder] or (folder, other_folder) in SIBLINGS):
                wrong.append(f"{module} -> {other}")
    assert not wrong, "\n".join(sorted(wrong))


def test_within_a_layer_no_two_modules_import_each_other():
    """An import cycle, including imports inside functions; imports for types alone (`if TYPE_CHECKING:`) do not count."""
    paths = modules()
    edges = {module: runtime_imports(path, paths) & set(paths) for module, path in paths.items() if module != "samara"}
    done: set[str] = set()

    def visit(module: str, chain: tuple[str, ...]) -> None:
        if module in chain:
            pytest.fail(" -> ".join((*chain[chain.index(module) :], module)))
        if module not in done:
            for other in sorted(edges.get(module, ())):
                visit(other, (*chain, module))
            done.add(module)

    for module in sorted(edges):
        visit(module, ())


def runtime_imports(path: Path, paths: dict[str, Path]) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id.endswith("TYPE_CHECKING"):
            node.body = [ast.Pass()]
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name for name in full if name in paths} or {str(node.module)}
    return {name for name in names if name != "samara"}


def test_tests_mirror_the_source():
    """A test's folder is the package it tests, or `repository`; file names are unique, as pytest requires."""
    files = sorted(TESTS.rglob("test_*.py"))
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")} | {"repository"}
    assert [path for path in files if path.parent.parent != TESTS or path.parent.name not in rooms] == []
    assert len({path.name for path in files}) == len(files)
