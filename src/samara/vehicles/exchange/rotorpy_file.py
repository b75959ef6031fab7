"""Read RotorPy's parameter files: a Python dict `quad_params`, evaluated without executing code.

    T = k_eta Ω²,  M_z = d k_m Ω²  (d = rotor_directions: the torque on the body, so s = −d),  Ω̇ = (Ω_c − Ω)/tau_m
    H = −Ω (k_d v_x, k_d v_y, k_z v_z) at every hub,     D = −|v| (c_Dx v_x, c_Dy v_y, c_Dz v_z)

`k_h` (translational lift) and `k_flap` have no counterpart and are left out. If c_D differs between the axes, the common part
acts as |v| v and the difference as v|v| along each axis: equal along the axes, slightly less between them.
"""

import ast
import math
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from samara.core.budget import Budget
from samara.core.sanitise import quote_value
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.imported_vehicle import ImportedRotor, ImportedVehicle, Record, UncertainVector
from samara.vehicles.exchange.safe_xml import require_finite
from samara.vehicles.exchange.throttle import typical_radius
from samara.vehicles.parts.uncertain import UncertainValue

Value: TypeAlias = Any
"""A float, a text, an array, or a list or dict of values."""
FUNCTIONS: Mapping[str, Callable[[Value], Value]] = {
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "deg2rad": np.deg2rad,
    "radians": np.radians,
}
CONSTANTS = {"pi": math.pi}
MODULES = ("np", "numpy", "math")
ARRAYS = ("array", "asarray")
OPERATIONS: Mapping[type[ast.operator], Callable[[Value, Value], Value]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
}
MAX_ARRAY_SIZE = 1000
MAX_FILE_BYTES = 100_000
MAX_VALUES = 20_000  # counts a list once for each reference to it


def parse_assignments(text: str, origin: str) -> dict[str, Value]:
    """Return the assigned values by name: floats, texts, NumPy arrays of floats, and dicts and lists of them."""
    budget = Budget(origin, VehicleError, max_bytes=MAX_FILE_BYTES, max_nodes=MAX_VALUES)
    budget.spend_bytes(len(text), "characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        raise VehicleError(
            f"{origin}: is not Python that assigns numbers{f' (line {line})' if line else ''}; expected name = value"
        ) from None
    names: dict[str, Value] = {}
    for node in tree.body:
        try:
            _statement(node, names, origin, budget)
        except (ArithmeticError, RecursionError, ValueError, TypeError) as error:
            if isinstance(error, VehicleError):
                raise
            raise VehicleError(
                f"{origin}: line {node.lineno}: {error or type(error).__name__}; expected numbers"
            ) from None
    return names


def _statement(node: ast.stmt, names: dict[str, Value], origin: str, budget: Budget) -> None:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return  # nothing is imported: np and math are known by name
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        names[node.targets[0].id] = _value(node.value, names, origin, budget)
        return
    raise _code_error(node, origin)


def _code_error(node: ast.AST, origin: str) -> VehicleError:
    code = ast.unparse(node).splitlines()[0][:60]
    return VehicleError(
        f"{origin}: line {getattr(node, 'lineno', 0)}, {code}: expected numbers; no code of a file is executed"
    )


def _copy(value: Value, budget: Budget) -> Value:
    """Copy a named value and count its leaves: lists of lists that share one list would double at every level."""
    budget.spend_nodes(value.size if isinstance(value, np.ndarray) else 1)
    if isinstance(value, list):
        return [_copy(entry, budget) for entry in value]
    return {key: _copy(entry, budget) for key, entry in value.items()} if isinstance(value, dict) else value


def _value(node: ast.expr, names: Mapping[str, Value], origin: str, budget: Budget) -> Value:
    budget.spend_nodes()
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return node.value
        if isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
            return float(node.value)
    elif isinstance(node, ast.Name) and node.id in names:
        return _copy(names[node.id], budget)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        operand = _require_number(_value(node.operand, names, origin, budget), node, origin)
        return -operand if isinstance(node.op, ast.USub) else operand
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        a, b = (
            _require_number(_value(operand, names, origin, budget), node, origin) for operand in (node.left, node.right)
        )
        with np.errstate(all="raise"):
            return _require_small(OPERATIONS[type(node.op)](a, b), node, origin)
    elif isinstance(node, (ast.List, ast.Tuple)):
        return [_value(element, names, origin, budget) for element in node.elts]
    elif isinstance(node, ast.Dict):
        keys = [_value(key_node, names, origin, budget) if key_node else None for key_node in node.keys]
        if all(isinstance(key, (str, float)) for key in keys):
            return {
                key: _value(value_node, names, origin, budget)
                for key, value_node in zip(keys, node.values, strict=True)
            }
    elif isinstance(node, ast.Attribute) and _is_module_attribute(node) and node.attr in CONSTANTS:
        return CONSTANTS[node.attr]
    elif isinstance(node, ast.Call) and _is_module_attribute(node.func) and len(node.args) == 1 and not node.keywords:
        name, argument = node.func.attr, _value(node.args[0], names, origin, budget)  # type: ignore[attr-defined]
        if name in ARRAYS:
            return _require_small(np.array(argument, dtype=float), node, origin)
        if name in FUNCTIONS:
            with np.errstate(all="raise"):
                return FUNCTIONS[name](_require_number(argument, node, origin))
    raise _code_error(node, origin)


def _is_module_attribute(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in MODULES


def _require_number(value: Value, node: ast.expr, origin: str) -> Value:
    if isinstance(value, (float, np.ndarray)):
        return value
    raise _code_error(node, origin)


def _require_small(value: Value, node: ast.expr, origin: str) -> Value:
    if isinstance(value, complex) or (isinstance(value, np.ndarray) and value.size > MAX_ARRAY_SIZE):
        raise _code_error(node, origin)
    return value


FORMAT = "a parameter file of RotorPy"
IGNORED_KEYS = ("k_h", "k_flap")
GRAVITY = 9.81  # [m/s²], RotorPy's


def rotorpy_file(text: str, origin: str) -> ImportedVehicle:
    """Read a vehicle from the text of a parameter file of RotorPy."""
    tables = [
        parameters
        for parameters in parse_assignments(text, origin).values()
        if isinstance(parameters, dict) and "rotor_pos" in parameters
    ]
    if len(tables) != 1:
        raise VehicleError(f"{origin}: has {len(tables)} dicts with 'rotor_pos'; expected {FORMAT}, with one")
    parameters, file = tables[0], Path(origin).name

    def value(key: str, default: float | None = None) -> float:
        if key not in parameters and default is None:
            raise VehicleError(f"{origin}: {key} is missing; expected it in {FORMAT}")
        return require_finite(_unwrap_scalar(parameters.get(key, default)), f"{origin}: {key}")

    def number(key: str) -> UncertainValue:
        return UncertainValue(value(key), 0.0, f"{file}: {key}")

    rows = tuple(value(key) for key in ("Ixx", "Ixy", "Ixz", "Ixy", "Iyy", "Iyz", "Ixz", "Iyz", "Izz"))
    positions, directions = _rotors(parameters, origin)
    motor = {
        "speed_min": number("rotor_speed_min"),
        "speed_max": number("rotor_speed_max"),
        "time_constant_up": number("tau_m"),
        "time_constant_down": number("tau_m"),
    }
    rotors = tuple(
        ImportedRotor(
            position=UncertainVector(position, f"{file}: rotor_pos, {name}"),
            spin=-direction,
            k_thrust=number("k_eta"),
            k_torque=number("k_m"),
            radius=number("rotor_radius") if "rotor_radius" in parameters else typical_radius(abs(value("k_eta"))),
            motor=motor,
        )
        for (name, position), direction in zip(positions, directions, strict=True)
    )
    effects: dict[str, Record] = {}
    if value("k_d", 0.0) or value("k_z", 0.0):
        effects["rotor_drag"] = {
            "coefficient": UncertainValue(value("k_d", 0.0), 0.0, f"{file}: k_d"),
            "axial": UncertainValue(value("k_z", 0.0), 0.0, f"{file}: k_z"),
        }
    drag = tuple(value(key, 0.0) for key in ("c_Dx", "c_Dy", "c_Dz"))
    if any(drag):
        common, source = min(drag), f"{file}: c_Dx, c_Dy, c_Dz"
        effects["drag"] = {
            "isotropic": UncertainValue(common, 0.0, f"{source}; the common part"),
            "quadratic": UncertainVector(
                tuple(coefficient - common for coefficient in drag), f"{source}; less the common part"
            ),
        }
    ignored = [f"{key} = {value(key):g}" for key in IGNORED_KEYS if value(key, 0.0)]
    return ImportedVehicle(
        name=re.sub(r"\W+", "_", Path(origin).stem.removesuffix("_params")) or "rotorpy",
        origin=origin,
        format=FORMAT,
        mass=number("mass"),
        inertia=UncertainVector(rows, f"{file}: Ixx, Ixy, …"),
        rotors=rotors,
        actuation="speed",
        effects=effects,
        gravity=UncertainValue(GRAVITY, 0.0, "RotorPy's multirotor.py"),
        description=f"{file}, from RotorPy",
        notes=(f"left out, without a counterpart: {', '.join(ignored)}",) if ignored else (),
    )


def _unwrap_scalar(value: Value) -> Value:
    return value.item() if isinstance(value, (np.generic, np.ndarray)) and value.size == 1 else value


def _rotors(parameters: Mapping[str, Value], origin: str) -> tuple[list[tuple[str, tuple[float, ...]]], list[int]]:
    positions, directions = parameters["rotor_pos"], parameters.get("rotor_directions")
    if not isinstance(positions, dict) or not positions:
        raise VehicleError(
            f"{origin}: rotor_pos = {quote_value(positions)}: expected a dict with a position for each rotor"
        )
    hubs = []
    for name, position in positions.items():
        numbers = np.asarray(position, dtype=float).ravel() if isinstance(position, (list, np.ndarray)) else np.zeros(0)
        if numbers.size != 3:
            raise VehicleError(f"{origin}: rotor_pos, {name} = {quote_value(position)}: expected three numbers")
        hubs.append((str(name), tuple(require_finite(float(x), f"{origin}: rotor_pos, {name}") for x in numbers)))
    spins = list(np.asarray(directions, dtype=float).ravel()) if isinstance(directions, (list, np.ndarray)) else []
    if len(spins) != len(hubs) or not all(parameters in (-1.0, 1.0) for parameters in spins):
        raise VehicleError(
            f"{origin}: rotor_directions = {quote_value(directions)}: expected 1 or -1 for each of {len(hubs)} rotors"
        )
    rotor_count = _unwrap_scalar(parameters.get("num_rotors", float(len(hubs))))
    if not isinstance(rotor_count, float) or rotor_count != len(hubs):
        raise VehicleError(
            f"{origin}: num_rotors = {quote_value(rotor_count)}: expected {len(hubs)}, the length of rotor_pos"
        )
    return hubs, [int(parameters) for parameters in spins]
