"""Packages that not everybody needs: what is said where one is missing."""

from importlib import import_module
from typing import Any


class MissingExtraError(ImportError):
    """One sentence: what needs a package, and the line that installs it."""


def scipy(module: str, what: str) -> Any:
    """A module of SciPy, for the few things that need it"""
    try:
        return import_module(f"scipy.{module}")
    except ImportError as error:
        raise MissingExtraError(f"{what} needs SciPy: pip install 'samara[scipy]'") from error
