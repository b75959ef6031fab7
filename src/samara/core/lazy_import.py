"""Lazy exports of a package: the names that its `__init__.py` imports for type checkers are imported on first access.

    if TYPE_CHECKING:
        from samara.control.mpc import MPC
    else:
        __getattr__, __dir__ = lazy_exports(__name__)

    __all__ = ["MPC"]

A name that is also the name of a module, such as `samara.control.geometric`, is imported above the block: importing the module
would replace a lazy attribute.
"""

import ast
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.machinery import SourceFileLoader
from typing import Any


def lazy_exports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package, for the names in its block `if TYPE_CHECKING:` and in `__all__`."""
    module = sys.modules[package]

    @cache
    def origins() -> dict[str, str]:
        """Return the module that each name of the block is imported from."""
        loader = module.__loader__
        assert isinstance(loader, SourceFileLoader)
        block = next(node for node in ast.parse(loader.get_source(package) or "").body if isinstance(node, ast.If))
        statements = [statement for statement in block.body if isinstance(statement, ast.ImportFrom)]
        return {alias.name: str(statement.module) for statement in statements for alias in statement.names}

    def get_attribute(name: str) -> Any:
        if name.startswith("__") or name not in origins():
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=module)
        origin = origins()[name]
        if origin == package:
            return import_module(f"{package}.{name}")
        return getattr(__import__(origin, fromlist=(name,)), name)

    def list_names() -> list[str]:
        return sorted({*module.__all__, *(name for name in vars(module) if name.startswith("__"))})

    return get_attribute, list_names


_FUNCTIONS: dict[str, str] = {}


def register_presenters(functions: Mapping[str, str]) -> None:
    """Register presenters as 'module:function', keyed by type and method, as in 'Run.plot'."""
    _FUNCTIONS.update(functions)


def present(key: str, *arguments: Any) -> Any:
    """Call the presenter registered under a key, such as 'Run.plot'."""
    module, _, function = _FUNCTIONS[key].partition(":")
    return getattr(import_module(module), function)(*arguments)
