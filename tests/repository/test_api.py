"""The public interface: names, signatures, documentation, and the cost of importing it."""

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from enum import Enum
from functools import cached_property
from pathlib import Path

import pytest

import samara
import samara.physics

SNAPSHOT = Path(__file__).with_name("api.txt")
EXPLAINED = [
    importlib.import_module(name)
    for name in (
        *("samara.core.algebra", "samara.physics.frames", "samara.core.integrate", "samara.core.ops", "samara.physics"),
        *(module.name for module in pkgutil.walk_packages(samara.physics.__path__, "samara.physics.")),
    )
]


# The snapshot ------------------------------------------------------------------------------------------------------


def signature(function: object) -> str:
    """Names, kinds and defaults of the arguments; types are checked elsewhere."""
    written = []
    for name, argument in inspect.signature(function).parameters.items():
        stars = {argument.VAR_POSITIONAL: "*", argument.VAR_KEYWORD: "**"}.get(argument.kind, "")
        default = argument.default
        named = "CALM" if default is samara.CALM else getattr(default, "__name__", None) or repr(default)
        shown = "" if default is argument.empty else f"={named}"
        kind = "keyword " if argument.kind is argument.KEYWORD_ONLY else ""
        written.append(f"{kind}{stars}{name}{shown}")
    return f"({', '.join(written)})"


def describe_member(name: str, thing: object) -> list[str]:
    """One line for a function or constant; for a class one more for each public method and property."""
    if not inspect.isclass(thing):
        return [f"{name}{signature(thing)}" if inspect.isfunction(thing) else f"{name}: {type(thing).__name__}"]
    if issubclass(thing, Exception):
        return [f"class {name}({', '.join(base.__name__ for base in thing.__bases__)})"]
    if issubclass(thing, Enum):
        return [f"class {name}({', '.join(member.name for member in thing)})"]
    lines = [f"class {name}{signature(thing)}"]
    bases = [base for base in reversed(thing.__mro__) if base.__module__.startswith("samara")]
    for key, member in sorted({key: member for base in bases for key, member in vars(base).items()}.items()):
        fields = getattr(thing, "_fields", ()) or getattr(thing, "__dataclass_fields__", ())
        if (key.startswith("_") and key != "__getitem__") or key in fields:
            continue
        if isinstance(member, (property, cached_property)):
            lines.append(f"  .{key}")
        elif callable(function := getattr(thing, key)):
            lines.append(f"  .{key}{signature(function)}")
    return lines


def public_interface() -> str:
    return "\n".join(line for name in samara.__all__ for line in describe_member(name, getattr(samara, name))) + "\n"


def test_the_public_interface_is_the_recorded_one():
    """A changed signature is a decision: record it, and tell users in CHANGELOG.md."""
    assert public_interface() == SNAPSHOT.read_text(encoding="utf-8"), (
        "the public interface changed; if that is meant, run `python tests/repository/test_api.py`, read the difference of "
        "tests/repository/api.txt, and write it into CHANGELOG.md"
    )


def test_all_is_sorted_and_true():
    """Every listed name exists, once, some of them lazily, and `dir` lists nothing else."""
    assert samara.__all__ == sorted(set(samara.__all__))
    assert {name for name in dir(samara) if not name.startswith("__")} == set(samara.__all__)
    assert all(getattr(samara, name) is not None for name in samara.__all__)
    with pytest.raises(AttributeError, match="module 'samara' has no attribute 'flie'"):
        samara.flie  # noqa: B018


# Documentation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", EXPLAINED, ids=lambda module: module.__name__)
def test_everything_public_is_explained(module):
    """The module, its functions, its classes; the docstring that `NamedTuple` generates does not count."""
    assert module.__doc__
    public = [
        (name, thing)
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", "") == module.__name__ and callable(thing)
    ]
    silent = [name for name, thing in public if not thing.__doc__ or thing.__doc__.startswith(f"{name}(")]
    assert silent == []


def test_there_is_something_to_explain():
    """The walk above finds the functions it is meant for."""
    assert len(EXPLAINED) > 12
    for name in ("samara.physics.rotors.rotor", "samara.physics.multirotor", "samara.core.ops"):
        assert name in {module.__name__ for module in EXPLAINED}


def test_public_names_of_the_package_are_explained():
    for name in samara.__all__:
        thing = getattr(samara, name)
        assert not callable(thing) or (thing.__doc__ and not thing.__doc__.startswith(f"{name}(")), name


def test_types_are_shipped():
    assert (Path(samara.__file__).parent / "py.typed").is_file()


# Import cost and direction -----------------------------------------------------------------------------------------


def test_importing_samara_imports_no_backend():
    """A backend is imported only when it is used."""
    heavy = ("jax", "casadi", "sympy", "scipy", "matplotlib", "typer", "rich", "llvmlite")
    program = f"import sys, samara; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


PURE = {
    "ast",
    "cmath",
    "collections",
    "dataclasses",
    "enum",
    "functools",
    "importlib",
    "itertools",
    "math",
    "operator",
    "typing",
}
INWARD = {
    f"samara.core.{name}" for name in ("algebra", "ops", "quantity", "lazy_import", "implausible", "tree", "integrate")
}


def imports_when_loaded(path: Path) -> set[str]:
    """Modules named by import statements that run when the file is imported: not those for type checkers or in functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    modules = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module or "")
    return modules


@pytest.mark.parametrize("name", ["core/algebra.py", "core/ops.py", "core/quantity.py", "physics"])
def test_physics_imports_neither_backend_nor_file_format_nor_clock(name):
    """algebra, ops ← physics: imports point one way, and nothing else comes in."""
    place = Path(samara.__file__).parent / name
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    for file in files:
        for module in imports_when_loaded(file):
            inward = module in INWARD or module == "samara.core" or module.startswith("samara.physics")
            assert inward or module.partition(".")[0] in PURE, f"{file.name} imports {module}"


if __name__ == "__main__":
    SNAPSHOT.write_text(public_interface(), encoding="utf-8")
