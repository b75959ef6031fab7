"""Laws of vectors, quaternions and matrices, and of the operations beneath them, for every scalar type."""

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import casadi
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation
from support.traced_flights import rotation

import samara
from samara.core import algebra, ops
from samara.core.algebra import (
    Euler,
    Mat3,
    Quat,
    Vec3,
    angle_between,
    conjugate,
    cross,
    determinant,
    diagonal,
    direction,
    dot,
    euler_from_quat,
    matrix_from_quat,
    norm,
    normalize,
    quat_exp,
    quat_from_axis_angle,
    quat_from_euler,
    quat_from_matrix,
    quat_log,
    rotate,
    rotate_inverse,
    scale,
    solve_definite,
)
from samara.core.integrate import euler
from samara.core.tree import flatten
from samara.physics.multirotor import derivative

law = settings(deadline=None, derandomize=True)
EPS = float(np.finfo(float).eps)
NAN = math.nan

number = st.floats(-1e3, 1e3)
vectors = st.builds(Vec3, number, number, number)
quaternions = st.builds(Quat, number, number, number, number)

GROUPS = (
    Vec3(1.0, -2.0, 3.5),
    Quat(0.5, -1.0, 2.0, -4.0),
    Mat3(1.0, 2.0, -3.0, 0.5, 5.0, 6.0, -7.0, 8.0, 0.25),
)


def distance(result: Any, expected: Any) -> float:
    """The largest difference of two arrays; NaN, which is below no bound, if either holds one."""
    return float(np.abs(np.asarray(result, dtype=float) - np.asarray(expected, dtype=float)).max())


# Operators, for every scalar type ----------------------------------------------------------------------------------


def component_value(x: Any) -> Any:
    """Return the number that a component represents, with the symbol s = 2."""
    if isinstance(x, casadi.SX):
        return float(casadi.evalf(casadi.substitute(x, *_SX_IS_TWO)))
    if isinstance(x, sympy.Basic):
        return float(x.subs(_SYMPY_S, 2))
    return float(x) if isinstance(x, casadi.DM) else x


_SX_S = casadi.SX.sym("s")
_SX_IS_TWO = (_SX_S, casadi.SX(2))
_SYMPY_S = sympy.Symbol("s", real=True)
SCALARS = {
    "float": 2.0,
    "int": 2,
    "NumPy float64": np.float64(2.0),
    "NumPy float32": np.float32(2.0),
    "NumPy array": np.array([2.0, 4.0]),
    "NumPy array without axes": np.array(2.0),
    "JAX array": jnp.array([2.0, 4.0]),
    "JAX array without axes": jnp.array(2.0),
    "CasADi SX": _SX_S,
    "CasADi DM": casadi.DM(2.0),
    "SymPy symbol": _SYMPY_S,
    "SymPy number": sympy.Integer(2),
}
every_scalar = pytest.mark.parametrize("scalar", SCALARS.values(), ids=SCALARS.keys())
every_group = pytest.mark.parametrize("a", GROUPS, ids=lambda a: type(a).__name__)


@every_scalar
@every_group
def test_a_scalar_may_stand_on_either_side(a, scalar):
    """s a = a s, component by component; a/s divides: no library may turn the group into an array."""
    s = component_value(scalar)
    for result, expected in (
        (scalar * a, [s * x for x in a]),
        (a * scalar, [s * x for x in a]),
        (a / scalar, [x / s for x in a]),  # by powers of two: nothing is rounded
    ):
        assert type(result) is type(a)
        assert all(np.array_equal(component_value(x), y) for x, y in zip(result, expected, strict=True))


@every_group
def test_a_traced_scalar_may_stand_on_either_side(a):
    """The same inside jit, where the scalar is a tracer."""
    for product in jax.jit(lambda s: (s * a, a * s))(2.0):
        assert type(product) is type(a)
        assert [float(x) for x in product] == [2.0 * x for x in a]


@every_scalar
@every_group
def test_groups_of_every_scalar_add_subtract_and_sum(a, scalar):
    """sum([a, a, a]) = 3a = a + (a + a), −a = a − 2a: starting from the 0 that `sum` starts with."""
    a = a * scalar
    for result, factor in ((sum([a, a, a]), 3.0), (a + (a + a), 3.0), (a - (a + a), -1.0), (-a, -1.0), (0 + a, 1.0)):
        assert type(result) is type(a)
        assert all(
            np.array_equal(component_value(x), factor * component_value(component))
            for x, component in zip(result, a, strict=True)
        )


def test_a_plain_tuple_may_stand_on_either_side_of_plus():
    """A vector written as a tuple is a vector; it is not appended."""
    ones, plain = Vec3(1.0, 1.0, 1.0), (1.0, 2.0, 3.0)
    assert plain + ones == ones + plain == Vec3(2.0, 3.0, 4.0)


def test_hamilton_s_bridge():
    """i² = j² = k² = ijk = −1, and ij = k = −ji: Hamilton's rule, not the other handedness (JPL)."""
    i, j, k = Quat(0.0, 1.0, 0.0, 0.0), Quat(0.0, 0.0, 1.0, 0.0), Quat(0.0, 0.0, 0.0, 1.0)
    minus_one = Quat(-1.0, 0.0, 0.0, 0.0)
    assert i * i == j * j == k * k == i * j * k == minus_one
    assert i * j == k == -(j * i)


@law
@given(a=quaternions, b=quaternions)
def test_the_norm_of_a_quaternion_product_is_the_product_of_the_norms(a, b):
    """|a b|² = |a|² |b|² (Euler's four-square identity)."""
    square = {name: sum(x * x for x in q) for name, q in (("a", a), ("b", b), ("ab", a * b))}
    assert square["ab"] == pytest.approx(square["a"] * square["b"], rel=1e-14, abs=1e-300)


@law
@given(a=vectors, b=vectors)
def test_vector_products_are_numpy_s(a, b):
    """a·b, a×b, a∘b, |a| as NumPy has them; rounding is of the size of |a||b|."""
    size = np.linalg.norm(a) * np.linalg.norm(b)
    assert distance(dot(a, b), np.dot(a, b)) <= 2 * EPS * size
    assert distance(np.array(cross(a, b)), np.cross(a, b)) <= 2 * EPS * size
    assert distance(np.array(scale(a, b)), np.array(a) * np.array(b)) == 0
    assert norm(a) == pytest.approx(math.hypot(*a), rel=4 * EPS, abs=1e-150)  # squares below 1e-300 underflow


def test_matrix_products_determinant_and_transpose_are_numpy_s():
    """A B, A v, det A, Aᵀ of a thousand random matrices at once."""
    rng = np.random.default_rng(1)
    a, b, v = rng.normal(size=(1000, 3, 3)), rng.normal(size=(1000, 3, 3)), rng.normal(size=(1000, 3))
    A, B, V = Mat3(*a.reshape(-1, 9).T), Mat3(*b.reshape(-1, 9).T), Vec3(*v.T)
    assert distance(np.array(A @ B).T.reshape(-1, 3, 3), a @ b) <= 1e-14
    assert distance(np.array(A @ V).T, np.einsum("nij,nj->ni", a, v)) <= 1e-14
    assert distance(determinant(A), np.linalg.det(a)) <= 1e-13
    assert (np.array(A.transpose).T.reshape(-1, 3, 3) == a.transpose(0, 2, 1)).all()
    assert (np.array(A.columns) == a.transpose(2, 1, 0)).all()
    assert (np.array(A.rows) == a.transpose(1, 2, 0)).all()


def test_a_direction_has_length_one_and_that_of_zero_is_zero():
    """|a/|a|| = 1 over 200 orders of magnitude; the zero vector stays zero."""
    rng = np.random.default_rng(2)
    a = Vec3(*(rng.normal(size=(3, 1000)) * 10.0 ** rng.uniform(-100, 100, size=1000)))
    assert np.linalg.norm(np.array(direction(a)), axis=0) == pytest.approx(1.0, rel=3 * EPS)
    assert direction(algebra.ZERO) == algebra.ZERO


def test_definite_systems_are_solved_as_numpy_solves_them():
    """M⁻¹ b for full, symmetric, positive-definite M. Condition numbers reach 1e6, and the error that multiple of ε."""
    rng = np.random.default_rng(3)
    rotations = Rotation.random(1000, rng=rng).as_matrix()
    m = rotations @ (10.0 ** rng.uniform(-6, 0, size=(1000, 3, 1)) * rotations.transpose(0, 2, 1))
    m = 0.5 * (m + m.transpose(0, 2, 1))
    b = rng.normal(size=(1000, 3))
    result = np.array(solve_definite(Mat3(*m.reshape(-1, 9).T), Vec3(*b.T))).T
    expected = np.linalg.solve(m, b[..., None])[..., 0]
    error = np.linalg.norm(result - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert (error <= 2.0 * EPS * np.linalg.cond(m)).all()


def test_a_diagonal_system_is_three_divisions():
    """M = diag(d): x = b/d to the last bit."""
    assert solve_definite(diagonal(Vec3(2.0, 3.0, 7.0)), Vec3(1.0, 5.0, -4.0)) == (1.0 / 2.0, 5.0 / 3.0, -4.0 / 7.0)


# Rotations, against SciPy ------------------------------------------------------------------------------------------


def random_attitudes(count: int = 2000) -> Quat:
    """Rotations of every size, then half turns, right angles and the identity; and each of them again as −q."""
    rng = np.random.default_rng(4)
    axes = Rotation.random(count, rng=rng).as_rotvec()
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    half_turns = np.concatenate([axes[:100] * math.pi, np.eye(3) * math.pi, -np.eye(3) * math.pi])
    quarter_turns = np.concatenate([np.eye(3), -np.eye(3)]) * (math.pi / 2)
    small = axes[:200] * 10.0 ** rng.uniform(-16, 0, size=(200, 1))
    nearly_half = axes[:200] * (math.pi - 10.0 ** rng.uniform(-16, 0, size=(200, 1)))
    vectors = [
        axes * rng.uniform(0, math.pi, size=(count, 1)),
        half_turns,
        quarter_turns,
        small,
        nearly_half,
        [[0, 0, 0]],
    ]
    x, y, z, w = Rotation.from_rotvec(np.concatenate(vectors)).as_quat().T
    return Quat(*(np.concatenate([component, -component]) for component in (w, x, y, z)))


def same_rotation(q: Quat, expected: Rotation) -> float:
    """The largest angle between two sets of rotations [rad]."""
    return float(np.max((rotation(q) * expected.inv()).magnitude()))


def test_rotating_a_vector_is_scipy_s_rotation():
    """q ⊗ (0, v) ⊗ q*, forwards and backwards; lengths are preserved."""
    q = random_attitudes()
    v = np.random.default_rng(5).normal(size=(q.w.size, 3))
    forwards, backwards = rotate(q, Vec3(*v.T)), rotate_inverse(q, Vec3(*v.T))
    assert distance(np.array(forwards).T, rotation(q).apply(v)) <= 1e-14
    assert distance(np.array(backwards).T, rotation(q).inv().apply(v)) <= 1e-14
    assert norm(forwards) == pytest.approx(np.linalg.norm(v, axis=1), rel=4e-15)


def test_a_rotation_is_the_sandwich_product():
    """rotate(q, v) = q ⊗ (0, v) ⊗ q*, written with the quaternion product itself."""
    q = random_attitudes()
    v = Vec3(*np.random.default_rng(6).normal(size=(3, q.w.size)))
    sandwich = q * Quat(0.0, *v) * conjugate(q)
    assert np.abs(sandwich.w).max() < 4e-15
    assert distance(np.array(rotate(q, v)), np.array(sandwich.vector)) <= 1e-14


def test_quaternion_products_compose_rotations():
    """rotate(a ⊗ b, v) = rotate(a, rotate(b, v)), and SciPy composes in the same order."""
    a = random_attitudes()
    b = Quat(*(np.roll(component, 7) for component in a))
    assert same_rotation(a * b, rotation(a) * rotation(b)) < 1e-15
    v = Vec3(*np.random.default_rng(7).normal(size=(3, a.w.size)))
    assert distance(np.array(rotate(a * b, v)), np.array(rotate(a, rotate(b, v)))) <= 1e-14


def test_matrices_and_quaternions_are_one_rotation():
    """R(q) as SciPy has it, proper and orthogonal; back again to ±q, half turns included; the two signs give one R."""
    q = random_attitudes()
    R = matrix_from_quat(q)
    assert distance(np.array(R).T.reshape(-1, 3, 3), rotation(q).as_matrix()) <= 2e-15
    assert distance(np.array(matrix_from_quat(-q)), np.array(R)) == 0
    assert determinant(R) == pytest.approx(1.0, rel=2e-15)
    back = quat_from_matrix(R)
    assert same_rotation(back, rotation(q)) < 1e-15
    assert np.linalg.norm(np.array(back), axis=0) == pytest.approx(1.0, rel=2 * EPS)


def test_the_axis_of_a_rotation_is_the_imaginary_part_of_its_quaternion():
    """R has the eigenvalue 1, its eigenvector (by NumPy) points along (x, y, z), and the others are e^{±iα}, cos ½α = w."""
    for roll, pitch, yaw in ((0.4, -0.7, 1.9), (0.1, 0.2, -0.3), (2.0, 1.0, 3.0)):
        q = quat_from_euler(roll, pitch, yaw)
        values, vectors = np.linalg.eig(np.array(matrix_from_quat(q)).reshape(3, 3))
        at = int(np.argmin(np.abs(values - 1.0)))
        assert values[at] == pytest.approx(1.0, abs=1e-14)
        axis = vectors[:, at].real
        assert np.cross(axis, q.vector) == pytest.approx(np.zeros(3), abs=1e-14)
        angle = np.abs(np.angle(np.delete(values, at)))
        assert np.cos(angle / 2) == pytest.approx([abs(q.w)] * 2, abs=1e-14)


def test_euler_angles_are_scipy_s_away_from_gimbal_lock():
    """R = Rz(ψ) Ry(θ) Rx(φ), intrinsic Z-Y-X; and the angles come back."""
    rng = np.random.default_rng(8)
    roll, yaw = rng.uniform(-math.pi, math.pi, size=(2, 2000))
    pitch = rng.uniform(-1.5, 1.5, size=2000)
    q = quat_from_euler(roll, pitch, yaw)
    assert same_rotation(q, Rotation.from_euler("ZYX", np.stack([yaw, pitch, roll], axis=1))) < 1e-15
    for sign in (1.0, -1.0):
        angles = euler_from_quat(q * sign)
        for result, expected in zip(angles, (roll, pitch, yaw), strict=True):
            assert distance(result, expected) <= 1e-14


def test_every_attitude_survives_its_euler_angles():
    """quat(euler(q)) turns every vector as q does, at half turns and for either sign of q."""
    q = random_attitudes()
    assert same_rotation(quat_from_euler(*euler_from_quat(q)), rotation(q)) < 2e-15


@pytest.mark.parametrize("end", [1.0, -1.0])
def test_gimbal_lock_keeps_the_rotation_and_calls_it_all_yaw(end):
    """At θ = ±90° only ψ ∓ φ has a meaning: roll becomes 0 and the rotation is preserved, as on every approach.

    Within 1.5e-12 rad of the lock roll is already 0, which changes the rotation by at most that angle to either side.
    """
    rng = np.random.default_rng(9)
    roll, yaw = rng.uniform(-math.pi, math.pi, size=(2, 3000))
    gap = np.concatenate([np.zeros(1000), 10.0 ** rng.uniform(-17, -1, size=2000)])
    expected = Rotation.from_euler("ZYX", np.stack([yaw, end * (math.pi / 2 - gap), roll], axis=1))
    x, y, z, w = expected.as_quat().T
    angles = euler_from_quat(Quat(w, x, y, z))
    error = (rotation(quat_from_euler(*angles)) * expected.inv()).magnitude()
    assert (error <= 2e-15 + np.where(gap < 1.5e-12, 2.0 * gap, 0.0)).all()
    assert (angles.roll[gap < 1e-12] == 0.0).all()
    assert distance(angles.pitch, end * (math.pi / 2 - gap)) <= 1e-15
    exact = euler_from_quat(Quat(math.sqrt(0.5), 0.0, end * math.sqrt(0.5), 0.0))
    assert exact == Euler(0.0, end * math.pi / 2, 0.0)


def test_exponential_and_logarithm_are_scipy_s_rotation_vectors():
    """exp and log over 300 orders of magnitude up to half a turn, across the switch to the series at 2e-4 rad."""
    rng = np.random.default_rng(10)
    axis = Rotation.random(4000, rng=rng).as_rotvec()
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    angle = np.concatenate([10.0 ** rng.uniform(-300, 0, 1000), 2e-4 + rng.uniform(-1e-6, 1e-6, 1000)])
    angle = np.concatenate([angle, rng.uniform(0, math.pi, 1000), math.pi - 10.0 ** rng.uniform(-14, 0, 1000)])
    vector = axis * angle[:, None]
    q = quat_exp(Vec3(*vector.T))
    assert same_rotation(q, Rotation.from_rotvec(vector)) < 1e-15
    assert np.linalg.norm(np.array(q), axis=0) == pytest.approx(1.0, rel=2 * EPS)
    for sign in (1.0, -1.0):  # q and −q are one rotation
        result = np.array(quat_log(q * sign)).T
        assert np.linalg.norm(result - vector, axis=1) / angle == pytest.approx(0.0, abs=4e-15)


def test_half_a_turn_has_a_logarithm_of_length_pi():
    """At 180° the two rotation vectors ±πa are one rotation; the logarithm is one of them, and no longer than π."""
    for axis in (*np.eye(3), *-np.eye(3), np.array([0.6, -0.8, 0.0])):
        q = Quat(0.0, *axis)
        assert norm(quat_log(q)) == pytest.approx(math.pi, rel=EPS)
        assert same_rotation(quat_exp(quat_log(q)), rotation(q)) < 1e-15
    assert norm(quat_log(random_attitudes())).max() <= math.pi * (1.0 + EPS)


def test_axis_and_angle_give_scipy_s_rotation():
    """q of an axis of any length and an angle of many turns."""
    rng = np.random.default_rng(11)
    axis, angle = rng.normal(size=(1000, 3)) * 5.0, rng.uniform(-10.0, 10.0, size=1000)
    unit = axis / np.linalg.norm(axis, axis=1, keepdims=True)
    assert (
        same_rotation(quat_from_axis_angle(Vec3(*axis.T), angle), Rotation.from_rotvec(unit * angle[:, None])) < 1e-14
    )


def test_the_angle_between_attitudes_is_scipy_s_magnitude():
    """|log(a* b)|, the same for ±a and ±b, and accurate to the last digits for angles of any size."""
    a = random_attitudes()
    turn = np.random.default_rng(12).normal(size=(a.w.size, 3))
    turn *= (10.0 ** np.random.default_rng(13).uniform(-14, 0.4, size=a.w.size) / np.linalg.norm(turn, axis=1))[:, None]
    b = a * quat_exp(Vec3(*turn.T))
    for first in (a, -a):
        assert angle_between(first, b) == pytest.approx(np.linalg.norm(turn, axis=1), rel=1e-14, abs=1e-15)


def test_a_zero_quaternion_never_becomes_an_attitude():
    """0/|0| is an error on floats and NaN on arrays: never a plausible attitude."""
    with pytest.raises(ZeroDivisionError):
        normalize(Quat(0.0, 0.0, 0.0, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        assert np.isnan(np.array(normalize(Quat(*np.zeros((4, 2)))))).all()


# Operations --------------------------------------------------------------------------------------------------------

KNOTS, VALUES = (0.0, 0.1, 0.5, 0.9, 1.0), (9.0, 10.8, 11.4, 12.3, 12.6)  # the NED simulator's battery

OPERATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "minimum(x, y)": (lambda x, y: ops.minimum(x, y), np.minimum),
    "minimum(x, 1)": (lambda x: ops.minimum(x, 1.0), lambda x: np.minimum(x, 1.0)),
    "minimum(1, x)": (lambda x: ops.minimum(1.0, x), lambda x: np.minimum(x, 1.0)),
    "maximum(x, y)": (lambda x, y: ops.maximum(x, y), np.maximum),
    "maximum(x, 1)": (lambda x: ops.maximum(x, 1.0), lambda x: np.maximum(x, 1.0)),
    "maximum(1, x)": (lambda x: ops.maximum(1.0, x), lambda x: np.maximum(x, 1.0)),
    "clamp(x, 0, 1)": (lambda x: ops.clamp(x, 0.0, 1.0), lambda x: np.clip(x, 0.0, 1.0)),
    "clamp(0.5, x, 9)": (lambda x: ops.clamp(0.5, x, 9.0), lambda x: np.maximum(x, 0.5)),
    "clamp(0.5, -9, x)": (lambda x: ops.clamp(0.5, -9.0, x), lambda x: np.minimum(x, 0.5)),
    "clamp(x, y, 9)": (lambda x, y: ops.clamp(x, y, 9.0), np.maximum),
    "absolute": (lambda x: ops.absolute(x), np.abs),
    "sign": (lambda x: ops.sign(x), np.sign),
    "safe_sqrt": (lambda x: ops.safe_sqrt(x), lambda x: np.sqrt(np.maximum(x, 0.0))),
    "safe_norm": (lambda x, y: ops.safe_norm(x, y), np.hypot),
    "safe_divide(x, y)": (lambda x, y: ops.safe_divide(x, y), lambda x, y: x / y if y else x * 0.0),
    "safe_divide(1, x)": (lambda x: ops.safe_divide(1.0, x), lambda x: 1.0 / x if x else 0.0),
    "safe_divide(x, 0)": (lambda x: ops.safe_divide(x, 0.0), lambda x: x * 0.0),
    "wrap_angle": (lambda x: ops.wrap_angle(x), lambda x: math.remainder(x, 2.0 * math.pi)),
    "piecewise_linear": (lambda x: ops.piecewise_linear(x, KNOTS, VALUES), lambda x: np.interp(x, KNOTS, VALUES)),
    "piecewise_linear through y": (
        lambda x, y: ops.piecewise_linear(x, (-1.0, 3.0), (y, 2.0)),
        lambda x, y: np.interp(x, (-1.0, 3.0), (y, 2.0)) + 0.0 * y * x,
    ),
}


def evaluate_numpy(function: Callable[..., Any], *values: float) -> float:
    """Evaluate among well-behaved neighbours, which a NaN must not affect."""
    neighbours = [np.array([0.3, value, 0.7]) for value in values]
    result = np.broadcast_to(function(*neighbours), 3)
    without_nan = [function(*(0.3,) * len(values)), function(*(0.7,) * len(values))]
    assert result[[0, 2]] == pytest.approx(np.array(without_nan, dtype=float), rel=1e-15)
    return float(result[1])


def evaluate_casadi(function: Callable[..., Any], *values: float) -> float:
    symbols = [casadi.SX.sym(f"x{i}") for i in range(len(values))]
    return float(casadi.Function("f", symbols, [function(*symbols)])(*values))


BACKENDS: dict[str, Callable[..., float]] = {
    "float": lambda function, *values: function(*values),
    "NumPy": evaluate_numpy,
    "JAX": lambda function, *values: float(function(*(jnp.array(value) for value in values))),
    "JAX jit": lambda function, *values: float(jax.jit(function)(*values)),
    "CasADi": evaluate_casadi,
}
every_backend = pytest.mark.parametrize("evaluate", BACKENDS.values(), ids=BACKENDS.keys())
every_operation = pytest.mark.parametrize(("operation", "reference"), OPERATIONS.values(), ids=OPERATIONS.keys())
GOOD = (0.0, 1.0, -2.0, 0.25)


def pairings(operation: Callable[..., Any], good: tuple[float, ...]) -> Iterator[tuple[float, ...]]:
    one = len(inspect.signature(operation).parameters) == 1
    yield from ((x,) for x in good) if one else ((x, y) for x in good for y in good)


@every_backend
@every_operation
def test_operations_have_numpy_s_values(operation, reference, evaluate):
    """Each operation at kinks, inside and outside, as NumPy or the math library has it."""
    for values in pairings(operation, GOOD):
        assert evaluate(operation, *values) == pytest.approx(float(reference(*values)), rel=2 * EPS, abs=EPS)


@every_backend
@every_operation
def test_nan_propagates(operation, reference, evaluate):
    """A NaN in any argument comes out as NaN, beside any other value, on every backend."""
    for values in pairings(operation, (NAN, *GOOD, math.inf)):
        if any(math.isnan(value) for value in values):
            assert math.isnan(evaluate(operation, *values)), values


@every_operation
def test_slopes_are_finite_and_the_same_where_an_operation_has_a_kink(operation, reference):
    """JAX differentiates the program, CasADi the expression: one finite slope, at 0, at 1, at equal arguments."""
    count = len(inspect.signature(operation).parameters)
    symbols = [casadi.SX.sym(f"x{i}") for i in range(count)]
    slopes = casadi.Function("f", symbols, [casadi.gradient(operation(*symbols), casadi.vertcat(*symbols))])
    for values in pairings(operation, GOOD):
        expected = np.array(slopes(*values)).ravel()
        result = np.array(jax.grad(operation, argnums=tuple(range(count)))(*values))
        assert np.isfinite(expected).all()
        assert result == pytest.approx(expected, rel=1e-14, abs=1e-15), values


@law
@given(x=st.floats(-1e6, 1e6))
def test_a_wrapped_angle_has_the_same_direction(x):
    """wrap(x) lies in [−π, π], but for rounding, and differs from x by whole turns."""
    wrapped = ops.wrap_angle(x)
    assert abs(wrapped) <= math.pi * (1.0 + EPS)
    assert math.remainder(x - wrapped, 2.0 * math.pi) == pytest.approx(0.0, abs=4.0 * EPS * max(1.0, abs(x)))


# Single precision --------------------------------------------------------------------------------------------------


def single(tree: Any) -> Any:
    return jax.tree.map(lambda x: jnp.asarray(x, dtype=jnp.float32), tree)


def assert_single(tree: Any) -> None:
    """float32, or a weakly typed constant, which promotes nothing."""
    for leaf in jax.tree.leaves(tree):
        assert leaf.dtype == jnp.float32 or leaf.weak_type


Q, V, M = Quat(0.5, -0.5, 0.5, 0.5), Vec3(0.3, -2.0, 1.0), Mat3(2.0, 0.1, 0.2, 0.1, 3.0, 0.3, 0.2, 0.3, 4.0)
SINGLE = {
    "rotate": (rotate, (Q, V)),
    "normalize": (normalize, (Q,)),
    "euler_from_quat": (euler_from_quat, (Q,)),
    "quat_from_euler": (quat_from_euler, (0.1, 0.2, 0.3)),
    "quat_from_matrix": (quat_from_matrix, (Mat3(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0),)),
    "matrix_from_quat": (matrix_from_quat, (Q,)),
    "quat_exp": (quat_exp, (V,)),
    "quat_log": (quat_log, (Q,)),
    "angle_between": (angle_between, (Q, Q)),
    "solve_definite": (solve_definite, (M, V)),
    "direction": (direction, (V,)),
    "sign": (ops.sign, (0.3,)),
    "clamp": (lambda x: ops.clamp(x, 0.0, 1.0), (0.3,)),
    "safe_divide": (ops.safe_divide, (0.3, 0.0)),
    "wrap_angle": (ops.wrap_angle, (4.0,)),
    "piecewise_linear": (lambda x: ops.piecewise_linear(x, KNOTS, VALUES), (0.3,)),
}


@pytest.mark.parametrize(("function", "arguments"), SINGLE.values(), ids=SINGLE.keys())
def test_single_precision_stays_single_under_jit(function, arguments):
    """Constants are Python floats, weakly typed: float32 in, float32 out, even where JAX has doubles."""
    with jax.enable_x64(True):
        assert jnp.asarray(1.0).dtype == jnp.float64  # so that a strongly typed constant would show
        assert_single(jax.jit(function)(*single(arguments)))


@pytest.mark.parametrize("name", samara.vehicle_names())
def test_a_step_of_every_vehicle_stays_single_under_jit(name):
    """The vehicle's numbers are Python floats, no NumPy scalar hides among them: a float32 state stays float32."""
    vehicle = samara.vehicle(name)
    numbers = flatten((vehicle.mass, vehicle.inertia_B, vehicle.rotors, vehicle.parameters))
    assert {type(x) for x in numbers} <= {float, int}
    state, command = samara.hover(vehicle)
    with jax.enable_x64(True):
        advance = jax.jit(lambda s, u: euler(lambda x: derivative(x, u, vehicle), s, 0.001))
        assert_single(jax.eval_shape(advance, single(state), single(command)))  # traced only: types need no compilation
