"""Plans within a vehicle's limits: none is exceeded on a grid of a millisecond, one is met, and the waypoints are passed."""

import math
import os
import re
from itertools import pairwise

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import samara
from samara.cli import plan as command
from samara.core.algebra import Vec3
from samara.documents.rigid_body import RigidBodyQuadrotor
from samara.plan.flatness import flat_motion, flat_output
from samara.plan.time_optimal import (
    GRID_PERIOD,
    PlanLimits,
    equal_speed_durations,
    limit_usage,
    max_limit_usage,
    plan_fastest,
    scale_to_limits,
)
from samara.plan.trajectory import circle, hover, minimum_snap, race
from samara.plan.waypoint_file import WaypointFile, read_waypoints
from samara.vehicles.limits import thrust_limits

POINTS = [(0.0, 0.0, 1.0), (4.0, 0.0, 1.5), (4.0, 3.0, 3.0), (0.0, 3.0, 1.0)]
LIMITS = PlanLimits(thrust=0.9, tilt=math.radians(50.0), rate=8.0)
CASES = [
    ("crazyflie_documented", 4),
    ("crazyflie_documented", 5),
    ("crazyflie", 4),
    ("iris_documented", 4),
    ("rigid_body_quadrotor", 3),
]


@pytest.fixture(scope="module", params=CASES, ids=[f"{name}, {order}" for name, order in CASES])
def planned(request):
    name, order = request.param
    vehicle = samara.vehicle(name)
    return vehicle, order, plan_fastest(POINTS, vehicle, limits=LIMITS, order=order)


def test_limits_hold_and_one_is_met(planned):
    """Computed independently: thrust, tilt and rates from the flat state every millisecond, rotors between their speeds."""
    vehicle, _, plan = planned
    time = np.arange(0.0, plan.trajectory.duration, GRID_PERIOD)
    motion = flat_motion(flat_output(plan.trajectory, time), vehicle)
    _, x, y, _ = motion.state.q_WB
    tilt = np.arccos(np.clip(1.0 - 2.0 * (x * x + y * y), -1.0, 1.0))
    rate = np.sqrt(sum(component**2 for component in motion.state.omega_B))
    fractions = [tilt.max() / LIMITS.tilt, rate.max() / LIMITS.rate]
    if vehicle.rotors and vehicle.structure.actuation.name == "normalized":
        low, high = vehicle.rotors[0].motor.speed_min, vehicle.rotors[0].motor.speed_max
        speeds, commands = np.array(motion.state.rotor_speed), np.array(motion.command)
        assert low < speeds.min() < speeds.max() < high
        assert 0.0 <= commands.min() < commands.max() <= 1.0
        max_thrust = sum(rotor.k_thrust for rotor in vehicle.rotors) * high**2
        fractions += [motion.thrust.max() / (0.9 * max_thrust), commands.max(), 1.0 - commands.min()]
    elif vehicle.rotors:
        assert np.array(motion.command).max() <= 1.0
        fractions += [
            plan.limit_usage["thrust"],
            plan.limit_usage["command maximum"],
            plan.limit_usage["rotor minimum"],
        ]
    assert max(fractions) <= 1.0
    assert max(fractions) > 0.98
    assert plan.limit_usage[plan.tightest_limit] == pytest.approx(max(fractions), abs=0.01)


def test_waypoints_are_passed_from_rest_to_rest(planned):
    _, order, plan = planned
    for waypoint, point in zip(plan.trajectory.waypoints, POINTS, strict=True):
        assert np.array(plan.trajectory.evaluate(waypoint.time).p_W) == pytest.approx(point, abs=1e-9)
    for end in (0.0, plan.trajectory.duration):
        reference = flat_output(plan.trajectory, end, 4)
        end_derivatives = [series.derivative(k) for series in reference.p_W for k in range(1, min(order, 4))]
        assert np.abs(end_derivatives).max() < 1e-6


def test_it_is_faster_than_equal_speeds(planned):
    vehicle, order, plan = planned
    even = scale_to_limits(POINTS, equal_speed_durations(POINTS).tolist(), vehicle, limits=LIMITS, order=order)
    assert max(even.limit_usage.values()) > 0.98
    assert plan.trajectory.duration < 0.98 * even.trajectory.duration


def test_between_two_points_only_the_pace_is_free():
    """One piece has only a pace. Vertically, thrust is the limit: m (a + g) + D v = 0.9 T_max at some time."""
    vehicle = samara.vehicle("crazyflie_documented")
    plan = plan_fastest([(0.0, 0.0, 1.0), (0.0, 0.0, 6.0)], vehicle, limits=LIMITS)
    reference = plan.trajectory.evaluate(np.linspace(0.0, plan.trajectory.duration, 5001))
    thrust = vehicle.mass * (reference.a_W.z + 9.81) + 0.2 * reference.v_W.z
    assert thrust.max() / (0.9 * 4.0 * 2.88e-8 * 2500.0**2) == pytest.approx(plan.limit_usage["thrust"], rel=1e-6)
    assert plan.limit_usage["tilt"] < 1e-9


def test_a_higher_limit_is_never_slower():
    vehicle = samara.vehicle("crazyflie_documented")
    durations = [
        scale_to_limits(
            POINTS, equal_speed_durations(POINTS), vehicle, limits=PlanLimits(tilt=math.radians(tilt_deg))
        ).trajectory.duration
        for tilt_deg in (15.0, 30.0, 45.0)
    ]
    assert all(after < before for before, after in pairwise(durations))


def test_usage_is_one_where_the_limit_is():
    """On a circle the tilt is that of v²/R and rotates with it: across b₃ the body rotates at v/R sin θ."""
    vehicle = samara.vehicle("rigid_body_quadrotor").without_effect("drag")
    ring = circle((0.0, 0.0, 2.0), radius=2.0, speed=3.0, laps=math.inf)
    motion = flat_motion(flat_output(ring, 20.0), vehicle)
    tilt = math.atan2(4.5, vehicle["gravity"].acceleration)
    lateral_rate = 1.5 * math.sin(tilt)
    fractions = limit_usage(
        motion, vehicle, PlanLimits(tilt=tilt, rate=math.hypot(lateral_rate, motion.state.omega_B.z))
    )
    assert fractions["tilt"] == pytest.approx(1.0, rel=1e-12)
    assert fractions["rate"] == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("name", ["crazyflie_documented", "iris"])
def test_usage_of_rotors_and_commands_is_one_at_their_ends(name):
    """At a fraction x between a rotor's minimum and maximum thrust: usage (x (high − low) + low)/high, and 1 − x downwards"""
    vehicle = samara.vehicle(name)
    low, high = np.array(thrust_limits(vehicle)).T
    motion = flat_motion(flat_output(circle((0.0, 0.0, 2.0), radius=2.0, speed=1.0, laps=math.inf), 20.0), vehicle)
    for x in (0.0, 0.25, 1.0):
        fraction = np.full(len(low), 0.5)
        fraction[1] = x
        thrusts = low + fraction * (high - low)
        thrust_usage = limit_usage(
            motion._replace(rotor_thrust=tuple(thrusts), thrust=thrusts.sum()), vehicle, PlanLimits(thrust=0.8)
        )
        assert thrust_usage["rotor maximum"] == pytest.approx((thrusts / high).max(), rel=1e-12)
        assert thrust_usage["rotor minimum"] == pytest.approx(1.0 - fraction.min(), rel=1e-12)
        assert thrust_usage["thrust"] == pytest.approx(thrusts.sum() / (0.8 * high.sum()), rel=1e-12)
        command_usage = limit_usage(motion._replace(command=tuple(fraction)), vehicle)
        assert (command_usage["command maximum"], command_usage["command minimum"]) == pytest.approx(
            (fraction.max(), 1.0 - fraction.min()), rel=1e-12
        )


def test_usage_of_a_speed_is_one_at_the_ends_its_motor_holds():
    """A command that is a speed, at a fraction x between the minimum and the maximum"""
    vehicle = RigidBodyQuadrotor(motor_lag=0.05).vehicle
    vehicle = vehicle.replace({"rotors.motor.speed_min": 0.2 * vehicle.rotors[0].motor.speed_max})
    motor, motion = vehicle.rotors[0].motor, flat_motion(flat_output(hover((0.0, 0.0, 2.0)), 0.0), vehicle)
    speeds = tuple(motor.speed_min + x * (motor.speed_max - motor.speed_min) for x in (0.2, 0.5, 0.6, 0.9))
    command_usage = limit_usage(motion._replace(command=speeds), vehicle)
    assert (command_usage["command maximum"], command_usage["command minimum"]) == pytest.approx((0.9, 0.8), rel=1e-12)


def test_equal_speeds_are_the_lengths_of_the_pieces():
    """At 1 m/s: 5 m and 12 m; a piece of zero length has a positive duration"""
    durations = equal_speed_durations([(1.0, 2.0, 3.0), (4.0, 6.0, 3.0), (4.0, 6.0, 15.0), (4.0, 6.0, 15.0)])
    assert durations == pytest.approx([5.0, 12.0, 1e-6], rel=1e-12)


def test_a_vehicle_that_cannot_hover_within_its_limits_is_rejected():
    with pytest.raises(
        ValueError, match=r"'crazyflie_documented' already uses .* of the limit on thrust when it hovers"
    ):
        plan_fastest(POINTS, samara.vehicle("crazyflie_documented"), limits=PlanLimits(thrust=0.3))
    with pytest.raises(ValueError, match=r"limits\.tilt is -1"):
        plan_fastest(POINTS, samara.vehicle("crazyflie_documented"), limits=PlanLimits(tilt=-1))


def test_minimum_snap_with_the_times_of_a_race_is_the_race():
    """The same minimum snap: a race's gates at the times of the race; yaws take the shorter turn."""
    gates = [(0.0, 0.0, 1.0), (5.0, 2.0, 2.0), (9.0, -1.0, 3.0)]
    fast = race(gates, speed=4.0)
    same = minimum_snap(gates, np.diff([waypoint.time for waypoint in fast.waypoints]).tolist())
    time = np.linspace(0.0, fast.duration, 50)
    assert np.array(same.evaluate(time).p_W) == pytest.approx(np.array(fast.evaluate(time).p_W), abs=1e-9)
    with_yaws = minimum_snap(gates, [1.0, 1.0], yaw=[3.0, -3.0, -2.9])
    assert with_yaws.evaluate(1.0).yaw == pytest.approx(-3.0, abs=1e-12)
    assert 0.0 < with_yaws.evaluate(0.5).yaw_rate < 1.0
    with pytest.raises(ValueError, match="got 1 durations; expected 2"):
        minimum_snap(gates, [1.0])


# The file and the command ---------------------------------------------------------------------------------------------


def test_files_with_and_without_names(tmp_path):
    path = tmp_path / "way.csv"
    path.write_text("# a square\nx, y, z, yaw, time\n0,0,1,0,0\n4,0,1,90,2.5\n\n4,4,1,180,5\n")
    file = read_waypoints(path)
    assert file.points == (Vec3(0.0, 0.0, 1.0), Vec3(4.0, 0.0, 1.0), Vec3(4.0, 4.0, 1.0))
    assert file.yaws == pytest.approx((0.0, math.pi / 2, math.pi))
    assert file.times == (0.0, 2.5, 5.0)
    path.write_text("0,0,1\n4,0,1\n")
    assert read_waypoints(path) == WaypointFile((Vec3(0.0, 0.0, 1.0), Vec3(4.0, 0.0, 1.0)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no waypoints"),
        ("0,0,1\n", "has 1 waypoints; expected at least 2"),
        ("0,0,1\n1,2\n", "line 2 has 2 values; expected 3"),
        ("x,y,z\n0,0,1\n\n1,two,3\n", "line 4 has y = 'two'; expected a finite number"),
        ("0,0,1\n1,nan,3\n", "line 2 has y = 'nan'"),
        ("0,0,1\n0,0,1\n", "line 2 repeats the previous position"),
        ("x,y,z,time\n0,0,1,0\n1,0,1,0\n", "line 3 has time 0; expected a time after 0"),
        ("x,y,height\n0,0,1\n", "line 1 names the columns x, y, height"),
        ("x,y,\x1bz\n0,0,1\n", "line 1 names the columns x, y, \\x1bz"),
        ("\ud880", "cannot be read"),
    ],
)
def test_bad_rows_are_named_by_their_line(tmp_path, text, message):
    path = tmp_path / "way.csv"
    path.write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(ValueError, match=re.escape(message)):
        read_waypoints(path)


def test_the_command_prints_a_table_and_draws(tmp_path):
    app = typer.Typer()
    app.command()(command.plan)
    path = tmp_path / "way.csv"
    path.write_text("\n".join(",".join(str(x) for x in point) for point in POINTS))
    result = CliRunner().invoke(app, [str(path), "--vehicle", "crazyflie_documented", "--plot"])
    assert result.exit_code == 0, result.output
    duration = float(re.search(r"duration\s+([\d.]+) s", result.output).group(1))
    assert duration == pytest.approx(
        plan_fastest(POINTS, samara.vehicle("crazyflie_documented")).trajectory.duration, abs=0.01
    )
    assert os.path.getsize(tmp_path / "way.png") > 20_000


def test_given_times_are_checked(tmp_path):
    app = typer.Typer()
    app.command()(command.plan)
    path = tmp_path / "way.csv"
    for stretch, status in ((5.0, 0), (0.5, 1)):
        rows = "\n".join(f"{x},{y},{z},{stretch * k}" for k, (x, y, z) in enumerate(POINTS))
        path.write_text(f"x,y,z,time\n{rows}\n")
        result = CliRunner().invoke(app, [str(path)])
        assert result.exit_code == status, result.output
    assert "crazyflie cannot fly this: it exceeds the limit of" in result.output
    trajectory = minimum_snap(POINTS, [0.5] * 3)
    assert max(max_limit_usage(trajectory, samara.vehicle("crazyflie_documented")).values()) > 1.0
