"""Plans within a vehicle's limits: none is passed on a grid of a millisecond, one is met, and the waypoints are hit."""

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
from samara.plan.time_optimal import GRID, Limits, asked, at_pace, equal_speed, fastest, usage
from samara.plan.trajectory import circle, hover, race, through
from samara.plan.waypoint_file import WaypointFile, read_waypoints
from samara.vehicles.limits import thrust_limits

POINTS = [(0.0, 0.0, 1.0), (4.0, 0.0, 1.5), (4.0, 3.0, 3.0), (0.0, 3.0, 1.0)]
LIMITS = Limits(thrust=0.9, tilt=math.radians(50.0), rate=8.0)
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
    return vehicle, order, fastest(POINTS, vehicle, limits=LIMITS, order=order)


def test_limits_hold_and_one_is_met(planned):
    """Looked at from outside: thrust, lean and rates from the flat state every millisecond, rotors between their speeds."""
    vehicle, _, plan = planned
    time = np.arange(0.0, plan.trajectory.duration, GRID)
    motion = flat_motion(flat_output(plan.trajectory, time), vehicle)
    _, x, y, _ = motion.state.q_WB
    lean = np.arccos(np.clip(1.0 - 2.0 * (x * x + y * y), -1.0, 1.0))
    turn = np.sqrt(sum(component**2 for component in motion.state.omega_B))
    shares = [lean.max() / LIMITS.tilt, turn.max() / LIMITS.rate]
    if vehicle.rotors and vehicle.structure.actuation.name == "normalized":
        low, high = vehicle.rotors[0].motor.speed_min, vehicle.rotors[0].motor.speed_max
        speeds, told = np.array(motion.state.rotor_speed), np.array(motion.command)
        assert low < speeds.min() < speeds.max() < high
        assert 0.0 <= told.min() < told.max() <= 1.0
        most = sum(rotor.k_thrust for rotor in vehicle.rotors) * high**2
        shares += [motion.thrust.max() / (0.9 * most), told.max(), 1.0 - told.min()]
    elif vehicle.rotors:
        assert np.array(motion.command).max() <= 1.0
        shares += [plan.used["thrust"], plan.used["command, most"], plan.used["rotor, least"]]
    assert max(shares) <= 1.0
    assert max(shares) > 0.98
    assert plan.used[plan.tightest] == pytest.approx(max(shares), abs=0.01)


def test_waypoints_are_hit_from_rest_to_rest(planned):
    _, order, plan = planned
    for mark, point in zip(plan.trajectory.waypoints, POINTS, strict=True):
        assert np.array(plan.trajectory.at(mark.time).p_W) == pytest.approx(point, abs=1e-9)
    for end in (0.0, plan.trajectory.duration):
        reference = flat_output(plan.trajectory, end, 4)
        moving = [own.derivative(k) for own in reference.p_W for k in range(1, min(order, 4))]
        assert np.abs(moving).max() < 1e-6


def test_it_is_faster_than_equal_speeds(planned):
    vehicle, order, plan = planned
    even = at_pace(POINTS, equal_speed(POINTS).tolist(), vehicle, limits=LIMITS, order=order)
    assert max(even.used.values()) > 0.98
    assert plan.trajectory.duration < 0.98 * even.trajectory.duration


def test_between_two_points_nothing_is_left_to_choose():
    """One piece: the pace alone. Straight up, thrust is what holds it back: m (a + g) + D v = 0.9 T_max somewhere."""
    vehicle = samara.vehicle("crazyflie_documented")
    plan = fastest([(0.0, 0.0, 1.0), (0.0, 0.0, 6.0)], vehicle, limits=LIMITS)
    reference = plan.trajectory.at(np.linspace(0.0, plan.trajectory.duration, 5001))
    pull = vehicle.mass * (reference.a_W.z + 9.81) + 0.2 * reference.v_W.z
    assert pull.max() / (0.9 * 4.0 * 2.88e-8 * 2500.0**2) == pytest.approx(plan.used["thrust"], rel=1e-6)
    assert plan.used["tilt"] < 1e-9


def test_a_higher_limit_is_never_slower():
    vehicle = samara.vehicle("crazyflie_documented")
    durations = [
        at_pace(POINTS, equal_speed(POINTS), vehicle, limits=Limits(tilt=math.radians(lean))).trajectory.duration
        for lean in (15.0, 30.0, 45.0)
    ]
    assert all(after < before for before, after in pairwise(durations))


def test_usage_is_one_where_the_limit_is():
    """On a circle the lean is that of its v²/R, and turns round with it: across b₃ the body turns at v/R sin θ."""
    vehicle = samara.vehicle("rigid_body_quadrotor").without_effect("drag")
    ring = circle((0.0, 0.0, 2.0), radius=2.0, speed=3.0, laps=math.inf)
    motion = flat_motion(flat_output(ring, 20.0), vehicle)
    lean = math.atan2(4.5, vehicle["gravity"].acceleration)
    across = 1.5 * math.sin(lean)
    used = usage(motion, vehicle, Limits(tilt=lean, rate=math.hypot(across, motion.state.omega_B.z)))
    assert used["tilt"] == pytest.approx(1.0, rel=1e-12)
    assert used["rate"] == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("name", ["crazyflie_documented", "iris"])
def test_usage_of_rotors_and_commands_is_one_at_their_ends(name):
    """A part x of the way from a rotor's least thrust to its most: x (high − low) + low of `high`, and 1 − x of the way down"""
    vehicle = samara.vehicle(name)
    low, high = np.array(thrust_limits(vehicle)).T
    motion = flat_motion(flat_output(circle((0.0, 0.0, 2.0), radius=2.0, speed=1.0, laps=math.inf), 20.0), vehicle)
    for x in (0.0, 0.25, 1.0):
        part = np.full(len(low), 0.5)
        part[1] = x
        lifts = low + part * (high - low)
        used = usage(motion._replace(rotor_thrust=tuple(lifts), thrust=lifts.sum()), vehicle, Limits(thrust=0.8))
        assert used["rotor, most"] == pytest.approx((lifts / high).max(), rel=1e-12)
        assert used["rotor, least"] == pytest.approx(1.0 - part.min(), rel=1e-12)
        assert used["thrust"] == pytest.approx(lifts.sum() / (0.8 * high.sum()), rel=1e-12)
        told = usage(motion._replace(command=tuple(part)), vehicle)
        assert (told["command, most"], told["command, least"]) == pytest.approx(
            (part.max(), 1.0 - part.min()), rel=1e-12
        )


def test_usage_of_a_speed_is_one_at_the_ends_its_motor_holds():
    """A command that is a speed: a part x of the way from the least to the most"""
    vehicle = RigidBodyQuadrotor(motor_lag=0.05).vehicle
    vehicle = vehicle.replace({"rotors.motor.speed_min": 0.2 * vehicle.rotors[0].motor.speed_max})
    motor, motion = vehicle.rotors[0].motor, flat_motion(flat_output(hover((0.0, 0.0, 2.0)), 0.0), vehicle)
    speeds = tuple(motor.speed_min + x * (motor.speed_max - motor.speed_min) for x in (0.2, 0.5, 0.6, 0.9))
    told = usage(motion._replace(command=speeds), vehicle)
    assert (told["command, most"], told["command, least"]) == pytest.approx((0.9, 0.8), rel=1e-12)


def test_equal_speeds_are_the_lengths_of_the_pieces():
    """A metre a second: 5 m and 12 m, and a piece of no length is not of no time"""
    shares = equal_speed([(1.0, 2.0, 3.0), (4.0, 6.0, 3.0), (4.0, 6.0, 15.0), (4.0, 6.0, 15.0)])
    assert shares == pytest.approx([5.0, 12.0, 1e-6], rel=1e-12)


def test_what_cannot_hover_within_its_limits_is_refused():
    with pytest.raises(
        ValueError, match=r"'crazyflie_documented' already uses .* of the limit on thrust when it hovers"
    ):
        fastest(POINTS, samara.vehicle("crazyflie_documented"), limits=Limits(thrust=0.3))
    with pytest.raises(ValueError, match=r"limits\.tilt is -1"):
        fastest(POINTS, samara.vehicle("crazyflie_documented"), limits=Limits(tilt=-1))


def test_through_is_the_race_with_ones_own_times():
    """The same least snap: a race's gates at the race's own times; yaws are passed the shorter way round."""
    gates = [(0.0, 0.0, 1.0), (5.0, 2.0, 2.0), (9.0, -1.0, 3.0)]
    fast = race(gates, speed=4.0)
    same = through(gates, np.diff([mark.time for mark in fast.waypoints]).tolist())
    time = np.linspace(0.0, fast.duration, 50)
    assert np.array(same.at(time).p_W) == pytest.approx(np.array(fast.at(time).p_W), abs=1e-9)
    turned = through(gates, [1.0, 1.0], yaw=[3.0, -3.0, -2.9])
    assert turned.at(1.0).yaw == pytest.approx(-3.0, abs=1e-12)
    assert 0.0 < turned.at(0.5).yaw_rate < 1.0
    with pytest.raises(ValueError, match="got 1 durations; expected 2"):
        through(gates, [1.0])


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
        ("x,y,z,time\n0,0,1,0\n1,0,1,0\n", "line 3 has time 0; expected it after 0"),
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
    found = CliRunner().invoke(app, [str(path), "--vehicle", "crazyflie_documented", "--plot"])
    assert found.exit_code == 0, found.output
    duration = float(re.search(r"duration\s+([\d.]+) s", found.output).group(1))
    assert duration == pytest.approx(
        fastest(POINTS, samara.vehicle("crazyflie_documented")).trajectory.duration, abs=0.01
    )
    assert os.path.getsize(tmp_path / "way.png") > 20_000


def test_times_of_ones_own_are_checked(tmp_path):
    app = typer.Typer()
    app.command()(command.plan)
    path = tmp_path / "way.csv"
    for stretch, status in ((5.0, 0), (0.5, 1)):
        rows = "\n".join(f"{x},{y},{z},{stretch * k}" for k, (x, y, z) in enumerate(POINTS))
        path.write_text(f"x,y,z,time\n{rows}\n")
        found = CliRunner().invoke(app, [str(path)])
        assert found.exit_code == status, found.output
    assert "crazyflie cannot fly this: too much" in found.output
    trajectory = through(POINTS, [0.5] * 3)
    assert max(asked(trajectory, samara.vehicle("crazyflie_documented")).values()) > 1.0
