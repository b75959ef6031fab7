"""The equations as a CasADi function: traced once, then called with numbers."""

from collections.abc import Callable
from typing import Any

import casadi
import numpy as np

from samara.core.tree import flatten, unflatten


def trace(function: Callable[..., Any], *templates: Any) -> Callable[..., Any]:
    """The same function of nested tuples of floats, evaluated by CasADi's virtual machine instead of Python

    `templates` are arguments of the shapes to come; their numbers do not matter. Results are nested tuples of floats.
    """
    symbols = [casadi.SX.sym(f"x{i}", len(flatten(template))) for i, template in enumerate(templates)]
    arguments = [
        unflatten(template, iter(x[i] for i in range(x.numel())))
        for template, x in zip(templates, symbols, strict=True)
    ]
    result = function(*arguments)
    compiled = casadi.Function("traced", symbols, [casadi.cse(casadi.vertcat(*flatten(result)))])

    def call(*values: Any) -> Any:
        numbers = compiled(*(np.array(flatten(value), dtype=float) for value in values))
        return unflatten(result, iter(np.array(numbers)[:, 0].tolist()))

    return call
