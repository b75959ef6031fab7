"""Derivatives of compiled rollouts along directions: by differences, by JAX, by the Jacobians of one step, and at kinks."""

import math
import operator
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.components import REQUIRED_EFFECTS, effect_numbers

import samara
from samara.compiler.derivatives.forward import InputGroup, compile_tangent, tangent_program
from samara.compiler.derivatives.rules import FLAT, SLOPES
from samara.compiler.jax.folding_scalar import fold_tree, new_trace, unfold_leaves
from samara.compiler.llvm.scan import compile_program, compile_scan_llvm
from samara.compiler.simulator import compile
from samara.compiler.stepper import Stepper
from samara.compiler.trace.folding_tape import trace_program
from samara.compiler.trace.program import OPERATIONS, Program
from samara.core import ops
from samara.core.algebra import Vec3
from samara.core.tree import flatten, leaf_names, unflatten
from samara.physics.multirotor import complete_environment
from samara.physics.types import CALM
from samara.vehicles.defaults import clearance
from samara.vehicles.effects import OPTIONS
from samara.vehicles.parameters import with_parameters

DT = 2e-3
CRAZYFLIE = samara.vehicle("crazyflie").without_effect("contact")

# The table -----------------------------------------------------------------------------------------------------------

MEANING = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "negate": operator.neg,
    "power": operator.pow,
} | {name: getattr(math, name) for name in SLOPES if hasattr(math, name)}


def test_every_operation_has_a_slope_or_none():
    assert {*SLOPES, *FLAT, "select"} == {*OPERATIONS, "lookup"}
    assert len(SLOPES) + len(FLAT) + 1 == len(OPERATIONS) + 1


@pytest.mark.parametrize("operation", SLOPES)
def test_slopes_are_those_of_differences(operation):
    """f_a ≈ (f(a + ε) − f(a − ε)) / 2ε by each operand."""
    f, at = MEANING[operation], (0.43, 0.71)[: SLOPES[operation].__code__.co_argcount - 1]
    slopes = SLOPES[operation](*at, f(*at))
    assert len(slopes) == len(at)
    for k, slope in enumerate(slopes):
        ends = [f(*(x + sign * 1e-6 * (i == k) for i, x in enumerate(at))) for sign in (1.0, -1.0)]
        assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-9)


# Kinks ---------------------------------------------------------------------------------------------------------------


def evaluate_tangents(function, *numbers):
    """Return the derivatives of a function of scalars along each of them, through its program."""
    size = len(numbers)
    program = tangent_program(
        trace_program(lambda x: (function(*x),), numbers), [InputGroup(size, tuple(range(size)))], size
    )
    assert isinstance(program, Program)
    values = compile_program(program, [size * (1 + size)])([*numbers, *np.eye(size).ravel()])
    return values[len(values) // (1 + size) :].reshape(size, -1)


def test_at_a_kink_the_derivative_is_that_of_the_branch_taken():
    """|x|, min, max, clamp and sign on either side, and at the kink itself: as `samara.core.ops` selects."""
    cases = [
        (ops.absolute, -2.0, -1.0),
        (ops.absolute, 0.0, 1.0),
        (lambda x: ops.minimum(x, 1.0), 0.5, 1.0),
        (lambda x: ops.minimum(x, 1.0), 1.0, 1.0),
        (lambda x: ops.minimum(x, 1.0), 1.5, 0.0),
        (lambda x: ops.maximum(x * x, 1.0), 2.0, 4.0),
        (lambda x: ops.clamp(x, -1.0, 1.0), 3.0, 0.0),
        (ops.sign, 2.0, 0.0),
        (ops.floor, 2.5, 0.0),
        (ops.wrap_angle, 4.0, 1.0),
    ]
    for function, x, slope in cases:
        assert evaluate_tangents(lambda x, f=function: (f(x),), x).item() == slope


def test_safe_operations_have_finite_slopes_at_zero():
    """√x, |v| and a/b at 0: no 0 · ∞, and elsewhere the slopes of the plain operations."""
    assert evaluate_tangents(lambda x: (ops.safe_sqrt(x),), 0.0).item() == 0.0
    assert evaluate_tangents(lambda x: (ops.safe_sqrt(x),), -1.0).item() == 0.0
    assert evaluate_tangents(lambda x: (ops.safe_sqrt(x),), 4.0).item() == 0.25
    assert not evaluate_tangents(lambda *v: (ops.safe_norm(*v),), 0.0, 0.0, 0.0).any()
    assert evaluate_tangents(lambda *v: (ops.safe_norm(*v),), 3.0, 0.0, 4.0).ravel() == pytest.approx([0.6, 0.0, 0.8])
    assert not evaluate_tangents(lambda a, b: (ops.safe_divide(a, b),), 2.0, 0.0).any()
    assert evaluate_tangents(lambda a, b: (ops.safe_divide(a, b),), 2.0, 4.0).ravel() == pytest.approx([0.25, -0.125])


# Flights with every effect -------------------------------------------------------------------------------------------

BARE = replace(samara.vehicle("iris"), structure=replace(samara.vehicle("iris").structure, inflow=None))
BARE = BARE.without_effect("contact", "drag", "damping")
GROUPS = {
    "rotors": {
        "body": {"radius": 0.1},
        "actuator": {"natural_frequency": 100.0, "damping_ratio": 0.7, "rate_limit": 10.0},
        "rotor_drag": {"coefficient": 1e-5, "axial": 1e-5},
        "downwash": {},
        "ceiling_effect": {"point_W": (0.0, 0.0, 3.0)},
        "ground_effect": {},
        "airspeed_moment": {"roll": 0.1, "pitch": 0.2},
        "thrust_curve": {"linear": 0.2},
        "thrust_scale": {},
        "imbalance": {},
    },
    "structure": {
        "drag": {"frame": "world", "linear": (0.1, 0.1, 0.2), "isotropic": 0.02},
        "propwash": {"gusts": 0.0},
        "slung_load": {"mass": 0.2, "length": 1.0},
        "arms": {},
    },
    "blades": {"rotor_air": {"model": "dynamic"}, "flapping": {}, "damping": {"linear": (0.01, 0.01, 0.01)}},
    "momentum": {"rotor_air": {"model": "momentum"}},
    "dynamic_3": {"rotor_air": {"model": "dynamic_3"}},
    "fit": {"rotor_fit": {"blade": "apc_10x4.7"}, "drag": {"frame": "body", "quadratic": (0.1, 0.1, 0.2)}},
    "gazebo": {"rolling_moment": {"coefficient": 1e-6}, "thrust_fade": {"airspeed": 25.0}},
    "coaxial": {"coaxial": {"solidity": 0.1}},
}
VARY = {
    "rotors": ("mass", "rotors.k_thrust", "rotor_drag.axial", "airspeed_moment.pitch", "thrust_curve.linear"),
    "structure": ("inertia_B", "rotors.r_B", "drag.linear", "drag.isotropic"),
    "blades": ("mass", "rotors.k_thrust"),
    "momentum": ("rotor_air.solidity",),
    "dynamic_3": ("rotor_air.lift_slope",),
    "fit": ("rotors.k_torque", "drag.quadratic"),
    "gazebo": ("rolling_moment.coefficient", "thrust_fade.airspeed"),
    "coaxial": ("coaxial.solidity", "rotors.k_thrust"),
}
_grouped = {name for group in GROUPS.values() for name in group}
for _name in OPTIONS.keys() - _grouped:  # an effect without a group flies alone, with the effects it needs
    GROUPS[_name], VARY[_name] = (
        {**{name: {} for name in REQUIRED_EFFECTS.get(_name, {})}, _name: effect_numbers(_name)},
        ("mass",),
    )
LOWER = tuple(rotor._replace(r_B=rotor.r_B - Vec3(0.0, 0.0, 0.08), spin=-rotor.spin) for rotor in BARE.rotors)
VEHICLES = {"coaxial": replace(BARE, rotors=(*BARE.rotors, *LOWER))}


def wide(rows):
    """Repeat each number for three drones."""
    return [jnp.array(np.broadcast_to(x, 3)) for x in rows]


class Flight:
    """Three drones that tumble in wind, off every kink, and a direction along all inputs."""

    def __init__(self, group):
        vehicle = VEHICLES.get(group, BARE)
        for name, numbers in GROUPS[group].items():
            vehicle = samara.switch_on(vehicle, name, **numbers)
        self.sim = compile(vehicle, integrator="euler", vary=VARY[group])
        rng = np.random.default_rng(7)
        state, command = samara.hover(vehicle, (0.0, 0.0, 1.0))
        environment = complete_environment(vehicle)._replace(wind_W=Vec3(1.0, -2.0, 0.5))
        self.shapes = state, environment, self.sim.stepper.varied_parameters()
        charged = [0.8 if name.endswith("charge") else 1.0 for name in leaf_names(state)]
        rest_state = np.array(flatten(state))[:, None] * np.array(charged)[:, None]
        size = np.maximum(np.abs(rest_state), 0.1)
        self.state, self.d_state = (
            rest_state + 0.05 * size * rng.normal(size=(len(rest_state), 3)),
            size * rng.normal(size=(len(rest_state), 3)),
        )
        self.held = np.array(flatten(self.shapes[1:]))
        self.d_held = np.abs(self.held) * rng.normal(size=len(self.held))
        self.commands = np.array(command)[:, None] * rng.uniform(1.02, 1.1, (3, len(command), 3))
        self.d_commands = 0.1 * self.commands * rng.normal(size=self.commands.shape)

    def rollout(self, step=0.0):
        """The states after every step, from `step` along the direction."""
        environment, varied = unflatten(self.shapes[1:], iter((self.held + step * self.d_held).tolist()))
        vehicle = with_parameters(self.sim.vehicle, self.sim.vary, varied)
        start = unflatten(self.shapes[0], iter(self.state + step * self.d_state))
        commands = self.commands + step * self.d_commands
        return np.array(flatten(self.sim.rollout(start, commands, DT, environment, vehicle, record_every=1).states))

    def tangent(self):
        state, environment, varied = self.shapes
        d_environment, d_varied = unflatten((environment, varied), iter(self.d_held))
        return self.sim.rollout_tangent(
            unflatten(state, iter(self.state)),
            self.commands,
            DT,
            environment,
            d_state=unflatten(state, iter(self.d_state)),
            d_commands=self.d_commands,
            d_environment=d_environment,
            d_vehicle=dict(zip(self.sim.vary, d_varied, strict=True)),
            record_every=1,
        )

    def first_step(self):
        """The body of the first step as a function of JAX, and its arguments."""
        scan = self.sim.stepper.rollout(self.shapes[1])

        def step(*groups):
            trace = new_trace(jnp.float64)
            arguments = (
                fold_tree(template, leaves, trace) for template, leaves in zip(scan.templates, groups, strict=True)
            )
            return unfold_leaves(scan.body(*arguments)[0])

        return step, (wide(self.state), wide([DT, *self.held]), wide(self.commands[0]))

    def by_jax(self):
        """The tangents after the first step, by `jax.jvp` of its body."""
        step, numbers = self.first_step()
        directions = wide(self.d_state), wide([0.0, *self.d_held]), wide(self.d_commands[0])
        return np.array(jax.jvp(step, numbers, directions)[1])


@pytest.mark.parametrize("group", ["rotors", *(pytest.param(name, marks=pytest.mark.long) for name in (*GROUPS,)[1:])])
def test_a_direction_through_every_effect(group):
    """The rollout bit for bit; its tangents are those of JAX to rounding, and of central differences."""
    flight = Flight(group)
    result = flight.tangent()
    assert np.array(flatten(result.states)).tobytes() == flight.rollout().tobytes()
    (tangents,) = np.array(flatten(result.d_states)).transpose(1, 0, 2, 3)
    scale = np.abs(tangents).max(axis=(1, 2), keepdims=True) + 1e-30
    assert np.abs((tangents[:, 0] - flight.by_jax()) / scale[:, 0]).max() < 1e-12
    near = (flight.rollout(1e-5) - flight.rollout(-1e-5)) / 2e-5
    assert np.abs((tangents - near) / scale).max() < 1e-6


# Whole rollouts ------------------------------------------------------------------------------------------------------

VARIED = compile(CRAZYFLIE, integrator="euler", vary=("mass", "rotors.k_thrust"))


def tumbling(vehicle, n=None):
    state, command = samara.hover(vehicle, (0.0, 0.0, 3.0))
    rng = np.random.default_rng(3)
    rows = [x + 0.03 * max(abs(x), 1.0) * rng.normal(size=n) for x in flatten(state)]
    steps = np.array(command)[None, :, None] * rng.uniform(0.9, 1.1, (20, len(command), n or 1))
    return unflatten(state, iter(rows)), steps if n else steps[:, :, 0]


def unit(template, size):
    """A tangent of a state along each of its components"""
    return unflatten(template, iter(np.eye(size)))


def test_tangents_are_products_of_the_steps_jacobians():
    """dxₖ₊₁ = Aₖ dxₖ + Bₖ duₖ, by every component of the state at once and by every motor of every step."""
    state, commands = tumbling(CRAZYFLIE)
    commands, size, motors = commands[:6], len(flatten(state)), commands.shape[1]
    d_commands = np.random.default_rng(4).normal(size=(size, 6, motors))
    result = VARIED.rollout_tangent(
        state, commands, DT, d_state=unit(state, size), d_commands=d_commands, record_every=1
    )
    plain = compile(CRAZYFLIE, integrator="euler")
    product, current = np.eye(size), state
    for k, command in enumerate(commands):
        A, B = plain.linearize(current, tuple(command), DT)
        product = A @ product + B @ d_commands[:, k].T
        current = plain.step(current, tuple(command), DT)
        tangents = np.array(flatten(result.d_states))[:, :, k]
        np.testing.assert_allclose(tangents, product, rtol=1e-11, atol=1e-11 * np.abs(product).max())
    np.testing.assert_array_equal(np.array(flatten(result.d_final)), tangents)


def test_directions_are_independent_of_each_other_and_of_their_count():
    """Three directions of nine drones, each of them alone, and drone 4 alone: the same bits; and those of the rollout."""
    state, commands = tumbling(CRAZYFLIE, 9)
    d_mass, d_thrust = np.array([[1.0], [0.0], [0.5]]), np.linspace(0.5, 1.5, 27).reshape(3, 9) * 1e-8
    shifted = np.gradient(commands, axis=0)

    def roll_out(drones, directions):
        initial_state = unflatten(state, iter(leaf[drones] for leaf in flatten(state)))
        d_vehicle = {"mass": d_mass[directions], "rotors.k_thrust": d_thrust[directions][:, drones]}
        return VARIED.rollout_tangent(
            initial_state,
            commands[:, :, drones],
            DT,
            d_vehicle=d_vehicle,
            d_commands=shifted[:, :, drones],
            record_every=5,
        )

    all_directions = roll_out(slice(None), slice(None))
    plain = VARIED.rollout(state, commands, DT, record_every=5)
    assert np.array(flatten(all_directions.states)).tobytes() == np.array(flatten(plain.states)).tobytes()
    assert np.array(flatten(all_directions.final)).tobytes() == np.array(flatten(plain.final)).tobytes()
    tangents = np.array(flatten(all_directions.d_states))
    assert tangents.shape == (len(flatten(state)), 3, 4, 9)
    assert np.abs(tangents).max(axis=(0, 2, 3)).min() > 0.0
    for direction in range(3):
        one_direction = roll_out(slice(None), slice(direction, direction + 1))
        assert np.array(flatten(one_direction.d_states)).tobytes() == tangents[:, direction : direction + 1].tobytes()
    one = roll_out(slice(4, 5), slice(None))
    assert np.array(flatten(one.d_states)).tobytes() == tangents[..., 4:5].tobytes()


def test_inputs_without_tangent_have_none():
    """No direction is one direction of 0; and a mass on which the command does not depend changes no rotor."""
    state, commands = tumbling(CRAZYFLIE)
    assert not np.array(flatten(VARIED.rollout_tangent(state, commands, DT).d_states)).any()
    along = VARIED.rollout_tangent(state, commands, DT, d_vehicle={"mass": 1.0})
    assert along.d_final.v_W.z.shape == (1,) and along.d_states.v_W.z.shape == (1, 2)
    assert along.d_final.v_W.z[0] != 0.0
    assert not np.array(along.d_final.rotor_speed).any()


# Contact -------------------------------------------------------------------------------------------------------------


def test_on_the_ground_and_off_it():
    """Standing, sliding, in the air, in the air with a fading grip, and bouncing: with the idle path and without it the same
    results, along the state and along every grip, and those of differences."""
    vehicle = samara.vehicle("crazyflie")
    state, command = samara.hover(vehicle)
    stand = clearance(vehicle)
    heights, speeds = (
        np.array([stand - 2e-5, stand - 3e-5, 2.0, 2.0, stand + 4e-4]),
        np.array([0.0, 0.3, 0.2, 0.1, 0.2]),
    )
    rng = np.random.default_rng(5)
    carry = np.tile(np.array(flatten(state))[:, None], 5)
    carry[2], carry[3], carry[5, 4] = heights, speeds, -0.4
    grips = [k for k, name in enumerate(leaf_names(state)) if k >= 13 + len(vehicle.rotors) and "battery" not in name]
    carry[grips, 3] = 1e-5
    d_carry = rng.normal(size=carry.shape) * np.maximum(np.abs(carry), 1e-2)
    d_carry[grips, 2:] *= [0.0, 1e-3, 0.0]
    d_carry[np.ix_(grips, [0, 1])] *= 1e-3
    commands = np.tile(np.array(command)[:, None] * [0.3, 0.3, 1.0, 1.0, 0.3], (30, 1, 1))
    scan = Stepper(vehicle, "euler").rollout()
    both = np.concatenate([carry, d_carry])
    results = [
        compile_tangent(variant, (), ())(both.copy(), [5e-4], commands, 30)[1]
        for variant in (scan, scan._replace(idle_path=None))
    ]
    np.testing.assert_array_equal(*results)
    run = compile_scan_llvm(*scan, dtype="float64")
    ends = [run(carry + step * d_carry, [5e-4], commands, 30)[0] for step in (1e-7, -1e-7)]
    differences, tangents = (ends[0] - ends[1]) / 2e-7, results[0][-1, len(carry) :]
    assert np.isfinite(tangents).all()
    assert tangents == pytest.approx(differences, rel=1e-5, abs=1e-6 * np.abs(differences).max())


def test_a_disturbed_idle_state_takes_the_full_body():
    """In the air a grip of 0 is idle, one next to it fades: ds' = −(k/c) ds, which the idle path does not compute."""
    vehicle = samara.vehicle("crazyflie")
    state, command = samara.hover(vehicle, (0.0, 0.0, 2.0))
    sim = compile(vehicle, integrator="euler")
    grip = len(flatten(state)) - 1
    assert leaf_names(state)[grip].startswith("effects")
    d_state = unflatten(state, iter(np.eye(len(flatten(state)))[grip].tolist()))
    surface, dt = vehicle["contact"].surface, 1e-5
    end = sim.rollout_tangent(state, np.tile(command, (4, 1)), dt, d_state=d_state, record_every=1)
    grip_tangents = np.array(flatten(end.d_states))[grip, 0]
    assert grip_tangents == pytest.approx(
        (1.0 - dt * surface.stiffness / surface.damping) ** np.arange(1, 5), rel=1e-12
    )


# Refused arguments ---------------------------------------------------------------------------------------------------


def test_invalid_arguments_are_refused_in_one_sentence():
    state, commands = tumbling(CRAZYFLIE)
    wrong = {
        "d_vehicle names 'drag.linear'; expected names of `vary`: mass, rotors.k_thrust": {
            "d_vehicle": {"drag.linear": 1.0}
        },
        r"d_vehicle\['rotors.k_thrust'\] has 3 numbers; expected 4": {"d_vehicle": {"rotors.k_thrust": (1.0,) * 3}},
        "d_environment without environment": {"d_environment": CALM},
        r"d_commands has shape \(19, 4\); expected \(20, 4\) or \(directions, 20, 4\)": {"d_commands": commands[1:]},
        r"d_vehicle\['mass'\]\[0\] is nan; expected finite": {"d_vehicle": {"mass": math.nan}},
        "tangents with 2 and 3 directions": {"d_vehicle": {"mass": np.ones(2), "rotors.k_thrust": np.ones(3)}},
        r"d_vehicle\['mass'\]\[0\] has shape \(2, 3\)": {"d_vehicle": {"mass": np.ones((2, 3))}},
    }
    for sentence, arguments in wrong.items():
        with pytest.raises(ValueError, match=f"^{sentence}"):
            VARIED.rollout_tangent(state, commands, DT, **arguments)
    with pytest.raises(
        ValueError, match=r"^rollout_tangent with backend 'numpy': expected backend 'llvm' and commands$"
    ):
        compile(CRAZYFLIE, backend="numpy").rollout_tangent(state, commands, DT)
