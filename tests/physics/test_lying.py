"""Lying on the ground: upside down on its top, on its side on its edges, and upright as if it had no top at all."""

import math

import numpy as np
import pytest
from support.shipped import shipped
from support.worlds import fly, make_body, rotation, states_of

import samara
from samara.core.algebra import UP, Quat, Vec3, dot, quat_exp, quat_from_axis_angle, quat_from_euler, rotate
from samara.physics.ground.contact import BOW, Contact, Ground, Surface, lower_end
from samara.physics.multirotor import at_rest
from samara.sim.plant import Plant, place, state_of
from samara.vehicles.build import ContactShape

G = 9.80665
NO_COMMAND = (0.0, 0.0, 0.0, 0.0)


def still(name):
    """A shipped vehicle without rotors, and a command of 0 for it"""
    vehicle = samara.vehicle(name)
    off = [effect for effect in ("rotors", "rotor_momentum") if vehicle.has(effect)]
    return vehicle.without_effect(*off) if off else vehicle, (0.0,) * vehicle.command_size


def box(width, height):
    """A body on four feet as high above its edges' lower ends as below their upper ones"""
    feet = [Vec3(x * width, y * width, -height) for x, y in ((1, 1), (1, -1), (-1, -1), (-1, 1))]
    return make_body(contact=ContactShape(feet, height))


def energy(states, vehicle):
    """½mv² + ½ω·Jω + mgz + Σ ½k(d² + s²), over every edge that is pressed in and every grip that is stretched"""
    contact, inertia = vehicle["contact"], np.array(vehicle.inertia_B, dtype=float).reshape(3, 3)
    v_W, omega_B = (np.array(part).T for part in (states.v_W, states.omega_B))
    total = 0.5 * vehicle.mass * (v_W**2).sum(axis=1) + 0.5 * np.einsum("ni,ij,nj->n", omega_B, inertia, omega_B)
    total += vehicle.mass * vehicle["gravity"].acceleration * states.p_W.z
    points = contact.against(Ground(), states.p_W, states.v_W, states.q_WB, states.omega_B)
    for (_, point), grip_W in zip(points, states.effects[vehicle.index("contact")], strict=True):
        stretched = np.maximum(0.0, point.depth) ** 2 + (np.array(grip_W) ** 2).sum(axis=0)
        total += 0.5 * contact.surface.stiffness * stretched
    return total


@pytest.mark.parametrize("name", shipped())
def test_dropped_upside_down_it_lies_on_its_top(name):
    """From 0.3 m: z = z_top − m g/(n k), the closed form of n springs, and no step ends with more energy than it began"""
    vehicle, command = still(name)
    contact = vehicle["contact"]
    start = at_rest(vehicle, UP * (contact.top + 0.3), quat_from_euler(math.pi - 0.1, 0.15, 0.4))
    states = states_of(vehicle, fly(vehicle, start._replace(omega_B=Vec3(0.2, -0.3, 0.5)), command, 5.0))
    sink = vehicle.mass * vehicle["gravity"].acceleration / (len(contact.points_B) * contact.surface.stiffness)
    assert states.p_W.z[-1] == pytest.approx(contact.top - sink, abs=1e-9)
    assert rotation(states.q_WB).apply([0.0, 0.0, 1.0])[-1] == pytest.approx([0.0, 0.0, -1.0], abs=1e-9)
    total = energy(states, vehicle)
    assert np.diff(total).max() < 1e-14 * total[0]


def test_on_its_side_it_lies_on_two_edges():
    """z = a + l ε/4 − m g/(2 k): the half width, the bow of an edge in its middle, and the sink of two springs"""
    body = box(width=0.1, height=0.08)
    k = body["contact"].surface.stiffness
    rest = 0.1 + 0.16 * BOW / 4.0 - body.mass * G / (2.0 * k)
    start = at_rest(body, UP * (rest + 2e-3), quat_from_euler(math.pi / 2.0, 0.0, 0.3))
    for tipped in (0.0, 0.02):
        turned = start._replace(q_WB=start.q_WB * quat_from_axis_angle(Vec3(1.0, 0.0, 0.0), tipped))
        states = states_of(body, fly(body, turned, NO_COMMAND, 4.0))
        u = rotation(states.q_WB).apply([0.0, 0.0, 1.0])[:, 2]
        assert np.abs(u).max() < 1.5 * tipped + 1e-6, "it rocks, and does not tip over"
        assert states.p_W.z[-1] == pytest.approx(rest, abs=1e-3 if tipped else 1e-9)
        total = energy(states, body)
        assert np.diff(total).max() < 1e-12 * total[0]


def test_however_it_falls_no_foot_hub_or_hull_is_under_the_ground():
    """Twenty attitudes: at rest every end of every edge is above the ground, but for the springs' millimetres"""
    vehicle = samara.vehicle("rigid_body_quadrotor")
    contact, rng = vehicle["contact"], np.random.default_rng(7)
    plant = Plant(vehicle, n=20)
    for drone in range(plant.n):
        turned = rotate(quat_exp(Vec3(*rng.normal(size=3))), UP)
        q_WB = quat_from_axis_angle(Vec3(*rng.normal(size=3)), rng.uniform(0.0, 2.0 * math.pi))
        place(plant, drone, at_rest(vehicle, UP * 0.5, q_WB)._replace(omega_B=turned * 3.0))
    plant.advance(0, 6_000_000)
    for drone in range(plant.n):
        state = state_of(plant, drone)
        ends = [state.p_W + rotate(state.q_WB, end_B) for end_B in (*contact.points_B, *contact.upper_B)]
        assert min(end.z for end in ends) > -0.01 and state.p_W.z > 0.0
        assert math.hypot(*state.v_W) < 0.01


@pytest.mark.parametrize("roll", [0.0, 0.7, 1.5])
def test_upright_its_top_changes_no_bit(roll):
    """Dropped at up to 86°, u > ε: every state of the flight is that of the vehicle without a top, to the last bit"""
    vehicle = samara.vehicle("crazyflie")
    plants = [Plant(vehicle), Plant(vehicle.replace({"contact.top": ()}))]
    for plant in plants:
        place(plant, 0, at_rest(vehicle, UP * 0.4, quat_from_euler(roll, 0.0, 0.0)))
    touched = False
    for ms in range(600):
        for plant in plants:
            plant.advance(1000 * ms, 1000 * ms + 1000)
        state = state_of(plants[0], 0)
        if rotate(state.q_WB, UP).z < BOW + 0.01:
            break
        assert plants[0].state.tobytes() == plants[1].state.tobytes()
        touched |= bool(plants[0].depths().max() > 0.0)
    assert touched


def test_the_lower_end_is_the_foot_the_top_or_between():
    """u = 1, −1, 0: foot, top, the middle; w is a share of the edge, and a foot above the top is a point"""
    foot = Vec3(0.1, 0.2, -0.13)
    assert lower_end(foot, 1.0, top=0.03) == (foot, 0.0)
    assert lower_end(foot, -1.0, top=0.03).point_B.z == pytest.approx(0.03, abs=1e-17)
    middle = lower_end(foot, 0.0, top=0.03)
    assert middle.point_B.z == pytest.approx(-0.05) and middle.bow == pytest.approx(0.16 * BOW / 4.0)
    assert all(lower_end(Vec3(0.0, 0.0, 0.2), u, top=0.03) == (Vec3(0.0, 0.0, 0.2), 0.0) for u in (-1.0, 0.0, 1.0))


def test_turning_over_the_depth_changes_as_fast_as_its_point_sinks():
    """ḋ = dd/dt by differences through the whole bow, on an inclined plane: so force and energy are of one potential"""
    contact = Contact((Vec3(0.1, 0.2, -0.13),), Surface(1000.0, 10.0, 0.5), 0.03)
    ground = Ground(Vec3(0.1, -0.2, 0.05), rotate(quat_from_euler(0.2, -0.3, 0.0), UP))
    p, v, omega = Vec3(0.3, 0.1, 0.4), Vec3(1.0, -2.0, 0.5), Vec3(2.0, 1.0, 0.4)

    def at(q_WB: Quat, t):
        turned = q_WB * quat_exp(omega * t)
        ((_, point),) = contact.against(ground, p + v * t, v, turned, omega)
        return point

    h, bowed = 1e-6, 0
    for angle in np.linspace(1.2, 2.2, 401):
        q_WB = quat_from_axis_angle(Vec3(0.6, -0.8, 0.0), float(angle))
        bowed += abs(dot(rotate(q_WB, UP), ground.normal_W)) < BOW
        assert at(q_WB, 0.0).sinking == pytest.approx((at(q_WB, h).depth - at(q_WB, -h).depth) / (2.0 * h), abs=2e-6)
    assert bowed > 10


@pytest.mark.parametrize(("roll", "height"), [(0.2, 0.5), (2.9, 0.3)])
def test_rk45_lies_where_rk4_does(roll, height):
    """Upright and upside down; a trial step that would end metres under the ground is tried again, shorter"""
    vehicle = samara.vehicle("rigid_body_quadrotor")
    ends = []
    for integrator in ("rk4", "rk45"):
        plant = Plant(vehicle, integrator=integrator)
        place(plant, 0, at_rest(vehicle, UP * height, quat_from_euler(roll, 0.1, 0.0)))
        plant.advance(0, 3_000_000)
        ends.append(state_of(plant, 0).p_W.z)
    assert ends[0] == pytest.approx(ends[1], abs=1e-9)
