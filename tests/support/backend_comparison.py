"""One function on every backend: its values, and its gradients."""

import math
from typing import Any

import casadi
import jax
import jax.numpy as jnp
import numpy as np
import sympy

from samara.core.tree import flatten, unflatten
from support.sampling import Case

jax.config.update("jax_enable_x64", True)

TOLERANCE = 1e-12
ROUNDINGS = 4


def flat_function(case: Case) -> Any:
    """The case as a function from a list of scalars to a list of scalars."""
    template = case.points[0]

    def call(leaves: Any) -> list[Any]:
        return flatten(case.call(unflatten(template, iter(leaves))))

    return call


def excess(a: np.ndarray, b: np.ndarray, limit: np.ndarray) -> float:
    """Return the largest difference in units of the tolerance."""
    return float((np.abs(a - b) / limit).max())


def compare(case: Case) -> float:
    """Compare the backends and return the largest difference.

    Values must agree within 1e-12 (relative above one) of the float's, or within a few rounding errors of the arguments if the
    function magnifies those: metres from angles on the globe, newtons from the depth of a stiff contact.
    """
    call = flat_function(case)
    points = np.array([flatten(point) for point in case.points], dtype=float)
    float_values = np.array([call([float(x) for x in row]) for row in points], dtype=float)
    if not float_values.size:
        return 0.0
    assert np.isfinite(float_values).all(), (
        f"{case.name} is not finite at {points[~np.isfinite(float_values).all(axis=1)][0]}"
    )
    casadi_values, jacobians = evaluate_casadi(call, points)
    assert np.isfinite(jacobians).all(), f"{case.name}: the CasADi Jacobian is not finite"

    magnified = np.einsum("pij,pj->pi", np.abs(jacobians), np.abs(points))
    limit = TOLERANCE * np.maximum(1.0, np.abs(float_values)) + ROUNDINGS * np.finfo(float).eps * magnified
    values_by_backend = {
        "CasADi": casadi_values,
        "NumPy": evaluate_numpy(call, points),
        "JAX": evaluate_jax(call, points),
        "SymPy": evaluate_sympy(call, points),
    }
    # SymPy's π has more digits than a float's: half a turn may be on either side of the branch cut there
    half_turn = np.abs(float_values) == math.pi
    values_by_backend["SymPy"][half_turn] = np.copysign(values_by_backend["SymPy"][half_turn], float_values[half_turn])
    for name, values in values_by_backend.items():
        assert excess(float_values, values, limit) <= 1.0, (
            f"{case.name}: {name} differs by {np.abs(float_values - values).max()}"
        )

    weights = np.random.default_rng(1).uniform(0.5, 1.5, float_values.shape[1])
    gradients, gradients_of_jax = (
        np.einsum("i,pij->pj", weights, jacobians),
        compute_jax_gradients(call, points, weights),
    )
    is_bad = ~np.isfinite(gradients_of_jax).all(axis=1)
    assert not is_bad.any(), f"{case.name}: the JAX gradient is not finite at {points[is_bad][0].tolist()}"
    steepest = np.maximum(1.0, np.abs(gradients).max(axis=1, keepdims=True))
    assert excess(gradients, gradients_of_jax, TOLERANCE * steepest) <= 1.0, (
        f"{case.name}: gradients of JAX and CasADi differ"
    )
    return max(
        excess(float_values, values, np.maximum(1.0, np.abs(float_values))) for values in values_by_backend.values()
    )


def evaluate_numpy(call: Any, points: np.ndarray) -> np.ndarray:
    """Evaluate all points as one batch: the components are arrays."""
    return np.stack(np.broadcast_arrays(*call(list(points.T)), points[:, 0])[:-1], axis=1)


def evaluate_jax(call: Any, points: np.ndarray) -> np.ndarray:
    """Evaluate compiled, as a batch. XLA's fusion pass would only copy the shared scalars of a big graph into every output."""
    compiled = jax.jit(jax.vmap(lambda leaves: [jnp.asarray(y, dtype=float) for y in call(leaves)]))
    columns = [jnp.asarray(column) for column in points.T]
    fast_to_build = {"xla_disable_hlo_passes": "fusion"} if len(columns) > 100 else {}
    return np.stack(compiled.lower(columns).compile(compiler_options=fast_to_build)(columns), axis=1)


def evaluate_sympy(call: Any, points: np.ndarray) -> np.ndarray:
    """Evaluate in 30 digits: an oracle of the arithmetic."""
    rows = [call([sympy.Float(x, 30) for x in row]) for row in points]
    return np.array([[float(y) for y in row] for row in rows])


def evaluate_casadi(call: Any, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values and Jacobians from one CasADi trace."""
    n = points.shape[1]
    x = casadi.SX.sym("x", n)
    y = casadi.vertcat(*call([x[i] for i in range(n)]))
    function = casadi.Function("f", [x], [y, casadi.jacobian(y, x)])
    values, jacobians = zip(*((np.array(v)[:, 0], np.array(j)) for v, j in map(function, points)), strict=True)
    return np.array(values), np.array(jacobians)


def compute_jax_gradients(call: Any, points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    def weighted_sum(leaves: Any) -> Any:
        return sum(weight * y for weight, y in zip(weights, call(leaves), strict=True)) + 0.0 * leaves[0]

    return np.stack(jax.vmap(jax.grad(weighted_sum))([jnp.asarray(column) for column in points.T]), axis=1)
