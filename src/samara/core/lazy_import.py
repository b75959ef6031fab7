"""Names of a package that are imported when they are asked for, and shown by `dir` before that.

__getattr__, __dir__ = lazily(__name__, __path__)
"""

import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.machinery import PathFinder
from typing import Any

NOTHING: Mapping[str, str] = {}


def lazily(
    package: str, path: Iterable[str], later: Mapping[str, str] = NOTHING
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package: its modules by their names, and `later`, which says what is in which module

    Where a module needs a package that is not installed, the attribute is missing, with the sentence that says so.
    """
    folders = list(path)

    def get(name: str) -> Any:
        if name in later:
            return getattr(import_module(later[name]), name)
        full = f"{package}.{name}"
        if not name.startswith("_") and PathFinder.find_spec(full, folders):
            try:
                return import_module(full)
            except ImportError as error:
                raise AttributeError(f"{full}: {error}") from error
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        modules = (own.name for own in pkgutil.iter_modules(folders) if not own.name.startswith("_"))
        return sorted({*vars(sys.modules[package]), *later, *modules})

    return get, names


class MissingExtraError(ImportError):
    """One sentence: what needs a package, and the line that installs it."""


def scipy(module: str, what: str) -> Any:
    """A module of SciPy, for the few things that need it"""
    try:
        return import_module(f"scipy.{module}")
    except ImportError as error:
        raise MissingExtraError(f"{what} needs SciPy: pip install 'samara[scipy]'") from error


_FUNCTIONS: dict[str, str] = {}


def register(functions: Mapping[str, str]) -> None:
    """What shows what: 'module:function' by the name of the thing and the manner, as in 'Run.plot'"""
    _FUNCTIONS.update(functions)


def present(what: str, *arguments: Any) -> Any:
    """The thing, shown"""
    module, _, function = _FUNCTIONS[what].partition(":")
    return getattr(import_module(module), function)(*arguments)
