"""The complete vehicle: trim, free fall, superposition, user-defined effects, batches, gradients, and clear errors."""

import math
from typing import Any, NamedTuple

import casadi
import jax
import numpy as np
import pytest
from scipy.linalg import expm
from support.traced_flights import fly, make_body, record_state, rotation, traced_step

import samara
from samara import Effect, Environment, State, Wrench
from samara.core.algebra import ZERO, Quat, Vec3, quat_from_euler
from samara.core.integrate import rk4
from samara.core.tree import flatten, leaf_names, unflatten
from samara.physics.air.drag import Damping, Drag
from samara.physics.effect import wrench_in_body_axes
from samara.physics.multirotor import derivative, state_at_rest
from samara.vehicles.build import ContactShape
from samara.vehicles.trim import effectiveness

NO_COMMAND = (0.0, 0.0, 0.0, 0.0)
BODY_ROWS = 13  # p, v, q, ω come first in every state


def random_state(vehicle, rng, height=5.0):
    """A tumbling state in the air with uneven rotor speeds and non-trivial effect states."""
    hovering, command = samara.hover(vehicle)
    attitude = rng.normal(size=4)
    moving = hovering._replace(
        p_W=Vec3(float(rng.normal()), float(rng.normal()), height + float(rng.normal())),
        v_W=Vec3(*(float(x) for x in rng.normal(size=3))),
        q_WB=Quat(*(float(x) for x in attitude / np.linalg.norm(attitude))),
        omega_B=Vec3(*(float(x) for x in 3.0 * rng.normal(size=3))),
        rotor_speed=tuple(float(w * rng.uniform(0.7, 1.2)) for w in hovering.rotor_speed),
    )
    half_full = tuple(
        tuple(pack._replace(charge=0.7, polarisation=0.1) for pack in effect_state)
        if effect.name == "battery"
        else effect_state
        for effect, effect_state in zip(vehicle.structure.effects, moving.effects, strict=True)
    )
    uneven = tuple(float(u * rng.uniform(0.8, 1.1)) for u in command)
    return moving._replace(effects=half_full), uneven


def stack(states):
    """Stack states into one batch of arrays."""
    return unflatten(states[0], iter(np.array([flatten(state) for state in states]).T))


# Balance and fall --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", samara.vehicle_names())
@pytest.mark.parametrize("density", [1.225, 0.9])
def test_a_hovering_vehicle_has_nothing_left_to_do(name, density):
    """All rates vanish at the trim: v̇ in m/s², ω̇ in rad/s²; Ω̇ as a fraction of Ω per time constant of the motor."""
    vehicle = samara.vehicle(name)
    environment = Environment(air_density=density)
    state, command = samara.hover(vehicle, p_W=(1.0, 2.0, 3.0), environment=environment)
    rate = derivative(state, command, vehicle, environment)
    assert np.abs(flatten(rate)[:BODY_ROWS]).max() < 1e-12
    for omega_dot, omega, rotor in zip(rate.rotor_speed, state.rotor_speed, vehicle.rotors, strict=True):
        motor = rotor.motor
        lag = (
            rotor.inertia * motor.resistance / motor.constant**2
            if hasattr(motor, "constant")
            else motor.time_constant_up
        )
        assert abs(omega_dot) * lag / omega < 1e-12
    assert tuple(state.p_W) == (1.0, 2.0, 3.0)


@pytest.mark.parametrize("name", [name for name in samara.vehicle_names() if samara.vehicle(name).rotors])
def test_hover_is_where_the_rotors_carry_the_weight_and_their_torques_cancel(name):
    """Σ T aᵢ = mg e₃ and Σ rᵢ × Tᵢaᵢ − sᵢQᵢaᵢ = 0, in NumPy."""
    vehicle = samara.vehicle(name)
    state, _ = samara.hover(vehicle)
    thrust = np.array([rotor.k_thrust for rotor in vehicle.rotors]) * np.array(state.rotor_speed) ** 2
    torque = np.array([rotor.k_torque for rotor in vehicle.rotors]) * np.array(state.rotor_speed) ** 2
    axis, place = (np.array([getattr(rotor, field) for rotor in vehicle.rotors]) for field in ("axis_B", "r_B"))
    spin = np.array([rotor.spin for rotor in vehicle.rotors])
    weight = vehicle.mass * vehicle["gravity"].acceleration
    assert thrust @ axis == pytest.approx([0.0, 0.0, weight], abs=1e-14 * weight)
    moment = np.cross(place, thrust[:, None] * axis).sum(axis=0) - (spin * torque) @ axis
    assert moment == pytest.approx(np.zeros(3), abs=1e-14 * weight)


def test_a_body_driven_by_a_wrench_hovers_on_its_weight():
    """(mg, 0, 0, 0), without a limit on its thrust"""
    vehicle = samara.vehicle("rigid_body_quadrotor")
    state, command = samara.hover(vehicle, p_W=(0.0, 0.0, 2.0))
    assert command == pytest.approx((1.2 * 9.81, 0.0, 0.0, 0.0), rel=1e-15)
    assert state.rotor_speed == ()
    assert samara.thrust_to_weight(vehicle) == math.inf


def test_thrust_to_weight_is_the_square_of_the_speeds():
    """(2500 / 1544.142)² for the crazyflie of the Crazyflie engine document"""
    expected = 4.0 * 2.88e-8 * 2500.0**2 / (0.028 * 9.81)
    assert samara.thrust_to_weight(samara.vehicle("crazyflie_documented")) == pytest.approx(expected, rel=1e-12)


def test_a_hexarotor_with_tilted_rotors_is_fully_actuated():
    """Its six rotors reach all six directions of force and torque; rotors that all push up reach four."""
    ranks = {
        name: np.linalg.matrix_rank(effectiveness(samara.vehicle(name)), tol=1e-9)
        for name in samara.vehicle_names()
        if samara.vehicle(name).rotors
    }
    assert ranks.pop("hexarotor_tilted") == 6
    assert set(ranks.values()) == {4}


def test_only_a_fully_actuated_vehicle_hovers_level_in_wind():
    """Side wind needs a lateral force: the tilted hexarotor provides it without tilting, the flat one raises an error."""
    wind = Environment(wind_W=Vec3(3.0, -1.0, 0.5))
    vehicle = samara.vehicle("hexarotor_tilted")
    state, command = samara.hover(vehicle, environment=wind)
    assert state.q_WB == (1.0, 0.0, 0.0, 0.0)
    assert np.abs(flatten(derivative(state, command, vehicle, wind))[:BODY_ROWS]).max() < 1e-12
    with pytest.raises(ValueError, match="'hexarotor_x' cannot hover level"):
        samara.hover(samara.vehicle("hexarotor_x"), environment=wind)


@pytest.mark.parametrize("method", ["rk4", "rk23", "rk45"])
def test_free_fall_is_a_parabola(method):
    """No rotors, no air: z = z₀ + vt − gt²/2 to rounding, for a tumbling body too."""
    body = make_body()
    state = state_at_rest(body, Vec3(0.0, 0.0, 10.0))._replace(v_W=Vec3(1.0, -2.0, 3.0), omega_B=Vec3(1.0, 2.0, 3.0))
    for _ in range(10):
        state = samara.step(state, NO_COMMAND, body, 0.05, method=method)
    assert state.p_W == pytest.approx((0.5, -1.0, 10.0 + 1.5 - 9.80665 / 8.0), rel=1e-13)
    assert state.v_W == pytest.approx((1.0, -2.0, 3.0 - 9.80665 / 2.0), rel=1e-13)


@pytest.mark.filterwarnings("ignore::samara.core.ImplausibleWarning")
def test_crazyflie_engine_gravity_test_needs_drag_and_idle_off():
    """Zero command for 0.1 s: v_z = −0.981 m/s only with stopped rotors and without drag (errata)."""
    vehicle = samara.vehicle("crazyflie_documented").replace({"rotors.motor.speed_min": 0.0}).without_effect("drag")
    fallen = samara.step(state_at_rest(vehicle, Vec3(0.0, 0.0, 1.0)), NO_COMMAND, vehicle, 0.1)
    assert fallen.v_W.z == pytest.approx(-0.981, abs=1e-14)


def test_crazyflie_engine_as_it_is_falls_slower_than_its_gravity_test_says():
    """Idling at 300 rad/s in drag 0.2 N s/m: v_z = −(mg − 4 kF Ω²)/d · (1 − e^{−dt/m}) = −0.675 after 0.1 s (errata)."""
    vehicle = samara.vehicle("crazyflie_documented")
    state = state_at_rest(vehicle, Vec3(0.0, 0.0, 1.0))._replace(rotor_speed=(300.0,) * 4)
    for _ in range(100):
        state = samara.step(state, NO_COMMAND, vehicle, 1e-3)
    net_weight = 0.028 * 9.81 - 4.0 * 2.88e-8 * 300.0**2
    assert state.v_W.z == pytest.approx(-net_weight / 0.2 * -math.expm1(-0.2 * 0.1 / 0.028), rel=1e-10)
    assert state.v_W.z == pytest.approx(-0.675, abs=1e-3)  # the document's own engine, by Euler steps: −0.676


@pytest.mark.parametrize("name", samara.vehicle_names())
def test_the_parts_add_up_to_the_whole(name):
    """Superposition: the named wrenches sum to `wrench`, and Newton and Euler make `derivative` of it (NumPy, SciPy)."""
    vehicle = samara.vehicle(name)
    wind = Environment(wind_W=Vec3(2.0, -1.0, 0.5), air_density=1.1)
    for seed, height in ((0, 5.0), (1, -0.001)):  # in the air, and pressed a little into the ground
        state, command = random_state(vehicle, np.random.default_rng(seed), height)
        parts = samara.wrench_breakdown(state, command, vehicle, wind)
        assert list(parts) == [effect.name for effect in vehicle.structure.effects]
        f_B, tau_B, f_W = (
            np.sum([getattr(part, field) for part in parts.values()], axis=0) for field in Wrench._fields
        )
        total = samara.wrench(state, command, vehicle, wind)
        scale = max(np.abs(f_B).max(), np.abs(f_W).max())
        assert np.array(total.f_B) == pytest.approx(f_B, abs=1e-14 * scale)
        assert np.array(total.f_W) == pytest.approx(f_W, abs=1e-14 * scale)
        assert np.array(total.tau_B) == pytest.approx(tau_B, abs=1e-14 * scale)

        rate = derivative(state, command, vehicle, wind)
        rotated = rotation(state.q_WB)
        assert np.array(rate.v_W) == pytest.approx((rotated.apply(f_B) + f_W) / vehicle.mass, rel=1e-12, abs=1e-12)
        inertia, omega_B = np.array(vehicle.inertia_B).reshape(3, 3), np.array(state.omega_B)
        alpha = np.linalg.solve(inertia, tau_B - np.cross(omega_B, inertia @ omega_B))
        assert np.array(rate.omega_B) == pytest.approx(alpha, rel=1e-11, abs=1e-11)
        in_body = wrench_in_body_axes(total, state.q_WB)
        assert np.array(in_body.f_B) == pytest.approx(f_B + rotated.inv().apply(f_W), abs=1e-14 * scale)


# User-defined effects ----------------------------------------------------------------------------------------------


def tether(effect_state, state, command, vehicle, environment):
    """f = −k p: a spring to the origin."""
    return Wrench(f_W=state.p_W * -vehicle["tether"].stiffness)


class Tether(NamedTuple):
    stiffness: Any


class Gust(NamedTuple):
    """The wind at the vehicle, after a first-order filter."""

    wind_W: Vec3


class GustFilter(NamedTuple):
    time_constant: Any
    drag: Any


def gust_rate(effect_state, state, command, vehicle, environment):
    return Gust((environment.wind_W - effect_state.wind_W) / vehicle["gust"].time_constant)


def gust_wrench(effect_state, state, command, vehicle, environment):
    return Wrench(f_W=(effect_state.wind_W - state.v_W) * vehicle["gust"].drag)


GUST = Effect("gust", initial=lambda vehicle: Gust(ZERO), derivative=gust_rate, wrench=gust_wrench)


def user_defined_effects():
    """A body on a tether in filtered gusts: two effects, one line each."""
    body = make_body().without_effect("gravity")
    body = body.with_effect(Effect("tether", wrench=tether), Tether(8.0))
    return body.with_effect(GUST, GustFilter(0.3, 0.5))


WINDY = Environment(wind_W=Vec3(4.0, -2.0, 1.0))


def closed_form(t, stiffness=8.0):
    """The same linear system by the matrix exponential: ẋ = v, 2 v̇ = −kx − 0.5(v − g), ġ = (w − g)/0.3."""
    newton, gust = [-stiffness / 2.0, -0.25, 0.25, 0.0], [0.0, 0.0, -1.0 / 0.3, 1.0 / 0.3]
    matrix = np.array([[0.0, 1.0, 0.0, 0.0], newton, gust, [0.0] * 4])
    start = np.array([[1.0, 0.5, -0.2], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [4.0, -2.0, 1.0]])
    return expm(matrix * t) @ start


def start_on_the_tether(vehicle):
    return state_at_rest(vehicle, Vec3(1.0, 0.5, -0.2))


def check_against_closed_form(state, vehicle, t):
    p_W, v_W, gust_W, _ = closed_form(t)
    gust = state.effects[vehicle.index("gust")]
    assert np.array([state.p_W, state.v_W, gust.wind_W]).squeeze() == pytest.approx(
        np.array([p_W, v_W, gust_W]), abs=5e-10
    )


def test_user_defined_effects_act_through_step():
    """With state and without: a spring and a gust filter, stepped in plain Python."""
    vehicle = user_defined_effects()
    state = start_on_the_tether(vehicle)
    for _ in range(200):
        state = samara.step(state, NO_COMMAND, vehicle, 0.005, environment=WINDY)
    check_against_closed_form(state, vehicle, 1.0)


def test_user_defined_effects_act_through_casadi():
    """The same two functions, traced into a flat list of instructions."""
    vehicle = user_defined_effects()
    flown = fly(vehicle, start_on_the_tether(vehicle), NO_COMMAND, 1.0, WINDY, dt=0.005)
    check_against_closed_form(record_state(vehicle, flown[-1]), vehicle, 1.0)


@pytest.mark.long
def test_user_defined_effects_act_through_jax_and_its_gradients():
    """Compiled and scanned; and the slope of the final position over the stiffness is the closed form's."""
    vehicle = user_defined_effects()

    @jax.jit
    def final_position(stiffness):
        tethered = vehicle.replace({"tether.stiffness": stiffness})

        def step(state, _):
            return rk4(lambda s: derivative(s, NO_COMMAND, tethered, WINDY), state, 0.005), None

        start = jax.tree.map(jax.numpy.asarray, start_on_the_tether(vehicle))
        return jax.lax.scan(step, start, length=200)[0]

    check_against_closed_form(jax.tree.map(float, final_position(8.0)), vehicle, 1.0)
    slope = jax.grad(lambda stiffness: final_position(stiffness).p_W.x)(8.0)
    h = 1e-3
    stiffer, softer = (closed_form(1.0, 8.0 + change)[0, 0] for change in (h, -h))
    assert slope == pytest.approx((stiffer - softer) / (2.0 * h), rel=1e-7)


def test_user_defined_effects_act_on_a_batch():
    """Three drones on tethers of three stiffnesses, in NumPy arrays, each equal to the drone simulated singly."""
    vehicle = user_defined_effects()
    stiffness = np.array([4.0, 8.0, 16.0])
    batched = vehicle.replace({"tether.stiffness": stiffness})
    state = start_on_the_tether(vehicle)
    batch = samara.step(state, NO_COMMAND, batched, 0.05, environment=WINDY)
    for i in range(3):
        single_vehicle = vehicle.replace({"tether.stiffness": float(stiffness[i])})
        single = samara.step(state, NO_COMMAND, single_vehicle, 0.05, environment=WINDY)
        assert [np.broadcast_to(leaf, 3)[i] for leaf in flatten(batch)] == pytest.approx(flatten(single), rel=1e-15)


def test_an_effect_appears_in_the_breakdown_under_its_name_and_leaves_without_a_trace():
    """with_effect, then without_effect, gives the original vehicle; an effect of the same name is replaced."""
    body = make_body()
    tethered = body.with_effect(Effect("tether", wrench=tether), Tether(8.0))
    state = state_at_rest(tethered, Vec3(1.0, 0.0, 0.0))
    assert samara.wrench_breakdown(state, NO_COMMAND, tethered)["tether"].f_W == (-8.0, 0.0, 0.0)
    assert tethered.without_effect("tether") == body
    stiffer = tethered.with_effect(Effect("tether", wrench=tether), Tether(9.0))
    assert samara.wrench_breakdown(state, NO_COMMAND, stiffer)["tether"].f_W == (-9.0, 0.0, 0.0)
    with pytest.raises(KeyError, match="has no effect 'tether'; it has gravity"):
        body.without_effect("tether")


def test_an_effect_that_is_off_costs_nothing():
    """Instruction for instruction, an effect switched off equals one never added; switched on it adds some."""
    options = {
        "drag": Drag(Vec3(0.1, 0.1, 0.1), Vec3(0.01, 0.01, 0.01)),
        "damping": Damping(Vec3(0.01, 0.01, 0.01)),
    }
    contact = ContactShape([Vec3(0.1, 0.1, -0.1), Vec3(0.1, -0.1, -0.1), Vec3(-0.1, 0.0, -0.1)])
    full = make_body(effects=options, contact=contact)
    for effect in ("drag", "damping", "contact"):
        never = make_body(
            effects={name: value for name, value in options.items() if name != effect},
            contact=None if effect == "contact" else contact,
        )
        counts = [traced_step(variant, 1e-3).n_instructions() for variant in (full.without_effect(effect), never, full)]
        assert counts[0] == counts[1] < counts[2]


# Batches -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", samara.vehicle_names())
def test_a_batch_is_its_drones_and_their_order_does_not_matter(name):
    """One step of seven drones in arrays equals seven steps; shuffled in, shuffled out, bit for bit."""
    vehicle = samara.vehicle(name)
    rng = np.random.default_rng(3)
    # two of the seven stand on the ground, so that a batch never takes only one branch
    drones = [random_state(vehicle, rng, height=5.0 if i < 5 else -0.5) for i in range(7)]
    batch, commands = stack([state for state, _ in drones]), stack([command for _, command in drones])
    batch_result = np.array(flatten(samara.step(batch, commands, vehicle, 1e-3)))
    for i, (state, command) in enumerate(drones):
        single = np.array(flatten(samara.step(state, command, vehicle, 1e-3)))
        assert batch_result[:, i] == pytest.approx(single, rel=1e-13, abs=1e-15)
    order = rng.permutation(7)
    shuffled_in = unflatten(batch, iter(np.array(flatten(batch))[:, order]))
    shuffled_commands = tuple(u[order] for u in commands)
    shuffled = np.array(flatten(samara.step(shuffled_in, shuffled_commands, vehicle, 1e-3)))
    assert (shuffled == batch_result[:, order]).all()


def test_a_batch_may_differ_in_its_vehicles_numbers():
    """Mass, thrust coefficient and drag as arrays: each drone flies as a vehicle with its values would."""
    vehicle = samara.vehicle("crazyflie_documented")
    mass, k_thrust = np.array([0.026, 0.028, 0.03]), np.array([2.7e-8, 2.88e-8, 3.0e-8])
    many = vehicle.replace({"mass": mass, "rotors.k_thrust": k_thrust})
    state, command = random_state(vehicle, np.random.default_rng(5))
    batch_rate = derivative(state, command, many)
    for i in range(3):
        single_vehicle = vehicle.replace({"mass": float(mass[i]), "rotors.k_thrust": float(k_thrust[i])})
        single_rate = derivative(state, command, single_vehicle)
        assert [np.broadcast_to(leaf, 3)[i] for leaf in flatten(batch_rate)] == pytest.approx(
            flatten(single_rate), rel=1e-14
        )


# Gradients ---------------------------------------------------------------------------------------------------------


def symbolic_derivative(vehicle, environment=samara.CALM):
    """derivative and its Jacobian over (state, command), by CasADi."""
    template = state_at_rest(vehicle)
    n, m = len(flatten(template)), vehicle.command_size
    x, u = casadi.SX.sym("x", n), casadi.SX.sym("u", m)
    state = unflatten(template, iter(x[i] for i in range(n)))
    rate = casadi.vertcat(*flatten(derivative(state, tuple(u[i] for i in range(m)), vehicle, environment)))
    return casadi.Function("jacobian", [x, u], [casadi.jacobian(rate, casadi.vertcat(x, u))])


@pytest.mark.parametrize("name", samara.vehicle_names())
@pytest.mark.parametrize("height", [5.0, 0.0])
def test_exact_gradients_are_what_finite_differences_approach(name, height):
    """CasADi's Jacobian of the whole vehicle against five-point differences of plain numbers, in flight and standing."""
    vehicle = samara.vehicle(name)
    wind = Environment(wind_W=Vec3(2.0, -1.0, 0.5))
    state, command = random_state(vehicle, np.random.default_rng(11))
    if height == 0.0:  # standing, pressed in by half a millimetre on every leg, slipping a little, grips stretched
        grips = tuple(Vec3(1e-5, -2e-5, 0.0) for _ in vehicle["contact"].points_B)
        at = vehicle.index("contact")
        state = state._replace(
            p_W=Vec3(0.3, 0.2, -vehicle["contact"].points_B[0].z - 5e-4),
            v_W=Vec3(1e-3, 2e-3, -1e-3),
            q_WB=quat_from_euler(1e-4, -1e-4, 0.3),
            omega_B=Vec3(1e-2, -1e-2, 2e-2),
            effects=(*state.effects[:at], grips, *state.effects[at + 1 :]),
        )
    exact = np.array(symbolic_derivative(vehicle, wind)(flatten(state), command))

    values = np.array([*flatten(state), *command], dtype=float)
    n = len(flatten(state))
    steps = 1e-6 * np.maximum(1.0, np.abs(values))
    shifts = np.array([-2.0, -1.0, 1.0, 2.0])
    # every component shifted by four amounts at once: one batched call
    columns = values[:, None] + np.hstack(
        [np.outer(np.eye(len(values))[:, i] * steps[i], shifts) for i in range(len(values))]
    )
    batch = unflatten(state, iter(columns[:n]))
    rates = flatten(derivative(batch, tuple(columns[n:]), vehicle, wind))
    values_at = np.array([np.broadcast_to(rate, columns.shape[1]) for rate in rates]).reshape(n, len(values), 4)
    numeric = values_at @ np.array([1.0, -8.0, 8.0, -1.0]) / (12.0 * steps)
    # rounding of a difference quotient: the size of the rate, and of the cancelling leg forces, over the step
    rounding = 1e-13 * (np.abs(values_at).max(axis=2) + 300.0) / steps
    assert (np.abs(exact - numeric) <= 1e-9 * np.abs(exact) + rounding).all()


@pytest.mark.parametrize("name", samara.vehicle_names())
def test_ground_far_below_has_no_part_in_the_gradient(name):
    """Hovering at rest, out of contact, the linearisation is that of a vehicle without ground contact."""
    vehicle = samara.vehicle(name)
    state, command = samara.hover(vehicle)
    jacobian = np.array(symbolic_derivative(vehicle)(flatten(state), command))[:BODY_ROWS, :BODY_ROWS]
    groundless = vehicle.without_effect("contact")
    floating, _ = samara.hover(groundless)
    free = np.array(symbolic_derivative(groundless)(flatten(floating), command))[:BODY_ROWS, :BODY_ROWS]
    assert np.isfinite(jacobian).all()
    assert jacobian == pytest.approx(free, abs=1e-12)


# Clear errors ------------------------------------------------------------------------------------------------------


@pytest.fixture
def crazyflie():
    return samara.vehicle("crazyflie_documented")


def test_a_command_that_is_not_a_number_is_refused_by_name(crazyflie):
    """One sentence: the component, its value, the expectation."""
    state, command = samara.hover(crazyflie)
    broken = (command[0], math.nan, *command[2:])
    with pytest.raises(ValueError, match=r"^command\[1\] is nan; expected a finite number$"):
        samara.step(state, broken, crazyflie, 1e-3)


def test_a_state_that_is_not_a_number_is_refused_by_name(crazyflie):
    """The error names the invalid component, before it has spread."""
    state, command = samara.hover(crazyflie)
    with pytest.raises(ValueError, match=r"^state p_W\.y is nan; expected a finite number$"):
        samara.step(state._replace(p_W=Vec3(0.0, math.nan, 1.0)), command, crazyflie, 1e-3)
    with pytest.raises(ValueError, match=r"^state rotor_speed\[0\] is nan; expected a finite number$"):
        samara.step(state._replace(rotor_speed=(math.nan, *state.rotor_speed[1:])), command, crazyflie, 1e-3)
    with pytest.raises(ValueError, match=r"^state v_W\.z is -inf; expected a finite number$"):
        samara.step(state._replace(v_W=Vec3(0.0, 0.0, -math.inf)), command, crazyflie, 1e-3)


def test_a_step_that_leaves_the_finite_numbers_raises_an_error():
    """v|v| of 1e200 m/s exceeds the range of a float."""
    vehicle = samara.vehicle("hexarotor_x")
    state, command = samara.hover(vehicle)
    with pytest.raises(ValueError, match=r"^state v_W\.x is (nan|-inf); expected a finite number$"):
        samara.step(state._replace(v_W=Vec3(1e200, 0.0, 0.0)), command, vehicle, 1e-3, method="euler")


@pytest.mark.parametrize("name", samara.vehicle_names())
def test_no_clamp_and_no_limit_swallows_a_nan(name):
    """Through saturation, dead zone, current limit and friction cone: NaN in gives NaN out."""
    vehicle = samara.vehicle(name)
    state, command = samara.hover(vehicle)
    for i in range(len(command)):
        broken = tuple(math.nan if i == j else u for j, u in enumerate(command))
        assert any(math.isnan(x) for x in flatten(derivative(state, broken, vehicle)))
    environments = [Environment(battery_connected=math.nan)] if vehicle.has("battery") else []
    environments += [Environment(air_density=math.nan)] if vehicle.rotors else []
    environments += [Environment(wind_W=Vec3(0.0, math.nan, 0.0))] if vehicle.has("drag") else []
    for environment in environments:
        assert any(math.isnan(x) for x in flatten(derivative(state, command, vehicle, environment)))


def test_in_a_batch_the_drone_is_named_too(crazyflie):
    """The error names one of a hundred drones."""
    state, command = samara.hover(crazyflie)
    heights = np.full(100, 1.0)
    heights[42] = np.nan
    with pytest.raises(ValueError, match=r"^state p_W\.z of drone 42 is nan; expected a finite number$"):
        samara.step(state._replace(p_W=Vec3(0.0, 0.0, heights)), command, crazyflie, 1e-3)
    commands = np.full(100, 0.5)
    commands[7] = np.inf
    with pytest.raises(ValueError, match=r"^command\[2\] of drone 7 is inf; expected a finite number$"):
        samara.step(state, (*command[:2], commands, command[3]), crazyflie, 1e-3)


@pytest.mark.parametrize(
    ("name", "takes"), [("crazyflie_documented", 4), ("octorotor_x", 8), ("rigid_body_quadrotor", 4)]
)
def test_a_command_of_the_wrong_length_is_refused(name, takes):
    """The error names the vehicle, the expected size and the given one."""
    vehicle = samara.vehicle(name)
    state, command = samara.hover(vehicle)
    assert len(command) == vehicle.command_size == takes
    with pytest.raises(ValueError, match=rf"^command has {takes - 1} numbers; vehicle '{name}' .* takes {takes}$"):
        samara.step(state, command[1:], vehicle, 1e-3)


def test_an_unknown_method_is_refused_with_the_known_ones(crazyflie):
    """The error names them all."""
    state, command = samara.hover(crazyflie)
    with pytest.raises(
        ValueError, match=r"^method 'rk5': expected one of euler, semi_implicit, midpoint, rk4, rk23, rk45$"
    ):
        samara.step(state, command, crazyflie, 1e-3, method="rk5")


@pytest.mark.filterwarnings("ignore::samara.core.ImplausibleWarning")
def test_a_vehicle_that_cannot_hover_says_why(crazyflie):
    """A rotor missing: the others cannot balance its torque. Too heavy, too light, or an exhausted battery: the motors
    cannot reach the necessary speed, and there is an error instead of a trim."""
    with pytest.raises(ValueError, match="'crazyflie_documented' cannot hover"):
        samara.hover(crazyflie.replace(rotors=crazyflie.rotors[:3]))
    for mass in (0.2, 1e-4):  # beyond full and below idle thrust
        with pytest.raises(
            ValueError, match=r"'crazyflie_documented' cannot hover: rotor 0 .* motor does not hold \(command"
        ):
            samara.hover(crazyflie.replace(mass=mass))
    with pytest.raises(ValueError, match=r"'iris_documented' cannot hover: rotor 0"):
        samara.hover(samara.vehicle("iris_documented").replace({"battery.resistance": 0.5}))


def test_thrust_to_weight_below_one_is_told_too(crazyflie):
    """Four times the mass has a quarter of the thrust-to-weight ratio, even below 1."""
    ratio = samara.thrust_to_weight(crazyflie)
    assert samara.thrust_to_weight(crazyflie.replace(mass=4.0 * 0.028)) == pytest.approx(ratio / 4.0, rel=1e-12)
    assert ratio / 4.0 < 1.0


# Arrays ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["wxyz", "xyzw"])
@pytest.mark.parametrize("name", ["crazyflie_documented", "iris_documented", "rigid_body_quadrotor"])
def test_a_state_survives_the_conversion_to_an_array_and_back(name, layout):
    """Bit for bit, alone and in a batch, with the states of batteries and contacts; the layout only orders q."""
    vehicle = samara.vehicle(name)
    rng = np.random.default_rng(8)
    drones = [random_state(vehicle, rng)[0] for _ in range(4)]
    for state in drones:
        x = state.to_numpy(layout)
        assert x.shape == (len(flatten(state)),)
        assert State.from_numpy(x, layout, vehicle) == state
        order = [6, 7, 8, 9] if layout == "wxyz" else [9, 6, 7, 8]
        assert x[order] == pytest.approx(list(state.q_WB), abs=0.0)
    batch = stack(drones)
    x = batch.to_numpy(layout)
    assert x.shape == (len(flatten(drones[0])), 4)
    back = State.from_numpy(x, layout, vehicle)
    assert all((actual == expected).all() for actual, expected in zip(flatten(back), flatten(batch), strict=True))
    assert isinstance(back, State) and isinstance(back.q_WB, Quat)


def test_without_a_vehicle_the_remaining_components_are_rotor_speeds():
    """13 components of the body, then the rotors."""
    x = np.arange(17.0)
    state = State.from_numpy(x, "wxyz")
    assert state.rotor_speed == (13.0, 14.0, 15.0, 16.0)
    assert state.q_WB == (6.0, 7.0, 8.0, 9.0)
    assert State.from_numpy(x, "xyzw").q_WB == (9.0, 6.0, 7.0, 8.0)
    assert (state.to_numpy() == x).all()


def test_arrays_of_the_wrong_size_or_layout_are_refused():
    """The error states the given and the expected size."""
    vehicle = samara.vehicle("crazyflie_documented")
    with pytest.raises(ValueError, match="at least 13 components; got 5"):
        State.from_numpy(np.zeros(5), "wxyz")
    with pytest.raises(ValueError, match="'crazyflie_documented' has 29 components; got 17"):
        State.from_numpy(np.zeros(17), "wxyz", vehicle)
    with pytest.raises(ValueError, match="layout 'zyxw': expected layout= one of wxyz, xyzw"):
        State.from_numpy(np.zeros(17), layout="zyxw")
    with pytest.raises(ValueError, match="an array without a layout: expected layout= one of wxyz, xyzw"):
        State.from_numpy(np.zeros(17))


def test_components_have_names():
    """Names as in errors, table columns and plot axes."""
    names = leaf_names(state_at_rest(samara.vehicle("iris_documented")))
    assert names[:3] == ["p_W.x", "p_W.y", "p_W.z"]
    assert names[6:10] == ["q_WB.w", "q_WB.x", "q_WB.y", "q_WB.z"]
    assert "rotor_speed[3]" in names
    assert len(names) == len(set(names)) == len(flatten(state_at_rest(samara.vehicle("iris_documented"))))


# Changed parameters ------------------------------------------------------------------------------------------------


def test_replace_changes_what_it_names_and_nothing_else(crazyflie):
    """Plain, dotted, dotted twice; the original is unchanged."""
    heavier = crazyflie.replace(mass=0.035)
    assert (heavier.mass, crazyflie.mass) == (0.035, 0.028)
    assert heavier.replace(mass=0.028) == crazyflie
    changed = crazyflie.replace(
        {"rotors.k_thrust": 3e-8, "rotors.motor.time_constant_up": 0.02, "drag.linear": ZERO}, mass=0.03
    )
    assert {rotor.k_thrust for rotor in changed.rotors} == {3e-8}
    assert {rotor.motor.time_constant_up for rotor in changed.rotors} == {0.02}
    assert {rotor.motor.time_constant_down for rotor in changed.rotors} == {0.015}
    assert changed["drag"].linear == ZERO
    assert changed["drag"].quadratic == crazyflie["drag"].quadratic
    # and the hover follows: Ω = √(mg / 4kF)
    state, _ = samara.hover(changed)
    assert state.rotor_speed == pytest.approx((math.sqrt(0.03 * 9.81 / 12e-8),) * 4, rel=1e-13)


@pytest.mark.parametrize("path", ["masss", "rotors.k_thrst", "drag.cubic", "rotors.motor.kv", "wings.span", "mass.x"])
def test_replace_refuses_a_name_that_is_not_there(crazyflie, path):
    """The error states the requested name and the available ones."""
    with pytest.raises(
        KeyError, match=rf"'crazyflie_documented' has no parameter '{path}'; expected a field of mass, .*drag"
    ):
        crazyflie.replace({path: 1.0})
