"""Parameter files of drone-models, which Crazyflow flies: a TOML table for every drone, or the same in JSON.

    T = a₁ n + a₂ n²  (n in rpm),   τ = (L M₀·T, L M₁·T, M₂·Q),   f = D v in body axes,   ṅ = c₀ (n_c − n) + c₁ (n_c² − n²)

M is the mixing matrix, so a rotor sits at (−L M₁ᵢ, L M₀ᵢ) and turns against M₂ᵢ. T becomes kF Ω² with a thrust curve through
both terms, exact at every speed; Q is met at hover, and the motor's lag is that of small changes there.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from samara.core.atomic_files import parsed
from samara.core.sanitise import shown
from samara.core.toml import document
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.imported_vehicle import Imported, ImportedRotor, Record, Several
from samara.vehicles.exchange.safe_xml import computable, finite, positive
from samara.vehicles.parts.uncertain import Estimate

FORMAT = "a parameter file of drone-models"
KEYS = ("mass", "L", "J", "rpm2thrust", "rpm2torque", "mixing_matrix")
RAD_PER_S = math.pi / 30.0  # of one rpm


def drone_models_file(text: str, origin: str, drone: str | None = None) -> Imported:
    """Read one drone from the text of a parameter file of drone-models; which one, where there are several"""
    with computable(origin):
        return _aircraft(text, origin, drone)


def _aircraft(text: str, origin: str, drone: str | None) -> Imported:
    name, own = _table(text, origin, drone)
    file, read = Path(origin).name, _Reader(own, f"{origin}: {name}" if name else origin)

    def how(*keys: str) -> str:
        return f"{file}: {f'{name}, ' if name else ''}{', '.join(keys)}"

    mass = positive(read.number("mass"), read.at("mass"), "kg")
    gravity = -read.list("gravity_vec", 3)[2] if "gravity_vec" in own else 9.81
    mixing = read.matrix("mixing_matrix", 3)
    count = len(mixing[0])
    thrust, torque = read.list("rpm2thrust", 3), read.list("rpm2torque", 3)
    n = _rpm_for(mass * gravity / count, thrust, read.at("rpm2thrust"))
    speed = n * RAD_PER_S
    k_thrust = (thrust[1] * n + thrust[2] * n * n) / speed**2
    k_torque = sum(c * n**i for i, c in enumerate(torque)) / speed**2
    coefficients = _dynamics(read)
    rise, fall = (1.0 / positive(c0 + 2.0 * c1 * n, read.at("rotor_dyn_coef")) for c0, c1 in coefficients)
    low, high = (_rpm_for(read.number(key), thrust, read.at(key)) for key in ("thrust_min", "thrust_max"))
    motor: Record = {
        "speed_min": Estimate(low * RAD_PER_S, 0.0, how("thrust_min", "rpm2thrust")),
        "speed_max": Estimate(high * RAD_PER_S, 0.0, how("thrust_max", "rpm2thrust")),
        "rise": Estimate(rise, 0.0, how("rotor_dyn_coef") + "; about hover"),
        "fall": Estimate(fall, 0.0, how("rotor_dyn_coef") + "; about hover"),
    }
    arm = positive(read.number("L"), read.at("L"), "m")
    rotors = []
    for i in range(count):
        if mixing[2][i] not in (-1.0, 1.0):
            raise VehicleError(f"{read.at('mixing_matrix')}, third row = {list(mixing[2])}: expected 1 or -1")
        rotors.append(
            ImportedRotor(
                position=Several((-arm * mixing[1][i], arm * mixing[0][i], 0.0), how("L", "mixing_matrix")),
                spin=-int(mixing[2][i]),
                k_thrust=Estimate(k_thrust, 0.0, how("rpm2thrust") + "; at hover"),
                k_torque=Estimate(k_torque, 0.0, how("rpm2torque") + "; at hover"),
                inertia=Estimate(read.number("prop_inertia"), 0.0, how("prop_inertia"))
                if "prop_inertia" in own
                else None,
                radius=Estimate(read.number("prop_radius"), 0.0, how("prop_radius")) if "prop_radius" in own else None,
                motor=motor,
            )
        )
    effects: dict[str, Record] = {}
    notes = [f"rpm2thrust[0] = {thrust[0]:g} N is left out: no thrust at rest"] if thrust[0] else []
    if thrust[1]:
        effects["thrust_curve"] = {
            "linear": Estimate(thrust[1] * n / (k_thrust * speed**2), 0.0, how("rpm2thrust")),
            "speed": Estimate(speed, 0.0, how("rpm2thrust", "mass") + "; hover"),
        }
    if "drag_matrix" in own:
        drag = read.matrix("drag_matrix", 3)
        effects["drag"] = {"linear": Several(tuple(0.0 - drag[i][i] for i in range(3)), how("drag_matrix"))}
        if any(drag[i][j] for i in range(3) for j in range(len(drag[i])) if i != j):
            notes.append("drag_matrix: only its diagonal is taken")
    return Imported(
        name=re.sub(r"\W+", "_", name or Path(origin).stem),
        origin=origin,
        format=FORMAT,
        mass=Estimate(mass, 0.0, how("mass")),
        inertia=Several(tuple(x for row in read.matrix("J", 3) for x in row), how("J")),
        rotors=tuple(rotors),
        actuation="speed",
        effects=effects,
        gravity=Estimate(gravity, 0.0, how("gravity_vec")),
        description=f"{name or file}, from drone-models",
        notes=tuple(notes),
    )


class _Reader:
    """Numbers of a table, each by its key, or one sentence about it"""

    def __init__(self, own: Mapping[str, object], where: str) -> None:
        self.own, self.where = own, where

    def at(self, key: str) -> str:
        return f"{self.where}.{key}"

    def _get(self, key: str) -> Any:
        if key not in self.own:
            raise VehicleError(f"{self.where}: {key} is missing; expected it in {FORMAT}")
        return self.own[key]

    def number(self, key: str) -> float:
        return finite(self._get(key), self.at(key))

    def list(self, key: str, count: int) -> tuple[float, ...]:
        return self._list(self._get(key), key, count)

    def _list(self, value: object, key: str, count: int) -> tuple[float, ...]:
        if not isinstance(value, list) or len(value) != count:
            raise VehicleError(f"{self.at(key)} = {shown(value)}: expected {count} numbers")
        return tuple(finite(own, self.at(key)) for own in value)

    def matrix(self, key: str, rows: int) -> tuple[tuple[float, ...], ...]:
        value = self._get(key)
        fits = isinstance(value, list) and len(value) == rows and all(isinstance(own, list) for own in value)
        if not fits or not 0 < len(value[0]) <= 32:
            raise VehicleError(f"{self.at(key)} = {shown(value)}: expected {rows} rows of numbers")
        return tuple(self._list(own, key, len(value[0]) if key == "mixing_matrix" else 3) for own in value)


def _table(text: str, origin: str, drone: str | None) -> tuple[str, Mapping[str, object]]:
    """The name of a drone and its table; the whole file where it holds one drone without a name"""
    if text.lstrip().startswith("{"):
        try:
            said = parsed(text)
        except ValueError:
            raise VehicleError(f"{origin}: is not JSON; expected {FORMAT}") from None
    else:
        said = document(text, origin, VehicleError)
    if "mass" in said:
        return "", said
    drones = {key: own for key, own in said.items() if isinstance(own, dict) and set(KEYS) <= set(own)}
    if not drones:
        raise VehicleError(f"{origin}: has no drone with {', '.join(KEYS)}; expected {FORMAT}")
    if (drone is None and len(drones) > 1) or (drone is not None and drone not in drones):
        raise VehicleError(f"{origin}: drone {shown(drone or '')}: expected one of {', '.join(list(drones)[:20])}")
    name = drone or next(iter(drones))
    return name, drones[name]


def _dynamics(read: _Reader) -> Sequence[tuple[float, float]]:
    """(c₀, c₁) of speeding up, and of slowing down"""
    if "rotor_dyn_coef" in read.own:
        c = read.list("rotor_dyn_coef", 4)
        return (c[0], c[1]), (c[2], c[3])
    simple = read.number("rotor_dyn_coef_simple")
    return (simple, 0.0), (simple, 0.0)


def _rpm_for(thrust: float, curve: Sequence[float], where: str) -> float:
    """n with a₁ n + a₂ n² = T, the one at which thrust grows"""
    if not (curve[2] > 0.0 and thrust >= 0.0):
        raise VehicleError(
            f"{where}: T = {thrust:g} N on {list(curve)}: expected thrust that grows with the square of rpm"
        )
    return (-curve[1] + math.sqrt(curve[1] ** 2 + 4.0 * curve[2] * thrust)) / (2.0 * curve[2])
