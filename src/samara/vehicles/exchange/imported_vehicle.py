"""A vehicle as read from a file of another program, and its conversion to a `Vehicle`.

A reader returns an `ImportedVehicle`: each value with the field it was read from, None if the format cannot express it.
Axes are forward-left-up, and positions are relative to the centre of mass. `missing_fields` lists the missing fields;
`build_imported` takes them from a vehicle that was estimated from parts, and records that in the source of each value.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import mul
from typing import NamedTuple, TypeAlias, TypeVar

from samara.core.algebra import Vec3
from samara.core.quantity import Tree
from samara.core.units import record_fields
from samara.physics.air.atmosphere import STANDARD_GRAVITY
from samara.physics.effect import Role
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.battery import Ideal, Thevenin
from samara.physics.rotors.motor import DcMotor
from samara.physics.rotors.rotor import Rotor
from samara.physics.types import Vehicle
from samara.vehicles.build import ContactShape, Provenance, build_vehicle
from samara.vehicles.check import VehicleError
from samara.vehicles.defaults import derived_feet, derived_top_height
from samara.vehicles.effects import OPTIONS, effect_option
from samara.vehicles.exchange.throttle import idle_speed_fraction
from samara.vehicles.parts.uncertain import UncertainValue, propagate_uncertainty
from samara.vehicles.rotor_translation import TRANSLATION_EFFECTS


class UncertainVector(NamedTuple):
    """A vector or table (position, direction, inertia by rows), of any sign, with its source and relative spread."""

    values: tuple[float, ...]
    source: str
    spread: float = 0.0


Note = TypeVar("Note")
UPRIGHT = UncertainVector((0.0, 0.0, 1.0), "upright, by default")
DERIVED_CONTACT = {
    "points": "feet below the arms, half an arm below the lowest hub",
    "top_height": "the hull's radius, or a tenth of an arm above the highest hub",
    "stiffness": "the softest ground without sinking in: the fastest mode at 500 rad/s",
    "damping": "0.7 of critical: the fastest mode at 500 rad/s",
    "friction": "rubber on a hard floor",
}
"""How the parameters of the ground contact are derived, by field"""
_AIR_TABLES = {"drag", "rolling_moment", "thrust_fade", *TRANSLATION_EFFECTS}
Number: TypeAlias = UncertainValue | UncertainVector
Record: TypeAlias = Mapping[str, Number]
"""Values by the fields of a record such as `Lag`, `DcMotor`, `Thevenin` or `Drag`."""


@dataclass(frozen=True)
class ImportedRotor:
    """One rotor of a file; `motor` has the fields of `Lag`, or of `DcMotor` if the actuation is "duty"."""

    position: UncertainVector | None = None
    spin: int | None = None  # +1: right-handed about the axis, counter-clockwise seen from above
    axis: UncertainVector = UPRIGHT
    k_thrust: UncertainValue | None = None
    k_torque: UncertainValue | None = None
    inertia: UncertainValue | None = None
    radius: UncertainValue | None = None
    motor: Record = field(default_factory=dict)
    torque_ratio: UncertainValue | None = None  # kM/kF [m], for a format without forces


@dataclass(frozen=True)
class ImportedVehicle:
    """A vehicle of another program's file: SI units, axes forward-left-up, positions relative to the centre of mass.

    `uses_arm_lengths`: positions are in units of the arm length, for a format with a layout and no size;
    `scale_positions` converts them to metres. `actuation` None: that of the estimated vehicle if the file has no motors,
    else "normalized". `effects`: optional tables of a vehicle file by name, each by the fields of its record. `models`:
    the model of an effect by the same name, if it is not the first ("body" axes for drag). `battery`: the fields of
    `Thevenin`, or the voltage of an ideal battery. `hover`: thrust in hover over full thrust. `expo`: the e of the
    throttle curve (1 − e) u + e u². `hover`, `expo` and `torque_ratio` become parameters once mass and kF are known.
    `notes`: sentences for the user about omitted data and data that is interpreted differently from the other program.
    `autopilot_parameters`: the tuning in the file, for the simulated `autopilot`.
    """

    name: str
    origin: str
    format: str
    mass: UncertainValue | None = None
    inertia: UncertainVector | None = None  # about the centre of mass, 3 numbers or 9
    rotors: tuple[ImportedRotor, ...] = ()
    uses_arm_lengths: bool = False
    actuation: str | None = None
    effects: Mapping[str, Record] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    battery: Record | None = None
    feet: tuple[UncertainVector, ...] = ()
    gravity: UncertainValue | None = None
    hover: UncertainValue | None = None
    expo: UncertainValue | None = None
    description: str = ""
    notes: tuple[str, ...] = ()
    autopilot: str = ""
    autopilot_parameters: Mapping[str, float | str] = field(default_factory=dict)

    @property
    def missing_fields(self) -> tuple[str, ...]:
        """Fields that a vehicle needs and this file lacks, by their names in a vehicle file; those of rotors only once."""
        missing = [f"body.{key}" for key in ("mass", "inertia") if getattr(self, key) is None]
        missing += ["arm"] if self.uses_arm_lengths else []
        missing += [] if self.rotors else ["rotors"]
        for rotor in self.rotors:
            required = ["position", "spin", "k_thrust", *(["k_torque"] if rotor.torque_ratio is None else [])]
            missing += [f"rotors.{key}" for key in required if getattr(rotor, key) is None]
            available = {*rotor.motor, *(("speed_min", "speed_max") if self.hover else ())}
            missing += [
                f"rotors.motor.{key}"
                for field, key in _required_keys(_motor_type(self.actuation)).items()
                if field not in available
            ]
        if self.battery is not None and "voltage" not in self.battery:
            missing += [
                f"battery.{key}" for field, key in _required_keys(Thevenin).items() if field not in self.battery
            ]
        if self.battery is None and self.actuation == "duty":
            missing.append("battery")
        return tuple(dict.fromkeys(missing))


def scale_positions(imported: ImportedVehicle, arm: UncertainValue) -> ImportedVehicle:
    """Convert positions from arm lengths to metres."""
    if not imported.uses_arm_lengths:
        return imported
    rotors = tuple(
        replace(
            rotor,
            position=rotor.position
            and UncertainVector(
                tuple(arm.value * x for x in rotor.position.values),
                f"{rotor.position.source}; {arm.source}",
                arm.spread,
            ),
        )
        for rotor in imported.rotors
    )
    return replace(imported, rotors=rotors, uses_arm_lengths=False)


def resolve_ratios(imported: ImportedVehicle, estimated: Vehicle | None = None) -> ImportedVehicle:
    """kM = (Q/T) kF,   Ω_max = √(W / (n h kF)),   Ω_min = a Ω_max: convert ratios to parameters once mass and kF are known

    W is the weight, h the thrust in hover over full thrust, and a the idle ratio of the throttle curve, else of `estimated`.
    DC motors of `estimated` become lags, with their time constant at hover.
    """
    estimated_rotors = estimated.rotors if estimated else ()
    mass = _file_or_estimate(imported.mass, estimated, "body.mass", estimated.mass if estimated else 0.0)
    rotors = []
    for i, rotor in enumerate(imported.rotors):
        k_thrust = _file_or_estimate(
            rotor.k_thrust,
            estimated,
            f"rotors[{i}].k_thrust",
            estimated_rotors[i].k_thrust if estimated_rotors else 0.0,
        )
        if k_thrust and rotor.torque_ratio and rotor.k_torque is None:
            rotor = replace(
                rotor,
                k_torque=propagate_uncertainty(
                    f"{rotor.torque_ratio.source}; with k_thrust", mul, rotor.torque_ratio, k_thrust
                ),
            )
        if k_thrust and mass and imported.hover and "speed_max" not in rotor.motor:
            rotor = replace(rotor, motor={**_motor_speeds(imported, mass, k_thrust, i, estimated), **rotor.motor})
        rotors.append(rotor)
    has_scaled_speeds = any("speed_max" in rotor.motor for rotor in rotors) and imported.hover is not None
    return replace(
        imported, rotors=tuple(rotors), actuation=imported.actuation or ("normalized" if has_scaled_speeds else None)
    )


def _file_or_estimate(
    file_value: UncertainValue | None, estimated: Vehicle | None, path: str, estimated_value: float
) -> UncertainValue | None:
    """Return the file's value, or that of the estimated vehicle with its spread."""
    if file_value is not None or estimated is None:
        return file_value
    return UncertainValue(
        estimated_value, max(_find_notes(estimated.structure.relative_uncertainties, path), default=0.0), "estimated"
    )


def _motor_speeds(
    imported: ImportedVehicle, mass: UncertainValue, k_thrust: UncertainValue, i: int, estimated: Vehicle | None
) -> dict[str, UncertainValue]:
    hover_fraction, count = imported.hover, len(imported.rotors)
    assert hover_fraction is not None

    def max_speed(m: float, k: float, h: float) -> float:
        return math.sqrt(m * STANDARD_GRAVITY / (count * k * h))

    speed_max = propagate_uncertainty(
        f"{hover_fraction.source}; with mass and k_thrust", max_speed, mass, k_thrust, hover_fraction
    )
    motor = estimated.rotors[i].motor if estimated else None
    speeds = {"speed_max": speed_max}
    if imported.expo:
        min_speed = idle_speed_fraction(hover_fraction.value, imported.expo.value) * speed_max.value
        speeds["speed_min"] = UncertainValue(
            min_speed, speed_max.spread, f"{imported.expo.source}; the throttle curve at hover"
        )
    elif isinstance(motor, Lag):
        min_speed = motor.speed_min / motor.speed_max * speed_max.value
        speeds["speed_min"] = UncertainValue(
            min_speed, speed_max.spread, "not in the file; the estimated fraction of speed_max"
        )
    else:
        speeds["speed_min"] = UncertainValue(0.0, 0.0, "not in the file; 0 by default")
    if estimated and isinstance(motor, DcMotor):
        rotor, hover_speed = estimated.rotors[i], speed_max.value * math.sqrt(hover_fraction.value)
        stiffness = motor.constant**2 / motor.resistance + motor.damping + 2.0 * rotor.k_torque * hover_speed
        lag = UncertainValue(
            rotor.inertia / stiffness, 0.3, "not in the file; J/(K²/R + b + 2 kM Ω) of the estimated motor"
        )
        speeds |= {"time_constant_up": lag, "time_constant_down": lag}
    return speeds


def build_imported(imported: ImportedVehicle, estimated: Vehicle | None = None) -> Vehicle:
    """Build the vehicle of a file; take missing parameters from `estimated`, with their sources and spreads.

    Rotors are matched by position, or by order if the file has no positions. Optional effects of `estimated` that the file does
    not mention are on too.

    Raises:
        VehicleError: lists all missing fields if there is no `estimated`; or the rotor counts differ.
    """
    lacking = [field_name for field_name in imported.missing_fields if field_name == "arm" or estimated is None]
    if lacking:
        options = "--diagonal" if lacking == ["arm"] else "--defaults-from VEHICLE, or --motors, --props and --battery"
        raise VehicleError(
            f"{imported.origin}: {imported.format} does not contain {', '.join(lacking)}: expected {options}"
        )
    if estimated is not None and imported.rotors and len(estimated.rotors) != len(imported.rotors):
        raise VehicleError(
            f"{imported.origin}: has {len(imported.rotors)} rotors, and {estimated.name}, which supplies the other parameters, "
            f"{len(estimated.rotors)}: expected equal counts"
        )
    estimated = _align_rotors(estimated, imported) if estimated else None
    imported = resolve_ratios(imported, estimated)
    builder = _VehicleBuilder(imported, estimated)
    rotors = tuple(builder.rotor(i) for i in range(len(imported.rotors) or len(builder.estimated_rotors)))
    effects = builder.effects()
    if imported.gravity:
        effects["gravity"] = {"acceleration": builder.take_value("gravity.acceleration", imported.gravity)}
    else:
        builder.sources["gravity.acceleration"] = "not in the file; standard gravity"
    points = tuple(Vec3(*builder.take_value("contact.points", foot)) for foot in imported.feet) or derived_feet(rotors)
    builder.record_derived_contact()
    hull_radius = imported.effects.get("body", {}).get("radius")
    return build_vehicle(
        imported.name,
        mass=builder.take_value("body.mass", imported.mass, getattr(estimated, "mass", None)),
        inertia=builder.take_value("body.inertia", imported.inertia, getattr(estimated, "inertia_B", None)),
        rotors=rotors,
        actuation=builder.actuation,
        battery=builder.battery(),
        contact=ContactShape(
            points,
            derived_top_height(points, rotors, hull_radius.value if isinstance(hull_radius, UncertainValue) else 0.0),
        ),
        effects=effects,
        provenance=Provenance(
            imported.description or f"from {imported.format}",
            tuple(builder.sources.items()),
            tuple(builder.spreads.items()),
        ),
    )


def _align_rotors(estimated: Vehicle, imported: ImportedVehicle) -> Vehicle:
    """Sort the estimated vehicle's rotors in the file's order: each file rotor takes the remaining one nearest in direction."""
    positions = [rotor.position.values for rotor in imported.rotors if rotor.position is not None]
    if not positions or len(positions) != len(estimated.rotors):
        return estimated
    order: list[int] = []
    for position in positions:
        remaining = [i for i in range(len(positions)) if i not in order]
        similarity = [_direction_similarity(position, estimated.rotors[i].r_B) for i in remaining]
        order.append(remaining[similarity.index(max(similarity))])
    new_names = {f"rotors[{old}]": f"rotors[{new}]" for new, old in enumerate(order)}

    def rename_paths(notes: Iterable[tuple[str, Note]]) -> tuple[tuple[str, Note], ...]:
        return tuple(
            (re.sub(r"^rotors\[\d+\]", lambda match: new_names[match[0]], path), value) for path, value in notes
        )

    structure = replace(
        estimated.structure,
        sources=rename_paths(estimated.structure.sources),
        relative_uncertainties=rename_paths(estimated.structure.relative_uncertainties),
    )
    return replace(estimated, structure=structure, rotors=tuple(estimated.rotors[i] for i in order))


def _direction_similarity(a: Sequence[float], b: Sequence[float]) -> float:
    """a·b / (|a| |b|) in plan view, plus a small term for the height of coaxial rotors"""
    lengths = math.hypot(*a[:2]) * math.hypot(*b[:2])
    cosine = (a[0] * b[0] + a[1] * b[1]) / lengths if lengths > 0.0 else 0.0
    return cosine + 0.01 * math.copysign(1.0, a[2]) * math.copysign(1.0, b[2])


class _VehicleBuilder:
    """Collects the parameters of the vehicle, with their sources and spreads."""

    def __init__(self, imported: ImportedVehicle, estimated: Vehicle | None) -> None:
        self.imported, self.estimated = imported, estimated
        self.estimated_rotors: tuple[Rotor, ...] = estimated.rotors if estimated else ()
        self.sources: dict[str, str] = {}
        self.spreads: dict[str, float] = {}
        has_no_motors = not any(rotor.motor for rotor in imported.rotors)
        default_actuation = estimated.structure.actuation.name if estimated and has_no_motors else "normalized"
        self.actuation = imported.actuation or default_actuation

    def take_value(self, path: str, file_value: Number | None, estimated_value: Tree = None) -> Tree:
        """Return the file's value, or that of the estimated vehicle, and record its source and spread."""
        if file_value is not None:
            self.sources[path] = file_value.source
            if file_value.spread > 0.0:
                self.spreads[path] = file_value.spread
            return file_value.value if isinstance(file_value, UncertainValue) else file_value.values
        if self.estimated is None or estimated_value is None:
            raise VehicleError(f"{self.imported.origin}: {self.imported.format} does not contain {path}: expected it")
        structure = self.estimated.structure
        sources = _find_notes(structure.sources, path) or [f"as in {self.estimated.name}"]
        self.sources[path] = f"not in the file; {'; '.join(dict.fromkeys(sources))}"
        if spread := max(_find_notes(structure.relative_uncertainties, path), default=0.0):
            self.spreads[path] = spread
        return estimated_value

    def record(self, path: str, record: Record) -> dict[str, Tree]:
        values = {key: self.take_value(f"{path}.{key}", value) for key, value in record.items()}
        return {
            key: Vec3(*value) if isinstance(value, tuple) and len(value) == 3 else value
            for key, value in values.items()
        }

    def rotor(self, i: int) -> Rotor:
        file_rotor = self.imported.rotors[i] if self.imported.rotors else ImportedRotor()
        estimated_rotor = self.estimated_rotors[i] if self.estimated_rotors else None
        path = f"rotors[{i}]"
        axis = file_rotor.axis if self.imported.rotors else None
        axis_B = Vec3(*self.take_value(f"{path}.axis", axis, getattr(estimated_rotor, "axis_B", None)))
        spin = estimated_rotor.spin if file_rotor.spin is None and estimated_rotor else file_rotor.spin
        values = {}
        for key in ("k_thrust", "k_torque", "inertia", "radius"):
            if getattr(file_rotor, key) is not None or estimated_rotor or key not in Rotor._field_defaults:
                values[key] = self.take_value(
                    f"{path}.{key}", getattr(file_rotor, key), getattr(estimated_rotor, key, None)
                )
        r_B = Vec3(*self.take_value(f"{path}.position", file_rotor.position, getattr(estimated_rotor, "r_B", None)))
        return Rotor(r_B, axis_B, spin, motor=self.motor(i, file_rotor), **values)

    def motor(self, i: int, file_rotor: ImportedRotor) -> Lag | DcMotor:
        motor_type = _motor_type(self.actuation)
        estimated_motor = (
            self.estimated_rotors[i].motor
            if self.estimated_rotors and isinstance(self.estimated_rotors[i].motor, motor_type)
            else None
        )
        fields = {}
        for key, record_field in record_fields(motor_type).items():
            if key in file_rotor.motor or estimated_motor or key not in motor_type._field_defaults:
                path = f"rotors[{i}].motor.{record_field.key}"
                fields[key] = self.take_value(path, file_rotor.motor.get(key), getattr(estimated_motor, key, None))
        motor: Lag | DcMotor = motor_type(**fields)
        return motor

    def battery(self) -> Ideal | tuple[Thevenin, ...] | None:
        file_battery = self.imported.battery
        if file_battery is not None and "voltage" in file_battery:
            return Ideal(**self.record("battery[0]", file_battery))
        estimated_battery = self.estimated["battery"] if self.estimated and self.estimated.has("battery") else None
        if file_battery is None:
            self.copy_notes("battery[")
            return estimated_battery
        estimated_cell = (
            estimated_battery[0]
            if isinstance(estimated_battery, tuple) and not isinstance(estimated_battery, Ideal)
            else None
        )
        fields = {
            key: self.take_value(f"battery[0].{key}", file_battery.get(key), getattr(estimated_cell, key, None))
            for key in record_fields(Thevenin)
        }
        return (Thevenin(**fields),)

    def effects(self) -> dict[str, object]:
        """Return the tables of the file's effects by name, and those of the estimated vehicle that the file does not
        mention: of the air on body and rotors only if the file mentions none of it, so that it flies as in its simulator."""
        tables: dict[str, object] = {}
        for name, values in self.imported.effects.items():
            model = self.imported.models.get(name)
            tables[name] = {**({OPTIONS[name].key: model} if model else {}), **self.record(name, values)}
        if self.estimated is None:
            return tables
        roles = {model.role for name in self.imported.effects for model in OPTIONS[name].models.values()}
        roles &= {Role.ROTOR_AIR}
        for effect, record in zip(self.estimated.structure.effects, self.estimated.parameters, strict=True):
            option = effect_option(effect, self.estimated)
            if option is None or option.name in tables or effect.role in roles:
                continue
            if option.name in TRANSLATION_EFFECTS and not _AIR_TABLES.isdisjoint(self.imported.effects):
                continue
            tables[option.name] = record
            if len(option.models) > 1:
                model = next(key for key, candidate in option.models.items() if candidate is effect)
                tables[option.name] = {option.key: model, **record._asdict()}
            self.copy_notes(f"{option.name}.")
        return tables

    def copy_notes(self, prefix: str) -> None:
        """Record the sources and spreads of the estimated vehicle for parameters whose path begins with a prefix."""
        if self.estimated is None:
            return
        structure = self.estimated.structure
        self.sources.update(
            (path, f"not in the file; {source}") for path, source in structure.sources if path.startswith(prefix)
        )
        self.spreads.update(
            (path, spread) for path, spread in structure.relative_uncertainties if path.startswith(prefix)
        )

    def record_derived_contact(self) -> None:
        """Record how the parameters of the contact that the file does not contain are derived."""
        for key, source in DERIVED_CONTACT.items():
            self.sources.setdefault(f"contact.{key}", f"not in the file; {source}")


def _find_notes(notes: Iterable[tuple[str, Note]], path: str) -> list[Note]:
    """Return the notes on a value, on its components (arm and azimuth of a position), or on the table for all rotors."""
    table, _, key = path.rpartition(".")
    shared_table = re.sub(r"^rotors\[\d+\]\.motor", "motor", re.sub(r"^rotors\[\d+\]$", "rotor", table))
    keys = (key, *(("arm", "azimuth", "height") if key == "position" else ()))
    paths = {f"{prefix}.{field_key}" for prefix in (table, shared_table) for field_key in keys}
    return [value for note_path, value in notes if note_path in paths]


def _motor_type(actuation: str | None) -> type[Lag] | type[DcMotor]:
    return DcMotor if actuation == "duty" else Lag


def _required_keys(record_type: type[Tree]) -> dict[str, str]:
    """Return the keys of the fields of a record without a default, by field."""
    fields = record_fields(record_type)
    return {name: field.key for name, field in fields.items() if name not in record_type._field_defaults}
