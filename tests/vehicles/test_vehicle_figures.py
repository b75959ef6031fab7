"""What a vehicle's numbers say together: slips of a factor, wrong spins and impossible bodies are seen."""

import math
import re

import numpy as np
import pytest
from support.command import call

import samara
from samara.core.algebra import Vec3
from samara.core.units import CONVERSIONS, SPELLINGS
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY
from samara.vehicles.loader import parse_vehicle
from samara.vehicles.plausibility import RANGES, controllable, figures, hover_power, warnings
from samara.vehicles.writer import vehicle_toml

REAL = ["crazyflie", "iris", "hexarotor_x", "hexarotor_tilted", "octorotor_x", "rigid_body_quadrotor"]
WITH_ROTORS = ["crazyflie", "iris", "hexarotor_x", "octorotor_x"]


def named(vehicle):
    return {own.name: own for own in figures(vehicle)}


@pytest.mark.parametrize("name", REAL)
def test_real_vehicles_are_typical(name):
    assert warnings(samara.vehicle(name)) == []


def test_the_documents_own_numbers_are_seen():
    """Their errata, found again: the Crazyflie engine's torque and drag, the NED simulator's thrust, Hakoniwa's torque."""
    assert {own.name for own in figures(samara.vehicle("crazyflie_documented")) if not own.fine} == {
        "torque/(thrust radius)", "figure of merit", "speed at which drag equals weight",
    }  # fmt: skip
    assert {own.name for own in figures(samara.vehicle("iris_documented")) if not own.fine} == {"thrust coefficient"}
    assert {own.name for own in figures(samara.vehicle("hakoniwa")) if not own.fine} == {
        "torque/(thrust radius)", "figure of merit",
    }  # fmt: skip


def with_rotors(vehicle, **factors):
    """The vehicle with numbers of its rotors multiplied"""
    return vehicle.replace(
        rotors=tuple(
            rotor._replace(**{key: factor * getattr(rotor, key) for key, factor in factors.items()})
            for rotor in vehicle.rotors
        )
    )


@pytest.mark.parametrize("name", WITH_ROTORS)
@pytest.mark.parametrize(
    ("slip", "seen"),
    [
        (lambda own: with_rotors(own, k_thrust=0.01), "thrust coefficient"),
        (lambda own: with_rotors(own, k_torque=1000.0), "torque/(thrust radius)"),
        (lambda own: with_rotors(own, k_torque=0.001), "figure of merit"),
        (lambda own: with_rotors(own, radius=1000.0), "radius/distance of rotors"),
        (lambda own: with_rotors(own, radius=0.0254), "thrust coefficient"),
        (lambda own: own.replace(inertia_B=own.inertia_B * 1000.0), "gyration/arm, yaw"),
        (lambda own: own.replace(inertia_B=own.inertia_B * 1e-3), "gyration/arm, roll"),
        (lambda own: own.replace(mass=65.0), "thrust/weight"),
    ],
    ids=["k_thrust/100", "k_torque*1000", "k_torque/1000", "radius*1000", "radius/40", "inertia*1000", "inertia/1000", "65 kg"],
)  # fmt: skip
def test_a_slip_of_a_factor_is_seen(name, slip, seen):
    wrong = slip(samara.vehicle(name))
    assert any(sentence.startswith(f"{seen} is ") for sentence in warnings(wrong))


def test_without_a_radius_the_slips_are_seen_too():
    bare = with_rotors(samara.vehicle("hexarotor_x"), radius=0.0)
    assert warnings(bare) == []
    for factors in ({"k_thrust": 0.01}, {"k_torque": 1000.0}):
        assert any("without one, 0.42 of the distance" in own for own in warnings(with_rotors(bare, **factors)))


def spinning(name, *spins):
    vehicle = samara.vehicle(name)
    return vehicle.replace(
        rotors=tuple(rotor._replace(spin=spin) for rotor, spin in zip(vehicle.rotors, spins, strict=True))
    )


def test_wrong_spins_leave_rank_three():
    """All alike: yaw goes with thrust. In pairs, left against right: yaw goes with roll. Right ones: all four are free."""
    assert controllable(samara.vehicle("crazyflie")) == (4, ("thrust", "roll", "pitch", "yaw"))
    rank, free = controllable(spinning("crazyflie", 1, 1, 1, 1))
    assert (rank, free) == (3, ("roll", "pitch"))
    order = [math.copysign(1, rotor.r_B.y) for rotor in samara.vehicle("crazyflie").rotors]
    rank, free = controllable(spinning("crazyflie", *(int(side) for side in order)))
    assert (rank, free) == (3, ("thrust", "pitch"))
    (first, *_) = warnings(spinning("crazyflie", *(int(side) for side in order)))
    assert first.startswith("rank 3 of the allocation: roll, yaw cannot be commanded alone; check the rotors' spin")
    assert any("cannot hover" in own for own in warnings(spinning("crazyflie", 1, 1, 1, 1)))


def test_tilted_rotors_command_all_six():
    rank, free = controllable(samara.vehicle("hexarotor_tilted"))
    assert rank == len(free) == 6


def test_hover_power_is_that_of_the_derivative_and_momentum_theorys_of_the_disc():
    """Shaft power by τ·Ω of the torques that the rotors hold; ideal power as the jet's kinetic energy, ½ ṁ (2v)²."""
    iris = samara.vehicle("iris")
    state, _ = samara.hover(iris)
    shaft = sum(rotor.k_torque * speed**2 * speed for rotor, speed in zip(iris.rotors, state.rotor_speed, strict=True))
    thrust, area = iris.mass * iris["gravity"].acceleration / 4, math.pi * iris.rotors[0].radius ** 2
    inflow = np.roots([2 * SEA_LEVEL_DENSITY * area, 0.0, -thrust]).max()
    jet = 0.5 * (SEA_LEVEL_DENSITY * area * inflow) * (2 * inflow) ** 2
    power = hover_power(iris)
    assert power.shaft == pytest.approx(shaft)
    assert power.ideal == pytest.approx(4 * jet, rel=1e-9)
    assert named(iris)["figure of merit"].value == pytest.approx(power.ideal / power.shaft, rel=1e-6)


def test_figures_have_no_size():
    """A vehicle twice as large in all lengths, of the same material and tip speed, has the same figures of shape."""
    small = samara.vehicle("hexarotor_x").without_effect("drag")
    large = small.replace(
        mass=8.0 * small.mass,
        inertia_B=small.inertia_B * 32.0,
        rotors=tuple(
            own._replace(r_B=own.r_B * 2.0, radius=2.0 * own.radius, k_thrust=16.0 * own.k_thrust, k_torque=32.0 * own.k_torque)
            for own in small.rotors
        ),
    )  # fmt: skip
    one, other = named(small), named(large)
    for name in (
        "thrust coefficient",
        "torque/(thrust radius)",
        "figure of merit",
        "gyration/arm, yaw",
        "radius/distance of rotors",
    ):
        assert one[name].value == pytest.approx(other[name].value, rel=1e-12)


def test_every_range_has_a_source():
    assert all(own.low < own.high and len(own.source) > 10 for own in RANGES.values())


# What is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"mass": 1e11}, r"body\.mass = 100000000000\.0 kg: expected at most 100000 kg"),
        ({"drag.linear.x": 100.0}, r"drag\.linear = .* on 0\.0293 kg: expected values stable at the default step"),
    ],
)  # fmt: skip
def test_absurd_numbers_are_refused(overrides, sentence):
    with pytest.raises(samara.VehicleError, match=sentence):
        samara.vehicle("crazyflie", **overrides)


def test_the_drag_that_is_refused_would_have_blown_up():
    """Just inside the limit a speed decays, just outside it grows: RK4 at 1 ms."""
    crazyflie = samara.vehicle("crazyflie")
    limit = 2.785293563405282 * crazyflie.mass / 1e-3
    samara.vehicle("crazyflie", **{"drag.linear.x": 0.999 * limit})
    with pytest.raises(samara.VehicleError):
        samara.vehicle("crazyflie", **{"drag.linear.x": 1.001 * limit})
    for factor, grows in ((0.999, False), (1.001, True)):
        wild = crazyflie.replace({"drag.linear": Vec3(factor * limit, 0.0, 0.0)})
        state, command = samara.hover(wild)
        state = state._replace(v_W=Vec3(1e-3, 0.0, 0.0))
        for _ in range(200):
            state = samara.step(state, command, wild, 1e-3)
        assert (abs(state.v_W.x) > 1e-3) == grows


@pytest.mark.parametrize(
    ("effect", "numbers"),
    [
        ("damping", {"linear": (1.0, 1.0, 1.0)}),
        ("actuator", {"natural_frequency": 1e4, "damping_ratio": 0.7, "rate_limit": 1e3}),
    ],
)
def test_damping_and_actuators_that_the_step_cannot_follow_are_refused(effect, numbers):
    with pytest.raises(
        samara.VehicleError, match=rf"{effect}\..*stable at the default step 0\.001 s, these need dt <="
    ):
        samara.switch_on(samara.vehicle("crazyflie"), effect, **numbers)


# Files of one's own --------------------------------------------------------------------------------------------------

OWN = """
schema = 1
name = "mine"
actuation = "normalized"
[body]
mass = { value = 780, unit = "g" }
inertia = { value = [5e6, 5e6, 9e6], unit = "g mm^2" }
[gravity]
acceleration = { value = 9.81, unit = "m/s^2" }
[rotor]
k_thrust = { value = 4e-6, unit = "N s^2/rad^2" }
k_torque = { value = 6e-8, unit = "N m s^2/rad^2" }
radius = { value = 3.3, unit = "inch" }
[motor]
model = "lag"
speed_min = { value = 1000, unit = "rpm" }
speed_max = { value = 1200, unit = "rad/s" }
rise = { value = 30, unit = "ms" }
fall = { value = 50, unit = "ms" }
""" + "".join(
    f"""
[[rotors]]
arm = {{ value = 170, unit = "mm" }}
azimuth = {{ value = {azimuth}, unit = "deg" }}
spin = "{spin}"
"""
    for azimuth, spin in ((45, "cw"), (-45, "ccw"), (-135, "cw"), (135, "ccw"))
)


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(OWN)
    return path


def test_common_units_and_no_sources(own):
    vehicle = samara.vehicle(own)
    rotor = vehicle.rotors[0]
    assert (vehicle.mass, rotor.motor.rise, rotor.motor.fall) == (0.78, 0.03, 0.05)
    assert tuple(vehicle.inertia_B)[::4] == pytest.approx((0.005, 0.005, 0.009), rel=1e-15)
    assert rotor.radius == pytest.approx(0.08382, rel=1e-15)
    assert rotor.motor.speed_min == pytest.approx(1000 * math.tau / 60, rel=1e-15)
    assert math.hypot(*rotor.r_B) == pytest.approx(0.17, rel=1e-15)
    assert vehicle.structure.sources == ()


@pytest.mark.parametrize(
    ("given", "unit", "number", "expected"),
    [
        ("mA h", "C", 1000.0, 3600.0), ("A h", "C", 1.0, 3600.0), ("mohm", "ohm", 25.0, 0.025), ("deg", "rad", 180.0, math.pi),
        ("rpm/V", "N m/A", 60 / math.tau, 1.0), ("cm", "m", 12.0, 0.12), ("%", "1", 98.0, 0.98), ("lb", "kg", 1.0, 0.45359237),
        ("g cm^2", "kg m^2", 1.0, 1e-7), ("kg mm^2", "kg m^2", 1.0, 1e-6), ("rpm", "rad/s", 60.0, math.tau),
        ("N/rpm^2", "N s^2/rad^2", 1.0, (60 / math.tau) ** 2),
    ],
)  # fmt: skip
def test_each_unit_is_worth_what_it_says(given, unit, number, expected):
    assert CONVERSIONS[given, unit](number) == pytest.approx(expected, rel=1e-15)


def test_other_spellings_mean_a_unit_there_is():
    known = {given for given, _ in CONVERSIONS} | {unit for _, unit in CONVERSIONS}
    assert set(SPELLINGS.values()) <= known
    assert not set(SPELLINGS) & known


def test_shipped_files_say_where_every_number_comes_from():
    import tomllib
    from importlib import resources

    def values(tree, path):
        if isinstance(tree, dict) and "value" in tree:
            yield path, tree
        for key, branch in (
            tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
        ):
            yield from values(branch, f"{path}.{key}")

    for name in samara.vehicle_names():
        text = resources.files("samara.vehicles").joinpath(f"{name}.toml").read_text(encoding="utf-8")
        found = list(values(tomllib.loads(text), name))
        assert len(found) > 4
        assert [path for path, entry in found if not entry.get("source")] == []


def test_feet_under_the_arms_where_a_file_has_none(own):
    """Four of them, as far out as the rotors, half an arm down; it stands on them without sinking in or falling over."""
    vehicle = samara.vehicle(own)
    points = vehicle["contact"].points_B
    assert len(points) == 4
    assert {(round(abs(p.x), 9), round(abs(p.y), 9), round(p.z, 9)) for p in points} == {
        (round(0.17 / math.sqrt(2), 9), round(0.17 / math.sqrt(2), 9), -0.085)
    }
    samara.save_vehicle(vehicle, own.parent / "again.toml")
    assert samara.vehicle(own.parent / "again.toml") == vehicle


def test_a_top_above_the_hubs_where_a_file_has_none(own):
    """A tenth of an arm above the highest, or the hull where that is more; `top = false` is feet only, as in old recordings"""
    vehicle = samara.vehicle(own)
    assert vehicle["contact"].top == pytest.approx(max(rotor.r_B.z for rotor in vehicle.rotors) + 0.017, abs=1e-12)
    text = vehicle_toml(vehicle)
    own.write_text(re.sub(r"(?m)^top = .*$", "top = false", text))
    bare = samara.vehicle(own)
    assert bare["contact"].top == () and "top = false\n" in vehicle_toml(bare)
    own.write_text(
        re.sub(r"(?m)^top = .*\n", "", text).replace("[body]", "[body]\nradius = { value = 0.2, unit = 'm' }")
    )
    assert samara.vehicle(own)["contact"].top == 0.2
    assert parse_vehicle(own.read_text(), "mine.toml")["contact"].top == ()
    with pytest.raises(
        samara.VehicleError, match=r"mine\.toml: contact\.top = True: expected \{ value, unit, source \}"
    ):
        parse_vehicle(re.sub(r"(?m)^top = .*$", "top = true", text), "mine.toml")
    high = vehicle.replace({"contact.points_B": tuple(p._replace(z=0.3) for p in vehicle["contact"].points_B)})
    own.write_text(re.sub(r"(?m)^top = .*\n", "", vehicle_toml(high)))
    assert samara.vehicle(own)["contact"].top == ()  # what reaches up there already needs no top


def test_no_feet_where_none_are_wanted(own):
    """`contact = false` in the file; vehicles built in Python; and files as recordings hold them."""
    own.write_text(OWN.replace('name = "mine"', 'name = "mine"\ncontact = false'))
    assert not samara.vehicle(own).has("contact")
    bare = parse_vehicle(OWN, "mine.toml")
    assert not bare.has("contact")
    assert "contact = false\n" in vehicle_toml(bare)
    samara.save_vehicle(bare, own.parent / "bare.toml")
    assert samara.vehicle(own.parent / "bare.toml") == bare
    with pytest.raises(samara.VehicleError, match=r"mine\.toml: contact = True: expected a table"):
        parse_vehicle(OWN.replace('name = "mine"', 'name = "mine"\ncontact = true'), "mine.toml")


def test_all_that_is_wrong_is_said_at_once():
    wrong = (
        OWN.replace("value = 780", "value = -780")
        .replace('unit = "inch"', 'unit = "parsec"')
        .replace('spin = "cw"', 'spin = "left"')
        .replace('model = "lag"', 'model = "steam"')
        .replace("schema = 1", "schema = 1\nwheels = 4")
    )
    with pytest.raises(samara.VehicleError) as error:
        parse_vehicle(wrong, "mine.toml")
    lines = str(error.value).split("\n")
    assert [line.split()[1] for line in lines] == [
        "body.mass",
        "rotor.radius",
        "motor.model",
        "rotors[0].spin",
        "wheels",
    ]
    assert lines[3].endswith("(and 1 more like it)")


# The command --------------------------------------------------------------------------------------------------------


def test_check_tells_of_a_vehicle(own, monkeypatch, capsys):
    status, out, err = call(monkeypatch, capsys, "check", str(own), "hexarotor_tilted", "rigid_body_quadrotor")
    assert (status, err) == (0, "")
    assert f"{own}: vehicle mine, 0.78 kg, 4 rotors" in out
    assert "rank 4; commanded alone: thrust, roll, pitch, yaw" in out
    assert "rank 6; commanded alone: all of force and torque" in out
    assert "W at the rotors; momentum theory: at least" in out
    assert "thrust/weight" in out and "✗" not in out


def test_check_warns_and_says_all_errors_of_all_files(own, monkeypatch, capsys, tmp_path):
    (tmp_path / "heavy.toml").write_text(OWN.replace('value = 780, unit = "g"', 'value = 65, unit = "kg"'))
    (tmp_path / "broken.toml").write_text(OWN.replace('"lag"', '"steam"').replace("value = 780", "value = -780"))
    (tmp_path / "late.toml").write_text('duration = -1\n[[drones]]\nvehicle = "iris"\n')
    files = [str(tmp_path / name) for name in ("broken.toml", "late.toml", "heavy.toml")]
    status, out, err = call(monkeypatch, capsys, "check", *files)
    assert status == 2
    assert "✗ thrust/weight is 0.0" in out
    assert [line.split(":")[-2].strip().split()[0] for line in err.splitlines()] == [
        "body.mass",
        "motor.model",
        "duration",
    ]


def test_a_flight_of_ones_own_vehicle_doubts_it(own, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    own.write_text(OWN.replace("value = 6e-8", "value = 6e-6"))
    words = ("fly", "hover", "--set", "duration=0.1", "--set", "expect={}", "--no-report")
    _, out, _ = call(monkeypatch, capsys, *words, "--vehicle", str(own))
    assert "✗ mine: torque/(thrust radius) is 17.9: typical is" in out
    _, out, _ = call(monkeypatch, capsys, *words, "--vehicle", "crazyflie_documented")
    assert "typical" not in out
