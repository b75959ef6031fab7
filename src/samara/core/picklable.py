"""Picklable closures: a function created by a factory is pickled as the factory's name and arguments, never as code.

    @picklable_factory
    def hover(p_W):
        return Trajectory("hover", lambda time: Reference(p_W))

The lambda pickles as the call hover(p_W); unpickling calls `hover` again.
"""

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


class FactoryCall:
    """The call of a factory: its importable name and its arguments."""

    def __init__(self, module: str, name: str, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        self.module, self.name, self.args, self.options = module, name, args, options

    def __reduce__(self) -> tuple[Any, ...]:
        return FactoryCall, (self.module, self.name, self.args, self.options)

    @functools.cached_property
    def result(self) -> Any:
        """The result of calling the factory; computed once."""
        return getattr(importlib.import_module(self.module), self.name)(*self.args, **self.options)


class PicklableFunction:
    """A function with the factory call that created it; `field` names it in the factory's result, "" if it is the result."""

    def __init__(self, function: Callable[..., Any], factory_call: FactoryCall, field: str) -> None:
        functools.update_wrapper(self, function)
        self._function, self._factory_call, self._field = function, factory_call, field

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._function(*args, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        return _call_factory, (self._factory_call, self._field)


def _call_factory(factory_call: FactoryCall, field: str) -> Any:
    return getattr(factory_call.result, field) if field else factory_call.result


def picklable_factory(factory: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a module-level factory of a function, or of a record with functions: its functions become picklable."""

    @functools.wraps(factory)
    def create(*args: _P.args, **options: _P.kwargs) -> _R:
        result: Any = factory(*args, **options)
        factory_call = FactoryCall(factory.__module__, factory.__name__, args, options)
        if _is_local(result):
            return PicklableFunction(result, factory_call, "")  # type: ignore[return-value]
        if is_dataclass(result):
            for field in fields(result):
                if _is_local(function := getattr(result, field.name)):
                    object.__setattr__(result, field.name, PicklableFunction(function, factory_call, field.name))
        return result

    return create


def _is_local(function: Any) -> bool:
    """Whether pickle cannot import the function by its name."""
    return isinstance(function, FunctionType) and "<" in function.__qualname__
