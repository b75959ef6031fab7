"""Plausibility of a vehicle's parameters: slips of a factor, wrong spins and impossible bodies are detected."""

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
from samara.vehicles.plausibility import RANGES, controllable_axes, hover_power, plausibility_figures, warnings
from samara.vehicles.writer import vehicle_toml

REAL = ["crazyflie", "iris", "hexarotor_x", "hexarotor_tilted", "octorotor_x", "rigid_body_quadrotor"]
WITH_ROTORS = ["crazyflie", "iris", "hexarotor_x", "octorotor_x"]


def figures_by_name(vehicle):
    return {figure.name: figure for figure in plausibility_figures(vehicle)}


@pytest.mark.parametrize("name", REAL)
def test_real_vehicles_are_typical(name):
    assert warnings(samara.vehicle(name)) == []


def test_the_documents_own_numbers_are_seen():
    """Their known errata are detected: the Crazyflie engine's torque and drag, the NED simulator's thrust, Hakoniwa's
    torque."""
    assert {figure.name for figure in plausibility_figures(samara.vehicle("crazyflie_documented")) if not
    figure.is_typical} == {
        "torque/(thrust radius)", "figure of merit", "speed at which drag equals weight",
    }  # fmt: skip
    assert {
        figure.name for figure in plausibility_figures(samara.vehicle("iris_documented")) if not figure.is_typical
    } == {"thrust coefficient"}
    assert {figure.name for figure in plausibility_figures(samara.vehicle("hakoniwa")) if not figure.is_typical} == {
        "torque/(thrust radius)", "figure of merit",
    }  # fmt: skip


def scale_rotors(vehicle, **factors):
    """Multiply parameters of all rotors."""
    return vehicle.replace(
        rotors=tuple(
            rotor._replace(**{key: factor * getattr(rotor, key) for key, factor in factors.items()})
            for rotor in vehicle.rotors
        )
    )


@pytest.mark.filterwarnings("ignore::samara.core.ImplausibleWarning")
@pytest.mark.parametrize("name", WITH_ROTORS)
@pytest.mark.parametrize(
    ("slip", "figure_name"),
    [
        (lambda vehicle: scale_rotors(vehicle, k_thrust=0.01), "thrust coefficient"),
        (lambda vehicle: scale_rotors(vehicle, k_torque=1000.0), "torque/(thrust radius)"),
        (lambda vehicle: scale_rotors(vehicle, k_torque=0.001), "figure of merit"),
        (lambda vehicle: scale_rotors(vehicle, radius=1000.0), "radius/distance of rotors"),
        (lambda vehicle: scale_rotors(vehicle, radius=0.0254), "thrust coefficient"),
        (lambda vehicle: vehicle.replace(inertia_B=vehicle.inertia_B * 1000.0), "gyration/arm, yaw"),
        (lambda vehicle: vehicle.replace(inertia_B=vehicle.inertia_B * 1e-3), "gyration/arm, roll"),
        (lambda vehicle: vehicle.replace(mass=65.0), "thrust/weight"),
    ],
    ids=["k_thrust/100", "k_torque*1000", "k_torque/1000", "radius*1000", "radius/40", "inertia*1000", "inertia/1000", "65 kg"],
)  # fmt: skip
def test_a_slip_of_a_factor_is_seen(name, slip, figure_name):
    wrong = slip(samara.vehicle(name))
    assert any(sentence.startswith(f"{figure_name} is ") for sentence in warnings(wrong))


@pytest.mark.filterwarnings("ignore::samara.core.ImplausibleWarning")
def test_without_a_radius_the_slips_are_seen_too():
    bare = scale_rotors(samara.vehicle("hexarotor_x"), radius=0.0)
    assert warnings(bare) == []
    for factors in ({"k_thrust": 0.01}, {"k_torque": 1000.0}):
        assert any(
            "without one, 0.42 of the distance" in sentence for sentence in warnings(scale_rotors(bare, **factors))
        )


def set_spins(name, *spins):
    vehicle = samara.vehicle(name)
    return vehicle.replace(
        rotors=tuple(rotor._replace(spin=spin) for rotor, spin in zip(vehicle.rotors, spins, strict=True))
    )


def test_wrong_spins_leave_rank_three():
    """All equal: yaw is coupled to thrust. In pairs, left against right: yaw is coupled to roll. Correct: all four are free."""
    assert controllable_axes(samara.vehicle("crazyflie")) == (4, ("thrust", "roll", "pitch", "yaw"))
    rank, free = controllable_axes(set_spins("crazyflie", 1, 1, 1, 1))
    assert (rank, free) == (3, ("roll", "pitch"))
    order = [math.copysign(1, rotor.r_B.y) for rotor in samara.vehicle("crazyflie").rotors]
    rank, free = controllable_axes(set_spins("crazyflie", *(int(side) for side in order)))
    assert (rank, free) == (3, ("thrust", "pitch"))
    (first, *_) = warnings(set_spins("crazyflie", *(int(side) for side in order)))
    assert first.startswith("rank 3 of the allocation: roll, yaw cannot be commanded alone; check the rotors' spin")
    assert any("cannot hover" in sentence for sentence in warnings(set_spins("crazyflie", 1, 1, 1, 1)))


def test_tilted_rotors_command_all_six():
    rank, free = controllable_axes(samara.vehicle("hexarotor_tilted"))
    assert rank == len(free) == 6


def test_hover_power_is_that_of_the_derivative_and_momentum_theorys_of_the_disc():
    """Shaft power by τ·Ω of the rotors' torques; ideal power as the jet's kinetic energy, ½ ṁ (2v)²."""
    iris = samara.vehicle("iris")
    state, _ = samara.hover(iris)
    shaft = sum(rotor.k_torque * speed**2 * speed for rotor, speed in zip(iris.rotors, state.rotor_speed, strict=True))
    thrust, area = iris.mass * iris["gravity"].acceleration / 4, math.pi * iris.rotors[0].radius ** 2
    inflow = np.roots([2 * SEA_LEVEL_DENSITY * area, 0.0, -thrust]).max()
    jet = 0.5 * (SEA_LEVEL_DENSITY * area * inflow) * (2 * inflow) ** 2
    power = hover_power(iris)
    assert power.shaft == pytest.approx(shaft)
    assert power.ideal == pytest.approx(4 * jet, rel=1e-9)
    assert figures_by_name(iris)["figure of merit"].value == pytest.approx(power.ideal / power.shaft, rel=1e-6)


def test_figures_have_no_size():
    """A vehicle twice as large in all lengths, of the same material and tip speed, has the same shape figures."""
    small = samara.vehicle("hexarotor_x").without_effect("drag")
    large = small.replace(
        mass=8.0 * small.mass,
        inertia_B=small.inertia_B * 32.0,
        rotors=tuple(
            rotor._replace(r_B=rotor.r_B * 2.0, radius=2.0 * rotor.radius, k_thrust=16.0 * rotor.k_thrust, k_torque=32.0
            * rotor.k_torque) for rotor in small.rotors
        ),
    )  # fmt: skip
    small_figures, large_figures = figures_by_name(small), figures_by_name(large)
    for name in (
        "thrust coefficient",
        "torque/(thrust radius)",
        "figure of merit",
        "gyration/arm, yaw",
        "radius/distance of rotors",
    ):
        assert small_figures[name].value == pytest.approx(large_figures[name].value, rel=1e-12)


def test_every_range_has_a_source():
    assert all(typical.low < typical.high and len(typical.source) > 10 for typical in RANGES.values())


# Rejected parameters ------------------------------------------------------------------------------------------------


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


# User files ----------------------------------------------------------------------------------------------------------

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
time_constant_up = { value = 30, unit = "ms" }
time_constant_down = { value = 50, unit = "ms" }
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
def vehicle_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(OWN)
    return path


def test_common_units_and_no_sources(vehicle_file):
    vehicle = samara.vehicle(vehicle_file)
    rotor = vehicle.rotors[0]
    assert (vehicle.mass, rotor.motor.time_constant_up, rotor.motor.time_constant_down) == (0.78, 0.03, 0.05)
    assert tuple(vehicle.inertia_B)[::4] == pytest.approx((0.005, 0.005, 0.009), rel=1e-15)
    assert rotor.radius == pytest.approx(0.08382, rel=1e-15)
    assert rotor.motor.speed_min == pytest.approx(1000 * math.tau / 60, rel=1e-15)
    assert math.hypot(*rotor.r_B) == pytest.approx(0.17, rel=1e-15)
    assert vehicle.structure.sources == ()


@pytest.mark.parametrize(
    ("source_unit", "unit", "number", "expected"),
    [
        ("mA h", "C", 1000.0, 3600.0), ("A h", "C", 1.0, 3600.0), ("mohm", "ohm", 25.0, 0.025), ("deg", "rad", 180.0, math.pi),
        ("rpm/V", "N m/A", 60 / math.tau, 1.0), ("cm", "m", 12.0, 0.12), ("%", "1", 98.0, 0.98), ("lb", "kg", 1.0, 0.45359237),
        ("g cm^2", "kg m^2", 1.0, 1e-7), ("kg mm^2", "kg m^2", 1.0, 1e-6), ("rpm", "rad/s", 60.0, math.tau),
        ("N/rpm^2", "N s^2/rad^2", 1.0, (60 / math.tau) ** 2),
    ],
)  # fmt: skip
def test_each_unit_is_worth_what_it_says(source_unit, unit, number, expected):
    assert CONVERSIONS[source_unit, unit](number) == pytest.approx(expected, rel=1e-15)


def test_other_spellings_mean_a_unit_there_is():
    units = {source_unit for source_unit, _ in CONVERSIONS} | {unit for _, unit in CONVERSIONS}
    assert set(SPELLINGS.values()) <= units
    assert not set(SPELLINGS) & units


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
        entries = list(values(tomllib.loads(text), name))
        assert len(entries) > 4
        assert [path for path, entry in entries if not entry.get("source")] == []


def test_feet_under_the_arms_where_a_file_has_none(vehicle_file):
    """Four feet, at the mean arm length, half an arm down; the vehicle stands on them without sinking in or tipping over."""
    vehicle = samara.vehicle(vehicle_file)
    points = vehicle["contact"].points_B
    assert len(points) == 4
    assert {(round(abs(p.x), 9), round(abs(p.y), 9), round(p.z, 9)) for p in points} == {
        (round(0.17 / math.sqrt(2), 9), round(0.17 / math.sqrt(2), 9), -0.085)
    }
    samara.save_vehicle(vehicle, vehicle_file.parent / "again.toml")
    assert samara.vehicle(vehicle_file.parent / "again.toml") == vehicle


def test_a_top_above_the_hubs_where_a_file_has_none(vehicle_file):
    """A tenth of an arm above the highest hub, or the hull if that is higher; `top_height = false` is feet only, as in old
    recordings"""
    vehicle = samara.vehicle(vehicle_file)
    assert vehicle["contact"].top_height == pytest.approx(
        max(rotor.r_B.z for rotor in vehicle.rotors) + 0.017, abs=1e-12
    )
    text = vehicle_toml(vehicle)
    vehicle_file.write_text(re.sub(r"(?m)^top_height = .*$", "top_height = false", text))
    bare = samara.vehicle(vehicle_file)
    assert bare["contact"].top_height == () and "top_height = false\n" in vehicle_toml(bare)
    vehicle_file.write_text(
        re.sub(r"(?m)^top_height = .*\n", "", text).replace("[body]", "[body]\nradius = { value = 0.2, unit = 'm' }")
    )
    assert samara.vehicle(vehicle_file)["contact"].top_height == 0.2
    assert parse_vehicle(vehicle_file.read_text(), "mine.toml")["contact"].top_height == ()
    with pytest.raises(
        samara.VehicleError, match=r"mine\.toml: contact\.top_height = True: expected \{ value, unit, source \}"
    ):
        parse_vehicle(re.sub(r"(?m)^top_height = .*$", "top_height = true", text), "mine.toml")
    high = vehicle.replace({"contact.points_B": tuple(p._replace(z=0.3) for p in vehicle["contact"].points_B)})
    vehicle_file.write_text(re.sub(r"(?m)^top_height = .*\n", "", vehicle_toml(high)))
    assert samara.vehicle(vehicle_file)["contact"].top_height == ()  # points that are higher need no top


def test_no_feet_where_none_are_wanted(vehicle_file):
    """`contact = false` in the file; vehicles built in Python; and files in recordings."""
    vehicle_file.write_text(OWN.replace('name = "mine"', 'name = "mine"\ncontact = false'))
    assert not samara.vehicle(vehicle_file).has("contact")
    bare = parse_vehicle(OWN, "mine.toml")
    assert not bare.has("contact")
    assert "contact = false\n" in vehicle_toml(bare)
    samara.save_vehicle(bare, vehicle_file.parent / "bare.toml")
    assert samara.vehicle(vehicle_file.parent / "bare.toml") == bare
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


def test_check_tells_of_a_vehicle(vehicle_file, monkeypatch, capsys):
    status, out, err = call(monkeypatch, capsys, "check", str(vehicle_file), "hexarotor_tilted", "rigid_body_quadrotor")
    assert (status, err) == (0, "")
    assert f"{vehicle_file}: vehicle mine, 0.78 kg, 4 rotors" in out
    assert "rank 4; commanded alone: thrust, roll, pitch, yaw" in out
    assert "rank 6; commanded alone: all of force and torque" in out
    assert "W at the rotors; momentum theory: at least" in out
    assert "thrust/weight" in out and "✗" not in out


def test_check_warns_and_says_all_errors_of_all_files(vehicle_file, monkeypatch, capsys, tmp_path):
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


def test_a_flight_of_ones_own_vehicle_doubts_it(vehicle_file, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    vehicle_file.write_text(OWN.replace("value = 6e-8", "value = 6e-6"))
    words = ("fly", "hover", "--set", "duration=0.1", "--set", "expect={}", "--no-report")
    _, out, _ = call(monkeypatch, capsys, *words, "--vehicle", str(vehicle_file))
    assert "✗ mine: torque/(thrust radius) is 17.9: typical is" in out
    _, out, _ = call(monkeypatch, capsys, *words, "--vehicle", "crazyflie_documented")
    assert "typical" not in out
