"""A mass fixed to the body: its effect on the centre of mass, the inertia, hover, and a flight."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import samara
from samara.core.algebra import Vec3, matrix_from_quat, norm, quat_from_euler, rotate
from samara.physics.multirotor import derivative, state_at_rest
from samara.physics.structure.slung_load import load_position
from samara.plan import trajectory
from samara.scenario import events
from samara.scenario.events import Event, at
from samara.scenario.scenario import Drone, Scenario
from samara.sim.fly import fly
from samara.vehicles.build import switch_on
from samara.vehicles.check import VehicleError
from samara.vehicles.loader import parse_vehicle
from samara.vehicles.payload import Payload, centre_shift, shift_centre_of_mass, with_payload
from samara.vehicles.writer import vehicle_toml

G = 9.80665
IRIS = samara.vehicle("iris_documented")
places = st.tuples(*[st.floats(-0.2, 0.2)] * 3)


def cloud(vehicle):
    """Six point masses with the vehicle's mass, centre of mass and (diagonal) inertia."""
    jx, jy, jz = vehicle.inertia_B.xx, vehicle.inertia_B.yy, vehicle.inertia_B.zz
    squares = 0.5 * np.array([jy + jz - jx, jz + jx - jy, jx + jy - jz])  # Σ m x², Σ m y², Σ m z²
    arms = np.sqrt(3.0 * squares / vehicle.mass)
    points = np.concatenate([np.diag(arms), -np.diag(arms)])
    return np.full(6, vehicle.mass / 6.0), points


def point_cloud_inertia(masses, points, centre):
    r = points - centre
    return sum(m * (p @ p * np.eye(3) - np.outer(p, p)) for m, p in zip(masses, r, strict=True))


@given(st.floats(0.0, 2.0), places)
def test_centre_and_inertia_are_those_of_all_points_together(mass, r):
    """Σ m r / Σ m and Σ m (r·r 1 − r rᵀ) about it, over body and payload; rotors and feet do not move."""
    masses, points = cloud(IRIS)
    masses, points = np.append(masses, mass), np.vstack([points, r])
    centre = masses @ points / masses.sum()
    loaded = with_payload(IRIS, Payload(mass, Vec3(*r)))
    assert loaded.mass == pytest.approx(masses.sum(), rel=1e-14)
    assert np.array(centre_shift(IRIS, Payload(mass, Vec3(*r)))) == pytest.approx(centre, abs=1e-15)
    assert np.array(loaded.inertia_B).reshape(3, 3) == pytest.approx(
        point_cloud_inertia(masses, points, centre), abs=1e-14
    )
    for bare, shifted in zip(IRIS.rotors, loaded.rotors, strict=True):
        assert np.array(shifted.r_B) + centre == pytest.approx(np.array(bare.r_B), abs=1e-15)
    for bare, shifted in zip(IRIS["contact"].points_B, loaded["contact"].points_B, strict=True):
        assert np.array(shifted) + centre == pytest.approx(np.array(bare), abs=1e-15)
    assert loaded["contact"].top_height + centre[2] == pytest.approx(IRIS["contact"].top_height, abs=1e-15)


@given(st.integers(0, 2**31))
def test_the_loaded_body_moves_as_its_points_held_together(seed):
    """Σ mᵢaᵢ = F and Σ rᵢ × mᵢaᵢ = τ about the bare centre, aᵢ = a + α × rᵢ + ω × (ω × rᵢ): six equations, solved by NumPy."""
    rng = np.random.default_rng(seed)
    body = samara.build_vehicle("body", mass=1.5, inertia=(0.03, 0.04, 0.06), actuation="wrench")
    payload = Payload(float(rng.uniform(0.05, 1.0)), Vec3(*rng.uniform(-0.3, 0.3, 3)))
    loaded, shift = with_payload(body, payload), centre_shift(body, payload)
    bare = state_at_rest(body, Vec3(*rng.normal(size=3)), quat_from_euler(*rng.uniform(-1.5, 1.5, 3)))
    bare = bare._replace(omega_B=Vec3(*rng.normal(size=3) * 3.0), v_W=Vec3(*rng.normal(size=3)))
    thrust, tau = float(rng.uniform(0.0, 30.0)), rng.normal(size=3)

    masses, points = cloud(body)
    masses, points = np.append(masses, payload.mass), np.vstack([points, payload.r_B])
    spin, rotation = np.array(bare.omega_B), np.array(matrix_from_quat(bare.q_WB)).reshape(3, 3)
    # in body axes: the thrust acts at the loaded centre, as a wrench there
    force = np.array([0.0, 0.0, thrust]) + rotation.T @ np.array([0.0, 0.0, -G * masses.sum()])
    torque = tau + np.cross(shift, force)
    matrix, right = np.zeros((6, 6)), np.concatenate([force, torque])
    for m, r in zip(masses, points, strict=True):
        hat = np.array([[0.0, -r[2], r[1]], [r[2], 0.0, -r[0]], [-r[1], r[0], 0.0]])
        matrix += m * np.block([[np.eye(3), -hat], [hat, -hat @ hat]])
        centripetal = m * np.cross(spin, np.cross(spin, r))
        right -= np.concatenate([centripetal, np.cross(r, centripetal)])
    a, alpha = np.split(np.linalg.solve(matrix, right), 2)

    rate = derivative(shift_centre_of_mass(bare, shift), (thrust, *tau), loaded)
    at_centre = a + np.cross(alpha, shift) + np.cross(spin, np.cross(spin, shift))
    assert np.array(rate.omega_B) == pytest.approx(alpha, rel=1e-9, abs=1e-9)
    assert np.array(rate.v_W) == pytest.approx(rotation @ at_centre, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("r", [(0.0, 0.0, -0.1), (0.1, 0.0, 0.0), (-0.05, 0.08, 0.02)])
def test_hover_carries_it_by_the_law_of_the_lever(r):
    """Σ T = (m + m_p) g, and about the bare centre Σ T x = m_p g x_p, Σ T y = m_p g y_p."""
    loaded = with_payload(IRIS, Payload(0.3, Vec3(*r)))
    state, command = samara.hover(loaded)
    thrusts = np.array([rotor.k_thrust * speed**2 for rotor, speed in zip(IRIS.rotors, state.rotor_speed, strict=True)])
    hubs = np.array([rotor.r_B for rotor in IRIS.rotors])
    assert thrusts.sum() == pytest.approx(1.8 * G, rel=1e-12)
    assert thrusts @ hubs[:, :2] == pytest.approx(0.3 * G * np.array(r[:2]), abs=1e-9)
    rate = derivative(state, command, loaded)
    assert max(abs(x) for x in (*rate.v_W, *rate.omega_B)) < 1e-9


@pytest.mark.long
def test_taken_up_and_dropped_in_flight_the_body_goes_on_and_settles():
    """Off centre with a fifth of the mass: at both instants the centre moves in the body, not the body; then it hovers."""
    above = Vec3(0.0, 0.0, 3.0)
    drone = Drone("iris", IRIS, trajectory.hover(above), above, airborne=True)
    r_B = Vec3(0.06, -0.04, -0.08)
    happening = (Event(at(1.0), events.add_payload(0.3, r_B)), Event(at(5.0), events.add_payload(0.0)))
    run = fly(Scenario("payload", (drone,), 9.0, events=happening))
    shift = np.array(centre_shift(IRIS, Payload(0.3, r_B)))
    for moment, sign in ((1.0, 1.0), (5.0, -1.0)):
        k = int(np.searchsorted(run.time, moment))
        jump = run.position[k] - run.position[k - 1]
        assert jump == pytest.approx(sign * shift, abs=2e-3)
    for moment in (4.9, 8.9):
        k = int(np.searchsorted(run.time, moment))
        assert np.abs(run.velocity[k]).max() < 0.01
        assert np.abs(run.position[k] - np.array(above)).max() < 0.05


def test_a_load_on_a_cable_hangs_from_the_same_point_of_a_body_that_took_up_a_payload():
    """Hook and load have the same position in the world as before."""
    slung = switch_on(IRIS, "slung_load", mass=0.2, length=0.8, attachment_B=(0.02, 0.01, -0.05))
    payload = Payload(0.4, Vec3(-0.1, 0.05, -0.06))
    loaded, state = (
        with_payload(slung, payload),
        state_at_rest(slung, Vec3(1.0, 2.0, 3.0), quat_from_euler(0.2, -0.3, 1.0)),
    )
    moved = shift_centre_of_mass(state, centre_shift(slung, payload))
    load_positions = [
        load_position(
            body_state.p_W,
            body_state.q_WB,
            body_state.effects[-1].cable_W,
            attachment_B=body["slung_load"].attachment_B,
        )
        for body_state, body in ((state, slung), (moved, loaded))
    ]
    assert norm(load_positions[0] - load_positions[1]) < 1e-15
    hook = loaded["slung_load"].attachment_B + rotate(quat_from_euler(0.0, 0.0, 0.0), centre_shift(slung, payload))
    assert norm(hook - slung["slung_load"].attachment_B) < 1e-16


# Vehicle files ------------------------------------------------------------------------------------------------------

PAYLOAD = """
[payload]
mass     = { value = 0.25, unit = "kg", source = "a camera" }
position = { value = [0.08, 0.0, -0.04], unit = "m", source = "under the nose" }
"""


def test_a_vehicle_file_may_carry_one():
    """The file with [payload] is the bare vehicle with it, and written out and read again it is the same."""
    text = vehicle_toml(IRIS)
    carried = parse_vehicle(text + PAYLOAD, "iris.toml")
    expected = with_payload(IRIS, Payload(0.25, Vec3(0.08, 0.0, -0.04)))
    assert (carried.mass, carried.inertia_B, carried.rotors) == (expected.mass, expected.inertia_B, expected.rotors)
    again = parse_vehicle(vehicle_toml(carried), "again.toml")
    assert (again.mass, again.inertia_B, again.rotors, again.parameters) == (
        carried.mass,
        carried.inertia_B,
        carried.rotors,
        carried.parameters,
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("0.25", "-0.25"), r"iris\.toml: payload\.mass = -0\.25.*expected a number that is not negative"),
        (("0.0, -0.04", "-0.04"), r"iris\.toml: payload\.position.*expected"),
        (("mass     =", "weight ="), r"iris\.toml: payload\.mass"),
        (('unit = "kg"', 'unit = "N"'), r"iris\.toml: payload\.mass.*unit"),
    ],
)
def test_what_cannot_be_carried_is_refused_in_one_sentence(change, sentence):
    with pytest.raises(VehicleError, match=sentence) as caught:
        parse_vehicle(vehicle_toml(IRIS) + PAYLOAD.replace(*change), "iris.toml")
    assert not re.search(r"\n", str(caught.value))
