"""Vectors, quaternions and matrices of any scalar: the only linear algebra the physics uses.

`Vec3`, `Quat` and `Mat3` are named tuples of components with operators. Quaternions are Hamilton's, (w, x, y, z), and
rotate the second frame of their name into the first: `rotate(q_WB, v_B)` is v in W. Euler angles are Z-Y-X:
R = Rz(yaw) Ry(pitch) Rx(roll).
"""

import math
from typing import Annotated, NamedTuple, TypeAlias

from samara.core.ops import (
    absolute,
    atan2,
    cos,
    safe_divide,
    safe_norm,
    sin,
    sqrt,
    where,
    wrap_angle,
)
from samara.core.quantity import Angle, Quantity, Scalar, SymmetricPositive, Unit


class Vec3(NamedTuple):
    """Three components (x, y, z)."""

    x: Scalar
    y: Scalar
    z: Scalar

    def __add__(self, other: Scalar) -> "Vec3":
        if _is_zero(other):
            return self
        return Vec3(self.x + other[0], self.y + other[1], self.z + other[2])

    def __radd__(self, other: Scalar) -> "Vec3":
        return self + other

    def __sub__(self, other: "Vec3") -> "Vec3":
        return Vec3(self.x - other[0], self.y - other[1], self.z - other[2])

    def __neg__(self) -> "Vec3":
        return Vec3(-self.x, -self.y, -self.z)

    def __mul__(self, scalar: Scalar) -> "Vec3":
        return Vec3(self.x * scalar, self.y * scalar, self.z * scalar)

    def __rmul__(self, scalar: Scalar) -> "Vec3":
        return self * scalar

    def __truediv__(self, scalar: Scalar) -> "Vec3":
        return Vec3(self.x / scalar, self.y / scalar, self.z / scalar)


class Quat(NamedTuple):
    """A quaternion w + x i + y j + z k; `*` is Hamilton's product, or scales."""

    w: Scalar
    x: Scalar
    y: Scalar
    z: Scalar

    @property
    def vector(self) -> Vec3:
        """The imaginary part (x, y, z)."""
        return Vec3(self.x, self.y, self.z)

    def __add__(self, other: Scalar) -> "Quat":
        if _is_zero(other):
            return self
        return Quat(self.w + other[0], self.x + other[1], self.y + other[2], self.z + other[3])

    def __radd__(self, other: Scalar) -> "Quat":
        return self + other

    def __sub__(self, other: "Quat") -> "Quat":
        return Quat(self.w - other[0], self.x - other[1], self.y - other[2], self.z - other[3])

    def __neg__(self) -> "Quat":
        return Quat(-self.w, -self.x, -self.y, -self.z)

    def __mul__(self, other: Scalar) -> "Quat":
        if not isinstance(other, Quat):
            return Quat(self.w * other, self.x * other, self.y * other, self.z * other)
        a, b = self, other
        return Quat(
            a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z,
            a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
            a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x,
            a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w,
        )

    def __rmul__(self, scalar: Scalar) -> "Quat":
        return self * scalar

    def __truediv__(self, scalar: Scalar) -> "Quat":
        return Quat(self.w / scalar, self.x / scalar, self.y / scalar, self.z / scalar)


class Mat3(NamedTuple):
    """A 3×3 matrix by rows; `@` multiplies matrices and vectors."""

    xx: Scalar
    xy: Scalar
    xz: Scalar
    yx: Scalar
    yy: Scalar
    yz: Scalar
    zx: Scalar
    zy: Scalar
    zz: Scalar

    @property
    def rows(self) -> tuple[Vec3, Vec3, Vec3]:
        return Vec3(*self[0:3]), Vec3(*self[3:6]), Vec3(*self[6:9])

    @property
    def columns(self) -> tuple[Vec3, Vec3, Vec3]:
        return self.transpose.rows

    @property
    def transpose(self) -> "Mat3":
        return Mat3(self.xx, self.yx, self.zx, self.xy, self.yy, self.zy, self.xz, self.yz, self.zz)

    def __add__(self, other: Scalar) -> "Mat3":
        if _is_zero(other):
            return self
        return Mat3(*(a + b for a, b in zip(self, other, strict=True)))

    def __radd__(self, other: Scalar) -> "Mat3":
        return self + other

    def __sub__(self, other: "Mat3") -> "Mat3":
        return Mat3(*(a - b for a, b in zip(self, other, strict=True)))

    def __neg__(self) -> "Mat3":
        return Mat3(*(-a for a in self))

    def __mul__(self, scalar: Scalar) -> "Mat3":
        return Mat3(*(a * scalar for a in self))

    def __rmul__(self, scalar: Scalar) -> "Mat3":
        return self * scalar

    def __truediv__(self, scalar: Scalar) -> "Mat3":
        return Mat3(*(a / scalar for a in self))

    def __matmul__(self, other: Scalar) -> Scalar:
        if isinstance(other, Mat3):
            return Mat3(*(dot(row, column) for row in self.rows for column in other.columns))
        return Vec3(*(dot(row, other) for row in self.rows))


for _type in (Vec3, Quat, Mat3):
    # `array * Vec3` and `SX * Vec3` must reach Vec3.__rmul__ instead of stacking the components into an array
    _type.__array_ufunc__ = None  # type: ignore[union-attr]
    _type.__array_priority__ = 2000  # type: ignore[union-attr]


Vector: TypeAlias = Annotated[Vec3, Quantity("1", -10.0, 10.0)]
Attitude: TypeAlias = Annotated[Quat, Unit()]
Quaternion: TypeAlias = Annotated[Quat, Quantity("1", -2.0, 2.0)]
Matrix: TypeAlias = Annotated[Mat3, Quantity("1", -10.0, 10.0)]
Definite: TypeAlias = Annotated[Mat3, SymmetricPositive("1", 0.5, 2.0)]
Rotation: TypeAlias = Annotated[Mat3, Unit()]


class Euler(NamedTuple):
    """Z-Y-X angles [rad]: R = Rz(yaw) Ry(pitch) Rx(roll)."""

    roll: Angle
    pitch: Annotated[Scalar, Quantity("rad", -math.pi / 2, math.pi / 2)]
    yaw: Angle


ZERO = Vec3(0.0, 0.0, 0.0)
EAST, NORTH, UP = Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0), Vec3(0.0, 0.0, 1.0)
IDENTITY = Quat(1.0, 0.0, 0.0, 0.0)


def _is_zero(x: Scalar) -> bool:
    """Whether x is the integer 0, with which `sum` starts."""
    return isinstance(x, int) and x == 0


def dot(a: Vector, b: Vector) -> Scalar:
    """a · b = Σ aᵢ bᵢ"""
    return a.x * b.x + a.y * b.y + a.z * b.z


def cross(a: Vector, b: Vector) -> Vec3:
    """a × b"""
    return Vec3(
        a.y * b.z - a.z * b.y,
        a.z * b.x - a.x * b.z,
        a.x * b.y - a.y * b.x,
    )


def norm(a: Vector) -> Scalar:
    """|a| = √(Σ aᵢ²), with gradient 0 at the origin."""
    return safe_norm(*a)


def scale(a: Vector, b: Vector) -> Vec3:
    """a ∘ b, the component-wise product."""
    return Vec3(a.x * b.x, a.y * b.y, a.z * b.z)


def direction(a: Vector) -> Vec3:
    """a / |a|, and 0 for the zero vector."""
    return a * safe_divide(1.0, norm(a))


def normalize(q: Quaternion) -> Quat:
    """q / |q|; a zero quaternion gives NaN or an error, never an attitude."""
    return q * (1.0 / sqrt(q.w * q.w + q.x * q.x + q.y * q.y + q.z * q.z))


def conjugate(q: Quaternion) -> Quat:
    """q* = (w, −x, −y, −z): the inverse rotation of a unit quaternion."""
    return Quat(q.w, -q.x, -q.y, -q.z)


def rotate(q: Attitude, v: Vector) -> Vec3:
    """q ⊗ (0, v) ⊗ q* = v + 2w (u × v) + 2u × (u × v),  u = (x, y, z): with q_WB, from body to world"""
    t = cross(q.vector, v) * 2.0
    return v + t * q.w + cross(q.vector, t)


def rotate_inverse(q: Attitude, v: Vector) -> Vec3:
    """q* ⊗ (0, v) ⊗ q: with q_WB, from world to body"""
    return rotate(conjugate(q), v)


def diagonal(a: Vector) -> Mat3:
    """diag(a)"""
    return Mat3(a.x, 0.0, 0.0, 0.0, a.y, 0.0, 0.0, 0.0, a.z)


def skew(a: Vector) -> Mat3:
    """[a]×: [a]× b = a × b"""
    return Mat3(0.0, -a.z, a.y, a.z, 0.0, -a.x, -a.y, a.x, 0.0)


def outer(a: Vector, b: Vector) -> Mat3:
    """a bᵀ: (a bᵀ) c = a (b · c)"""
    return Mat3(*(x * y for x in a for y in b))


def determinant(m: Matrix) -> Scalar:
    """det M = r₀ · (r₁ × r₂)"""
    r0, r1, r2 = m.rows
    return dot(r0, cross(r1, r2))


def solve_definite(m: Definite, b: Vector) -> Vec3:
    """M⁻¹ b for a symmetric positive-definite M, by M = L D Lᵀ; a diagonal M costs three divisions."""
    l_yx, l_zx = m.yx / m.xx, m.zx / m.xx
    d_y = m.yy - l_yx * m.yx
    l_zy = (m.zy - l_zx * m.yx) / d_y
    d_z = m.zz - l_zx * m.zx - l_zy * l_zy * d_y
    y = b.y - l_yx * b.x
    z = (b.z - l_zx * b.x - l_zy * y) / d_z
    y = y / d_y - l_zy * z
    x = b.x / m.xx - l_yx * y - l_zx * z
    return Vec3(x, y, z)


def quat_from_euler(roll: Angle, pitch: Angle, yaw: Angle) -> Quat:
    """q = qz(yaw) ⊗ qy(pitch) ⊗ qx(roll)  [rad]"""
    q_x = Quat(cos(0.5 * roll), sin(0.5 * roll), 0.0, 0.0)
    q_y = Quat(cos(0.5 * pitch), 0.0, sin(0.5 * pitch), 0.0)
    q_z = Quat(cos(0.5 * yaw), 0.0, 0.0, sin(0.5 * yaw))
    return q_z * q_y * q_x


def euler_from_quat(q: Attitude) -> Euler:
    """(yaw ∓ roll)/2 = ∠(w ± y, z ∓ x),  pitch = 2 ∠(|·₋|, |·₊|) − π/2  [rad]

    The two half angles keep full accuracy up to gimbal lock; there the half angle that vanishes is set so that roll = 0.
    Roll and yaw lie in (−π, π], as atan2 returns them: half a turn is +π.
    """
    nose_up, nose_down = (q.w + q.y, q.z - q.x), (q.w - q.y, q.z + q.x)
    norm_up, norm_down = safe_norm(*nose_up), safe_norm(*nose_down)
    locked_up, locked_down = norm_down <= 1e-12, norm_up <= 1e-12
    half_difference = atan2(where(locked_down, 0.0, nose_up[1]), where(locked_down, 1.0, nose_up[0]))
    half_sum = atan2(where(locked_up, 0.0, nose_down[1]), where(locked_up, 1.0, nose_down[0]))
    half_difference, half_sum = (
        where(locked_down, half_sum, half_difference),
        where(locked_up, half_difference, half_sum),
    )
    return Euler(
        roll=-wrap_angle(-(half_sum - half_difference)),
        pitch=2.0 * atan2(norm_up, norm_down) - math.pi / 2.0,
        yaw=-wrap_angle(-(half_sum + half_difference)),
    )


def matrix_from_quat(q: Attitude) -> Mat3:
    """R with R v = rotate(q, v): its columns are the body axes in the world frame."""
    columns = (rotate(q, EAST), rotate(q, NORTH), rotate(q, UP))
    return Mat3(*(component for column in columns for component in column)).transpose


def quat_from_matrix(m: Rotation) -> Quat:
    """4 qᵢ q for the largest |qᵢ| (Shepperd 1978), normalised; w ≥ 0 if w is the largest."""
    candidates = (
        Quat(1.0 + m.xx + m.yy + m.zz, m.zy - m.yz, m.xz - m.zx, m.yx - m.xy),
        Quat(m.zy - m.yz, 1.0 + m.xx - m.yy - m.zz, m.xy + m.yx, m.xz + m.zx),
        Quat(m.xz - m.zx, m.xy + m.yx, 1.0 - m.xx + m.yy - m.zz, m.yz + m.zy),
        Quat(m.yx - m.xy, m.xz + m.zx, m.yz + m.zy, 1.0 - m.xx - m.yy + m.zz),
    )
    best, size = candidates[0], candidates[0].w
    for candidate, component in ((candidates[i], candidates[i][i]) for i in (1, 2, 3)):
        larger = component > size
        best = Quat(*(where(larger, a, b) for a, b in zip(candidate, best, strict=True)))
        size = where(larger, component, size)
    return normalize(best)


def quat_from_axis_angle(axis: Vector, angle: Angle) -> Quat:
    """q = (cos ½φ, sin ½φ · a/|a|)  [rad]"""
    u = direction(axis) * sin(0.5 * angle)
    return Quat(cos(0.5 * angle), u.x, u.y, u.z)


def quat_exp(rotation: Vector) -> Quat:
    """q = (cos ½|φ|, sin ½|φ| · φ/|φ|) of a rotation vector φ [rad]"""
    half = rotation * 0.5
    square = dot(half, half)
    small = square < 1e-8
    angle = sqrt(where(small, 1.0, square))
    sinc = where(small, 1.0 - square / 6.0, sin(angle) / angle)
    u = half * sinc
    return Quat(where(small, 1.0 - square / 2.0, cos(angle)), u.x, u.y, u.z)


def quat_log(q: Attitude) -> Vec3:
    """φ = 2 ∠(|w|, |u|) u/|u| · sign w, the rotation vector [rad] with |φ| ≤ π;  u = (x, y, z)"""
    w, u = absolute(q.w), q.vector * where(q.w < 0, -1.0, 1.0)
    square = dot(u, u)
    small = square < 1e-8
    size = sqrt(where(small, 1.0, square))
    w_safe = where(small, w, 1.0)
    series = 2.0 / w_safe * (1.0 - square / (3.0 * w_safe * w_safe))
    return u * where(small, series, 2.0 * atan2(size, w) / size)


def angle_between(a: Attitude, b: Attitude) -> Scalar:
    """|log(a* ⊗ b)|, the angle of the rotation from a to b  [rad]"""
    return norm(quat_log(conjugate(a) * b))
