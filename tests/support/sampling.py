"""Arguments for any physics function, drawn from the declarations in its annotations.

`build_case(function, vehicle)` draws nested tuples of floats: random points, and special ones (rest, both ends of every range,
identity, half turns, gimbal lock, unit axes), at which roots and quotients are prone to fail.
"""

import inspect
import math
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np

from samara.core.algebra import Mat3, Quat, Vec3, matrix_from_quat, quat_from_euler
from samara.core.quantity import Increasing, OneOf, Quantity, SymmetricPositive, Unit
from samara.core.tree import flatten, unflatten
from samara.physics.types import Command, Environment, State, Vehicle
from samara.vehicles.loader import vehicle, vehicle_names
from samara.vehicles.trim import hover

RANDOM_POINTS = 6
SPECIAL_ATTITUDES = (
    Quat(1.0, 0.0, 0.0, 0.0),
    Quat(0.0, 1.0, 0.0, 0.0),
    Quat(0.0, 0.0, 1.0, 0.0),
    Quat(0.0, 0.0, 0.0, 1.0),
    quat_from_euler(0.0, math.pi / 2, 0.0),
    quat_from_euler(0.4, -math.pi / 2, 0.9),
)
SPECIAL_AXES = (Vec3(0.0, 0.0, 1.0), Vec3(0.0, 0.0, -1.0), Vec3(1.0, 0.0, 0.0))


class Case(NamedTuple):
    """A function with its structure fixed: `call(numbers)` takes one nested tuple of scalars, `points` are such tuples."""

    name: str
    call: Any
    points: tuple[Any, ...]


class Draw(NamedTuple):
    """How to pick a value: at random, or one of the special points."""

    method: str
    rng: np.random.Generator
    attitude: int = 0

    def number(self, low: float, high: float) -> float:
        if self.method == "random":
            return float(self.rng.uniform(low, high))
        if self.method == "rest":
            return 0.0 if low <= 0.0 <= high else 0.5 * (low + high)
        return low if self.method == "low" else high

    def attitude_value(self) -> Quat:
        if self.method == "random":
            q = self.rng.normal(size=4)
            return Quat(*(float(x) for x in q / np.linalg.norm(q)))
        return SPECIAL_ATTITUDES[self.attitude]

    def axis(self) -> Vec3:
        if self.method == "random":
            v = self.rng.normal(size=3)
            return Vec3(*(float(x) for x in v / np.linalg.norm(v)))
        return SPECIAL_AXES[self.attitude % len(SPECIAL_AXES)]

    def definite(self, low: float, high: float) -> Mat3:
        if self.method != "random":
            return Mat3(low, 0.0, 0.0, 0.0, high, 0.0, 0.0, 0.0, high)
        R = np.array(matrix_from_quat(self.attitude_value())).reshape(3, 3)
        return Mat3(*(float(x) for x in (R @ np.diag(self.rng.uniform(low, high, 3)) @ R.T).reshape(-1)))


def draws(seed: int) -> Iterator[Draw]:
    rng = np.random.default_rng(seed)
    for _ in range(RANDOM_POINTS):
        yield Draw("random", rng)
    for kind in ("rest", "low", "high"):
        for attitude in range(len(SPECIAL_ATTITUDES)):
            yield Draw(kind, rng, attitude)


def sample(hint: Any, draw: Draw, path: str) -> Any:
    """Draw a value of an annotated type; an undeclared type is an error, so the test of its function fails."""
    if get_origin(hint) is Annotated:
        base, declared = get_args(hint)[:2]
        return _draw_declared(base, declared, draw)
    if get_origin(hint) is tuple and get_args(hint)[1:] == (Ellipsis,):
        return tuple(sample(get_args(hint)[0], draw, path) for _ in range(4))
    if isinstance(hint, type) and hasattr(hint, "_fields"):
        return _record(hint, draw, path)
    raise TypeError(f"{path}: {hint} declares no kind and range; write Annotated[..., Quantity(unit, low, high)]")


def _record(record_type: Any, draw: Draw, path: str) -> Any:
    hints = get_type_hints(record_type, include_extras=True)
    opaque = {field for field, hint in hints.items() if hint in (Any, tuple[Any, ...])}
    return record_type(
        **{field: sample(hint, draw, f"{path}.{field}") for field, hint in hints.items() if field not in opaque}
    )


def _draw_declared(base: Any, declared: Any, draw: Draw) -> Any:
    if isinstance(declared, OneOf):
        return float(draw.rng.choice(declared.values))
    if isinstance(declared, SymmetricPositive):
        return draw.definite(declared.low, declared.high)
    if isinstance(declared, Increasing):
        return tuple(float(x) for x in np.linspace(declared.low, declared.high, 4))
    if isinstance(declared, Unit):
        if base is Mat3:
            return matrix_from_quat(draw.attitude_value())
        return draw.attitude_value() if base is Quat else draw.axis()
    assert isinstance(declared, Quantity), declared
    if base in (Vec3, Quat, Mat3):
        numbers = base(*(draw.number(declared.low, declared.high) for _ in base._fields))
        return numbers if base is not Quat or any(numbers) else Quat(1.0, 0.0, 0.0, 0.0)
    return draw.number(declared.low, declared.high)


def structures(function: Any) -> list[str | None]:
    """Return the shipped vehicles to test a function on, one of each structure; [None] if it takes no vehicle."""
    if Vehicle not in get_type_hints(function).values():
        return [None]
    names_by_structure: dict[Any, str] = {}
    for name in vehicle_names():
        structure = vehicle(name).structure
        names_by_structure.setdefault((structure.actuation, structure.effects, structure.inflow), name)
    return list(names_by_structure.values())


def build_case(function: Any, vehicle_name: str | None) -> Case:
    """Return the function at all its points, on a vehicle if it takes one."""
    hints = get_type_hints(function, include_extras=True)
    hints.pop("return", None)
    missing = set(inspect.signature(function).parameters) - set(hints)
    if missing:
        raise TypeError(f"{function.__qualname__}: {', '.join(sorted(missing))} have no annotation")
    seed = sum(function.__qualname__.encode())
    if vehicle_name is not None:
        return _vehicle_case(function, hints, vehicle(vehicle_name), seed)
    points = tuple(
        tuple(sample(hint, draw, f"{function.__qualname__}({name})") for name, hint in hints.items())
        for draw in draws(seed)
    )
    keywords = [name for name, p in inspect.signature(function).parameters.items() if p.kind is p.KEYWORD_ONLY]
    split = len(hints) - len(keywords)

    def call(numbers: Any) -> Any:
        return function(*numbers[:split], **dict(zip(keywords, numbers[split:], strict=True)))

    return Case(function.__qualname__, call, points)


def _vehicle_case(function: Any, hints: dict[str, Any], base_vehicle: Vehicle, seed: int) -> Case:
    names = list(hints)

    def draw_numbers(draw: Draw) -> tuple[Any, ...]:
        return tuple(
            _vehicle_argument(hints[name], base_vehicle, draw, f"{function.__qualname__}({name})") for name in names
        )

    def call(numbers: Any) -> Any:
        arguments = dict(zip(names, numbers, strict=True))
        for name in names:
            if hints[name] is Vehicle:
                mass, inertia_B, rotors, parameters = arguments[name]
                arguments[name] = base_vehicle.replace(
                    mass=mass, inertia_B=inertia_B, rotors=rotors, parameters=parameters
                )
        result = function(**arguments)
        return tuple(result.values()) if isinstance(result, dict) else result

    return Case(
        f"{function.__qualname__}[{base_vehicle.name}]", call, tuple(draw_numbers(draw) for draw in draws(seed))
    )


def _vehicle_argument(hint: Any, base_vehicle: Vehicle, draw: Draw, path: str) -> Any:
    if hint is Vehicle:
        return (base_vehicle.mass, base_vehicle.inertia_B, base_vehicle.rotors, base_vehicle.parameters)
    if hint is State:
        return _vehicle_state(base_vehicle, draw)
    if hint == Command:
        return tuple(draw.number(0.0, 1.0) for _ in range(base_vehicle.command_size))
    if hint is Environment:
        powers = tuple(draw.number(0.0, 1.0) for _ in base_vehicle.rotors)
        winds = tuple(Vec3(*(draw.number(-10.0, 10.0) for _ in range(3))) for _ in base_vehicle.rotors)
        return sample(Environment, draw, path)._replace(hub_wind_W=winds, motor_effectiveness=powers)
    return sample(hint, draw, path)


def _vehicle_state(base_vehicle: Vehicle, draw: Draw) -> State:
    trim, _ = hover(base_vehicle)
    state = _record(State, draw, "State")
    near_ground = state._replace(p_W=state.p_W * 1e-3, v_W=state.v_W * 0.1)
    effects = unflatten(
        trim.effects, iter([x * draw.number(0.5, 1.0) + draw.number(0.0, 1e-3) for x in flatten(trim.effects)])
    )
    speeds = tuple(draw.number(0.0, 1.5 * speed) for speed in trim.rotor_speed)
    return near_ground._replace(rotor_speed=speeds, effects=effects)
