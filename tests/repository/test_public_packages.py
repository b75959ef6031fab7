"""README, documentation and examples use the public packages only, as type checkers see them."""

import ast
import json
import os
import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from support.repository import REPOSITORY, skip_or_fail

import samara
from samara.core.extras import MissingExtraError

PACKAGES = tuple(
    f"samara.{name}"
    for name in (
        *("campaigns", "control", "core", "documents", "identify", "learn", "physics", "plan", "scenario", "sensors"),
        *("sim", "vehicles", "view", "wind"),
    )
)
MODULES = {"samara.documents.drone_physics", "samara.learn.navigate"}  # exported as modules
BLOCK = re.compile(r"^```python(?: title=[^\n]*)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def programs() -> dict[str, str]:
    """Return the Python of each page, notebook and example: its blocks in order, in one text."""
    pages = [*REPOSITORY.glob("README*.md"), REPOSITORY / "CONTRIBUTING.md", *(REPOSITORY / "docs").rglob("*.md")]
    texts = {page: BLOCK.findall(page.read_text(encoding="utf-8")) for page in pages}
    for notebook in (REPOSITORY / "docs").rglob("*.ipynb"):
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        texts[notebook] = [
            re.sub(r"^(\s*)([%!].*)$", r"\1pass  # \2", source, flags=re.MULTILINE) for source in sources
        ]
    for example in (REPOSITORY / "examples").glob("*.py"):
        texts[example] = [example.read_text(encoding="utf-8")]
    found = {path.relative_to(REPOSITORY).as_posix(): "\n".join(blocks) for path, blocks in texts.items() if blocks}
    return dict(sorted(found.items()))


def samara_imports(text: str) -> set[str]:
    """Return the modules of samara that a program imports or imports from."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module))
    return {name for name in names if name.split(".")[0] == "samara"}


def test_the_public_packages_are_the_modules_among_the_public_names():
    modules = {name for name in samara.__all__ if isinstance(getattr(samara, name), ModuleType)}
    assert {f"samara.{name}" for name in modules} == set(PACKAGES)


@pytest.mark.parametrize("name", PACKAGES)
def test_all_of_a_package_is_sorted_and_true(name):
    """Each name of `__all__` exists, is listed by `dir`, and is no module: a module of the same name has not replaced it."""
    package = import_module(name)
    assert len(package.__all__) == len(set(package.__all__)) and set(package.__all__) <= set(dir(package))
    for public in package.__all__:
        try:
            thing = getattr(package, public)
        except MissingExtraError:
            continue
        assert isinstance(thing, ModuleType) == (f"{name}.{public}" in MODULES), f"{name}.{public}"
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'no_such_name'"):
        package.no_such_name  # noqa: B018


def test_no_lazy_name_is_the_name_of_a_module():
    """Importing the module would replace the name; such names are imported above the block `if TYPE_CHECKING:`."""
    for file in Path(samara.__file__).parent.rglob("__init__.py"):
        modules = {path.stem for path in file.parent.glob("*.py")}
        modules |= {path.parent.name for path in file.parent.glob("*/__init__.py")}
        for block in (node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.If)):
            for statement in (node for node in block.body if isinstance(node, ast.ImportFrom)):
                if statement.module != ".".join(file.parent.relative_to(Path(samara.__file__).parents[1]).parts):
                    assert not modules & {alias.name for alias in statement.names}, file


def test_documentation_and_examples_import_from_the_public_packages():
    allowed = {"samara", *PACKAGES}
    inner = {name: samara_imports(text) - allowed for name, text in programs().items()}
    assert {name: modules for name, modules in inner.items() if modules} == {}


def test_every_imported_name_is_in_all():
    """`from samara.control import MPC`: type checkers take other names for private ones."""
    missing = set()
    for name, text in programs().items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module in ("samara", *PACKAGES):
                missing |= {(name, alias.name) for alias in node.names} - {
                    (name, public) for public in import_module(node.module).__all__
                }
    assert missing == set()


@pytest.mark.long
def test_type_checkers_find_every_name(request, tmp_path):
    """mypy resolves every import of the programs, and every attribute of samara's modules and classes."""
    texts = {re.sub(r"\W", "_", name): text for name, text in programs().items()}
    found = type_errors({"wrong": WRONG}, request, tmp_path)
    assert [line.partition(":")[2].partition(":")[0] for line in found] == ["3", "4", "6", "7", "8"], found
    assert type_errors(texts, request, tmp_path) == []


WRONG = """
import samara
from samara.core import Vec4
import samara.pizza

samara.algebra
samara.control.geometrical
samara.fly("hover").positions
samara.control.MPC, samara.control.geometric, samara.fly("hover").position
"""


def type_errors(texts: dict[str, str], request: pytest.FixtureRequest, folder: Path) -> list[str]:
    """Return mypy's errors about imports and attributes in some programs. Its cache is pytest's: the first run is slow."""
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    options = ["--check-untyped-defs", "--allow-redefinition", "--no-error-summary", "--config-file", os.devnull]
    cache = ["--cache-dir", str(request.config.cache.mkdir("mypy"))]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *cache, *(f"{name}.py" for name in texts)],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(REPOSITORY / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    errors = [line for line in done.stdout.splitlines() if line.endswith(("[import-not-found]", "[attr-defined]"))]
    return [
        line for line in errors if "samara" in line.partition("error:")[2] or line.endswith("[attr-defined]")
    ]  # ours


def test_the_programs_are_found():
    texts = programs()
    assert {"README.md", "docs/tutorials/own-policy.md", "examples/2_your_own_controller.py"} <= set(texts)
    assert samara_imports("import samara.core.ops\nfrom samara.sim import fly") == {"samara.core.ops", "samara.sim"}


PAGES = [*REPOSITORY.glob("README*.md"), *(REPOSITORY / "docs").rglob("*.md")]
FILES = {"samara.parm"}  # names of files on the pages, not of Python


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_every_path_on_the_pages_leads_somewhere(page):
    """`samara.control.MPC` and `samara.physics.motion.body.euler_rates` as the pages write them."""
    for path in set(re.findall(r"(?<![\w./-])samara(?:\.[A-Za-z_]\w*)+", page.read_text(encoding="utf-8"))) - FILES:
        try:
            pkgutil.resolve_name(path)
        except MissingExtraError as error:
            skip_or_fail(str(error))
