"""An effect from outside the package is one entry: it loads, trims, plans, compiles, records, replays and prints.

A balloon lifts with the weight of the air that it displaces; ballast runs out of a bag under the body. The rest of Samara
treats them by the fields of their `Effect` records.
"""

import ast
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pytest
from support.components import REQUIRED_EFFECTS, effect_numbers
from tools.latex import equation

import samara
from samara.control.mpc.options import MpcOptions
from samara.control.mpc.prediction_model import build_prediction_model
from samara.core.algebra import Vec3
from samara.core.quantity import AirDensity, Quantity, Scalar
from samara.core.tree import flatten
from samara.physics.air.downwash import EXTERNAL_WRENCH
from samara.physics.effect import OPTIONAL_ENVIRONMENT_FIELDS
from samara.physics.multirotor import complete_environment
from samara.physics.rotors.propulsion import IDEAL_BATTERY, ROTOR_MOMENTUM, ROTORS
from samara.plan.flatness import flat_motion, flat_output
from samara.plan.trajectory import circle
from samara.record.recording import RecordingError
from samara.record.run import embedded_scenario
from samara.sensors.sensor import specific_force
from samara.vehicles.effects import OPTIONS
from samara.vehicles.writer import vehicle_toml

G = 9.80665
IRIS = samara.vehicle("iris")
Volume = Annotated[Scalar, Quantity("m^3", 0.0, 1.0)]
Gravity = Annotated[Scalar, Quantity("m/s^2", 1.0, 20.0)]


class Balloon(NamedTuple):
    """Lighter than air."""

    volume: Volume


def displaced_mass(air_density: AirDensity, volume: Volume) -> Scalar:
    """m = ρ V  [kg]"""
    return air_density * volume


def buoyancy(air_density: AirDensity, volume: Volume, g: Gravity) -> Scalar:
    """B = ρ V g  [N]"""
    return displaced_mass(air_density, volume) * g


def lift(effect_state, state, command, vehicle, environment):
    up = buoyancy(environment.air_density, vehicle["balloon"].volume, vehicle["gravity"].acceleration)
    return samara.Wrench(f_W=Vec3(0.0, 0.0, up))


class Ballast(NamedTuple):
    """Sand that runs out."""

    mass: Annotated[Scalar, Quantity("kg", 0.0, 1.0)]
    rate: Annotated[Scalar, Quantity("kg/s", 0.0, 1.0)] = 0.1


class Sand(NamedTuple):
    """The remaining sand in the bag."""

    mass: Annotated[Scalar, Quantity("kg", 0.0, 1.0)]


def full(vehicle):
    return Sand(vehicle["ballast"].mass)


def running_out(effect_state, state, command, vehicle, environment):
    return Sand(-vehicle["ballast"].rate)


def weight(effect_state, state, command, vehicle, environment):
    return samara.Wrench(f_W=Vec3(0.0, 0.0, -effect_state.mass * vehicle["gravity"].acceleration))


def _not_empty(vehicle):
    return None if vehicle["ballast"].mass > 0.0 else "ballast.mass = 0 kg: expected some"


BALLOON = samara.EffectOption(Balloon, {"": samara.Effect("balloon", wrench=lift, attitude_dependent=False)})
BALLAST = samara.EffectOption(
    Ballast,
    {
        "": samara.Effect(
            "ballast", full, running_out, weight, role=samara.Role.WEIGHT, planned=False, attitude_dependent=False
        )
    },
    check=_not_empty,
)
EFFECTS = (BALLOON, BALLAST)
TABLES = """
[balloon]
volume = { value = 0.2, unit = "m^3", source = "inflated by hand" }

[ballast]
mass = { value = 100, unit = "g" }
rate = { value = 0.125, unit = "kg/s" }
"""
SCENARIO = """
schema = 1
duration = 0.3

[[drones]]
vehicle = "airship.toml"
airborne = true
start = [0.0, 0.0, 2.0]
sensors = ["imu"]
effects = { balloon = { volume = 0.25 } }

[[drones.tasks]]
type = "hover"
at = [0.0, 0.0, 2.0]
duration = 1

[expect]
max_error = 1.0
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    text = vehicle_toml(IRIS)
    (tmp_path / "airship.toml").write_text(text.replace("[gravity]", f"{TABLES}\n[gravity]", 1), encoding="utf-8")
    return tmp_path / "airship.toml"


@pytest.fixture
def airship() -> samara.Vehicle:
    return samara.switch_on(samara.vehicle("iris", effects=EFFECTS), "balloon", volume=0.2)


def test_it_loads_from_a_file_and_is_written_to_one(file, tmp_path):
    loaded = samara.vehicle(file, effects=EFFECTS)
    assert (loaded["balloon"], loaded["ballast"]) == (Balloon(0.2), Ballast(0.1, 0.125))
    by_hand = samara.switch_on(samara.vehicle("iris", effects=EFFECTS), "balloon", volume=0.2)
    assert loaded == samara.switch_on(by_hand, "ballast", mass=0.1, rate=0.125)
    samara.save_vehicle(loaded, tmp_path / "again.toml")
    assert samara.vehicle(tmp_path / "again.toml", effects=EFFECTS) == loaded
    assert "inflated by hand" in (tmp_path / "again.toml").read_text(encoding="utf-8")
    assert "balloon" in str(loaded)


def test_a_vehicle_is_built_with_it():
    parts = {"mass": 1.0, "inertia": (0.01, 0.01, 0.02), "actuation": "wrench"}
    built = samara.build_vehicle("airship", **parts, effects={"balloon": {"volume": 0.2}}, custom_effects=EFFECTS)
    assert built["balloon"] == Balloon(0.2)


def test_what_is_wrong_with_it_is_one_sentence(file):
    vehicle = samara.vehicle("iris", effects=EFFECTS)
    with pytest.raises(samara.VehicleError, match=r"^iris: balloon\.volume = -1\.0 m\^3: expected"):
        samara.switch_on(vehicle, "balloon", volume=-1.0)
    with pytest.raises(samara.VehicleError, match=r"^iris: ballast\.mass = 0 kg: expected some$"):
        samara.switch_on(vehicle, "ballast", mass=0.0)
    with pytest.raises(samara.VehicleError, match=r"airship\.toml: balloon = .*expected only the keys"):
        samara.vehicle(file)
    with pytest.raises(samara.VehicleError, match=r"^iris: effect 'balloon': expected one of body, drag"):
        samara.switch_on(IRIS, "balloon", volume=0.2)


@pytest.mark.parametrize(
    ("effects", "sentence"),
    [
        ([samara.Effect("balloon")], "iris.toml: effects has .*; expected EffectOptions, each with an effect"),
        ([BALLOON, BALLOON], "iris.toml: effect 'balloon' already exists"),
        ([samara.EffectOption(Balloon, {"": samara.Effect("drag")})], "iris.toml: effect 'drag' already exists"),
        ([samara.EffectOption(Balloon, {"": samara.Effect("rotors")})], "iris.toml: effect 'rotors' already exists"),
        (
            [samara.EffectOption(Balloon, {"a": samara.Effect("big"), "b": samara.Effect("small")})],
            "iris.toml: effect 'big' has models of other names",
        ),
    ],
)
def test_what_is_no_entry_is_refused(effects, sentence):
    with pytest.raises(samara.VehicleError, match=sentence):
        samara.vehicle("iris", effects=effects)


def test_it_is_trimmed(airship):
    """T = m g − ρ V g"""
    state, command = samara.hover(airship)
    thrust = samara.wrench_breakdown(state, command, airship)["rotors"].f_B.z
    assert thrust == pytest.approx((float(airship.mass) - 1.225 * 0.2) * G, rel=1e-12)


def test_it_is_planned_and_predicted(airship):
    """On a circle |f| = |m a + (m g − B) e₃|; ballast is excluded from planning"""
    track = circle(Vec3(0.0, 0.0, 2.0), radius=2.0, speed=2.0, laps=2)
    output = flat_output(track, 0.5 * track.duration)
    a_W = np.array([float(x.rate.rate.value) for x in output.p_W])
    force = float(IRIS.mass) * a_W + [0.0, 0.0, (float(IRIS.mass) - 1.225 * 0.2) * G]
    plain = IRIS.without_effect("drag") if IRIS.has("drag") else IRIS
    light = plain.with_effect(BALLOON.models[""], Balloon(0.2))
    assert flat_motion(output, light).thrust == pytest.approx(np.linalg.norm(force), rel=1e-12)
    loaded = samara.switch_on(airship, "ballast", mass=0.1)
    assert flat_motion(output, loaded).thrust == flat_motion(output, airship).thrust
    assert [
        effect.name
        for effect in build_prediction_model(loaded, MpcOptions(dt=0.02)).body.structure.effects
        if effect in _outside_effects(loaded)
    ] == ["balloon"]


def _outside_effects(vehicle):
    return [model for option in vehicle.structure.effect_options for model in option.models.values()]


def test_it_is_compiled(airship):
    """One compiled RK4 step, and the same functions in Python"""
    vehicle = samara.switch_on(airship, "ballast", mass=0.1)
    state, command = samara.hover(vehicle)
    compiled = samara.compile(vehicle, backend="llvm").step(state, command, 1e-3)
    assert flatten(compiled) == pytest.approx(flatten(samara.step(state, command, vehicle, 1e-3)), rel=1e-13, abs=1e-16)


def test_a_weight_is_felt_by_no_accelerometer(airship):
    vehicle = samara.switch_on(airship, "ballast", mass=0.1)
    state, command = samara.hover(vehicle)
    felt = specific_force(state, command, vehicle, samara.CALM)
    assert felt.z == pytest.approx(G * (1.0 + 0.1 / float(IRIS.mass)), rel=1e-12)


def test_it_is_recorded_and_replayed_bit_for_bit(file, tmp_path):
    """A scenario switches it on; its state is recorded under its name, m = m₀ − r t; a replay gives the same bits"""
    (tmp_path / "drift.toml").write_text(SCENARIO, encoding="utf-8")
    out = tmp_path / "drift.mcap"
    flown = samara.fly(tmp_path / "drift.toml", out=out, effects=EFFECTS)
    track = flown.drone_records[0]
    assert (track.vehicle["balloon"].volume, track.vehicle["ballast"].mass) == (0.25, 0.1)
    table = track.tables["state"]
    left = table.rows[:, table.fields.index("ballast.mass")]
    assert left == pytest.approx(0.1 - 0.125 * table.times_us / 1e6, abs=1e-13)
    assert flown.units["state.ballast.mass"] == "kg"
    again = samara.replay(out, effects=EFFECTS)
    assert again.drone_records[0].tables["state"].rows.tobytes() == table.rows.tobytes()
    assert samara.replay(flown).drone_records[0].tables["state"].rows.tobytes() == table.rows.tobytes()
    assert embedded_scenario(samara.load_run(out, effects=EFFECTS)) is not None
    with pytest.raises(RecordingError, match=r"drift\.mcap: holds no flight .* balloon = .*expected only the keys"):
        samara.load_run(out)


def test_its_equation_is_printed():
    """Its computation, with the functions of its file written out"""
    written = equation(buoyancy)
    assert written.rows[0][1] == r"\mathrm{volume} \rho g"
    assert written.evaluate(air_density=1.2, volume=0.5, g=10.0) == [6.0]


# Declarations of the shipped effects --------------------------------------------------------------------------------

HEXA = samara.vehicle("hexarotor_x")


class RecordingEnvironment:
    """An environment that notes which of its fields are read."""

    def __init__(self, environment):
        self._environment, self.fields = environment, set()

    def __getattr__(self, name):
        self.fields.add(name)
        return getattr(self._environment, name)


@pytest.mark.parametrize("name", [*OPTIONS, "external_wrench", "rotors", "rotor_momentum", "battery"])
def test_what_an_effect_reads_is_what_it_says(name):
    """Wrench, rate, steady state and loads are evaluated in an environment that records its reads"""
    vehicle = replace(HEXA, structure=replace(HEXA.structure, inflow=None))
    for other in REQUIRED_EFFECTS.get(name, {}):
        vehicle = samara.switch_on(vehicle, other)
    more = {
        "external_wrench": EXTERNAL_WRENCH,
        "rotors": ROTORS,
        "rotor_momentum": ROTOR_MOMENTUM,
        "battery": IDEAL_BATTERY,
    }
    if name in OPTIONS:
        vehicle = samara.switch_on(vehicle, name, **effect_numbers(name))
    elif not vehicle.has(name):
        vehicle = vehicle.with_effect(more[name], IRIS["battery"] if name == "battery" and IRIS.has("battery") else ())
    state, command = samara.hover(vehicle.without_effect("battery") if name == "battery" else vehicle, (0.0, 0.0, 2.0))
    at = vehicle.index(name)
    effect, environment = vehicle.structure.effects[at], RecordingEnvironment(complete_environment(vehicle))
    effect_state = effect.initial(vehicle)
    for function in (effect.wrench, effect.derivative, effect.steady_state):
        function(effect_state, state, command, vehicle, environment)
    for loads in filter(None, (effect.loads, effect.additional_loads)):
        loads(effect_state, state, vehicle, environment)
    assert environment.fields & set(OPTIONAL_ENVIRONMENT_FIELDS) == set(effect.reads)


def test_only_what_is_provided_can_be_read():
    with pytest.raises(
        ValueError, match=r"^effect 'sail' reads 'sunshine'; expected only hub_wind_W and external_wrenches$"
    ):
        samara.Effect("sail", reads=("sunshine",))


def test_a_simulation_provides_what_is_read():
    """The wind at every hub, and an external wrench, for a vehicle with an outside effect that reads them; () for others"""
    sail = samara.Effect("sail", wrench=lambda *_: samara.Wrench(), reads=("hub_wind_W", "external_wrenches"))
    provided, plain = complete_environment(HEXA.with_effect(sail)), complete_environment(HEXA)
    assert (len(provided.hub_wind_W), len(provided.external_wrenches)) == (6, 1)
    assert (plain.hub_wind_W, plain.external_wrenches) == ((), ())


def test_two_answers_to_what_the_air_does_to_rotors_are_refused():
    """Also if one is from outside"""
    mine = samara.EffectOption(Balloon, {"": samara.Effect("tip_loss", role=samara.Role.ROTOR_AIR)})
    vehicle = samara.switch_on(samara.vehicle("hexarotor_x", effects=[mine]), "tip_loss", volume=0.1)
    with pytest.raises(samara.VehicleError, match=r"rotor_air is on beside tip_loss: expected one of them"):
        samara.switch_on(vehicle, "rotor_air")


def test_nobody_lists_effects_by_their_names():
    """Code that sorts effects uses the fields of their records; only vehicle files have tables of these names"""
    names = {
        *OPTIONS,
        "gravity",
        "rotors",
        "commanded_wrench",
        "rotor_momentum",
        "contact",
        "battery",
        "external_wrench",
    }
    source, violations = Path(samara.__file__).parent, []
    for path in sorted(source.rglob("*.py")):
        if path.relative_to(source).parts[0] in ("vehicles", "cli"):
            continue
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        built = [node.value for node in nodes if isinstance(node, ast.keyword) and node.arg == "effects"]
        for node in nodes:
            if node in built:  # a vehicle is built from effects by name
                continue
            parts = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else getattr(node, "keys", ())
            listed = {
                element.value for element in parts if isinstance(element, ast.Constant) and element.value in names
            }
            if len(listed) > 1:
                violations.append(f"{path.relative_to(source)}:{node.lineno}: {', '.join(sorted(listed))}")
    assert not violations, "\n".join(violations)
