"""Effects that a vehicle file, a scenario or one call switches on: all three give the same vehicle, contradictions are
rejected in one sentence, and with all effects on a vehicle still hovers exactly and every controller flies it."""

import math
import re

import numpy as np
import pytest
from support.components import REQUIRED_EFFECTS, effect_numbers
from support.vehicle_parameters import shipped_vehicle_parameters

import samara
from samara.control.mpc.options import MpcOptions
from samara.control.mpc.prediction_model import build_prediction_model
from samara.control.registry import CONTROLLERS
from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.physics.air.ground_effect import Ceiling, GroundEffect, cheeseman_bennett
from samara.physics.effect import Wrench
from samara.physics.ground.contact import Ground
from samara.physics.multirotor import state_at_rest, zero_command
from samara.physics.rotors.airspeed_moment import AirspeedMoment, RollingMoment, ThrustFade
from samara.physics.rotors.blade_element import (
    RotorAir,
    RotorDrag,
    air_load,
    balanced_inflow,
    blade_coefficients,
    hub_flow,
)
from samara.physics.rotors.flapping import Flapping
from samara.physics.rotors.thrust_curve import ThrustCurve
from samara.physics.types import CALM, Environment
from samara.plan.flatness import flat_output, flat_to_state
from samara.plan.trajectory import circle
from samara.propeller.blade import blade
from samara.propeller.fit import fit_rotor
from samara.scenario.file import ScenarioError, parse_scenario
from samara.vehicles.build import ContactShape, effect_names, with_effects
from samara.vehicles.check import record_fields
from samara.vehicles.effects import OPTIONS, TYPICAL_SOLIDITY, typical_solidity
from samara.vehicles.loader import parse_vehicle
from samara.vehicles.shape import body_radius
from samara.vehicles.writer import vehicle_toml

NAMES = [name for name in samara.vehicle_names() if samara.vehicle(name).rotors]
AIRS = ("momentum", "dynamic", "dynamic_3")
HEXA = samara.vehicle("hexarotor_x")
IRIS = samara.vehicle("iris_documented")


def quantity(value: object, unit: str) -> str:
    return f'{{ value = {value}, unit = "{unit}", source = "test" }}'


def parse_with_tables(vehicle: samara.Vehicle, tables: str) -> samara.Vehicle:
    return parse_vehicle(vehicle_toml(vehicle) + tables, "mine.toml")


def enable_all_effects(vehicle: samara.Vehicle, air: str = "dynamic_3", **other_effects: object) -> samara.Vehicle:
    """Switch on all air effects, with a ceiling 3 m up; a rotor without a known inertia gets light blades."""
    blades = {} if vehicle.rotors[0].inertia else {"blade_inertia": 1e-8}
    effects = {"rotor_air": {"model": air}, "flapping": {"hub_spring": 0.5, **blades}, "ground_effect": True}
    return with_effects(
        vehicle, {**effects, "ceiling_effect": {"point_W": (0.0, 0.0, 3.0)}, "downwash": True, **other_effects}
    )


# In a file, in a call, in a scenario -------------------------------------------------------------------------------

SAID = {
    # effect: (vehicle, the table of a file, the keywords of a call, the expected record or a function that computes it)
    "body": (HEXA, None, {"radius": 0.11}, (0.11,)),
    "rotor_air": (
        HEXA,
        f'[rotor_air]\nmodel = "momentum"\nsolidity = {quantity(0.1, "1")}\nlift_slope = {quantity(5.5, "1/rad")}\n',
        {"model": "momentum", "solidity": 0.1, "lift_slope": 5.5},
        RotorAir(0.1, 5.5),
    ),
    "rotor_drag": (
        HEXA,
        f"[rotor_drag]\ncoefficient = {quantity(1e-5, 'N s^2/(rad m)')}\naxial = {quantity(2e-5, 'N s^2/(rad m)')}\n",
        {"coefficient": 1e-5, "axial": 2e-5},
        RotorDrag(1e-5, 2e-5),
    ),
    "airspeed_moment": (
        HEXA,
        f"[airspeed_moment]\nroll = {quantity(0.1, '1')}\npitch = {quantity(0.2, '1')}\n",
        {"roll": 0.1, "pitch": 0.2},
        AirspeedMoment(0.1, 0.2, 0.0),
    ),
    "rolling_moment": (
        HEXA,
        f'[rolling_moment]\nmodel = "by_spin"\ncoefficient = {quantity(1e-6, "N s^2/rad")}\n',
        {"model": "by_spin", "coefficient": 1e-6},
        RollingMoment(1e-6),
    ),
    "thrust_fade": (
        HEXA,
        f"[thrust_fade]\nairspeed = {quantity(25.0, 'm/s')}\n",
        {"airspeed": 25.0},
        ThrustFade(25.0),
    ),
    "thrust_curve": (
        HEXA,
        f"[thrust_curve]\nlinear = {quantity(0.2, '1')}\nspeed = {quantity(500.0, 'rad/s')}\n",
        {"linear": 0.2, "speed": 500.0},
        ThrustCurve(0.2, 500.0),
    ),
    "rotor_fit": (
        HEXA,
        f'[rotor_fit]\nblade = "apc_10x4.7"\nspeed = {quantity(500.0, "rad/s")}\n',
        {"blade": "apc_10x4.7", "speed": 500.0},
        lambda: fit_rotor(blade("apc_10x4.7")[0], 500.0 * 30.0 / math.pi),
    ),
    "flapping": (
        samara.switch_on(HEXA, "rotor_air"),
        f"[flapping]\nblades = {quantity(3, '1')}\nhub_spring = {quantity(1.5, 'N m/rad')}\n",
        {"blades": 3.0, "hub_spring": 1.5},
        Flapping(3.0, 4e-5 / 3.0, 0.0, 1.5),
    ),
    "ground_effect": (
        HEXA,
        f"[ground_effect]\nbody_lift = {quantity(1.5, '1')}\n",
        {"body_lift": 1.5},
        GroundEffect(1.5, 2 * 0.275),
    ),
    "ceiling_effect": (
        HEXA,
        f"[ceiling_effect]\npoint_W = {quantity([0, 0, 2.5], 'm')}\n",
        {"point_W": [0.0, 0.0, 2.5]},
        Ceiling(Vec3(0.0, 0.0, 2.5), Vec3(0.0, 0.0, -1.0)),
    ),
    "downwash": (HEXA, f"[downwash]\ndrag = {quantity(1.3, '1')}\n", {"drag": 1.3}, (0.113, 1.3, 0.0)),
}


@pytest.mark.parametrize("effect", SAID)
def test_a_file_a_call_and_a_scenario_say_the_same(effect):
    vehicle, table, numbers, record = SAID[effect]
    called = samara.switch_on(vehicle, effect, **numbers)
    assert flatten(called[effect]) == pytest.approx(flatten(record() if callable(record) else record), rel=1e-14)
    if table:
        assert parse_with_tables(vehicle, table) == called
    text = ", ".join(f"{key} = {value!r}" for key, value in numbers.items())
    before = "rotor_air = true, " if effect == "flapping" else ""
    scenario = parse_scenario(
        f'schema = 1\nduration = 1\n[[drones]]\nvehicle = "hexarotor_x"\neffects = {{ {before}{effect} = {{ {text} }} }}\n',
        "mine.toml",
    )
    assert scenario.drones[0].vehicle == called


@pytest.mark.parametrize("effect", SAID)
def test_building_says_it_too(effect):
    """`build_vehicle` takes the record, some of its fields, or True if all have defaults."""
    vehicle, _, numbers, _ = SAID[effect]
    switched = samara.switch_on(vehicle, effect, **numbers)
    model = {"model": numbers["model"]} if "model" in numbers else {}
    air = {"rotor_air": vehicle["rotor_air"]} if vehicle.has("rotor_air") else {}
    for table in (numbers, {**model, **switched[effect]._asdict()} if model else switched[effect]):
        built = samara.build_vehicle(
            vehicle.name,
            mass=vehicle.mass,
            inertia=vehicle.inertia_B,
            rotors=vehicle.rotors,
            contact=ContactShape(vehicle["contact"].points_B, vehicle["contact"].top_height),
            effects={"drag": vehicle["drag"], **air, effect: table},
        )
        assert built == switched


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("air", AIRS)
def test_what_is_saved_comes_back(name, air):
    vehicle = enable_all_effects(samara.vehicle(name), air, body={"radius": 0.05})
    again = parse_vehicle(vehicle_toml(vehicle), "mine.toml")
    assert again == vehicle
    assert again.structure.effects[again.index("rotor_air")] is OPTIONS["rotor_air"].models[air]


@pytest.mark.parametrize("name", NAMES)
def test_the_names_alone_are_enough_for_every_vehicle(name):
    text = f'schema = 1\nduration = 1\n[[drones]]\nvehicle = "{name}"\neffects = ["ground_effect", "rotor_air"]\n'
    vehicle = parse_scenario(text, "mine.toml").drones[0].vehicle
    assert vehicle["ground_effect"].body_lift == 2.0
    numbers = blade_coefficients(vehicle.rotors[0], vehicle["rotor_air"])
    assert 0.05 < numbers.pitch <= 0.5 * (1 + 1e-12)
    assert numbers.profile > 0.0


def test_the_usual_solidity_is_a_shipped_blade_s_or_what_the_thrust_needs():
    """θ = 3 (2 C_T/σa + λ_h/2) stays at 0.5 rad: the NED simulator's iris needs a larger solidity than shipped blades have"""
    assert samara.switch_on(HEXA, "rotor_air")["rotor_air"].solidity == blade("apc_10x4.7")[0].solidity
    assert typical_solidity(samara.vehicle("octorotor_x")) == TYPICAL_SOLIDITY
    rotor = IRIS.rotors[0]
    c_thrust = rotor.k_thrust / (1.225 * math.pi * rotor.radius**4)
    expected = 6.0 * c_thrust / (5.7 * (0.5 - 1.5 * math.sqrt(0.5 * c_thrust)))
    assert samara.switch_on(IRIS, "rotor_air")["rotor_air"].solidity == pytest.approx(expected, rel=1e-12)


def test_a_blade_may_lie_beside_the_vehicle(tmp_path):
    from importlib import resources

    text = resources.files("samara.propeller").joinpath("gws_10x4.7.toml").read_text(encoding="utf-8")
    (tmp_path / "own.toml").write_text(text, encoding="utf-8")
    (tmp_path / "craft.toml").write_text(
        vehicle_toml(HEXA) + '[rotor_air]\nmodel = "dynamic"\nblade = "own.toml"\n', encoding="utf-8"
    )
    solidity = samara.vehicle(tmp_path / "craft.toml")["rotor_air"].solidity
    assert solidity == blade("gws_10x4.7")[0].solidity != blade("apc_10x4.7")[0].solidity


def test_the_rotors_air_takes_the_place_of_an_inflow_model():
    assert IRIS.structure.inflow is not None
    assert samara.switch_on(IRIS, "rotor_air").structure.inflow is None
    assert samara.switch_on(IRIS, "ground_effect").structure.inflow is IRIS.structure.inflow
    brushless = samara.vehicle("crazyflie_brushless")
    assert brushless.has("thrust_curve")
    assert not samara.switch_on(brushless, "rotor_air").has("thrust_curve")


def test_the_order_of_calls_makes_no_other_vehicle():
    one = samara.switch_on(samara.switch_on(HEXA, "ground_effect"), "rotor_air")
    assert one == samara.switch_on(samara.switch_on(HEXA, "rotor_air"), "ground_effect")
    assert with_effects(one, {"ground_effect": False, "rotor_air": False}) == HEXA


def test_a_body_has_a_radius_that_pushes_nothing():
    vehicle = samara.switch_on(HEXA, "body", radius=0.11)
    assert (body_radius(HEXA), body_radius(vehicle)) == (0.0, 0.11)
    text = vehicle_toml(HEXA).replace("[body]", f"[body]\nradius = {quantity(0.11, 'm')}")
    assert parse_vehicle(text, "mine.toml") == vehicle
    state, command = samara.hover(vehicle)
    assert samara.wrench_breakdown(state, command, vehicle)["body"] == Wrench()


def test_every_key_of_an_optional_table_is_described(repository):
    """docs/reference/vehicle-file.md has a heading for every table, and under it a row with the unit for every field."""
    page = (repository / "docs" / "reference" / "vehicle-file.md").read_text(encoding="utf-8")
    parts = re.split(r"^##+ ", page, flags=re.MULTILINE)
    for name, option in OPTIONS.items():
        sections = [part for part in parts if part.startswith(f"`[{name}]`")]
        assert sections, f"no heading [{name}]"
        rows = dict(re.findall(r"^\|`(\w+)`\|([^|]*)\|", sections[0], re.MULTILINE))
        units = {key: field.quantity.unit for key, field in record_fields(option.record).items()}
        units |= {key: field.unit for key, field in option.extra_quantities.items()} | dict.fromkeys(
            option.extra_texts, ""
        )
        assert {key: rows.get(key) for key in units} == units, name


# Contradictions ----------------------------------------------------------------------------------------------------

AIR = '[rotor_air]\nmodel = "dynamic"\n'
WRONG = {
    "no radius": (HEXA.replace({"rotors.radius": 0.0}), AIR, r"rotors\[0\]\.radius = 0\.0 m: .* rotor_air needs it"),
    "ground without radius": (HEXA.replace({"rotors.radius": 0.0}), "[ground_effect]\n", r"radius = 0\.0 m: .* ground_effect"),
    "fit without radius": (
        HEXA.replace({"rotors.radius": 0.0}), '[rotor_fit]\nblade = "apc_10x4.7"\n', r"radius = 0\.0 m: .* rotor_fit needs it"
    ),
    "air and inflow": (IRIS, AIR, "rotor_air is on beside inflow: expected one of them"),
    "flapping alone": (HEXA, "[flapping]\n", "flapping is on and rotor_air is not: expected both"),
    "drag and air": (
        HEXA, f"{AIR}[rotor_drag]\ncoefficient = {quantity(1e-5, 'N s^2/(rad m)')}\n", "rotor_air is on beside rotor_drag"
    ),
    "fit and air": (HEXA, f'{AIR}[rotor_fit]\nblade = "apc_10x4.7"\n', "rotor_air is on beside rotor_fit"),
    "lifting for nothing": (
        HEXA.replace({"rotors.k_torque": 5e-8}), AIR, r"rotors\[0\]\.k_torque = 5e-08 .*: expected at least 1\.03"
    ),
    "too little blade": (
        HEXA, f"{AIR}solidity = {quantity(0.02, '1')}\n", r"rotor_air\.solidity = 0\.02: .* 0\.6 rad; .* require 0\.6"
    ),
    "no such model": (HEXA, '[rotor_air]\nmodel = "magic"\n', r"rotor_air\.model = 'magic': expected one of dynamic, "),
    "model not said": (HEXA, "[rotor_air]\n", r"rotor_air\.model is missing"),
    "no such blade": (HEXA, '[rotor_air]\nmodel = "dynamic"\nblade = "oak"\n', "rotor_air: no blade 'oak'; expected"),
    "fit and inflow": (IRIS, '[rotor_fit]\nblade = "apc_10x4.7"\n', "rotor_fit is on beside inflow"),
    "a smaller blade": (
        samara.vehicle("octorotor_x"), '[rotor_fit]\nblade = "apc_10x4.7"\n', r"k_thrust = 2\.6e-05 .*: expected about 6\."
    ),
    "a short polynomial": (
        HEXA,
        f"[rotor_fit]\nthrust = {quantity([0.1], '1')}\npower = {quantity([0.1], '1')}\nin_plane = {quantity([0.1], '1')}\n"
        f"largest = {quantity(0.6, '1')}\n",
        r"rotor_fit\.thrust has 1 numbers: expected 21",
    ),
    "no ceiling": (HEXA, "[ceiling_effect]\n", r"ceiling_effect\.point_W is missing"),
    "a crooked normal": (
        HEXA,
        f"[ceiling_effect]\npoint_W = {quantity([0, 0, 3], 'm')}\nnormal_W = {quantity([0, 0, -2], '1')}\n",
        r"ceiling_effect\.normal_W = \(0\.0, 0\.0, -2\.0\): expected a unit vector",
    ),
    "a hinge beyond the tip": (
        HEXA, f"{AIR}[flapping]\nhinge_offset = {quantity(1.2, '1')}\n", r"flapping\.hinge_offset = 1\.2: .* below 1"
    ),
    "another unit": (HEXA, f"[ground_effect]\nbody_distance = {quantity(2, 's')}\n", "has the unit 's': expected 'm' or 'mm'"),
    "an unknown key": (HEXA, "[ground_effect]\nlift = 2\n", r"ground_effect\.lift = 2: expected only the keys body_lift"),
    "a body without rotors": (samara.vehicle("rigid_body_quadrotor"), "[ground_effect]\n", "rotors has 0 entries"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_is_refused_in_one_sentence(case):
    vehicle, table, complaint = WRONG[case]
    with pytest.raises(samara.VehicleError, match=rf"^mine\.toml: .*{complaint}") as error:
        parse_with_tables(vehicle, table)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("effects", "complaint"),
    [
        ('["thermals"]', r": hexarotor_x: effect 'thermals': expected one of body, drag"),
        ("3", r" = 3: expected a list of names"),
        ("{ ground_effect = 2.0 }", r"ground_effect = 2\.0: expected true, false or a table"),
        ("{ ground_effect = { lift = 2.0 } }", r"ground_effect\.lift = 2\.0: expected only the keys body_lift"),
        ('{ ground_effect = { body_lift = "much" } }', r"ground_effect\.body_lift = 'much': expected a finite number"),
        ("{ ground_effect = { body_lift = nan } }", r"ground_effect\.body_lift = nan: expected a finite number"),
        ("{ ceiling_effect = { point_W = [1, 2] } }", r"ceiling_effect\.point_W = \(1, 2\): expected 3 numbers"),
        ("{ rotor_air = { lift_slope = 0 } }", r"rotor_air\.lift_slope = 0 1/rad: expected a positive number"),
        ("{ rotor_air = { blade = 3 } }", r"rotor_air\.blade = 3: expected a text"),
        ('["flapping"]', "flapping is on and rotor_air is not"),
    ],
)
def test_a_scenario_s_effects_are_held_to_the_same_rules(effects, complaint):
    text = f'schema = 1\nduration = 1\n[[drones]]\nvehicle = "hexarotor_x"\neffects = {effects}\n'
    with pytest.raises(ScenarioError, match=rf"^mine\.toml: drones\[0\]\.effects.*{complaint}"):
        parse_scenario(text, "mine.toml")


# The rotors' true load ---------------------------------------------------------------------------------------------


def climbing_state(vehicle: samara.Vehicle) -> tuple[samara.State, tuple[float, ...]]:
    state, command = samara.hover(vehicle)
    return state._replace(v_W=Vec3(3.0, -1.0, 2.0)), command


def loads_by_hand(state, vehicle):
    air = vehicle["rotor_air"]
    for speed, rotor in zip(state.rotor_speed, vehicle.rotors, strict=True):
        flow = hub_flow(state.q_WB, state.v_W, state.omega_B, Vec3(0.0, 0.0, 0.0), rotor)
        yield air_load(speed, balanced_inflow(speed, flow, rotor, air, 1.225), flow, rotor, air, 1.225)


def test_a_dc_motor_feels_the_torque_of_the_air():
    """J Ω̇ = K I − Q: climbing from hover at the same duty, Ω̇ is the reduction of torque over J; the bus responds at once"""
    vehicle = samara.switch_on(samara.vehicle("hakoniwa"), "rotor_air", model="momentum")
    state, command = climbing_state(vehicle)
    rates = samara.derivative(state, command, vehicle).rotor_speed
    for rate, load, rotor, speed in zip(
        rates, loads_by_hand(state, vehicle), vehicle.rotors, state.rotor_speed, strict=True
    ):
        expected = (rotor.k_torque * speed**2 - load.torque) / rotor.inertia
        assert rate == pytest.approx(expected, rel=1e-9)
        assert abs(expected) > 1.0


def test_the_rotors_part_is_their_true_thrust_and_the_air_s_part_is_across():
    vehicle = samara.switch_on(HEXA, "rotor_air", model="momentum")
    state, command = climbing_state(vehicle)
    parts = samara.wrench_breakdown(state, command, vehicle)
    assert parts["rotors"].f_B.z == pytest.approx(sum(load.thrust for load in loads_by_hand(state, vehicle)), rel=1e-12)
    assert parts["rotor_air"].f_B.z == pytest.approx(0.0, abs=1e-15)
    assert parts["rotor_air"].f_B.x < 0.0 < parts["rotor_air"].f_B.y


def test_the_ground_scales_the_thrust_in_moving_air():
    """T/T∞ depends on the position alone, for any T∞ in moving air."""
    plain = samara.switch_on(HEXA, "ground_effect")
    airy = samara.switch_on(plain, "rotor_air", model="momentum")
    ratios, thrusts = [], []
    for vehicle in (plain, airy):
        state, command = samara.hover(vehicle, (0.0, 0.0, 0.2))
        parts = samara.wrench_breakdown(state._replace(v_W=Vec3(4.0, 0.0, 1.0)), command, vehicle)
        ratios.append(parts["ground_effect"].f_B.z / parts["rotors"].f_B.z)
        thrusts.append(parts["rotors"].f_B.z)
    assert ratios[0] == pytest.approx(ratios[1], rel=1e-12)
    assert abs(thrusts[1] / thrusts[0] - 1.0) > 0.01


# Hover -------------------------------------------------------------------------------------------------------------


def assert_trimmed(state, command, vehicle, environment=CALM):
    """All forces and torques vanish, and no state changes but the battery's charge."""
    rate = samara.derivative(state, command, vehicle, environment)
    inertia = np.array(vehicle.inertia_B, dtype=float).reshape(3, 3)
    assert np.abs(np.array(rate.v_W)).max() * vehicle.mass < 1e-10
    assert np.abs(inertia @ np.array(rate.omega_B)).max() < 1e-10
    assert np.array(rate.rotor_speed) / np.array(state.rotor_speed) == pytest.approx(0.0, abs=1e-9)
    for effect, effect_state, effect_rate in zip(vehicle.structure.effects, state.effects, rate.effects, strict=True):
        if effect.name not in ("battery", "contact") and effect_state != ():
            assert np.abs(flatten(effect_rate)).max() < 1e-9 * np.abs(flatten(effect_state)).max()


@pytest.mark.parametrize("height", [1.0, None], ids=["1 m", "2 radii"])
@pytest.mark.parametrize("air", AIRS)
@pytest.mark.parametrize("name", shipped_vehicle_parameters(NAMES))
def test_every_vehicle_hovers_exactly_with_all_effects_on(name, air, height):
    vehicle = enable_all_effects(samara.vehicle(name), air)
    height = height or 2.0 * vehicle.rotors[0].radius
    vehicle = vehicle.without_effect("contact")  # legs longer than two radii would stand on the ground
    state, command = samara.hover(vehicle, (0.0, 0.0, height))
    assert_trimmed(state, command, vehicle)
    far = samara.hover(vehicle, (0.0, 0.0, height), Environment(ground=Ground(Vec3(0.0, 0.0, -5.0))))[0]
    assert all(low < high for low, high in zip(state.rotor_speed, far.rotor_speed, strict=True))


def test_over_the_ground_the_rotors_turn_slower_by_the_root_of_the_ratio():
    """T∞ T/T∞ = m g: one rotor's image alone is Cheeseman and Bennett's, so that Ω²/Ω∞² = 1 − (R/4h)²"""
    rotor = HEXA.rotors[0]._replace(r_B=Vec3(0.0, 0.0, 0.0), k_torque=0.0)
    single = samara.build_vehicle(
        "rocket",
        mass=0.4,
        inertia=(0.002, 0.002, 0.003),
        rotors=[rotor],
        effects={"ground_effect": GroundEffect(0.0, 0.1)},
    )
    height = 0.2
    state, _ = samara.hover(single, (0.0, 0.0, height))
    far = math.sqrt(0.4 * 9.80665 / rotor.k_thrust)
    ratio = cheeseman_bennett(height, radius=rotor.radius)
    assert state.rotor_speed[0] == pytest.approx(far / math.sqrt(ratio), rel=1e-12)
    assert ratio == pytest.approx(1.0 / (1.0 - (rotor.radius / (4 * height)) ** 2), rel=1e-14)


@pytest.mark.parametrize("air", AIRS)
def test_a_vehicle_that_pushes_sideways_hovers_level_in_wind_with_all_effects_on(air):
    vehicle = enable_all_effects(samara.vehicle("hexarotor_tilted"), air)
    windy = Environment(wind_W=Vec3(3.0, -2.0, 0.5))
    state, command = samara.hover(vehicle, (0.0, 0.0, 1.0), windy)
    assert_trimmed(state, command, vehicle, windy)
    assert max(state.rotor_speed) - min(state.rotor_speed) > 10.0
    if air == "dynamic_3":  # a wake that leaves askew
        assert max(abs(inflow.first) for inflow in state.effects[vehicle.index("rotor_air")]) > 0.1


def test_redundant_rotors_share_alike():
    """Eight rotors, four demands: the smallest Σ Ω⁴ of a symmetric vehicle has equal rotor speeds."""
    speeds = samara.hover(enable_all_effects(samara.vehicle("octorotor_x")), (0.0, 0.0, 0.5))[0].rotor_speed
    assert speeds == pytest.approx([speeds[0]] * 8, rel=1e-10)


def test_a_vehicle_that_cannot_lean_into_the_wind_is_refused():
    with pytest.raises(ValueError, match="'hexarotor_x' cannot hover level"):
        samara.hover(samara.switch_on(HEXA, "rotor_air"), environment=Environment(wind_W=Vec3(3.0, 0.0, 0.0)))


# Plans and predictions ---------------------------------------------------------------------------------------------


def test_plans_leave_out_what_they_say():
    """A plan is that of the vehicle without them: effects of air, surfaces, other drones and loads."""
    vehicle = enable_all_effects(IRIS)
    left_out = [effect.name for effect in vehicle.structure.effects if effect.name in OPTIONS and not effect.planned]
    assert {"rotor_air", "flapping", "ground_effect", "ceiling_effect", "downwash"} <= set(left_out)
    plain = with_effects(vehicle, dict.fromkeys(left_out, False))
    output = flat_output(circle(Vec3(0.0, 0.0, 2.0), radius=2.0, speed=2.0, laps=1), 1.0)
    (state, _), (bare, _) = (flat_to_state(output, model) for model in (vehicle, plain))
    assert flatten(state)[:17] == flatten(bare)[:17]


@pytest.mark.parametrize("inputs", ["wrench", "rotors"])
def test_ilqr_predicts_gravity_drag_and_damping_alone(inputs):
    model = build_prediction_model(enable_all_effects(IRIS, body={"radius": 0.1}), MpcOptions(dt=0.02, inputs=inputs))
    assert [effect.name for effect in model.body.structure.effects][:-1] == ["gravity", "drag", "damping"]


@pytest.mark.long
@pytest.mark.parametrize("controller", list(CONTROLLERS))
def test_every_controller_arrives_with_all_effects_on(controller):
    """From the ground to a point 2.7 m away, through ground effect and the rotors' own air."""
    scenario = parse_scenario(
        f"""
        schema = 1
        duration = 8
        [[drones]]
        vehicle = "iris_documented"
        controller = "{controller}"
        [drones.effects]
        rotor_air = {{ model = "dynamic_3" }}
        flapping = {{ hub_spring = 0.5 }}
        ground_effect = {{}}
        [[drones.tasks]]
        type = "waypoints"
        points = [[0, 0, 1.5], [2, 1, 1.5]]
        speed = 1.0
        """,
        "mine.toml",
    )
    track = samara.fly(scenario).drone_records[0]
    assert np.array(track.position[-1]) == pytest.approx([2.0, 1.0, 1.5], abs=0.05)
    assert np.linalg.norm(track.velocity[-1]) < 0.05


@pytest.mark.long
def test_compiled_equals_written_with_all_effects_on_a_vehicle_with_dc_motors():
    """One compiled step and one of the Python equations, near the ground and in a turn."""
    vehicle = enable_all_effects(IRIS)
    state, command = samara.hover(vehicle, (0.0, 0.0, 0.4))
    state = state._replace(v_W=Vec3(2.0, -1.0, 0.5), omega_B=Vec3(0.4, -0.3, 0.2))
    written = samara.step(state, command, vehicle, 1e-3)
    compiled = samara.compile(vehicle, backend="llvm").step(state, command, 1e-3)
    assert np.array(flatten(compiled)) == pytest.approx(np.array(flatten(written)), rel=1e-12, abs=1e-12)


# Every vehicle with every effect -----------------------------------------------------------------------------------


def required_parameters(effect):
    """The parameters that an effect needs; True for one that needs none, as for the battery."""
    return (effect_numbers(effect) if effect in OPTIONS else {}) or True


@pytest.mark.parametrize("name", shipped_vehicle_parameters())
def test_what_can_be_switched_on_can_be_flown(name):
    """Every effect, and the battery, is rejected in a sentence or takes a step to finite values."""
    vehicle, flown = samara.vehicle(name), []
    for effect in effect_names():
        try:
            switched = with_effects(vehicle, {effect: required_parameters(effect)})
        except samara.VehicleError:
            continue
        state = state_at_rest(switched, Vec3(0.0, 0.0, 1.0))._replace(rotor_speed=tuple(300.0 for _ in switched.rotors))
        next_state = samara.step(state, zero_command(switched), switched, 1e-3)
        assert np.isfinite(flatten(next_state)).all(), effect
        flown.append(effect)
    assert {"drag", "damping", "slung_load"} <= set(flown)
    assert ("actuator" in flown) == ("arms" in flown) == bool(vehicle.rotors)


@pytest.mark.parametrize(("name", "inertia"), [("crazyflie", 34.52e-9), ("crazyflie_brushless", 38.93e-9)])
def test_every_effect_can_be_switched_on_on_a_crazyflie(name, inertia):
    """Each with the effects that it needs; flapping takes half of the propeller's inertia in the file."""
    vehicle = samara.vehicle(name)
    for effect in effect_names():
        switched = with_effects(vehicle, {**REQUIRED_EFFECTS.get(effect, {}), effect: required_parameters(effect)})
        assert switched.has(effect)
    flapping = with_effects(vehicle, {"rotor_air": True, "flapping": True})["flapping"]
    assert flapping.blade_inertia == pytest.approx(0.5 * inertia, rel=1e-12)
    with pytest.raises(samara.VehicleError, match=r"flapping\.blade_inertia is missing: expected a number"):
        with_effects(HEXA.replace({"rotors.inertia": 0.0}), {"rotor_air": True, "flapping": True})
