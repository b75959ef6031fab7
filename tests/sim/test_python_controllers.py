"""Who gives the commands: the same controller by named tuples and on arrays, and what one that looks ahead is asked."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import samara
from samara.control.mpc import ILQR
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


def some_states(rng):
    """(components, drones) near hover, their quaternions a little longer than 1"""
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
    return np.array([flatten(own) for own in states]).T


def asked(look_ahead, tick):
    """(instants, fields, drones): a figure of eight, for each drone a little later"""
    road = figure8((0.0, 0.0, 1.0), reach=1.0, speed=1.0)
    own = [np.array([flatten(road.at(0.004 * tick + 0.3 * k + t)) for t in look_ahead.tolist()]) for k in range(DRONES)]
    return np.stack(own, axis=2)


def require_same_flight(ilqr, spoil=lambda tick, estimate, ahead: None):
    named = PythonController(ilqr, CRAZYFLIE, ilqr.initial_memory, n=DRONES)
    arrays = ArrayController(ilqr.on_arrays(CRAZYFLIE, DRONES), CRAZYFLIE, ilqr.look_ahead, n=DRONES)
    rng, reference = np.random.default_rng(0), np.zeros((len(flatten(Reference(ZERO))), DRONES))
    for tick in range(TICKS):
        estimate, ahead = some_states(rng), asked(ilqr.look_ahead, tick)
        spoil(tick, estimate, ahead)
        for controller in (named, arrays):
            controller.run(estimate, reference, 4000 * tick, ahead)
        for name in ("command", "prediction", "excess", "invalid_count"):
            np.testing.assert_array_equal(getattr(arrays, name), getattr(named, name), err_msg=f"{name} at {tick}")
        assert np.isfinite(arrays.command).all() and np.ptp(arrays.command) > 0.0


@pytest.mark.parametrize(
    "options",
    [
        {"period": 0.004},
        {"period": 0.05, "control_iterations": 3},  # a whole step of the horizon: nothing is mixed
        {"period": 0.12, "disturbance_time_constant": 0.0},  # the last input is held for longer
        pytest.param({"period": 0.004, "inputs": "rotors"}, marks=pytest.mark.long),
    ],
    ids=lambda options: " ".join(map(str, options)),
)
def test_ilqr_on_arrays_is_ilqr_by_named_tuples_bit_for_bit(options):
    """Three drones that share a solver: plans shifted, pushes watched and commands allocated in arrays, or one by one."""
    require_same_flight(ILQR(CRAZYFLIE, horizon=8, **options))


def test_ilqr_on_arrays_meets_what_is_not_a_number_as_by_named_tuples():
    """A state, an attitude of no length, a rotor's speed, a reference: the same warnings and commands, one drone's alone."""

    def spoil(tick, estimate, ahead):
        if tick == 1:
            estimate[4, 1] = np.nan
        if tick == 2:
            estimate[6:10, 0] = 0.0
        if tick == 3:
            estimate[13, 2] = np.inf
        if tick == 4:
            ahead[2, 0, 1] = np.inf
            ahead[:, 1, 2] = 1e200  # a cost that is not finite

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        require_same_flight(ILQR(CRAZYFLIE, horizon=8, period=0.004), spoil)
    told = [str(own.message) for own in heard]
    assert len(told) == 2 * len(told[::2]) and {told.count(own) % 2 for own in told} == {0}
    assert any("state" in own for own in told) and any("reference" in own for own in told)
    assert any("cost" in own for own in told)


def test_arrays_are_for_the_vehicle_it_knows_and_for_no_subclass():
    """A subclass is flown by its own call, and what has a load or a battery that the controller's vehicle has not, by names."""

    class Mine(ILQR):
        pass

    assert Mine(CRAZYFLIE, horizon=8).on_arrays(CRAZYFLIE, 1) is None
    assert ILQR(CRAZYFLIE, horizon=8).on_arrays(samara.vehicle("iris"), 1) is None


def test_what_lies_ahead_is_the_task_at_those_instants():
    """The table of a block against the reference at each tick's own instants, in that block and in those after it."""
    scenario = samara.load_scenario("figure8")
    look_ahead = np.arange(5) * 0.05
    group = SimpleNamespace(look_ahead=look_ahead, plans={}, drones=(0,))
    fleet = SimpleNamespace(
        periods={"autopilot": 4000},
        block_us=100_000,
        drone_settings=lambda group: [DroneSetting(scenario.drones[0].task, since_us=7000)],
    )
    for tick in (3, 4, 28, 29, 60):
        fleet.tick = lambda _, tick=tick: tick
        own = tabulate_references(fleet.drone_settings(group), 4000 * tick + np.round(1e6 * look_ahead))
        np.testing.assert_array_equal(references_ahead(fleet, group), own)


def test_instants_that_horizons_share_are_asked_for_once():
    """Ticks of 4 ms and steps of 50 ms lie on a grid of 2 ms: a second and a horizon of one are at most 1000 instants"""
    look_ahead = np.arange(21) * 0.05
    times_us, rows = _instants_ahead(look_ahead.tobytes(), 4000, 250)
    np.testing.assert_array_equal(times_us[rows], np.add.outer(4000 * np.arange(250), 50_000 * np.arange(21)))
    assert (np.diff(times_us) >= 2000).all() and len(times_us) < 1000
