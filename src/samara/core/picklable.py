"""Functions made by functions, in a form that can be pickled: what is kept is who made them and of what, never their code.

    @remade
    def hover(p_W):
        return Trajectory("hover", lambda time: Reference(p_W))

Pickled, the function inside is "hover, of this p_W"; unpickled, `hover` has made it again.
"""

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Recipe:
    """A maker by its importable name, and what it was given."""

    def __init__(self, module: str, name: str, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        self.module, self.name, self.args, self.options = module, name, args, options

    def __reduce__(self) -> tuple[Any, ...]:
        return Recipe, (self.module, self.name, self.args, self.options)

    @functools.cached_property
    def result(self) -> Any:
        """What the maker makes of it"""
        return getattr(importlib.import_module(self.module), self.name)(*self.args, **self.options)


class Made:
    """A function that knows its recipe: the whole result of its maker, or one field of it."""

    def __init__(self, function: Callable[..., Any], recipe: Recipe, field: str) -> None:
        functools.update_wrapper(self, function)
        self._function, self._recipe, self._field = function, recipe, field

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._function(*args, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._recipe, self._field)


def _again(recipe: Recipe, field: str) -> Any:
    return getattr(recipe.result, field) if field else recipe.result


def remade(maker: Callable[_P, _R]) -> Callable[_P, _R]:
    """A maker, at the top of its module, of a function or of a record with functions in it: they can be pickled"""

    @functools.wraps(maker)
    def made(*args: _P.args, **options: _P.kwargs) -> _R:
        result: Any = maker(*args, **options)
        recipe = Recipe(maker.__module__, maker.__name__, args, options)
        if _is_local(result):
            return Made(result, recipe, "")  # type: ignore[return-value]
        if is_dataclass(result):
            for field in fields(result):
                if _is_local(function := getattr(result, field.name)):
                    object.__setattr__(result, field.name, Made(function, recipe, field.name))
        return result

    return made


def _is_local(function: Any) -> bool:
    """Whether pickle would not find it by its name"""
    return isinstance(function, FunctionType) and "<" in function.__qualname__
