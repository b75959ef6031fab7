"""Gazebo's published motor models in decimal arithmetic, written from their sources and independent of Samara.

gz-sim: src/systems/multicopter_motor_model/MulticopterMotorModel.cc, PX4's for Gazebo Classic: src/gazebo_motor_model.cpp. A
vector is a tuple of three Decimals, a quaternion (w, x, y, z).
"""

from decimal import Decimal, getcontext

getcontext().prec = 50
D = Decimal


def vector(*numbers):
    return tuple(D(number) for number in numbers)


def add(a, b):
    return tuple(x + y for x, y in zip(a, b, strict=True))


def scale(a, k):
    return tuple(x * k for x in a)


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def cross(a, b):
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def unit(q):
    return scale(q, 1 / dot(q, q).sqrt())


def rotation(q):
    w, x, y, z = q
    return (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )


def rotate_vector(matrix, v):
    return tuple(dot(row, v) for row in matrix)


def rotate_back(matrix, v):
    return tuple(sum(matrix[i][j] * v[i] for i in range(3)) for j in range(3))


class Motor:
    """Parameters of one plugin, upright on the body; `fade` is Classic's maxRelativeAirspeed, None for gz-sim."""

    def __init__(self, hub, turning, constants, fade=None):
        self.hub, self.turning, self.fade = hub, turning, fade
        self.k, self.moment, self.up, self.down, self.top, self.drag, self.rolling = constants

    def wrench(self, speed, v_W, q_WB, omega_B, wind_W):
        """(thrust, drag torque, rotor drag, rolling moment): forces and moments in body axes, and the hub they act at"""
        R = rotation(q_WB)
        axis_W = rotate_vector(R, vector(0, 0, 1))
        link_W = add(v_W, rotate_vector(R, cross(omega_B, self.hub)))
        relative = add(link_W, scale(wind_W, -1))
        axial_speed = dot(relative, axis_W)
        perpendicular = add(relative, scale(axis_W, -axial_speed))
        force = speed * speed * self.k
        thrust_fraction = D(1) if self.fade is None else min(max(1 - abs(axial_speed) / self.fade, D(0)), D(1))
        sign = D(1) if self.fade is None else D(self.turning)
        return (
            vector(0, 0, force * thrust_fraction),
            vector(0, 0, -self.turning * force * self.moment),
            rotate_back(R, scale(perpendicular, -abs(speed) * self.drag)),
            rotate_back(R, scale(perpendicular, -abs(speed) * sign * self.rolling)),
        )

    def filtered(self, speed, commanded, dt):
        """FirstOrderFilter::UpdateFilter"""
        target = min(commanded, self.top)
        alpha = (-dt / (self.up if target > speed else self.down)).exp()
        return alpha * speed + (1 - alpha) * target


def combine_bodies(parts):
    """(mass, centre, inertia about it) of bodies (mass, centre, 3 x 3 inertia about their own centre), in common axes"""
    mass = sum(m for m, _, _ in parts)
    centre = scale([sum(m * c[k] for m, c, _ in parts) for k in range(3)], 1 / mass)
    total = [[D(0)] * 3 for _ in range(3)]
    for m, c, inertia in parts:
        d = add(c, scale(centre, -1))
        for i in range(3):
            for j in range(3):
                total[i][j] += inertia[i][j] + m * ((dot(d, d) if i == j else 0) - d[i] * d[j])
    return mass, centre, total
