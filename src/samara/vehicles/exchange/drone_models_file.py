"""Read parameter files of drone-models, which Crazyflow uses: a TOML table for every drone, or the same in JSON.

    T = a₁ n + a₂ n²  (n in rpm),   τ = (L M₀·T, L M₁·T, M₂·Q),   f = D v in body axes,   ṅ = c₀ (n_c − n) + c₁ (n_c² − n²)

M is the mixing matrix, so a rotor is at (−L M₁ᵢ, L M₀ᵢ) and spins against M₂ᵢ. T becomes kF Ω² with a thrust curve through both
terms, exact at every speed; Q is matched at hover, and the motor's lag is that of small changes there.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from samara.core.atomic_files import parse_json
from samara.core.sanitise import quote_value
from samara.core.toml import parse_document
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.imported_vehicle import ImportedRotor, ImportedVehicle, Record, UncertainVector
from samara.vehicles.exchange.safe_xml import guard_arithmetic, require_finite, require_positive
from samara.vehicles.parts.uncertain import UncertainValue

FORMAT = "a parameter file of drone-models"
KEYS = ("mass", "L", "J", "rpm2thrust", "rpm2torque", "mixing_matrix")
RAD_S_PER_RPM = math.pi / 30.0  # of one rpm


def drone_models_file(text: str, origin: str, drone: str | None = None) -> ImportedVehicle:
    """Read one drone from the text of a parameter file of drone-models; `drone` selects one of several."""
    with guard_arithmetic(origin):
        return _read_drone(text, origin, drone)


def _read_drone(text: str, origin: str, drone: str | None) -> ImportedVehicle:
    name, table = _table(text, origin, drone)
    file, reader = Path(origin).name, _TableReader(table, f"{origin}: {name}" if name else origin)

    def source(*keys: str) -> str:
        return f"{file}: {f'{name}, ' if name else ''}{', '.join(keys)}"

    mass = require_positive(reader.number("mass"), reader.key_path("mass"), "kg")
    gravity = -reader.numbers("gravity_vec", 3)[2] if "gravity_vec" in table else 9.81
    mixing = reader.matrix("mixing_matrix", 3)
    count = len(mixing[0])
    thrust, torque = reader.numbers("rpm2thrust", 3), reader.numbers("rpm2torque", 3)
    n = _solve_rpm(mass * gravity / count, thrust, reader.key_path("rpm2thrust"))
    speed = n * RAD_S_PER_RPM
    k_thrust = (thrust[1] * n + thrust[2] * n * n) / speed**2
    k_torque = sum(c * n**i for i, c in enumerate(torque)) / speed**2
    coefficients = _dynamics(reader)
    rise, fall = (
        1.0 / require_positive(c0 + 2.0 * c1 * n, reader.key_path("rotor_dyn_coef")) for c0, c1 in coefficients
    )
    low, high = (_solve_rpm(reader.number(key), thrust, reader.key_path(key)) for key in ("thrust_min", "thrust_max"))
    motor: Record = {
        "speed_min": UncertainValue(low * RAD_S_PER_RPM, 0.0, source("thrust_min", "rpm2thrust")),
        "speed_max": UncertainValue(high * RAD_S_PER_RPM, 0.0, source("thrust_max", "rpm2thrust")),
        "time_constant_up": UncertainValue(rise, 0.0, source("rotor_dyn_coef") + "; about hover"),
        "time_constant_down": UncertainValue(fall, 0.0, source("rotor_dyn_coef") + "; about hover"),
    }
    arm = require_positive(reader.number("L"), reader.key_path("L"), "m")
    rotors = []
    for i in range(count):
        if mixing[2][i] not in (-1.0, 1.0):
            raise VehicleError(f"{reader.key_path('mixing_matrix')}, third row = {list(mixing[2])}: expected 1 or -1")
        rotors.append(
            ImportedRotor(
                position=UncertainVector((-arm * mixing[1][i], arm * mixing[0][i], 0.0), source("L", "mixing_matrix")),
                spin=-int(mixing[2][i]),
                k_thrust=UncertainValue(k_thrust, 0.0, source("rpm2thrust") + "; at hover"),
                k_torque=UncertainValue(k_torque, 0.0, source("rpm2torque") + "; at hover"),
                inertia=UncertainValue(reader.number("prop_inertia"), 0.0, source("prop_inertia"))
                if "prop_inertia" in table
                else None,
                radius=UncertainValue(reader.number("prop_radius"), 0.0, source("prop_radius"))
                if "prop_radius" in table
                else None,
                motor=motor,
            )
        )
    effects: dict[str, Record] = {}
    notes = [f"rpm2thrust[0] = {thrust[0]:g} N is left out: no thrust at rest"] if thrust[0] else []
    if thrust[1]:
        effects["thrust_curve"] = {
            "linear": UncertainValue(thrust[1] * n / (k_thrust * speed**2), 0.0, source("rpm2thrust")),
            "speed": UncertainValue(speed, 0.0, source("rpm2thrust", "mass") + "; hover"),
        }
    if "drag_matrix" in table:
        drag = reader.matrix("drag_matrix", 3)
        effects["drag"] = {"linear": UncertainVector(tuple(0.0 - drag[i][i] for i in range(3)), source("drag_matrix"))}
        if any(drag[i][j] for i in range(3) for j in range(len(drag[i])) if i != j):
            notes.append("drag_matrix: only its diagonal is taken")
    return ImportedVehicle(
        name=re.sub(r"\W+", "_", name or Path(origin).stem),
        origin=origin,
        format=FORMAT,
        mass=UncertainValue(mass, 0.0, source("mass")),
        inertia=UncertainVector(tuple(x for row in reader.matrix("J", 3) for x in row), source("J")),
        rotors=tuple(rotors),
        actuation="speed",
        effects=effects,
        gravity=UncertainValue(gravity, 0.0, source("gravity_vec")),
        description=f"{name or file}, from drone-models",
        notes=tuple(notes),
    )


class _TableReader:
    """Typed access to the values of a table; errors are one sentence with the key's path."""

    def __init__(self, values: Mapping[str, object], path: str) -> None:
        self.values, self.path = values, path

    def key_path(self, key: str) -> str:
        return f"{self.path}.{key}"

    def _get(self, key: str) -> Any:
        if key not in self.values:
            raise VehicleError(f"{self.path}: {key} is missing; expected it in {FORMAT}")
        return self.values[key]

    def number(self, key: str) -> float:
        return require_finite(self._get(key), self.key_path(key))

    def numbers(self, key: str, count: int) -> tuple[float, ...]:
        return self._list(self._get(key), key, count)

    def _list(self, value: object, key: str, count: int) -> tuple[float, ...]:
        if not isinstance(value, list) or len(value) != count:
            raise VehicleError(f"{self.key_path(key)} = {quote_value(value)}: expected {count} numbers")
        return tuple(require_finite(element, self.key_path(key)) for element in value)

    def matrix(self, key: str, rows: int) -> tuple[tuple[float, ...], ...]:
        value = self._get(key)
        has_rows = isinstance(value, list) and len(value) == rows and all(isinstance(row, list) for row in value)
        if not has_rows or not 0 < len(value[0]) <= 32:
            raise VehicleError(f"{self.key_path(key)} = {quote_value(value)}: expected {rows} rows of numbers")
        return tuple(self._list(row, key, len(value[0]) if key == "mixing_matrix" else 3) for row in value)


def _table(text: str, origin: str, drone: str | None) -> tuple[str, Mapping[str, object]]:
    """Return the name of a drone and its table; the whole file if it has one drone without a name."""
    if text.lstrip().startswith("{"):
        try:
            entries = parse_json(text)
        except ValueError:
            raise VehicleError(f"{origin}: is not JSON; expected {FORMAT}") from None
    else:
        entries = parse_document(text, origin, VehicleError)
    if "mass" in entries:
        return "", entries
    drones = {key: table for key, table in entries.items() if isinstance(table, dict) and set(KEYS) <= set(table)}
    if not drones:
        raise VehicleError(f"{origin}: has no drone with {', '.join(KEYS)}; expected {FORMAT}")
    if (drone is None and len(drones) > 1) or (drone is not None and drone not in drones):
        raise VehicleError(
            f"{origin}: drone {quote_value(drone or '')}: expected one of {', '.join(list(drones)[:20])}"
        )
    name = drone or next(iter(drones))
    return name, drones[name]


def _dynamics(reader: _TableReader) -> Sequence[tuple[float, float]]:
    """(c₀, c₁) while speeding up, and while slowing down"""
    if "rotor_dyn_coef" in reader.values:
        c = reader.numbers("rotor_dyn_coef", 4)
        return (c[0], c[1]), (c[2], c[3])
    coefficient = reader.number("rotor_dyn_coef_simple")
    return (coefficient, 0.0), (coefficient, 0.0)


def _solve_rpm(thrust: float, curve: Sequence[float], path: str) -> float:
    """n with a₁ n + a₂ n² = T, on the rising branch"""
    if not (curve[2] > 0.0 and thrust >= 0.0):
        raise VehicleError(
            f"{path}: T = {thrust:g} N on {list(curve)}: expected thrust that grows with the square of rpm"
        )
    return (-curve[1] + math.sqrt(curve[1] ** 2 + 4.0 * curve[2] * thrust)) / (2.0 * curve[2])
