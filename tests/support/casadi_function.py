"""Functions of scalars traced and evaluated by CasADi: a check that is independent of Samara's compiler."""

from collections.abc import Callable
from typing import Any

import casadi
import numpy as np

from samara.core.tree import flatten, unflatten


def casadi_function(function: Callable[..., Any], *templates: Any) -> Callable[..., Any]:
    """Return the function of nested tuples of floats, evaluated by CasADi's virtual machine.

    `templates` have the shapes of the arguments; their values do not matter. Results are nested tuples of floats.
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
