"""Inputs that cannot be meant are refused in one sentence; those that hardly can warn once per process and subject."""

import math
import warnings

import numpy as np
import pytest

import samara
from samara.core import implausible
from samara.core.algebra import Quat, Vec3
from samara.core.implausible import ImplausibleWarning
from samara.core.tree import flatten, packer
from samara.physics.inputs import fastest_time_constant, plausible_command_range

IRIS, HEXAROTOR, CRAZYFLIE = (samara.vehicle(name) for name in ("iris", "hexarotor_x", "crazyflie"))
STATE, COMMAND = samara.hover(IRIS)
FUNCTIONS = {
    "step": lambda state, command, vehicle: samara.step(state, command, vehicle, 1e-3),
    "derivative": samara.derivative,
    "wrench": samara.wrench,
    "wrench_breakdown": samara.wrench_breakdown,
}


@pytest.fixture(autouse=True)
def nothing_warned_yet(monkeypatch):
    monkeypatch.setattr(implausible, "_WARNED", set())


@pytest.fixture(scope="module")
def simulator():
    return samara.compile(IRIS)


# States ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize(("other", "rotors", "components"), [(HEXAROTOR, 6, 12), (CRAZYFLIE, 4, 12)])
def test_a_state_of_another_vehicle_is_refused(function, other, rotors, components):
    expected = (
        f"^state has {rotors} rotor speeds and {components} components of effects: expected 4 and 14, a state of vehicle "
        f"'iris', as samara.hover returns$"
    )
    with pytest.raises(ValueError, match=expected):
        function(samara.hover(other)[0], COMMAND, IRIS)


@pytest.mark.parametrize("other", [HEXAROTOR, CRAZYFLIE], ids=["hexarotor_x", "crazyflie"])
def test_compiled_steps_refuse_a_state_of_another_vehicle(simulator, other):
    """Also one with more components, whose first ones would do."""
    state = samara.hover(other)[0]
    for advance in (lambda: simulator.step(state, COMMAND, 1e-3), lambda: simulator.rollout(state, [COMMAND], dt=1e-3)):
        with pytest.raises(ValueError, match="expected 4 and 14, a state of vehicle 'iris'"):
            advance()
    small = samara.compile(CRAZYFLIE)
    with pytest.raises(ValueError, match="state has 4 rotor speeds and 14 components of effects: expected 4 and 12"):
        small.step(STATE, COMMAND, 1e-3)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_something_else_than_a_state_or_a_vehicle_is_refused(function):
    with pytest.raises(ValueError, match=r"^state = None: expected a State, as samara\.hover returns$"):
        function(None, COMMAND, IRIS)
    with pytest.raises(ValueError, match=r"^vehicle = 'iris': expected a Vehicle, as samara\.vehicle returns$"):
        function(STATE, COMMAND, "iris")


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_zero_quaternion_is_refused(function):
    with pytest.raises(ValueError, match=r"^state q_WB = \(0, 0, 0, 0\): expected a quaternion of length 1"):
        function(STATE._replace(q_WB=Quat(0.0, 0.0, 0.0, 0.0)), COMMAND, IRIS)


def test_compiled_steps_refuse_a_zero_quaternion(simulator):
    zero = STATE._replace(q_WB=Quat(0.0, 0.0, 0.0, 0.0))
    batch = STATE._replace(q_WB=Quat(np.array([1.0, 0.0]), np.zeros(2), np.zeros(2), np.zeros(2)))
    for advance in (
        lambda: simulator.step(zero, COMMAND, 1e-3),
        lambda: simulator.step(batch, COMMAND, 1e-3),
        lambda: simulator.rollout(zero, [COMMAND] * 3, dt=1e-3),
    ):
        with pytest.raises(ValueError, match=r"q_WB = \(0, 0, 0, 0\): expected a quaternion of length 1"):
            advance()


def test_a_quaternion_of_another_length_is_refused():
    with pytest.raises(ValueError, match=r"^state q_WB = \(2, 0, 0, 0\): expected a quaternion of length 1"):
        samara.step(STATE._replace(q_WB=Quat(2.0, 0.0, 0.0, 0.0)), COMMAND, IRIS, 1e-3)
    samara.step(STATE._replace(q_WB=Quat(1.001, 0.0, 0.0, 0.0)), COMMAND, IRIS, 1e-3)


def test_a_packer_refuses_other_shapes():
    pack = packer(STATE)
    assert pack(STATE) == flatten(STATE)
    for other in (STATE._replace(rotor_speed=(1.0,) * 5), STATE._replace(rotor_speed=(1.0,) * 3), STATE[:5], None):
        with pytest.raises((TypeError, ValueError)):
            pack(other)


# Time steps --------------------------------------------------------------------------------------------------------------


def test_the_fastest_time_constant_is_that_of_the_motors():
    """τ of a lag; J R / K² of a DC motor, with which the speed approaches its end without load."""
    assert fastest_time_constant(CRAZYFLIE) == CRAZYFLIE.rotors[0].motor.time_constant_up
    rotor = IRIS.rotors[0]
    assert fastest_time_constant(IRIS) == rotor.inertia * rotor.motor.resistance / rotor.motor.constant**2
    assert fastest_time_constant(samara.vehicle("rigid_body_quadrotor")) == math.inf


def test_a_step_of_many_time_constants_is_refused(simulator):
    expected = (
        r"^dt = 1 s: expected at most 0\.059 s for vehicle 'iris', whose fastest motor has a time constant of 0\.024 s"
    )
    for advance in (
        lambda: samara.step(STATE, COMMAND, IRIS, 1.0),
        lambda: simulator.step(STATE, COMMAND, 1.0),
        lambda: simulator.rollout(STATE, [COMMAND], dt=1.0),
    ):
        with pytest.raises(ValueError, match=expected):
            advance()
    assert samara.step(STATE, COMMAND, IRIS, 1.0, method="rk45").rotor_speed[0] > 0.0  # it takes steps of its own


def test_a_step_of_a_few_time_constants_warns_once(simulator):
    with pytest.warns(ImplausibleWarning, match=r"^dt = 0\.1 s: expected at most 0\.059 s for vehicle 'iris'"):
        samara.step(STATE, COMMAND, IRIS, 0.1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        samara.step(STATE, COMMAND, IRIS, 0.1)
        simulator.step(STATE, COMMAND, 0.1)
    assert caught == []


def test_a_negative_step_is_refused(simulator):
    for advance in (
        lambda: samara.step(STATE, COMMAND, IRIS, -0.001),
        lambda: simulator.step(STATE, COMMAND, -0.001),
        lambda: simulator.rollout(STATE, [COMMAND], dt=-0.001),
    ):
        with pytest.raises(ValueError, match=r"^dt = -0\.001 s: expected a time step that is not negative$"):
            advance()


@pytest.mark.parametrize("command", [0.5, None])
def test_a_command_without_length_is_refused(command):
    with pytest.raises(ValueError, match=r"^command = .*: expected 4 numbers for vehicle 'iris'$"):
        samara.step(STATE, command, IRIS, 0.001)


@pytest.mark.parametrize(
    "function",
    [
        samara.compile,
        samara.hover,
        samara.linearize,
        samara.thrust_to_weight,
        lambda name: samara.switch_on(name, "ground_effect"),
        lambda name: samara.save_vehicle(name, "x.toml"),
    ],
)
def test_the_name_of_a_vehicle_is_refused_where_a_vehicle_is_expected(function):
    with pytest.raises(ValueError, match=r"^vehicle = 'iris': expected a Vehicle, as samara\.vehicle returns$"):
        function("iris")


def test_linearize_refuses_a_state_of_another_vehicle():
    with pytest.raises(ValueError, match="expected 4 and 14, a state of vehicle 'iris'"):
        samara.linearize(IRIS, *samara.hover(samara.vehicle("hexarotor_x")))


@pytest.mark.parametrize("dt", [math.nan, math.inf, "1", None])
def test_a_step_that_is_no_time_is_refused(dt):
    with pytest.raises(ValueError, match=r"^dt = .*: expected a finite number of seconds$"):
        samara.step(STATE, COMMAND, IRIS, dt)


# Commands ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [55.0, -3.0])
def test_a_command_far_outside_its_range_warns(simulator, value):
    """A percentage is no duty: on every way into the step."""
    command = (value,) * 4
    wind = samara.CALM._replace(wind_W=Vec3(1.0, 0.0, 0.0))
    for advance in (
        lambda: samara.step(STATE, command, IRIS, 1e-3),
        lambda: simulator.step(STATE, command, 1e-3),
        lambda: simulator.step(STATE, command, 1e-3, environment=wind),
        lambda: simulator.rollout(STATE, [COMMAND, command], dt=1e-3),
    ):
        implausible._WARNED.clear()
        with pytest.warns(
            ImplausibleWarning, match=rf"^command\[0\] = {value:g}: expected 0 to 1, the range of a duty"
        ):
            advance()


def test_a_command_somewhat_outside_its_range_is_limited_in_silence(simulator):
    assert plausible_command_range(IRIS) == (-1.0, 2.0)
    for command in ((-0.4, 1.3, 0.5, 1.9), (2.0,) * 4, (-1.0,) * 4):
        samara.step(STATE, command, IRIS, 1e-3)
        simulator.step(STATE, command, 1e-3)
        simulator.rollout(STATE, [command], dt=1e-3)


def test_a_wrench_has_no_range():
    body = samara.vehicle("rigid_body_quadrotor")
    samara.step(samara.hover(body)[0], (500.0, 0.0, 0.0, 0.0), body, 1e-3)


# Masses ------------------------------------------------------------------------------------------------------------------

MASSES = {
    "replace": lambda mass: IRIS.replace(mass=mass),
    "vehicle": lambda mass: samara.vehicle("iris", mass=mass),
    "build_vehicle": lambda mass: samara.build_vehicle(
        "iris", mass=mass, inertia=(0.03, 0.03, 0.05), rotors=HEXAROTOR.rotors
    ),
}


@pytest.mark.parametrize("build", MASSES.values(), ids=MASSES)
def test_a_mass_in_grams_warns_once(build):
    with pytest.warns(
        ImplausibleWarning, match=r"vehicle 'iris': mass = 1500 kg: its rotors lift at most .* its weight; exp"
    ):
        build(1500.0)
    build(1500.0)
    build(2.0)


@pytest.mark.parametrize("mass", [-1.0, 0.0, math.nan, math.inf])
def test_a_mass_that_is_none_is_refused(mass):
    for build in MASSES.values():
        with pytest.raises(ValueError, match=r"mass = .*: expected a (positive|finite) number"):
            build(mass)


def test_shipped_vehicles_are_plausible():
    """None of them warns, at hover, with the steps and commands of a flight."""
    for name in samara.vehicle_names():
        vehicle = samara.vehicle(name)
        state, command = samara.hover(vehicle.replace(mass=1.01 * vehicle.mass))
        samara.step(state, command, vehicle, 4e-3)


def test_batches_are_not_checked_number_by_number(simulator):
    """Arrays pass the checks of numbers: commands of many drones are limited like those of one."""
    batch = IRIS.replace(mass=np.array([1.0, 1500.0]))
    assert batch.mass[1] == 1500.0
    states = STATE._replace(p_W=Vec3(np.zeros(3), np.zeros(3), np.ones(3)))
    assert simulator.step(states, (np.full(3, 0.5),) * 4, 1e-3).p_W.z.shape == (3,)
