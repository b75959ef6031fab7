"""The branch around idle effects: with it and without it the numbers are the same, bit for bit.

A flight through everything that contact does: standing, taking off, flying, bouncing, landing, and falling upside down, in one
batch of nine drones, so that the widest registers and the one drone left over both go both ways.
"""

import numpy as np
import pytest
from support.scans import check_wall
from support.shipped import shipped

import samara
from samara.compiler.llvm.scan import compile_scan_llvm
from samara.compiler.stepper import Stepper, code_of
from samara.control.geometric import geometric
from samara.core.algebra import NORTH, Vec3, quat_from_axis_angle
from samara.core.tree import flatten
from samara.physics.multirotor import environment_of
from samara.vehicles.defaults import clearance

DT = 1e-3
NINE = 9
STEPS = 700


def starts(vehicle):
    """Nine states: two stand, two hover, one falls upright, one on its back, one on its side, one slides, one flies off"""
    state, _ = samara.hover(vehicle)
    stand, reach = clearance(vehicle), vehicle["contact"].reach
    still = state._replace(rotor_speed=tuple(0.0 for _ in vehicle.rotors))

    def turned(angle):
        return still._replace(p_W=Vec3(0.0, 0.0, 1.5 * reach), q_WB=quat_from_axis_angle(NORTH, angle))

    return [
        still._replace(p_W=Vec3(0.0, 0.0, stand)),
        state._replace(p_W=Vec3(0.0, 0.0, stand - 1e-4)),
        state._replace(p_W=Vec3(1.0, 2.0, 3.0 * reach), omega_B=Vec3(0.1, 0.2, -0.3)),
        state._replace(p_W=Vec3(0.0, 0.0, reach + 2e-3), v_W=Vec3(0.5, 0.0, 0.01)),
        still._replace(p_W=Vec3(0.0, 0.0, stand + 0.5 * reach), v_W=Vec3(0.0, 0.0, -1.0)),
        turned(np.pi),
        turned(0.5 * np.pi),
        still._replace(p_W=Vec3(0.0, 0.0, stand), v_W=Vec3(1.0, 0.3, 0.0)),
        state._replace(p_W=Vec3(0.0, 0.0, stand + 0.01), v_W=Vec3(0.0, 0.0, 1.0)),
    ]


def columns(states, dtype="float64"):
    return np.array([flatten(state) for state in states], dtype=dtype).T.copy()


def commands(vehicle):
    """None for the fallen; for the others hover, then more, then less: up and down again"""
    _, hover = samara.hover(vehicle)
    up = np.where(np.arange(STEPS) < STEPS // 2, 1.08, 0.85)[:, None, None]
    flies = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    return np.array(hover)[None, :, None] * up * flies


def flown(scan, carry, held, inputs, **how):
    run = compile_scan_llvm(scan.body, scan.templates, scan.quiet, **{"dtype": "float64", **how})
    return run(carry.copy(), held, inputs, STEPS)[1]


@pytest.mark.parametrize("n", [1, 37])
def test_a_branch_is_no_difference(n):
    """Masses that bounce off a wall: the short way is tried where it may be, and given up where it was wrong"""
    check_wall(compile_scan_llvm, n)


@pytest.mark.parametrize("name", shipped())
def test_the_guard_changes_no_bit(name):
    """Strict float64: state after every step of nine drones, with the branch and without"""
    vehicle = samara.vehicle(name)
    scan = Stepper(vehicle).rollout()
    given = columns(starts(vehicle)), [DT], commands(vehicle)
    ways = [flown(own, *given) for own in (scan, scan._replace(quiet=None))]
    assert ways[0].tobytes() == ways[1].tobytes()
    heights = ways[0][:, 2]
    reach = vehicle["contact"].reach
    assert ((heights.min(axis=0) < reach) & (heights.max(axis=0) > reach)).sum() >= 3  # these went both ways


def test_a_drone_is_the_same_beside_any_other():
    """Alone, or in registers with others that are on the ground: the same bits"""
    vehicle = samara.vehicle("crazyflie")
    scan, carry, inputs = Stepper(vehicle).rollout(), columns(starts(vehicle)), commands(vehicle)
    run = compile_scan_llvm(scan.body, scan.templates, scan.quiet, dtype="float64")
    _, together = run(carry.copy(), [DT], inputs, STEPS)
    for drone in range(NINE):
        own = slice(drone, drone + 1)
        _, alone = run(carry[:, own].copy(), [DT], inputs[:, :, own], STEPS)
        assert alone.tobytes() == together[:, :, own].tobytes()


@pytest.mark.parametrize("drones", [1, NINE])
def test_machines_go_the_same_way(drones):
    """The plants of a flight: up from the ground under a held command, and down again without one"""
    vehicle = samara.vehicle("crazyflie")
    scan = Stepper(vehicle).step(environment_of(vehicle))
    _, hover = samara.hover(vehicle)
    ways = []
    for own in (scan, scan._replace(quiet=None)):
        machine = code_of("llvm", own).machine(drones)
        machine.carry[:] = columns(starts(vehicle))[:, 1 : 1 + drones] if drones == 1 else columns(starts(vehicle))
        seen = []
        for factor in (1.1, 0.8, 0.0):
            machine.held[: len(hover)] = factor * np.array(hover)[:, None]
            for _ in range(200):
                machine.run(3)
                seen.append(machine.carry.copy())
        ways.append(np.array(seen))
    assert ways[0].tobytes() == ways[1].tobytes()
    assert ways[0][:, 2].max() > 2.0 * vehicle["contact"].reach


def test_with_a_controller_in_the_loop_too():
    """Up to 30 cm and back into the ground, every step of it"""
    vehicle = samara.vehicle("crazyflie")
    scan = Stepper(vehicle).closed_loop(geometric(vehicle), geometric(vehicle).initial_memory)
    references = np.zeros((STEPS, len(flatten(scan.templates.inputs))))
    references[:, 2] = np.where(np.arange(STEPS) < STEPS // 2, 0.3, -0.5)
    carry = columns(starts(vehicle))
    carry = np.concatenate([carry, np.zeros((len(flatten(scan.templates.carry)) - len(carry), NINE))])
    ways = [flown(own, carry, [DT], references) for own in (scan, scan._replace(quiet=None))]
    assert ways[0].tobytes() == ways[1].tobytes()


def test_fast_single_precision_agrees_to_its_rounding():
    """In the air, where errors do not grow as they do from one bounce to the next"""
    vehicle = samara.vehicle("crazyflie")
    scan = Stepper(vehicle).rollout()
    given = columns(starts(vehicle), "float32")[:, 2:3], [DT], commands(vehicle)[:, :, 2:3]
    ways = [flown(own, *given, dtype="float32", fast=True) for own in (scan, scan._replace(quiet=None))]
    assert ways[0] == pytest.approx(ways[1], rel=2e-5, abs=2e-5)


def test_no_number_gets_lost():
    """A velocity that is no number is none afterwards, and makes the place none"""
    vehicle = samara.vehicle("crazyflie")
    scan, carry = Stepper(vehicle).step(), columns(starts(vehicle))
    carry[3, 2] = np.nan
    run = compile_scan_llvm(scan.body, scan.templates, scan.quiet, dtype="float64")
    after, _ = run(carry, [*samara.hover(vehicle)[1], DT], None, 1)
    assert np.isnan(after[[0, 3], 2]).all()
    assert np.isfinite(np.delete(after, 2, axis=1)).all()


def test_what_has_nothing_idle_is_compiled_as_ever():
    """Without contact there is one way only"""
    bare = samara.vehicle("crazyflie").without_effect("contact")
    assert Stepper(bare).step().quiet is None
    assert Stepper(bare).rollout().quiet is None
