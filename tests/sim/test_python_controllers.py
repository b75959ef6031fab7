"""Python controllers: the same controller on named tuples and on arrays, and the references over a horizon."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import samara
from samara.control.mpc import MPC
from samara.core.algebra import ZERO, Vec3, quat_from_euler
from samara.core.tree import flatten
from samara.physics.types import Reference
from samara.plan.trajectory import figure8
from samara.scenario.events import DroneSetting
from samara.sim.python_controllers import ArrayController, PythonController
from samara.sim.references import _instants_ahead, references_ahead, tabulate_references

CRAZYFLIE = samara.vehicle("crazyflie_documented")
HOVER, _ = samara.hover(CRAZYFLIE)
DRONES, TICKS = 3, 6


def random_states(rng):
    """Return states (components, drones) near hover, with quaternions slightly longer than 1."""
    states = [
        HOVER._replace(
            p_W=Vec3(*rng.uniform(-0.5, 0.5, 3)),
            v_W=Vec3(*rng.uniform(-1.5, 1.5, 3)),
            q_WB=quat_from_euler(*rng.uniform(-0.6, 0.6, 3)) * 1.001,
            omega_B=Vec3(*rng.uniform(-3.0, 3.0, 3)),
            rotor_speed=tuple(rng.uniform(0.8, 1.2) * speed for speed in HOVER.rotor_speed),
        )
        for _ in range(DRONES)
    ]
    return np.array([flatten(state) for state in states]).T


def references_over_horizon(look_ahead, tick):
    """Return references (instants, fields, drones): a figure of eight, shifted in time for each drone."""
    path = figure8((0.0, 0.0, 1.0), half_length=1.0, speed=1.0)
    references_by_drone = [
        np.array([flatten(path.evaluate(0.004 * tick + 0.3 * k + t)) for t in look_ahead.tolist()])
        for k in range(DRONES)
    ]
    return np.stack(references_by_drone, axis=2)


def require_same_flight(mpc, corrupt=lambda tick, estimate, ahead: None):
    tuple_controller = PythonController(mpc, CRAZYFLIE, mpc.initial_state, n=DRONES)
    array_controller = ArrayController(mpc.batch_controller(CRAZYFLIE, DRONES), CRAZYFLIE, mpc.look_ahead, n=DRONES)
    rng, reference = np.random.default_rng(0), np.zeros((len(flatten(Reference(ZERO))), DRONES))
    for tick in range(TICKS):
        estimate, ahead = random_states(rng), references_over_horizon(mpc.look_ahead, tick)
        corrupt(tick, estimate, ahead)
        for controller in (tuple_controller, array_controller):
            controller.run(estimate, reference, 4000 * tick, ahead)
        for name in ("command", "prediction", "command_excess", "invalid_count"):
            np.testing.assert_array_equal(
                getattr(array_controller, name), getattr(tuple_controller, name), err_msg=f"{name} at {tick}"
            )
        assert np.isfinite(array_controller.command).all() and np.ptp(array_controller.command) > 0.0


@pytest.mark.parametrize(
    "options",
    [
        {"period": 0.004},
        {"period": 0.05, "control_iterations": 3},  # a full step of the horizon: nothing is interpolated
        {"period": 0.12, "disturbance_time_constant": 0.0},  # the last input is held for longer
        pytest.param({"period": 0.004, "inputs": "rotors"}, marks=pytest.mark.long),
    ],
    ids=lambda options: " ".join(map(str, options)),
)
def test_ilqr_on_arrays_is_ilqr_by_named_tuples_bit_for_bit(options):
    """Three drones that share a solver: plans, disturbance estimates and commands computed in arrays, or one by one."""
    require_same_flight(MPC(CRAZYFLIE, horizon=8, **options))


def test_ilqr_on_arrays_handles_invalid_numbers_as_on_named_tuples():
    """A state, an attitude of zero norm, a rotor speed, a reference: the same warnings and commands, for one drone only."""

    def corrupt(tick, estimate, ahead):
        if tick == 1:
            estimate[4, 1] = np.nan
        if tick == 2:
            estimate[6:10, 0] = 0.0
        if tick == 3:
            estimate[13, 2] = np.inf
        if tick == 4:
            ahead[2, 0, 1] = np.inf
            ahead[:, 1, 2] = 1e200  # a cost that is not finite

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        require_same_flight(MPC(CRAZYFLIE, horizon=8, period=0.004), corrupt)
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 2 * len(messages[::2]) and {messages.count(message) % 2 for message in messages} == {0}
    assert any("state" in message for message in messages) and any("reference" in message for message in messages)
    assert any("cost" in message for message in messages)


def test_arrays_are_for_the_designed_vehicle_and_for_no_subclass():
    """A subclass is called directly, and so is a vehicle whose effects differ from those of the controller's vehicle."""

    class Mine(MPC):
        pass

    assert Mine(CRAZYFLIE, horizon=8).batch_controller(CRAZYFLIE, 1) is None
    assert MPC(CRAZYFLIE, horizon=8).batch_controller(samara.vehicle("iris"), 1) is None


def test_references_ahead_are_those_of_the_task():
    """The table of a block against the reference at the instants of each tick, in that block and in later ones."""
    scenario = samara.load_scenario("figure8")
    look_ahead = np.arange(5) * 0.05
    group = SimpleNamespace(look_ahead=look_ahead, plans={}, drones=(0,))
    fleet = SimpleNamespace(
        periods={"control": 4000},
        block_us=100_000,
        drone_settings=lambda group: [DroneSetting(scenario.drones[0].task, since_us=7000)],
    )
    for tick in (3, 4, 28, 29, 60):
        fleet.tick = lambda _, tick=tick: tick
        expected = tabulate_references(fleet.drone_settings(group), 4000 * tick + np.round(1e6 * look_ahead))
        np.testing.assert_array_equal(references_ahead(fleet, group), expected)


def test_instants_that_horizons_share_are_evaluated_once():
    """Ticks of 4 ms and steps of 50 ms lie on a grid of 2 ms: 1 s of ticks and a horizon of 1 s have at most 1000 instants."""
    look_ahead = np.arange(21) * 0.05
    times_us, rows = _instants_ahead(look_ahead.tobytes(), 4000, 250)
    np.testing.assert_array_equal(times_us[rows], np.add.outer(4000 * np.arange(250), 50_000 * np.arange(21)))
    assert (np.diff(times_us) >= 2000).all() and len(times_us) < 1000
