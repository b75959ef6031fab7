"""Controllable axes and their limits: closed forms for determinate rotors, laws for redundant ones."""

import math

import numpy as np
import pytest
from support.coaxial_vehicles import MOTOR, coaxial_vehicle
from support.command import call

import samara
from samara.core.algebra import Vec3
from samara.physics.rotors.rotor import Rotor
from samara.vehicles.build import build_vehicle
from samara.vehicles.controllability import (
    HoverMode,
    _max_torque,
    controllability,
    describe_controllability,
    failure_groups,
)
from samara.vehicles.limits import thrust_limits
from samara.vehicles.writer import save_vehicle

UP = Vec3(0.0, 0.0, 1.0)


def make_rotors(*positions, spins=None):
    directions = spins or [1.0 - 2.0 * (k % 2) for k in range(len(positions))]
    return [
        Rotor(Vec3(*r), UP, spin, 1.5e-5, 2.4e-7, motor=MOTOR) for r, spin in zip(positions, directions, strict=True)
    ]


def make_vehicle(*positions, mass=1.0, spins=None):
    return build_vehicle("craft", mass=mass, inertia=(0.01, 0.012, 0.02), rotors=make_rotors(*positions, spins=spins))


def test_a_quadrotor_has_what_its_hover_leaves():
    """Three torques and the thrust determine four rotors: τ = 4 l Δ, Δ = min(T_max − T, T − T_min), and κ for l in yaw."""
    d = 0.2
    quad = make_vehicle((d, d, 0.0), (d, -d, 0.0), (-d, -d, 0.0), (-d, d, 0.0))
    (low, high), hover_thrust = thrust_limits(quad)[0], 9.80665 / 4.0
    margin = min(high - hover_thrust, hover_thrust - low)
    result = controllability(quad)
    assert result.hover is HoverMode.STEADY and [torque.axis for torque in result.torques] == ["roll", "pitch", "yaw"]
    levers, moments = (d, d, 0.016), (0.01, 0.012, 0.02)
    for torque, lever, moment in zip(result.torques, levers, moments, strict=True):
        assert (-torque.low, torque.high) == pytest.approx((4.0 * lever * margin,) * 2, rel=1e-7)
        assert torque.acceleration == pytest.approx(4.0 * lever * margin / moment, rel=1e-7)
    assert result.climb == pytest.approx(4.0 * high - 9.80665, rel=1e-7)
    assert all(torque.low == pytest.approx(-torque.high, rel=1e-9) for torque in result.torques)


def test_a_hexarotor_with_a_dead_rotor_gives_up_its_yaw_and_an_octorotor_does_not():
    """Six alternating rotors need the rotor opposite the failed one to stop, which an idling motor does not (Michieletto
    2018)."""
    assert all(result.hover is HoverMode.TURNING for _, result in failure_groups(samara.vehicle("hexarotor_x")))
    assert all(result.hover is HoverMode.STEADY for _, result in failure_groups(samara.vehicle("octorotor_x")))
    assert [rotors for rotors, _ in failure_groups(samara.vehicle("crazyflie"))] == ["any rotor"]
    assert failure_groups(samara.vehicle("crazyflie"))[0][1].hover is HoverMode.NONE


def test_what_is_found_is_within_the_limits_and_more_is_not():
    """A random thrust distribution with the same collective thrust never has a larger torque."""
    octo = samara.vehicle("octorotor_x")
    result = controllability(octo)
    from samara.vehicles.trim import effectiveness

    matrix, limits = effectiveness(octo)[2:], np.array(thrust_limits(octo))
    thrusts = np.random.default_rng(1).uniform(limits[:, 0], limits[:, 1], (20000, 8))
    wrench = thrusts @ matrix.T
    hovers = np.abs(wrench[:, 0] / (octo.mass * 9.80665) - 1.0) < 0.02
    for k, torque in enumerate(result.torques):
        other_axes = [j for j in range(3) if j != k]
        is_single_axis = hovers & (
            np.abs(wrench[:, [1 + j for j in other_axes]])
            < 0.1 * np.array([result.torques[j].high for j in other_axes])
        ).all(axis=1)
        assert is_single_axis.any() and np.abs(wrench[is_single_axis, 1 + k]).max() < 1.15 * torque.high


def test_too_few_rotors_cannot_be_held():
    """One pushes along z and turns with it; two roll and yaw at once and have no pitch; a heavy quadrotor has no lift."""
    one, two = make_vehicle((0.0, 0.0, 0.1)), make_vehicle((0.0, 0.2, 0.0), (0.0, -0.2, 0.0))
    assert controllability(one).hover is HoverMode.TURNING  # straight up and turning, with nothing to steer with
    assert "no torque left for roll, pitch" in describe_controllability(controllability(one))
    assert "no torque left for roll, pitch, yaw" in describe_controllability(
        controllability(two)
    )  # roll comes with yaw
    heavy = make_vehicle((0.2, 0.2, 0.0), (0.2, -0.2, 0.0), (-0.2, -0.2, 0.0), (-0.2, 0.2, 0.0), mass=50.0)
    assert controllability(heavy).hover is HoverMode.NONE and math.isinf(controllability(heavy).climb)
    assert describe_controllability(controllability(heavy)) == "cannot be held level in the air"


def test_a_body_driven_by_a_wrench_has_no_limits():
    assert math.isinf(controllability(samara.vehicle("rigid_body_quadrotor")).torques[0].high)


def test_the_command_says_it(monkeypatch, capsys, tmp_path):
    save_vehicle(make_vehicle((0.0, 0.2, 0.0), (0.0, -0.2, 0.0)), tmp_path / "two.toml")
    save_vehicle(coaxial_vehicle(4), tmp_path / "x8.toml")
    status, out, _ = call(monkeypatch, capsys, "check", str(tmp_path / "two.toml"), str(tmp_path / "x8.toml"), "iris")
    assert status == 0
    words = " ".join(out.split())
    assert "two rotors command thrust alone, roll, yaw only together with others, pitch not at all; hovers" in words
    assert "rotor 1, 3, 5 or 7 failed" in words and "cannot be held level" in words
    assert words.count("thrust, roll, pitch and yaw, each alone; hovers") == 2


def linear_program(matrix, limits, row, sign, held_rows, weight):
    """The same by HiGHS, through CasADi; NaN if there are no such thrusts."""
    casadi = pytest.importorskip("casadi")
    target = np.array([weight if k == 0 else 0.0 for k in held_rows])
    shape = {"a": casadi.Sparsity.dense(len(held_rows), len(limits)), "h": casadi.Sparsity(len(limits), len(limits))}
    solve = casadi.conic("most", "highs", shape, {"error_on_fail": False, "highs": {"output_flag": False}})
    bounds = {"lba": target, "uba": target, "lbx": limits[:, 0], "ubx": limits[:, 1]}
    result = solve(g=casadi.DM(-sign * matrix[row]), a=casadi.DM(matrix[held_rows]), **bounds)
    return float(matrix[row] @ np.array(result["x"]).ravel()) if solve.stats()["success"] else math.nan


def test_the_ends_of_the_zonotope_are_those_of_a_linear_program():
    """Random effectiveness matrices, some of them with a row of zeros, two equal rows or a failed rotor."""
    random, finite = np.random.default_rng(1), 0
    for _ in range(60):
        half = random.normal(size=(4, int(random.integers(2, 5))))
        matrix = np.concatenate([half, -half * [[-1.0], [1.0], [1.0], [1.0]]], axis=1)  # lift adds up, torques balance
        if random.random() < 0.3:
            matrix[3] = random.choice([0.0, 2.0]) * matrix[2]
        limits = np.stack([np.zeros(matrix.shape[1]), random.uniform(1.0, 3.0, matrix.shape[1])], axis=1)
        limits[random.integers(len(limits))] *= random.choice([0.0, 1.0])
        row = int(random.integers(4))
        held_rows = [k for k in range(4) if k != row]
        weight, sign = (
            float(0.3 * np.abs(matrix[0]).sum()) * float(random.choice([0.0, 1.0])),
            float(random.choice([-1, 1])),
        )
        expected = linear_program(matrix, limits, row, sign, held_rows, weight)
        assert _max_torque(matrix, limits, row, sign, held_rows, weight) == pytest.approx(
            expected, rel=1e-7, abs=1e-7, nan_ok=True
        )
        finite += math.isfinite(expected)
    assert finite > 30
