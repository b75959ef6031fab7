"""Lazy package attributes: imported on first access, and listed by `dir` before that.

__getattr__, __dir__ = lazy_attributes(__name__, __path__)
"""

import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.machinery import PathFinder
from typing import Any

NO_NAMES: Mapping[str, str] = {}


def lazy_attributes(
    package: str, path: Iterable[str], lazy_names: Mapping[str, str] = NO_NAMES
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package, for its modules and for `lazy_names`, a map from names to modules.

    If a module needs a package that is not installed, the attribute is missing and the AttributeError explains why.
    """
    folders = list(path)

    def get_attribute(name: str) -> Any:
        if name in lazy_names:
            return getattr(import_module(lazy_names[name]), name)
        full_name = f"{package}.{name}"
        if not name.startswith("_") and PathFinder.find_spec(full_name, folders):
            try:
                return import_module(full_name)
            except ImportError as error:
                raise AttributeError(f"{full_name}: {error}") from error
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def list_names() -> list[str]:
        modules = (
            module_info.name for module_info in pkgutil.iter_modules(folders) if not module_info.name.startswith("_")
        )
        return sorted({*vars(sys.modules[package]), *lazy_names, *modules})

    return get_attribute, list_names


_FUNCTIONS: dict[str, str] = {}


def register_presenters(functions: Mapping[str, str]) -> None:
    """Register presenters as 'module:function', keyed by type and method, as in 'Run.plot'."""
    _FUNCTIONS.update(functions)


def present(key: str, *arguments: Any) -> Any:
    """Call the presenter registered under a key, such as 'Run.plot'."""
    module, _, function = _FUNCTIONS[key].partition(":")
    return getattr(import_module(module), function)(*arguments)
