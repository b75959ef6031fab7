"""Which axes can be commanded and how far: closed forms where the rotors leave no choice, laws where they do."""

import math

import numpy as np
import pytest
from support.command import call
from support.stacked import MOTOR, stacked

import samara
from samara.core.algebra import Vec3
from samara.physics.rotors.rotor import Rotor
from samara.vehicles.build import build_vehicle
from samara.vehicles.controllability import Hover, _most, controllability, failures, in_words
from samara.vehicles.limits import thrust_limits
from samara.vehicles.writer import save_vehicle

UP = Vec3(0.0, 0.0, 1.0)


def rotors_at(*places, spins=None):
    ways = spins or [1.0 - 2.0 * (k % 2) for k in range(len(places))]
    return [Rotor(Vec3(*r), UP, spin, 1.5e-5, 2.4e-7, motor=MOTOR) for r, spin in zip(places, ways, strict=True)]


def craft(*places, mass=1.0, spins=None):
    return build_vehicle("craft", mass=mass, inertia=(0.01, 0.012, 0.02), rotors=rotors_at(*places, spins=spins))


def test_a_quadrotor_has_what_its_hover_leaves():
    """Three torques and the lift leave four rotors no choice: τ = 4 l Δ, Δ = min(T_max − T, T − T_min), and κ for l in yaw."""
    d = 0.2
    quad = craft((d, d, 0.0), (d, -d, 0.0), (-d, -d, 0.0), (-d, d, 0.0))
    (low, high), share = thrust_limits(quad)[0], 9.80665 / 4.0
    room = min(high - share, share - low)
    own = controllability(quad)
    assert own.hover is Hover.STEADY and [torque.axis for torque in own.torques] == ["roll", "pitch", "yaw"]
    levers, moments = (d, d, 0.016), (0.01, 0.012, 0.02)
    for torque, lever, moment in zip(own.torques, levers, moments, strict=True):
        assert (-torque.low, torque.high) == pytest.approx((4.0 * lever * room,) * 2, rel=1e-7)
        assert torque.acceleration == pytest.approx(4.0 * lever * room / moment, rel=1e-7)
    assert own.climb == pytest.approx(4.0 * high - 9.80665, rel=1e-7)
    assert "±" in own.torques[0].shown


def test_a_hexarotor_with_a_dead_rotor_gives_up_its_yaw_and_an_octorotor_does_not():
    """Six in alternation need the rotor opposite the dead one to stand, which an idling motor does not (Michieletto 2018)."""
    assert all(own.hover is Hover.TURNING for _, own in failures(samara.vehicle("hexarotor_x")))
    assert all(own.hover is Hover.STEADY for _, own in failures(samara.vehicle("octorotor_x")))
    assert [which for which, _ in failures(samara.vehicle("crazyflie"))] == ["any"]
    assert failures(samara.vehicle("crazyflie"))[0][1].hover is Hover.NONE


def test_what_is_found_is_within_the_limits_and_more_is_not():
    """A random thrust distribution of the same lift never turns the body harder."""
    octo = samara.vehicle("octorotor_x")
    own = controllability(octo)
    from samara.vehicles.trim import effectiveness

    matrix, limits = effectiveness(octo)[2:], np.array(thrust_limits(octo))
    thrusts = np.random.default_rng(1).uniform(limits[:, 0], limits[:, 1], (20000, 8))
    wrench = thrusts @ matrix.T
    near = np.abs(wrench[:, 0] / (octo.mass * 9.80665) - 1.0) < 0.02
    for k, torque in enumerate(own.torques):
        others = [j for j in range(3) if j != k]
        alone = near & (
            np.abs(wrench[:, [1 + j for j in others]]) < 0.1 * np.array([own.torques[j].high for j in others])
        ).all(axis=1)
        assert alone.any() and np.abs(wrench[alone, 1 + k]).max() < 1.15 * torque.high


def test_too_few_rotors_cannot_be_held():
    """One pushes along z and turns with it; two roll and yaw at once and have no pitch; a heavy quadrotor has no lift."""
    one, two = craft((0.0, 0.0, 0.1)), craft((0.0, 0.2, 0.0), (0.0, -0.2, 0.0))
    assert controllability(one).hover is Hover.TURNING  # straight up and turning, with nothing to steer with
    assert "nothing left to roll, pitch with" in in_words(controllability(one))
    assert "nothing left to roll, pitch, yaw with" in in_words(controllability(two))  # roll comes with yaw
    heavy = craft((0.2, 0.2, 0.0), (0.2, -0.2, 0.0), (-0.2, -0.2, 0.0), (-0.2, 0.2, 0.0), mass=50.0)
    assert controllability(heavy).hover is Hover.NONE and math.isinf(controllability(heavy).climb)
    assert in_words(controllability(heavy)) == "cannot be held level in the air"


def test_a_body_driven_by_a_wrench_has_no_limits():
    assert math.isinf(controllability(samara.vehicle("rigid_body_quadrotor")).torques[0].high)


def test_the_command_says_it(monkeypatch, capsys, tmp_path):
    save_vehicle(craft((0.0, 0.2, 0.0), (0.0, -0.2, 0.0)), tmp_path / "two.toml")
    save_vehicle(stacked(4), tmp_path / "x8.toml")
    status, out, _ = call(monkeypatch, capsys, "check", str(tmp_path / "two.toml"), str(tmp_path / "x8.toml"), "iris")
    assert status == 0
    words = " ".join(out.split())
    assert "two rotors command thrust alone, roll, yaw only together with others, pitch not at all; hovers" in words
    assert "rotor 1, 3, 5, 7 failed" in words and "cannot be held level" in words
    assert words.count("thrust, roll, pitch and yaw, each alone; hovers") == 2


def linear_program(matrix, limits, row, sign, held, weight):
    """The same by HiGHS, through CasADi; NaN where there are no such thrusts"""
    casadi = pytest.importorskip("casadi")
    target = np.array([weight if k == 0 else 0.0 for k in held])
    shape = {"a": casadi.Sparsity.dense(len(held), len(limits)), "h": casadi.Sparsity(len(limits), len(limits))}
    solve = casadi.conic("most", "highs", shape, {"error_on_fail": False, "highs": {"output_flag": False}})
    bounds = {"lba": target, "uba": target, "lbx": limits[:, 0], "ubx": limits[:, 1]}
    result = solve(g=casadi.DM(-sign * matrix[row]), a=casadi.DM(matrix[held]), **bounds)
    return float(matrix[row] @ np.array(result["x"]).ravel()) if solve.stats()["success"] else math.nan


def test_the_ends_of_the_zonotope_are_those_of_a_linear_program():
    """Random effectiveness matrices, some of them with a row of zeros, two rows alike or a failed rotor"""
    random, finite = np.random.default_rng(1), 0
    for _ in range(60):
        half = random.normal(size=(4, int(random.integers(2, 5))))
        matrix = np.concatenate([half, -half * [[-1.0], [1.0], [1.0], [1.0]]], axis=1)  # lift adds up, torques balance
        if random.random() < 0.3:
            matrix[3] = random.choice([0.0, 2.0]) * matrix[2]
        limits = np.stack([np.zeros(matrix.shape[1]), random.uniform(1.0, 3.0, matrix.shape[1])], axis=1)
        limits[random.integers(len(limits))] *= random.choice([0.0, 1.0])
        row = int(random.integers(4))
        held = [k for k in range(4) if k != row]
        weight, sign = (
            float(0.3 * np.abs(matrix[0]).sum()) * float(random.choice([0.0, 1.0])),
            float(random.choice([-1, 1])),
        )
        expected = linear_program(matrix, limits, row, sign, held, weight)
        assert _most(matrix, limits, row, sign, held, weight) == pytest.approx(
            expected, rel=1e-7, abs=1e-7, nan_ok=True
        )
        finite += math.isfinite(expected)
    assert finite > 30
