"""A slung load: pendulums by closed form, momentum and energy, slack and taut, an independent rigid cable, flights."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from support import traced_flights

import samara
from samara.control.geometric import geometric
from samara.core.algebra import UP, ZERO, Vec3, cross, matrix_from_quat, norm, quat_from_euler, rotate
from samara.core.tree import flatten, unflatten
from samara.physics.effect import Effect, Wrench
from samara.physics.ground.contact import Ground
from samara.physics.motion.body import angular_momentum, kinetic_energy
from samara.physics.multirotor import derivative, state_at_rest
from samara.physics.structure.slung_load import LoadState, cable_rate, cable_tension, load_position, load_surface
from samara.physics.types import CALM, Vehicle
from samara.plan import trajectory
from samara.scenario import events
from samara.scenario.events import Event, at
from samara.scenario.scenario import Drone, Scenario
from samara.sim.fly import fly
from samara.sim.replay import replay
from samara.vehicles.build import switch_on
from samara.vehicles.check import VehicleError
from samara.vehicles.defaults import largest_load_step, release_load
from samara.vehicles.loader import parse_vehicle
from samara.vehicles.shape import LOAD_COLOUR
from samara.vehicles.writer import vehicle_toml
from samara.view.film.render import Film, FilmScene
from samara.view.web.snapshot import recorded_frame

G = 9.80665
ALOFT = Vec3(0.0, 0.0, 50.0)
NO_COMMAND = (0.0, 0.0, 0.0, 0.0)


def carrier(mass=1.5, *, weightless=False, load=0.3, length=1.0, **more) -> Vehicle:
    """A bare body, driven by a wrench, with a load; with a huge mass it acts as a fixed point."""
    built = min(mass, 1e5)
    inertia = (0.02 * built, 0.03 * built, 0.04 * built)
    body = samara.build_vehicle("carrier", mass=built, inertia=inertia, actuation="wrench")
    loaded = switch_on(body, "slung_load", mass=load, length=length, **more)
    if mass > built:
        loaded = loaded.replace(mass=mass, inertia_B=(mass / built) * loaded.inertia_B)
    return loaded.without_effect("gravity") if weightless else loaded


FREE = carrier(weightless=True, attachment_B=Vec3(0.08, -0.03, -0.1))


def replace_load(state, vehicle, cable_W, v_W=ZERO):
    index = vehicle.index("slung_load")
    load_state = LoadState(Vec3(*cable_W), Vec3(*v_W))
    return state._replace(effects=(*state.effects[:index], load_state, *state.effects[index + 1 :]))


def settle_load(state, vehicle, environment=CALM):
    """The state with its load at rest."""
    index = vehicle.index("slung_load")
    load_state = vehicle.structure.effects[index].steady_state(
        state.effects[index], state, NO_COMMAND, vehicle, environment
    )
    return state._replace(effects=(*state.effects[:index], load_state, *state.effects[index + 1 :]))


def states(vehicle, rows):
    return [unflatten(state_at_rest(vehicle), iter(row.tolist())) for row in rows]


def load_motion(state, vehicle) -> tuple[LoadState, Vec3]:
    load_state = state.effects[vehicle.index("slung_load")]
    return load_state, load_position(
        state.p_W, state.q_WB, load_state.cable_W, attachment_B=vehicle["slung_load"].attachment_B
    )


def tension(state, vehicle) -> float:
    load_state, load = state.effects[vehicle.index("slung_load")], vehicle["slung_load"]
    rate_W = cable_rate(load_state.v_W, state.q_WB, state.v_W, state.omega_B, attachment_B=load.attachment_B)
    return cable_tension(load_state.cable_W, rate_W, load=load)


def momentum(state, vehicle) -> np.ndarray:
    load_state, _ = load_motion(state, vehicle)
    return vehicle.mass * np.array(state.v_W) + vehicle["slung_load"].mass * np.array(load_state.v_W)


def total_angular_momentum(state, vehicle) -> np.ndarray:
    """Angular momentum of body and load about the origin."""
    load_state, p_W = load_motion(state, vehicle)
    orbit = cross(state.p_W, state.v_W) * vehicle.mass + cross(p_W, load_state.v_W) * vehicle["slung_load"].mass
    return np.array(orbit + angular_momentum(state.q_WB, state.omega_B, inertia_B=vehicle.inertia_B))


def energy(state, vehicle, g=G) -> float:
    (load_state, p_W), load = load_motion(state, vehicle), vehicle["slung_load"]
    stretch = max(norm(load_state.cable_W) - load.length, 0.0)
    moving = kinetic_energy(state.v_W, state.omega_B, mass=vehicle.mass, inertia_B=vehicle.inertia_B)
    moving += 0.5 * load.mass * float(np.dot(load_state.v_W, load_state.v_W))
    return moving + g * (vehicle.mass * state.p_W.z + load.mass * p_W.z) + 0.5 * load.stiffness * stretch**2


def period(times, x) -> float:
    """From the first to the last upward zero crossing."""
    up = np.flatnonzero((x[:-1] < 0.0) & (x[1:] >= 0.0))
    moments = times[up] - x[up] * (times[up + 1] - times[up]) / (x[up + 1] - x[up])
    return float((moments[-1] - moments[0]) / (len(moments) - 1))


def swinging(vehicle, angle, thrust, seconds, dt=1e-3):
    """A load let go at an angle from the vertical, the body held up by a constant thrust."""
    cable_length = norm(state_at_rest(vehicle).effects[vehicle.index("slung_load")].cable_W)
    start = replace_load(
        state_at_rest(vehicle, ALOFT), vehicle, (cable_length * math.sin(angle), 0.0, -cable_length * math.cos(angle))
    )
    rows = traced_flights.fly(vehicle, start, (thrust, 0.0, 0.0, 0.0), seconds, dt=dt)
    return np.arange(len(rows)) * dt, states(vehicle, rows)


# Pendulums ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("angle", [0.05, 0.4, 0.8])
def test_below_a_very_heavy_body_the_load_is_a_pendulum(angle):
    """T = 2π √(l/g) (1 + θ²/16 + 11 θ⁴/3072 + 173 θ⁶/737280 …), l to the centre of the load, stretch included."""
    vehicle = carrier(1e9, load=0.3, length=1.2)
    times, flown = swinging(vehicle, angle, 1e9 * G, 9.0)
    length = norm(state_at_rest(vehicle).effects[vehicle.index("slung_load")].cable_W)
    series = 1.0 + angle**2 / 16.0 + 11.0 * angle**4 / 3072.0 + 173.0 * angle**6 / 737280.0
    expected = 2.0 * math.pi * math.sqrt(length / G) * series
    x = np.array([load_motion(state, vehicle)[0].cable_W.x for state in flown])
    assert period(times, x) == pytest.approx(expected, rel=2e-4)


@pytest.mark.parametrize("load", [0.1, 0.5, 3.0])
def test_below_a_light_body_both_swing_about_what_they_share(load):
    """T = 2π √(l m / ((m + m_L) g)): the hook moves, and the common centre of mass is fixed."""
    vehicle = carrier(1.5, load=load)
    times, flown = swinging(vehicle, 0.01, (1.5 + load) * G, 8.0)
    length = norm(state_at_rest(vehicle).effects[vehicle.index("slung_load")].cable_W)
    expected = 2.0 * math.pi * math.sqrt(length / G * 1.5 / (1.5 + load))
    x = np.array([load_motion(state, vehicle)[0].cable_W.x for state in flown])
    assert period(times, x) == pytest.approx(expected, rel=3e-5)
    centre = [(1.5 * state.p_W.x + load * load_motion(state, vehicle)[1].x) / (1.5 + load) for state in flown]
    assert np.ptp(centre) < 1e-9


# Momentum and energy ------------------------------------------------------------------------------------------------


def thrown(vehicle, seed):
    """An arbitrary state: body tumbling, load moving, the cable slack in some and taut in others."""
    rng = np.random.default_rng(seed)
    start = state_at_rest(vehicle, Vec3(*rng.normal(size=3)), quat_from_euler(*rng.uniform(-1.5, 1.5, 3)))
    start = start._replace(v_W=Vec3(*rng.normal(size=3)), omega_B=Vec3(*rng.normal(size=3)))
    return replace_load(start, vehicle, rng.normal(size=3) * 0.6, rng.normal(size=3))


HIGH = CALM._replace(ground=Ground(Vec3(0.0, 0.0, -1e3)))


@given(st.integers(0, 2**31))
def test_body_and_load_conserve_linear_and_angular_momentum(seed):
    """No air, no weight: Σ m a = 0 and Σ r × m a + R(Jω̇ + ω × Jω) = 0, with the hook beside the body's centre."""
    state = thrown(FREE, seed)
    rate = derivative(state, NO_COMMAND, FREE, HIGH)
    (_, p_W), at, load = load_motion(state, FREE), FREE.index("slung_load"), FREE["slung_load"]
    body, load_force = np.array(rate.v_W) * FREE.mass, np.array(rate.effects[at].v_W) * load.mass
    size = 1.0 + np.abs(body).max()
    assert body + load_force == pytest.approx(np.zeros(3), abs=1e-13 * size)
    inertia, turn = np.array(FREE.inertia_B).reshape(3, 3), np.array(matrix_from_quat(state.q_WB)).reshape(3, 3)
    spin = np.array(state.omega_B)
    body_torque = turn @ (inertia @ np.array(rate.omega_B) + np.cross(spin, inertia @ spin))
    about_origin = np.cross(state.p_W, body) + np.cross(p_W, load_force) + body_torque
    assert about_origin == pytest.approx(np.zeros(3), abs=1e-12 * size)


@given(st.integers(0, 2**31))
def test_the_cable_takes_energy_by_its_damper_alone(seed):
    """Ė = −c ė² while spring and damper pull; a slack cable, or one that closes faster than its spring, dissipates less."""
    vehicle = carrier(attachment_B=Vec3(0.08, -0.03, -0.1))
    state, load = thrown(vehicle, seed), vehicle["slung_load"]
    rate = derivative(state, NO_COMMAND, vehicle, HIGH)
    load_state, slope = (record.effects[vehicle.index("slung_load")] for record in (state, rate))
    closing = float(np.dot(slope.cable_W, load_state.cable_W)) / norm(load_state.cable_W)
    stretch = max(norm(load_state.cable_W) - load.length, 0.0)
    power = vehicle.mass * float(np.dot(state.v_W, rate.v_W)) + load.mass * float(np.dot(load_state.v_W, slope.v_W))
    power += float(np.dot(state.omega_B, vehicle.inertia_B @ rate.omega_B))
    power += G * (vehicle.mass * state.v_W.z + load.mass * load_state.v_W.z) + load.stiffness * stretch * closing
    pulling = tension(state, vehicle) > 0.0
    lost = load.damping * closing**2 if pulling else -load.stiffness * stretch * min(closing, 0.0)
    assert power == pytest.approx(-lost, abs=1e-10 * (1.0 + load.stiffness * stretch))


def test_in_free_fall_the_cable_changes_nothing_for_the_two_together():
    """(m + m_L) v(t) = (m + m_L) v(0) − (m + m_L) g t, through every jerk."""
    vehicle = carrier(attachment_B=Vec3(0.1, 0.0, -0.05))
    start = replace_load(state_at_rest(vehicle, Vec3(0.0, 0.0, 500.0)), vehicle, (0.3, 0.2, -0.6), (1.0, -2.0, 3.0))
    rows = traced_flights.fly(vehicle, start, NO_COMMAND, 2.0, every=100)
    for k, state in enumerate(states(vehicle, rows)):
        fallen = np.array([0.0, 0.0, -1.8 * G * 0.1 * k])
        assert momentum(state, vehicle) == pytest.approx(momentum(start, vehicle) + fallen, abs=1e-11)


def test_without_damping_the_energy_is_constant_and_with_it_it_never_grows():
    """½mv² + ½ω·Jω + mgh + ½ke² through a dozen jerks; with c > 0 it falls from every sample to the next."""
    for numbers, is_constant in (({"damping": 0.0, "stiffness": 2000.0}, True), ({}, False)):
        vehicle = carrier(attachment_B=Vec3(0.05, 0.02, -0.1), **numbers)
        start = replace_load(state_at_rest(vehicle, ALOFT), vehicle, (0.7, 0.3, -0.75), (0.5, -1.0, 0.3))
        rows = traced_flights.fly(vehicle, start, NO_COMMAND, 1.0, dt=1e-4, every=50)
        all_energy = np.array([energy(state, vehicle) for state in states(vehicle, rows)])
        assert max(tension(state, vehicle) for state in states(vehicle, rows)) > 1.0
        if is_constant:
            assert np.ptp(all_energy) < 1e-7 * abs(all_energy[0])
        else:
            assert np.diff(all_energy).max() < 1e-9 * abs(all_energy[0])
            assert all_energy[-1] < all_energy[0] - 0.01


# Slack and taut -----------------------------------------------------------------------------------------------------


def test_a_load_thrown_up_is_free_until_the_cable_is_taut_and_then_the_two_share_their_momentum():
    """p = p₀ + v₀t − ½gt² to rounding while |s| < l; after the jerk the momentum is unchanged, and the cable pulls."""
    vehicle = carrier()
    start = replace_load(state_at_rest(vehicle, ALOFT), vehicle, (0.2, 0.0, -0.7), (0.0, 0.5, 4.0))
    rows = traced_flights.fly(vehicle, start, NO_COMMAND, 0.6)
    flown = states(vehicle, rows)
    first = next(k for k, state in enumerate(flown) if tension(state, vehicle) > 0.0)
    assert 200 < first < 500
    p0 = np.array(load_motion(start, vehicle)[1])
    for k in range(first):
        t = 1e-3 * k
        free = p0 + np.array([0.0, 0.5, 4.0]) * t - np.array([0.0, 0.0, 0.5 * G * t * t])
        assert np.array(load_motion(flown[k], vehicle)[1]) == pytest.approx(free, abs=1e-12)
        assert flown[k].p_W.z == pytest.approx(50.0 - 0.5 * G * t * t, abs=1e-12)
    after = flown[first + 30]
    fallen = np.array([0.0, 0.0, -1.8 * G * 1e-3 * (first + 30)])
    assert momentum(after, vehicle) == pytest.approx(momentum(start, vehicle) + fallen, abs=1e-12)
    assert after.v_W.z > -G * 1e-3 * (first + 30) + 0.3


def test_a_cable_pulls_and_never_pushes():
    """T ≥ 0 at any closing rate; T = 0 up to the length l, and always for a cut cable."""
    load = carrier()["slung_load"]
    for stretch in (-0.5, -1e-9, 0.0, 1e-6, 1e-3):
        for rate in (-10.0, 0.0, 10.0):
            pull = cable_tension(Vec3(0.0, 0.0, -1.0 - stretch), Vec3(0.0, 0.0, -rate), load=load)
            assert pull >= 0.0
            assert (pull == 0.0) == (stretch <= 0.0 or load.stiffness * stretch + load.damping * rate <= 0.0)
    severed = release_load(carrier())["slung_load"]
    assert cable_tension(Vec3(0.0, 0.0, -3.0), Vec3(0.0, 0.0, -9.0), load=severed) == 0.0


# Tension ------------------------------------------------------------------------------------------------------------


def test_in_hover_the_tension_is_the_weight_of_the_load():
    vehicle = switch_on(
        samara.vehicle("iris_documented"), "slung_load", mass=0.3, length=1.0, attachment_B=Vec3(0.0, 0.0, -0.06)
    )
    state, command = samara.hover(vehicle, (3.0, -2.0, 5.0))
    assert tension(state, vehicle) == pytest.approx(0.3 * G, rel=1e-9)
    rate = derivative(state, command, vehicle)
    assert max(abs(x) for x in (*rate.v_W, *rate.omega_B)) < 1e-9
    assert sum(8.0984995e-5 * speed**2 for speed in state.rotor_speed) == pytest.approx(1.8 * G, rel=1e-9)


def test_on_a_steady_circle_the_tension_is_that_of_weight_and_turn_together():
    """T = m_L √(g² + a²), a = ω²r of the load, and the cable tilts outwards by tan θ = a/g."""
    omega, radius, carrier_mass = 2.0, 1.5, 1e9

    def rail(effect_state, state, command, vehicle, environment):
        return Wrench(
            f_W=Vec3(-carrier_mass * omega**2 * state.p_W.x, -carrier_mass * omega**2 * state.p_W.y, carrier_mass * G)
        )

    vehicle = carrier(carrier_mass).with_effect(Effect("rail", wrench=rail))
    a = omega**2 * radius
    pull = 0.3 * math.hypot(G, a)
    cable_length = 1.0 + pull / vehicle["slung_load"].stiffness
    inner = radius - cable_length * a / math.hypot(G, a)
    start = state_at_rest(vehicle, Vec3(inner, 0.0, 50.0))._replace(v_W=Vec3(0.0, omega * inner, 0.0))
    cable = (radius - inner, 0.0, -cable_length * G / math.hypot(G, a))
    start = replace_load(start, vehicle, cable, (0.0, omega * radius, 0.0))
    rows = traced_flights.fly(vehicle, start, NO_COMMAND, 2.0 * math.pi / omega, dt=2.5e-4, every=1000)
    for state in states(vehicle, rows):
        assert tension(state, vehicle) == pytest.approx(pull, rel=1e-6)
        assert math.hypot(*load_motion(state, vehicle)[1][:2]) == pytest.approx(radius, rel=1e-7)


# Against a rigid cable ----------------------------------------------------------------------------------------------


def rigid(force, start_p, direction, spin, *, mass, load, length, seconds):
    """Lagrange's equations of a mass and a load on a rigid massless rod: d̈ = −F⊥/(m l) − |ḋ|² d, and the centre's motion."""

    def rate(t, y):
        d, dd = y[6:9], y[9:12]
        across = force - force.dot(d) * d
        swing = -across / (mass * length) - dd.dot(dd) * d
        pull = (length * dd.dot(dd) - force.dot(d) / mass) / (1.0 / mass + 1.0 / load)
        return np.concatenate([y[3:6], (force + pull * d) / mass - np.array([0.0, 0.0, G]), dd, swing])

    y = np.concatenate([start_p, np.zeros(3), direction, spin])
    end = solve_ivp(rate, (0.0, seconds), y, method="DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    return end[:3], end[:3] + length * end[6:9]


def test_a_stiff_cable_is_a_rigid_one_within_its_stretch():
    """Three seconds under a tilted thrust, swinging in space; the difference is inversely proportional to the stiffness."""
    tilt = quat_from_euler(0.2, -0.3, 0.0)
    thrust = 1.9 * G
    force = thrust * np.array(rotate(tilt, UP))
    direction, spin = np.array([math.sin(0.5), 0.0, -math.cos(0.5)]), np.array([0.0, 0.8, 0.0])
    body, load = rigid(force, ALOFT, direction, spin, mass=1.5, load=0.3, length=1.0, seconds=3.0)
    errors = []
    for stiffness in (1e4, 1e5):
        vehicle = carrier(stiffness=stiffness, damping=0.01 * stiffness**0.5, length=1.0)
        pull = (spin.dot(spin) - force.dot(direction) / 1.5) / (1.0 / 1.5 + 1.0 / 0.3)
        start = state_at_rest(vehicle, ALOFT)._replace(q_WB=tilt)
        start = replace_load(start, vehicle, direction * (1.0 + pull / stiffness), spin)
        end = states(vehicle, traced_flights.fly(vehicle, start, (thrust, 0.0, 0.0, 0.0), 3.0, dt=5e-4, every=6000))[-1]
        load_position = np.array(load_motion(end, vehicle)[1])
        errors.append(max(np.abs(np.array(end.p_W) - body).max(), np.abs(load_position - load).max()))
    stretch = 1.5 * 0.3 * G / 1e4
    assert errors[0] < 3.0 * stretch
    assert errors[1] == pytest.approx(errors[0] / 10.0, rel=0.1)


# On the ground, in the wind -----------------------------------------------------------------------------------------


def test_a_load_set_down_lies_still_with_the_cable_slack():
    """Dropped from 30 cm it comes to rest m g/k deep, and the ground carries its full weight."""
    vehicle = carrier(1e9)
    start = replace_load(state_at_rest(vehicle, Vec3(0.0, 0.0, 0.8)), vehicle, (0.0, 0.0, -0.5), (0.5, 0.0, 0.0))
    end = states(vehicle, traced_flights.fly(vehicle, start, (1e9 * G, 0.0, 0.0, 0.0), 2.0, every=2000))[-1]
    load_state, p_W = load_motion(end, vehicle)
    assert p_W.z == pytest.approx(-0.3 * G / load_surface(0.3, 0.8).stiffness, rel=1e-6)
    assert norm(load_state.v_W) < 1e-9
    assert tension(end, vehicle) == 0.0


def test_a_load_on_a_slope_holds_below_its_friction_angle():
    """tan 0.3 < 0.8: in a minute it creeps by less than a micrometre."""
    vehicle = carrier(1e9, friction=0.8)
    lean = Ground(ZERO, Vec3(math.sin(0.3), 0.0, math.cos(0.3)))
    world = CALM._replace(ground=lean)
    start = settle_load(state_at_rest(vehicle, Vec3(0.0, 0.0, 0.5)), vehicle, world)
    rows = traced_flights.fly(vehicle, start, (1e9 * G, 0.0, 0.0, 0.0), 6.0, world, every=1000)
    places = np.array([load_motion(state, vehicle)[1] for state in states(vehicle, rows)])
    assert np.abs(places[-1] - places[1]).max() < 1e-6


def test_with_a_high_hook_the_load_hangs_and_with_a_low_one_it_lies():
    """In both cases nothing moves: every rate of the load is 0."""
    vehicle = carrier(attachment_B=Vec3(0.05, 0.0, -0.05))
    for height, taut in ((3.0, True), (0.6, False)):
        yawed = state_at_rest(vehicle, Vec3(2.0, 3.0, height), quat_from_euler(0.0, 0.0, 1.0))
        state = settle_load(yawed, vehicle)
        rate = derivative(state, (1.8 * G, 0.0, 0.0, 0.0), vehicle).effects[vehicle.index("slung_load")]
        assert max(abs(x) for x in flatten(rate)) < 1e-9
        assert (tension(state, vehicle) > 0.0) == taut
        assert settle_load(yawed, vehicle).effects == settle_load(state_at_rest(vehicle, yawed.p_W), vehicle).effects


def test_on_a_slope_in_the_wind_a_settled_load_moves_not_at_all():
    """Its grip is stretched by the force along the slope: every rate is 0, also when hanging inclined above it."""
    vehicle = carrier(1e9, drag_area=0.02)
    world = CALM._replace(ground=Ground(ZERO, Vec3(math.sin(0.2), 0.0, math.cos(0.2))), wind_W=Vec3(2.0, 3.0, 0.0))
    for height in (0.5, 5.0):
        state = settle_load(state_at_rest(vehicle, Vec3(0.3, -0.2, height)), vehicle, world)
        rate = derivative(state, (1e9 * G, 0.0, 0.0, 0.0), vehicle, world).effects[vehicle.index("slung_load")]
        assert max(abs(x) for x in flatten(rate)) < 1e-9


def test_in_a_steady_wind_the_load_hangs_aslant():
    """tan θ = ½ρC_DA w² / (m_L g)."""
    vehicle = carrier(1e9, drag_area=0.02)
    wind = CALM._replace(wind_W=Vec3(8.0, 0.0, 0.0))
    drag = 0.5 * 1.225 * 0.02 * 64.0
    cable_length = 1.0 + math.hypot(drag, 0.3 * G) / vehicle["slung_load"].stiffness
    size = math.hypot(drag, 0.3 * G)
    state = replace_load(
        state_at_rest(vehicle, ALOFT), vehicle, (cable_length * drag / size, 0.0, -cable_length * 0.3 * G / size)
    )
    rate = derivative(state, (1e9 * G, 0.0, 0.0, 0.0), vehicle, wind).effects[vehicle.index("slung_load")]
    assert max(abs(x) for x in flatten(rate)) < 1e-9


def test_the_hook_beside_the_centre_of_mass_turns_the_body():
    """τ = r × Rᵀ(T s/|s|), by NumPy."""
    vehicle = carrier(attachment_B=Vec3(0.1, -0.05, -0.2))
    tilt = quat_from_euler(0.3, 0.2, -0.8)
    state = replace_load(state_at_rest(vehicle, ALOFT)._replace(q_WB=tilt), vehicle, (0.4, 0.5, -0.9))
    load_state = state.effects[vehicle.index("slung_load")]
    pull = tension(state, vehicle) * np.array(load_state.cable_W) / np.linalg.norm(load_state.cable_W)
    turn = np.array(matrix_from_quat(tilt)).reshape(3, 3)
    wrench = samara.wrench_breakdown(state, NO_COMMAND, vehicle)["slung_load"]
    assert np.array(wrench.f_W) == pytest.approx(pull, rel=1e-12)
    assert np.array(wrench.tau_B) == pytest.approx(np.cross((0.1, -0.05, -0.2), turn.T @ pull), rel=1e-12)


def test_a_batch_in_jax_and_in_numpy_is_the_same_load():
    """Forty random states at once, against one by one."""
    jax = pytest.importorskip("jax")
    vehicle = carrier(attachment_B=Vec3(0.08, -0.03, -0.1), drag_area=0.01)
    one_by_one = [thrown(vehicle, seed) for seed in range(40)]
    expected = np.array([flatten(derivative(state, NO_COMMAND, vehicle)) for state in one_by_one]).T
    columns = np.array([flatten(state) for state in one_by_one]).T

    def rates(rows):
        return flatten(derivative(unflatten(state_at_rest(vehicle), iter(rows)), NO_COMMAND, vehicle))

    for actual in (rates(columns), jax.jit(rates)(tuple(jax.numpy.asarray(row) for row in columns))):
        both = np.stack(np.broadcast_arrays(*actual, columns[0])[:-1])
        assert both == pytest.approx(expected, rel=1e-12, abs=1e-9)


# Errors and stability -----------------------------------------------------------------------------------------------


def test_the_derived_cable_is_stable_at_the_default_step_and_a_harder_one_is_refused():
    for name in ("crazyflie_documented", "iris_documented", "hakoniwa"):
        carrier_vehicle = samara.vehicle(name)
        for mass_fraction in (0.02, 0.5, 2.0):
            loaded = switch_on(
                carrier_vehicle,
                "slung_load",
                mass=mass_fraction * carrier_vehicle.mass,
                length=0.8,
                attachment_B=Vec3(0.02, 0.0, -0.03),
            )
            assert largest_load_step(loaded) > 2e-3
    with pytest.raises(
        VehicleError, match=r"iris_documented: slung_load\.stiffness = 1e\+07 N/m .* need dt <= .* are stable"
    ):
        switch_on(samara.vehicle("iris_documented"), "slung_load", mass=0.3, length=1.0, stiffness=1e7)
    for field, value in (("mass", 0.0), ("length", -1.0), ("drag_area", math.nan)):
        with pytest.raises(VehicleError, match=rf"iris_documented: slung_load\.{field} = .*: expected"):
            switch_on(samara.vehicle("iris_documented"), "slung_load", **{"mass": 0.3, "length": 1.0, field: value})


def test_the_step_said_to_be_stable_is_the_edge():
    """On the ground with the cable taut, its stiffest case: a disturbance decays just below that step and grows above it."""
    vehicle, surface = carrier(stiffness=62500.0, damping=40.0), load_surface(0.3, 0.8)
    edge, pull = largest_load_step(vehicle), 1.0
    cable, deep = 1.0 + pull / 62500.0, (0.3 * G - pull) / surface.stiffness
    lying = replace_load(
        state_at_rest(vehicle, Vec3(0.0, 0.0, cable - deep)), vehicle, (0.0, 0.0, -cable), (0.0, 0.0, 1e-8)
    )
    for factor, grows in ((0.98, False), (1.02, True)):
        dt = factor * edge
        rows = traced_flights.fly(vehicle, lying, (1.5 * G + pull, 0.0, 0.0, 0.0), 600 * dt, dt=dt, every=1)
        left = np.ptp([load_motion(state, vehicle)[0].cable_W.z for state in states(vehicle, rows[-100:])])
        assert (left > 1e-8) == grows


# Flights ------------------------------------------------------------------------------------------------------------


LOADED = switch_on(samara.vehicle("iris_documented"), "slung_load", mass=0.3, length=1.0)
CARRYING = geometric(LOADED, integral=True)


def flown_with_load(task, seconds=12.0):
    drone = Drone("iris", LOADED, task, Vec3(0.0, 0.0, 3.0), controller=CARRYING, airborne=True)
    return fly(Scenario("slung load", (drone,), seconds))


def cable_lean(run) -> np.ndarray:
    table = run.drone_records[0].tables["state"]
    x, y, z = (table[next(f for f in table.fields if f.endswith(f"cable_W.{axis}"))] for axis in "xyz")
    return np.arctan2(np.hypot(x, y), -z)


@pytest.mark.long
def test_geometric_control_hovers_with_a_fifth_of_its_mass_on_a_cable():
    """It stays at the trim; the integral compensates the unmodelled load."""
    run = flown_with_load(trajectory.hover(Vec3(0.0, 0.0, 3.0)))
    assert np.abs(run.position[-1] - (0.0, 0.0, 3.0)).max() < 0.01
    assert cable_lean(run).max() < 1e-6


def test_after_a_step_of_two_metres_it_settles_and_the_load_swings_down():
    run = flown_with_load(trajectory.hover(Vec3(2.0, 0.0, 3.0)), 20.0)
    late = run.time > 8.0
    assert np.abs(run.position[late] - (2.0, 0.0, 3.0)).max() < 0.05
    lean = cable_lean(run)
    assert lean[run.time > 16.0].max() < 0.75 * lean[(run.time > 3.0) & (run.time < 7.0)].max()


def test_taking_off_it_lifts_the_load_from_the_ground():
    """On its feet the load lies below it; at 3 m it hangs 1 m below."""
    task = trajectory.take_off(Vec3(0.0, 0.0, 0.0), height=3.0)
    drone = Drone("iris", LOADED, task, controller=CARRYING)
    run = fly(Scenario("lift", (drone,), 12.0))
    table = run.drone_records[0].tables["state"]
    z = table[next(f for f in table.fields if f.endswith("cable_W.z"))]
    assert -0.15 < z[0] < 0.0
    assert run.position[0, 2] + z[0] == pytest.approx(0.0, abs=1e-4)
    assert z[-1] == pytest.approx(-1.0, abs=1e-3)
    assert run.position[-1, 2] == pytest.approx(3.0, abs=0.05)


@pytest.fixture(scope="module")
def release_flight():
    """An iris that releases its load after a second of hover."""
    above = Vec3(0.0, 0.0, 3.0)
    drone = Drone("iris", LOADED, trajectory.hover(above), above, airborne=True)
    return fly(Scenario("drop", (drone,), 5.0, events=(Event(at(1.0), events.release_load()),)))


def test_a_released_load_falls_freely_and_the_flight_replays_bit_for_bit(release_flight):
    """From 2 m: ½gt² until it lies on the ground; the drone, lighter, jumps up and returns."""
    run, table = release_flight, release_flight.drone_records[0].tables["state"]
    z = run.position[:, 2] + table[next(f for f in table.fields if f.endswith("cable_W.z"))]
    falling = (run.time >= 1.0) & (run.time < 1.6)
    start = z[np.searchsorted(run.time, 1.0)]
    fall = run.time[falling] - 1.0
    assert z[falling] == pytest.approx(start + speed_at_time(run, 1.0) * fall - 0.5 * G * fall**2, abs=1e-9)
    assert z[-1] == pytest.approx(0.0, abs=1e-4)
    assert run.position[-1, 2] == pytest.approx(3.0, abs=0.05)
    again = replay(run)
    assert np.array_equal(again.drone_records[0].tables["state"].rows, table.rows)


def test_cable_and_load_are_drawn_where_they_are(release_flight):
    """Track, viewer and film agree: a metre of cable until the release, then only the load."""
    track = release_flight.drone_records[0]
    long = np.linalg.norm(track.cable[:, 1] - track.cable[:, 0], axis=1)
    assert long[track.time < 1.0] == pytest.approx(1.0, abs=1e-3)
    assert np.array_equal(track.cable[track.time >= 1.0, 0], track.cable[track.time >= 1.0, 1])
    for moment in (0.5, 1.3):
        k = int(np.searchsorted(track.time, moment))
        assert recorded_frame([release_flight], float(track.time[k])).cables_W[0] == pytest.approx(
            track.cable[k], abs=1e-12
        )
    green = np.array([int(LOAD_COLOUR[k : k + 2], 16) for k in (1, 3, 5)])
    for camera, moment in (("chase", 0.5), ("fixed", 1.3)):
        picture = FilmScene(release_flight, Film(size=(320, 240), camera=camera)).frame(moment)
        assert (np.abs(picture.astype(int) - green).max(axis=2) < 12).sum() > 4


def speed_at_time(run, moment) -> float:
    table = run.drone_records[0].tables["state"]
    name = next(f for f in table.fields if f.startswith("slung_load") and f.endswith(".v_W.z"))
    return float(table[name][np.searchsorted(run.time, moment)])


def test_who_has_no_load_cannot_let_one_go():
    drone = Drone("cf", samara.vehicle("crazyflie_documented"), trajectory.hover(ALOFT), ALOFT, airborne=True)
    with pytest.raises(ValueError, match="release load: cf has no load on a cable; expected a vehicle with slung_load"):
        fly(Scenario("drop", (drone,), 1.0, events=(Event(at(0.5), events.release_load()),)))


def test_a_vehicle_file_keeps_it():
    loaded = switch_on(
        samara.vehicle("iris_documented"), "slung_load", mass=0.3, length=1.0, attachment_B=(0.0, 0.0, -0.05)
    )
    again = parse_vehicle(vehicle_toml(loaded), "iris.toml")
    assert again["slung_load"] == loaded["slung_load"]
    assert again.structure == loaded.structure
