"""Lying on the ground: upside down on its top, on its side on its edges, and upright as if it had no top at all."""

import math

import numpy as np
import pytest
from support.traced_flights import fly, make_body, record_states, rotation
from support.vehicle_parameters import shipped_vehicle_parameters

import samara
from samara.core.algebra import UP, Quat, Vec3, dot, quat_exp, quat_from_axis_angle, quat_from_euler, rotate
from samara.physics.ground.contact import EDGE_BLEND_RAD, Contact, Ground, Surface, lower_end
from samara.physics.multirotor import state_at_rest
from samara.sim.plant import Plant, plant_state, set_plant_state
from samara.vehicles.build import ContactShape

G = 9.80665
NO_COMMAND = (0.0, 0.0, 0.0, 0.0)


def still(name):
    """A shipped vehicle without rotors, and a command of 0 for it"""
    vehicle = samara.vehicle(name)
    off = [effect for effect in ("rotors", "rotor_momentum") if vehicle.has(effect)]
    return vehicle.without_effect(*off) if off else vehicle, (0.0,) * vehicle.command_size


def box(width, height):
    """A body on four feet at equal distances below the centre and the upper ends above it"""
    feet = [Vec3(x * width, y * width, -height) for x, y in ((1, 1), (1, -1), (-1, -1), (-1, 1))]
    return make_body(contact=ContactShape(feet, height))


def energy(states, vehicle):
    """½mv² + ½ω·Jω + mgz + Σ ½k(d² + s²), over every compressed edge and every stretched grip"""
    contact, inertia = vehicle["contact"], np.array(vehicle.inertia_B, dtype=float).reshape(3, 3)
    v_W, omega_B = (np.array(part).T for part in (states.v_W, states.omega_B))
    total = 0.5 * vehicle.mass * (v_W**2).sum(axis=1) + 0.5 * np.einsum("ni,ij,nj->n", omega_B, inertia, omega_B)
    total += vehicle.mass * vehicle["gravity"].acceleration * states.p_W.z
    points = contact.contact_points(Ground(), states.p_W, states.v_W, states.q_WB, states.omega_B)
    for (_, point), grip_W in zip(points, states.effects[vehicle.index("contact")], strict=True):
        stretched = np.maximum(0.0, point.depth) ** 2 + (np.array(grip_W) ** 2).sum(axis=0)
        total += 0.5 * contact.surface.stiffness * stretched
    return total


@pytest.mark.parametrize("name", shipped_vehicle_parameters())
def test_dropped_upside_down_it_lies_on_its_top(name):
    """From 0.3 m: z = z_top − m g/(n k), the closed form of n springs, and no step ends with more energy than it began"""
    vehicle, command = still(name)
    contact = vehicle["contact"]
    start = state_at_rest(vehicle, UP * (contact.top_height + 0.3), quat_from_euler(math.pi - 0.1, 0.15, 0.4))
    states = record_states(vehicle, fly(vehicle, start._replace(omega_B=Vec3(0.2, -0.3, 0.5)), command, 5.0))
    sink = vehicle.mass * vehicle["gravity"].acceleration / (len(contact.points_B) * contact.surface.stiffness)
    assert states.p_W.z[-1] == pytest.approx(contact.top_height - sink, abs=1e-9)
    assert rotation(states.q_WB).apply([0.0, 0.0, 1.0])[-1] == pytest.approx([0.0, 0.0, -1.0], abs=1e-9)
    total = energy(states, vehicle)
    assert np.diff(total).max() < 1e-14 * total[0]


def test_on_its_side_it_lies_on_two_edges():
    """z = a + l ε/4 − m g/(2 k): the half width, the bow of an edge in its middle, and the sink of two springs"""
    body = box(width=0.1, height=0.08)
    k = body["contact"].surface.stiffness
    rest_height = 0.1 + 0.16 * EDGE_BLEND_RAD / 4.0 - body.mass * G / (2.0 * k)
    start = state_at_rest(body, UP * (rest_height + 2e-3), quat_from_euler(math.pi / 2.0, 0.0, 0.3))
    for tipped in (0.0, 0.02):
        tipped_start = start._replace(q_WB=start.q_WB * quat_from_axis_angle(Vec3(1.0, 0.0, 0.0), tipped))
        states = record_states(body, fly(body, tipped_start, NO_COMMAND, 4.0))
        u = rotation(states.q_WB).apply([0.0, 0.0, 1.0])[:, 2]
        assert np.abs(u).max() < 1.5 * tipped + 1e-6, "it rocks, and does not tip over"
        assert states.p_W.z[-1] == pytest.approx(rest_height, abs=1e-3 if tipped else 1e-9)
        total = energy(states, body)
        assert np.diff(total).max() < 1e-12 * total[0]


def test_however_it_falls_no_foot_hub_or_hull_is_under_the_ground():
    """Twenty attitudes: at rest every end of every edge is above the ground, except for the springs' millimetres"""
    vehicle = samara.vehicle("rigid_body_quadrotor")
    contact, rng = vehicle["contact"], np.random.default_rng(7)
    plant = Plant(vehicle, n=20)
    for drone in range(plant.n):
        axis = rotate(quat_exp(Vec3(*rng.normal(size=3))), UP)
        q_WB = quat_from_axis_angle(Vec3(*rng.normal(size=3)), rng.uniform(0.0, 2.0 * math.pi))
        set_plant_state(plant, drone, state_at_rest(vehicle, UP * 0.5, q_WB)._replace(omega_B=axis * 3.0))
    plant.advance(0, 6_000_000)
    for drone in range(plant.n):
        state = plant_state(plant, drone)
        ends = [state.p_W + rotate(state.q_WB, end_B) for end_B in (*contact.points_B, *contact.upper_B)]
        assert min(end.z for end in ends) > -0.01 and state.p_W.z > 0.0
        assert math.hypot(*state.v_W) < 0.01


@pytest.mark.parametrize("roll", [0.0, 0.7, 1.5])
def test_upright_its_top_changes_no_bit(roll):
    """Dropped at up to 86°, u > ε: every state of the flight is that of the vehicle without a top, to the last bit"""
    vehicle = samara.vehicle("crazyflie")
    plants = [Plant(vehicle), Plant(vehicle.replace({"contact.top_height": ()}))]
    for plant in plants:
        set_plant_state(plant, 0, state_at_rest(vehicle, UP * 0.4, quat_from_euler(roll, 0.0, 0.0)))
    touched = False
    for ms in range(600):
        for plant in plants:
            plant.advance(1000 * ms, 1000 * ms + 1000)
        state = plant_state(plants[0], 0)
        if rotate(state.q_WB, UP).z < EDGE_BLEND_RAD + 0.01:
            break
        assert plants[0].state.tobytes() == plants[1].state.tobytes()
        touched |= bool(plants[0].depths().max() > 0.0)
    assert touched


def test_the_lower_end_is_the_foot_the_top_or_between():
    """u = 1, −1, 0: foot, top, the centre; w is a fraction of the edge, and a foot above the top is a point"""
    foot = Vec3(0.1, 0.2, -0.13)
    assert lower_end(foot, 1.0, top_height=0.03) == (foot, 0.0)
    assert lower_end(foot, -1.0, top_height=0.03).point_B.z == pytest.approx(0.03, abs=1e-17)
    middle = lower_end(foot, 0.0, top_height=0.03)
    assert middle.point_B.z == pytest.approx(-0.05) and middle.bow == pytest.approx(0.16 * EDGE_BLEND_RAD / 4.0)
    assert all(
        lower_end(Vec3(0.0, 0.0, 0.2), u, top_height=0.03) == (Vec3(0.0, 0.0, 0.2), 0.0) for u in (-1.0, 0.0, 1.0)
    )


def test_turning_over_the_depth_changes_as_fast_as_its_point_sinks():
    """ḋ = dd/dt by differences through the complete bow, on an inclined plane: so force and energy have one potential"""
    contact = Contact((Vec3(0.1, 0.2, -0.13),), Surface(1000.0, 10.0, 0.5), 0.03)
    ground = Ground(Vec3(0.1, -0.2, 0.05), rotate(quat_from_euler(0.2, -0.3, 0.0), UP))
    p, v, omega = Vec3(0.3, 0.1, 0.4), Vec3(1.0, -2.0, 0.5), Vec3(2.0, 1.0, 0.4)

    def lowest_point(q_WB: Quat, t):
        rotated = q_WB * quat_exp(omega * t)
        ((_, point),) = contact.contact_points(ground, p + v * t, v, rotated, omega)
        return point

    h, bowed = 1e-6, 0
    for angle in np.linspace(1.2, 2.2, 401):
        q_WB = quat_from_axis_angle(Vec3(0.6, -0.8, 0.0), float(angle))
        bowed += abs(dot(rotate(q_WB, UP), ground.normal_W)) < EDGE_BLEND_RAD
        assert lowest_point(q_WB, 0.0).penetration_rate == pytest.approx(
            (lowest_point(q_WB, h).depth - lowest_point(q_WB, -h).depth) / (2.0 * h), abs=2e-6
        )
    assert bowed > 10


@pytest.mark.parametrize(("roll", "height"), [(0.2, 0.5), (2.9, 0.3)])
def test_rk45_lies_where_rk4_does(roll, height):
    """Upright and upside down; a trial step that would end metres under the ground is repeated with a shorter step"""
    vehicle = samara.vehicle("rigid_body_quadrotor")
    ends = []
    for integrator in ("rk4", "rk45"):
        plant = Plant(vehicle, integrator=integrator)
        set_plant_state(plant, 0, state_at_rest(vehicle, UP * height, quat_from_euler(roll, 0.1, 0.0)))
        plant.advance(0, 3_000_000)
        ends.append(plant_state(plant, 0).p_W.z)
    assert ends[0] == pytest.approx(ends[1], abs=1e-9)
