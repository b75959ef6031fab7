"""How things are shown: what draws is named here, so that what is drawn need not know it.

    register({"Vehicle.html": "samara.view.report.html_repr:vehicle_html"})      # the package as a whole does this, in its root
    present("Vehicle.html", vehicle)                                            # the vehicle, asked by a notebook

A function is imported when it is first asked for: nothing is drawn in most programs, and drawing needs large libraries.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

_FUNCTIONS: dict[str, str] = {}


def register(functions: Mapping[str, str]) -> None:
    """What shows what: 'module:function' by the name of the thing and the manner, as in 'Run.plot'"""
    _FUNCTIONS.update(functions)


def present(what: str, *arguments: Any) -> Any:
    """The thing, shown"""
    module, _, function = _FUNCTIONS[what].partition(":")
    return getattr(import_module(module), function)(*arguments)
