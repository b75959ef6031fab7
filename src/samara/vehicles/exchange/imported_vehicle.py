"""What a file of another program says of an aircraft, and the vehicle that it becomes.

A reader makes an `Imported`: each number with the field that it was read from, None where the format cannot say it. Axes are
ours, forward-left-up, and positions are from the centre of mass. `lacking` lists what is missing; `built` takes that from a
vehicle that was estimated from parts, and says so in the source of each number.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import mul
from typing import NamedTuple, TypeAlias, TypeVar

from samara.core.algebra import Vec3
from samara.core.quantity import Tree
from samara.core.units import fields_of
from samara.physics.air.atmosphere import STANDARD_GRAVITY
from samara.physics.effect import Role
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.battery import Ideal, Thevenin
from samara.physics.rotors.motor import DcMotor
from samara.physics.rotors.rotor import Rotor
from samara.physics.types import Vehicle
from samara.vehicles.build import ContactShape, Provenance, build_vehicle
from samara.vehicles.check import VehicleError
from samara.vehicles.defaults import derived_feet, derived_top
from samara.vehicles.effects import OPTIONS, option_of
from samara.vehicles.exchange.throttle import idle_share
from samara.vehicles.parts.uncertain import Estimate, derived


class Several(NamedTuple):
    """Numbers that belong together (a place, a direction, an inertia by rows, a table), which may have any sign"""

    values: tuple[float, ...]
    how: str
    spread: float = 0.0


Noted = TypeVar("Noted")
UPRIGHT = Several((0.0, 0.0, 1.0), "upright, by default")
Number: TypeAlias = Estimate | Several
Record: TypeAlias = Mapping[str, Number]
"""Numbers by the fields of one of our records: those of `Lag`, `DcMotor`, `Thevenin`, `Drag`, …"""


@dataclass(frozen=True)
class ImportedRotor:
    """One rotor as a file has it; `motor` by the fields of `Lag`, or with "duty" of `DcMotor`"""

    position: Several | None = None
    spin: int | None = None  # +1: right-handed about the axis, counter-clockwise seen from above
    axis: Several = UPRIGHT
    k_thrust: Estimate | None = None
    k_torque: Estimate | None = None
    inertia: Estimate | None = None
    radius: Estimate | None = None
    motor: Record = field(default_factory=dict)
    torque_ratio: Estimate | None = None  # kM/kF [m], for a format that knows no forces


@dataclass(frozen=True)
class Imported:
    """An aircraft as a file of another program has it: SI units, axes forward-left-up, places from the centre of mass

    `arm_lengths` says that positions count in arms, for a format that knows a layout and no size: `sized` makes metres of
    them. Without an `actuation` it is that of the estimated vehicle where the file says nothing of motors, else "normalized".
    `effects` are optional tables of a vehicle file by name, each by the fields of its record, and `models` says by the same
    name which of several models is meant, where it is not the first ("body" axes for drag); `battery` has the fields of
    `Thevenin`, or the voltage of an ideal one. `hover` is the thrust of hover over that of full throttle, and `expo` the e of
    the throttle curve (1 − e) u + e u²: they and `torque_ratio` become numbers once a mass and kF are known. `notes` are
    sentences for the user: what was left out, and what is read otherwise than the other program has it.
    """

    name: str
    origin: str
    format: str
    mass: Estimate | None = None
    inertia: Several | None = None  # about the centre of mass, 3 numbers or 9
    rotors: tuple[ImportedRotor, ...] = ()
    arm_lengths: bool = False
    actuation: str | None = None
    effects: Mapping[str, Record] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    battery: Record | None = None
    feet: tuple[Several, ...] = ()
    gravity: Estimate | None = None
    hover: Estimate | None = None
    expo: Estimate | None = None
    description: str = ""
    notes: tuple[str, ...] = ()

    @property
    def lacking(self) -> tuple[str, ...]:
        """What a vehicle needs and this file does not say, by the names of a vehicle file; of several rotors once"""
        found = [f"body.{key}" for key in ("mass", "inertia") if getattr(self, key) is None]
        found += ["arm"] if self.arm_lengths else []
        found += [] if self.rotors else ["rotors"]
        for rotor in self.rotors:
            asked = ["position", "spin", "k_thrust", *(["k_torque"] if rotor.torque_ratio is None else [])]
            found += [f"rotors.{key}" for key in asked if getattr(rotor, key) is None]
            known = {*rotor.motor, *(("speed_min", "speed_max") if self.hover else ())}
            found += [f"rotors.motor.{key}" for key in _asked(_motor(self.actuation)) if key not in known]
        if self.battery is not None and "voltage" not in self.battery:
            found += [f"battery.{key}" for key in _asked(Thevenin) if key not in self.battery]
        if self.battery is None and self.actuation == "duty":
            found.append("battery")
        return tuple(dict.fromkeys(found))


def sized(imported: Imported, arm: Estimate) -> Imported:
    """The same with positions in metres: each times the length of an arm"""
    if not imported.arm_lengths:
        return imported
    rotors = tuple(
        replace(
            own,
            position=own.position
            and Several(
                tuple(arm.value * x for x in own.position.values), f"{own.position.how}; {arm.how}", arm.spread
            ),
        )
        for own in imported.rotors
    )
    return replace(imported, rotors=rotors, arm_lengths=False)


def related(imported: Imported, estimated: Vehicle | None = None) -> Imported:
    """kM = (Q/T) kF,   Ω_max = √(W / (n h kF)),   Ω_min = a Ω_max: shares become numbers where mass and kF are known

    W is the weight, h the thrust of hover over full thrust, and a that of the throttle curve, else as `estimated` has it. Its
    DC motors become lags, with the time constant that they have at hover.
    """
    others = estimated.rotors if estimated else ()
    mass = _known(imported.mass, estimated, "body.mass", estimated.mass if estimated else 0.0)
    rotors = []
    for i, own in enumerate(imported.rotors):
        k_thrust = _known(own.k_thrust, estimated, f"rotors[{i}].k_thrust", others[i].k_thrust if others else 0.0)
        if k_thrust and own.torque_ratio and own.k_torque is None:
            own = replace(
                own, k_torque=derived(f"{own.torque_ratio.how}; with k_thrust", mul, own.torque_ratio, k_thrust)
            )
        if k_thrust and mass and imported.hover and "speed_max" not in own.motor:
            own = replace(own, motor={**_speeds(imported, mass, k_thrust, i, estimated), **own.motor})
        rotors.append(own)
    scaled = any("speed_max" in own.motor for own in rotors) and imported.hover is not None
    return replace(imported, rotors=tuple(rotors), actuation=imported.actuation or ("normalized" if scaled else None))


def _known(own: Estimate | None, estimated: Vehicle | None, path: str, other: float) -> Estimate | None:
    """The file's number, or that of the estimated vehicle with its spread"""
    if own is not None or estimated is None:
        return own
    return Estimate(other, max(_noted(estimated.structure.spreads, path), default=0.0), "estimated")


def _speeds(
    imported: Imported, mass: Estimate, k_thrust: Estimate, i: int, estimated: Vehicle | None
) -> dict[str, Estimate]:
    share, count = imported.hover, len(imported.rotors)
    assert share is not None

    def fastest(m: float, k: float, h: float) -> float:
        return math.sqrt(m * STANDARD_GRAVITY / (count * k * h))

    speed_max = derived(f"{share.how}; with mass and k_thrust", fastest, mass, k_thrust, share)
    motor = estimated.rotors[i].motor if estimated else None
    found = {"speed_max": speed_max}
    if imported.expo:
        least = idle_share(share.value, imported.expo.value) * speed_max.value
        found["speed_min"] = Estimate(least, speed_max.spread, f"{imported.expo.how}; the throttle curve at hover")
    elif isinstance(motor, Lag):
        least = motor.speed_min / motor.speed_max * speed_max.value
        found["speed_min"] = Estimate(least, speed_max.spread, "not in the file; its share of the highest as estimated")
    else:
        found["speed_min"] = Estimate(0.0, 0.0, "not in the file; 0 by default")
    if estimated and isinstance(motor, DcMotor):
        rotor, at_hover = estimated.rotors[i], speed_max.value * math.sqrt(share.value)
        stiffness = motor.constant**2 / motor.resistance + motor.damping + 2.0 * rotor.k_torque * at_hover
        lag = Estimate(rotor.inertia / stiffness, 0.3, "not in the file; J/(K²/R + b + 2 kM Ω) of the estimated motor")
        found |= {"rise": lag, "fall": lag}
    return found


def built(imported: Imported, estimated: Vehicle | None = None) -> Vehicle:
    """The vehicle of a file; what the file lacks is as `estimated` has it, each number with that one's source and spread

    Rotors are matched by their places, or by their order where the file has none. Of the effects that are off unless named,
    those of `estimated` are on too where the file says nothing of them. A VehicleError names all that is lacking where there is
    nothing to take it from.
    """
    lacking = [each for each in imported.lacking if each == "arm" or estimated is None]
    if lacking:
        besides = "--diagonal" if lacking == ["arm"] else "--like another vehicle, or --motors, --props and --battery"
        raise VehicleError(
            f"{imported.origin}: {imported.format} does not say {', '.join(lacking)}: expected {besides}"
        )
    if estimated is not None and imported.rotors and len(estimated.rotors) != len(imported.rotors):
        raise VehicleError(
            f"{imported.origin}: has {len(imported.rotors)} rotors, and {estimated.name}, from which the rest is taken, "
            f"{len(estimated.rotors)}: expected as many"
        )
    estimated = _aligned(estimated, imported) if estimated else None
    imported = related(imported, estimated)
    taken = _Taken(imported, estimated)
    rotors = tuple(taken.rotor(i) for i in range(len(imported.rotors) or len(taken.others)))
    effects = taken.effects()
    if imported.gravity:
        effects["gravity"] = {"acceleration": taken.number("gravity.acceleration", imported.gravity)}
    points = tuple(Vec3(*taken.number("contact.points", own)) for own in imported.feet) or derived_feet(rotors)
    hull = imported.effects.get("body", {}).get("radius")
    return build_vehicle(
        imported.name,
        mass=taken.number("body.mass", imported.mass, getattr(estimated, "mass", None)),
        inertia=taken.number("body.inertia", imported.inertia, getattr(estimated, "inertia_B", None)),
        rotors=rotors,
        actuation=taken.actuation,
        battery=taken.battery(),
        contact=ContactShape(points, derived_top(points, rotors, hull.value if isinstance(hull, Estimate) else 0.0)),
        effects=effects,
        provenance=Provenance(
            imported.description or f"from {imported.format}",
            tuple(taken.sources.items()),
            tuple(taken.spreads.items()),
        ),
    )


def _aligned(estimated: Vehicle, imported: Imported) -> Vehicle:
    """The estimated vehicle with its rotors in the file's order: each the one that is nearest in direction of those left"""
    places = [own.position.values for own in imported.rotors if own.position is not None]
    if not places or len(places) != len(estimated.rotors):
        return estimated
    order: list[int] = []
    for place in places:
        left = [i for i in range(len(places)) if i not in order]
        order.append(max(left, key=lambda i, place=place: _alike(place, estimated.rotors[i].r_B)))  # type: ignore[misc]
    numbers = {f"rotors[{old}]": f"rotors[{new}]" for new, old in enumerate(order)}

    def renamed(noted: Iterable[tuple[str, Noted]]) -> tuple[tuple[str, Noted], ...]:
        return tuple((re.sub(r"^rotors\[\d+\]", lambda own: numbers[own[0]], path), value) for path, value in noted)

    structure = replace(
        estimated.structure,
        sources=renamed(estimated.structure.sources),
        spreads=renamed(estimated.structure.spreads),
    )
    return replace(estimated, structure=structure, rotors=tuple(estimated.rotors[i] for i in order))


def _alike(a: Sequence[float], b: Sequence[float]) -> float:
    """a·b / (|a| |b|), of upper and lower rotors with a little for the height"""
    lengths = math.hypot(*a[:2]) * math.hypot(*b[:2])
    flat = (a[0] * b[0] + a[1] * b[1]) / lengths if lengths > 0.0 else 0.0
    return flat + 0.01 * math.copysign(1.0, a[2]) * math.copysign(1.0, b[2])


class _Taken:
    """Every number as it goes into the vehicle, and the sources and spreads that follow it there"""

    def __init__(self, imported: Imported, estimated: Vehicle | None) -> None:
        self.imported, self.estimated = imported, estimated
        self.others: tuple[Rotor, ...] = estimated.rotors if estimated else ()
        self.sources: dict[str, str] = {}
        self.spreads: dict[str, float] = {}
        silent = not any(rotor.motor for rotor in imported.rotors)
        other = estimated.structure.actuation.name if estimated and silent else "normalized"
        self.actuation = imported.actuation or other

    def number(self, path: str, own: Number | None, other: Tree = None) -> Tree:
        """The file's number, or that of the estimated vehicle"""
        if own is not None:
            self.sources[path] = own.how
            if own.spread > 0.0:
                self.spreads[path] = own.spread
            return own.value if isinstance(own, Estimate) else own.values
        if self.estimated is None or other is None:
            raise VehicleError(f"{self.imported.origin}: {self.imported.format} does not say {path}: expected it")
        structure = self.estimated.structure
        said = _noted(structure.sources, path) or [f"as {self.estimated.name} has it"]
        self.sources[path] = f"not in the file; {'; '.join(dict.fromkeys(said))}"
        if spread := max(_noted(structure.spreads, path), default=0.0):
            self.spreads[path] = spread
        return other

    def record(self, path: str, numbers: Record) -> dict[str, Tree]:
        found = {key: self.number(f"{path}.{key}", own) for key, own in numbers.items()}
        return {key: Vec3(*own) if isinstance(own, tuple) and len(own) == 3 else own for key, own in found.items()}

    def rotor(self, i: int) -> Rotor:
        own = self.imported.rotors[i] if self.imported.rotors else ImportedRotor()
        other = self.others[i] if self.others else None
        at = f"rotors[{i}]"
        axis = own.axis if self.imported.rotors else None
        axis_B = Vec3(*self.number(f"{at}.axis", axis, getattr(other, "axis_B", None)))
        spin = other.spin if own.spin is None and other else own.spin
        values = {}
        for key in ("k_thrust", "k_torque", "inertia", "radius"):
            if getattr(own, key) is not None or other or key not in Rotor._field_defaults:
                values[key] = self.number(f"{at}.{key}", getattr(own, key), getattr(other, key, None))
        r_B = Vec3(*self.number(f"{at}.position", own.position, getattr(other, "r_B", None)))
        return Rotor(r_B, axis_B, spin, motor=self.motor(i, own), **values)

    def motor(self, i: int, own: ImportedRotor) -> Lag | DcMotor:
        kind = _motor(self.actuation)
        other = self.others[i].motor if self.others and isinstance(self.others[i].motor, kind) else None
        found = {}
        for key in fields_of(kind):
            if key in own.motor or other or key not in kind._field_defaults:
                path = f"rotors[{i}].motor.{key}"
                found[key] = self.number(path, own.motor.get(key), getattr(other, key, None))
        made: Lag | DcMotor = kind(**found)
        return made

    def battery(self) -> Ideal | tuple[Thevenin, ...] | None:
        own = self.imported.battery
        if own is not None and "voltage" in own:
            return Ideal(**self.record("battery[0]", own))
        there = self.estimated["battery"] if self.estimated and self.estimated.has("battery") else None
        if own is None:
            return there
        other = there[0] if isinstance(there, tuple) and not isinstance(there, Ideal) else None
        found = {
            key: self.number(f"battery[0].{key}", own.get(key), getattr(other, key, None))
            for key in fields_of(Thevenin)
        }
        return (Thevenin(**found),)

    def effects(self) -> dict[str, object]:
        """The tables of the file's effects by name, and those of the estimated vehicle that the file does not mention"""
        tables: dict[str, object] = {}
        for name, values in self.imported.effects.items():
            model = self.imported.models.get(name)
            tables[name] = {**({OPTIONS[name].key: model} if model else {}), **self.record(name, values)}
        if self.estimated is None:
            return tables
        roles = {model.role for name in self.imported.effects for model in OPTIONS[name].models.values()}
        roles &= {Role.ROTOR_AIR}
        for effect, record in zip(self.estimated.structure.effects, self.estimated.parameters, strict=True):
            option = option_of(effect, self.estimated)
            if option is None or option.name in tables or effect.role in roles:
                continue
            tables[option.name] = record
            if len(option.models) > 1:
                model = next(key for key, known in option.models.items() if known is effect)
                tables[option.name] = {option.key: model, **record._asdict()}
            structure, own_table = self.estimated.structure, f"{option.name}."
            self.sources.update(
                (path, f"not in the file; {how}") for path, how in structure.sources if path.startswith(own_table)
            )
            self.spreads.update((path, spread) for path, spread in structure.spreads if path.startswith(own_table))
        return tables


def _noted(noted: Iterable[tuple[str, Noted]], path: str) -> list[Noted]:
    """What is noted of a number, or of the parts that it is made of: a place by arm and azimuth, a table for all rotors"""
    head, _, key = path.rpartition(".")
    shared = re.sub(r"^rotors\[\d+\]\.motor", "motor", re.sub(r"^rotors\[\d+\]$", "rotor", head))
    keys = (key, *(("arm", "azimuth", "height") if key == "position" else ()))
    wanted = {f"{own}.{each}" for own in (head, shared) for each in keys}
    return [value for each, value in noted if each in wanted]


def _motor(actuation: str | None) -> type[Lag] | type[DcMotor]:
    return DcMotor if actuation == "duty" else Lag


def _asked(kind: type[Tree]) -> Iterator[str]:
    """The fields of a record that have no default"""
    return (key for key in fields_of(kind) if key not in kind._field_defaults)
