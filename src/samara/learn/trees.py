"""Trees of arrays, of NumPy or JAX: tuples, named ones, lists and dicts, in the order in which JAX has their leaves."""

from collections.abc import Callable, Iterator
from typing import Any


def leaves_of(tree: Any) -> list[Any]:
    """All arrays of a tree"""
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in leaves_of(tree[key])]
    return [leaf for branch in tree for leaf in leaves_of(branch)] if isinstance(tree, (tuple, list)) else [tree]


def mapped(function: Callable[..., Any], *trees: Any) -> Any:
    """function over the leaves of trees of one shape"""
    if isinstance(trees[0], dict):
        return {key: mapped(function, *(own[key] for own in trees)) for key in sorted(trees[0])}
    if not isinstance(trees[0], (tuple, list)):
        return function(*trees)
    parts = [mapped(function, *branches) for branches in zip(*trees, strict=True)]
    return type(trees[0])(*parts) if hasattr(trees[0], "_fields") else type(trees[0])(parts)


def rebuilt(like: Any, leaves: Iterator[Any]) -> Any:
    """A tree of the same shape with other leaves"""
    return mapped(lambda _: next(leaves), like)
