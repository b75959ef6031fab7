"""The branch around idle effects: results with it and without it are bit-identical.

The batch covers everything that contact does: standing, taking off, flying, bouncing, landing, and falling upside down, in
nine drones, so that the widest registers and the one remaining drone both take both branches.
"""

import numpy as np
import pytest
from support.scans import check_wall
from support.vehicle_parameters import shipped_vehicle_parameters

import samara
from samara.compiler.llvm.scan import compile_scan_llvm
from samara.compiler.stepper import Stepper, compile_code
from samara.control.geometric import geometric
from samara.core.algebra import NORTH, Vec3, quat_from_axis_angle
from samara.core.tree import flatten
from samara.physics.multirotor import complete_environment
from samara.vehicles.defaults import clearance

DT = 1e-3
NINE = 9
STEPS = 700


def initial_states(vehicle):
    """Nine states: two stand, two hover, one falls upright, one on its back, one on its side, one slides, one flies off."""
    state, _ = samara.hover(vehicle)
    stand, contact_reach = clearance(vehicle), vehicle["contact"].bounding_radius
    still = state._replace(rotor_speed=tuple(0.0 for _ in vehicle.rotors))

    def tilted(angle):
        return still._replace(p_W=Vec3(0.0, 0.0, 1.5 * contact_reach), q_WB=quat_from_axis_angle(NORTH, angle))

    return [
        still._replace(p_W=Vec3(0.0, 0.0, stand)),
        state._replace(p_W=Vec3(0.0, 0.0, stand - 1e-4)),
        state._replace(p_W=Vec3(1.0, 2.0, 3.0 * contact_reach), omega_B=Vec3(0.1, 0.2, -0.3)),
        state._replace(p_W=Vec3(0.0, 0.0, contact_reach + 2e-3), v_W=Vec3(0.5, 0.0, 0.01)),
        still._replace(p_W=Vec3(0.0, 0.0, stand + 0.5 * contact_reach), v_W=Vec3(0.0, 0.0, -1.0)),
        tilted(np.pi),
        tilted(0.5 * np.pi),
        still._replace(p_W=Vec3(0.0, 0.0, stand), v_W=Vec3(1.0, 0.3, 0.0)),
        state._replace(p_W=Vec3(0.0, 0.0, stand + 0.01), v_W=Vec3(0.0, 0.0, 1.0)),
    ]


def columns(states, dtype="float64"):
    return np.array([flatten(state) for state in states], dtype=dtype).T.copy()


def commands(vehicle):
    """Zero for the fallen; for the others hover, then more, then less: up and down again."""
    _, hover = samara.hover(vehicle)
    up = np.where(np.arange(STEPS) < STEPS // 2, 1.08, 0.85)[:, None, None]
    flies = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    return np.array(hover)[None, :, None] * up * flies


def run_scan(scan, carry, held_inputs, inputs, **options):
    run = compile_scan_llvm(scan.body, scan.templates, scan.idle_path, **{"dtype": "float64", **options})
    return run(carry.copy(), held_inputs, inputs, STEPS)[1]


@pytest.mark.parametrize("n", [1, 37])
def test_a_branch_makes_no_difference(n):
    """Masses that bounce off a wall: the idle path is tried when its guard holds, and discarded when it was invalid."""
    check_wall(compile_scan_llvm, n)


@pytest.mark.parametrize("name", shipped_vehicle_parameters())
def test_the_guard_changes_no_bit(name):
    """Strict float64: state after every step of nine drones, with the branch and without."""
    vehicle = samara.vehicle(name)
    scan = Stepper(vehicle).rollout()
    arguments = columns(initial_states(vehicle)), [DT], commands(vehicle)
    results = [run_scan(variant, *arguments) for variant in (scan, scan._replace(idle_path=None))]
    assert results[0].tobytes() == results[1].tobytes()
    heights = results[0][:, 2]
    contact_reach = vehicle["contact"].bounding_radius
    assert (
        (heights.min(axis=0) < contact_reach) & (heights.max(axis=0) > contact_reach)
    ).sum() >= 3  # these went both ways


def test_a_drone_is_the_same_beside_any_other():
    """Alone, or in registers with others that are on the ground: the same bits."""
    vehicle = samara.vehicle("crazyflie")
    scan, carry, inputs = Stepper(vehicle).rollout(), columns(initial_states(vehicle)), commands(vehicle)
    run = compile_scan_llvm(scan.body, scan.templates, scan.idle_path, dtype="float64")
    _, batch_result = run(carry.copy(), [DT], inputs, STEPS)
    for drone in range(NINE):
        column = slice(drone, drone + 1)
        _, single_result = run(carry[:, column].copy(), [DT], inputs[:, :, column], STEPS)
        assert single_result.tobytes() == batch_result[:, :, column].tobytes()


@pytest.mark.parametrize("drones", [1, NINE])
def test_machines_take_the_same_path(drones):
    """The plants of a flight: up from the ground under a constant command, and down again without one."""
    vehicle = samara.vehicle("crazyflie")
    scan = Stepper(vehicle).step(complete_environment(vehicle))
    _, hover = samara.hover(vehicle)
    results = []
    for variant in (scan, scan._replace(idle_path=None)):
        machine = compile_code("llvm", variant).machine(drones)
        machine.carry[:] = (
            columns(initial_states(vehicle))[:, 1 : 1 + drones] if drones == 1 else columns(initial_states(vehicle))
        )
        states = []
        for factor in (1.1, 0.8, 0.0):
            machine.held_inputs[: len(hover)] = factor * np.array(hover)[:, None]
            for _ in range(200):
                machine.run(3)
                states.append(machine.carry.copy())
        results.append(np.array(states))
    assert results[0].tobytes() == results[1].tobytes()
    assert results[0][:, 2].max() > 2.0 * vehicle["contact"].bounding_radius


def test_with_a_controller_in_the_loop_too():
    """Up to 30 cm and back into the ground, compared at every step."""
    vehicle = samara.vehicle("crazyflie")
    scan = Stepper(vehicle).closed_loop(geometric(vehicle), geometric(vehicle).initial_state)
    references = np.zeros((STEPS, len(flatten(scan.templates.inputs))))
    references[:, 2] = np.where(np.arange(STEPS) < STEPS // 2, 0.3, -0.5)
    carry = columns(initial_states(vehicle))
    carry = np.concatenate([carry, np.zeros((len(flatten(scan.templates.carry)) - len(carry), NINE))])
    results = [run_scan(variant, carry, [DT], references) for variant in (scan, scan._replace(idle_path=None))]
    assert results[0].tobytes() == results[1].tobytes()


def test_fast_single_precision_agrees_to_its_rounding():
    """In the air, where errors do not grow as they do from one bounce to the next."""
    vehicle = samara.vehicle("crazyflie")
    scan = Stepper(vehicle).rollout()
    arguments = columns(initial_states(vehicle), "float32")[:, 2:3], [DT], commands(vehicle)[:, :, 2:3]
    results = [
        run_scan(variant, *arguments, dtype="float32", fast=True) for variant in (scan, scan._replace(idle_path=None))
    ]
    assert results[0] == pytest.approx(results[1], rel=2e-5, abs=2e-5)


def test_nan_propagates():
    """A NaN velocity stays NaN, and makes the position NaN."""
    vehicle = samara.vehicle("crazyflie")
    scan, carry = Stepper(vehicle).step(), columns(initial_states(vehicle))
    carry[3, 2] = np.nan
    run = compile_scan_llvm(scan.body, scan.templates, scan.idle_path, dtype="float64")
    after, _ = run(carry, [*samara.hover(vehicle)[1], DT], None, 1)
    assert np.isnan(after[[0, 3], 2]).all()
    assert np.isfinite(np.delete(after, 2, axis=1)).all()


def test_without_idle_effects_there_is_no_branch():
    """Without contact there is only one path."""
    bare = samara.vehicle("crazyflie").without_effect("contact")
    assert Stepper(bare).step().idle_path is None
    assert Stepper(bare).rollout().idle_path is None
