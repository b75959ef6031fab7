"""RotorPy's parameter files: a Python dict `quad_params`, read without running it.

    T = k_eta Ω²,  M_z = d k_m Ω²  (d = rotor_directions: the torque on the body, so s = −d),  Ω̇ = (Ω_c − Ω)/tau_m
    H = −Ω (k_d v_x, k_d v_y, k_z v_z) at every hub,     D = −|v| (c_Dx v_x, c_Dy v_y, c_Dz v_z)

`k_h` (translational lift) and `k_flap` have no counterpart and are left out. Where c_D differs between the axes, the part they
share acts as |v| v and the rest as v|v| along each axis: the same along the axes, a little less between them.
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
from samara.core.sanitise import shown
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.imported_vehicle import Imported, ImportedRotor, Record, Several
from samara.vehicles.exchange.safe_xml import finite
from samara.vehicles.exchange.throttle import typical_radius
from samara.vehicles.parts.uncertain import Estimate

Value: TypeAlias = Any
"""A float, a text, an array, or a list or dict of values"""
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
MAX_VALUES = 20_000  # with those of lists that are named more than once


def assigned(text: str, origin: str) -> dict[str, Value]:
    """The values by name: floats, texts, NumPy arrays of floats, and dicts and lists of them"""
    budget = Budget(origin, VehicleError, max_bytes=MAX_FILE_BYTES, max_nodes=MAX_VALUES)
    budget.spend_bytes(len(text), "characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        raise VehicleError(
            f"{origin}: is no Python that assigns numbers{f' (line {line})' if line else ''}; expected name = value"
        ) from None
    found: dict[str, Value] = {}
    for node in tree.body:
        try:
            _statement(node, found, origin, budget)
        except (ArithmeticError, RecursionError, ValueError, TypeError) as error:
            if isinstance(error, VehicleError):
                raise
            raise VehicleError(
                f"{origin}: line {node.lineno}: {error or type(error).__name__}; expected numbers"
            ) from None
    return found


def _statement(node: ast.stmt, found: dict[str, Value], origin: str, budget: Budget) -> None:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return  # nothing is imported: np and math are known by name
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        found[node.targets[0].id] = _value(node.value, found, origin, budget)
        return
    raise _code(node, origin)


def _code(node: ast.AST, origin: str) -> VehicleError:
    words = ast.unparse(node).splitlines()[0][:60]
    return VehicleError(
        f"{origin}: line {getattr(node, 'lineno', 0)}, {words}: expected numbers; no code of a file is run"
    )


def _copy(value: Value, budget: Budget) -> Value:
    """Copy a named value and count its leaves: lists of lists that share one list would double at every level."""
    budget.spend_nodes(value.size if isinstance(value, np.ndarray) else 1)
    if isinstance(value, list):
        return [_copy(entry, budget) for entry in value]
    return {key: _copy(entry, budget) for key, entry in value.items()} if isinstance(value, dict) else value


def _value(node: ast.expr, found: Mapping[str, Value], origin: str, budget: Budget) -> Value:
    budget.spend_nodes()
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return node.value
        if isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
            return float(node.value)
    elif isinstance(node, ast.Name) and node.id in found:
        return _copy(found[node.id], budget)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        own = _number(_value(node.operand, found, origin, budget), node, origin)
        return -own if isinstance(node.op, ast.USub) else own
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        a, b = (_number(_value(own, found, origin, budget), node, origin) for own in (node.left, node.right))
        with np.errstate(all="raise"):
            return _small(OPERATIONS[type(node.op)](a, b), node, origin)
    elif isinstance(node, (ast.List, ast.Tuple)):
        return [_value(own, found, origin, budget) for own in node.elts]
    elif isinstance(node, ast.Dict):
        keys = [_value(own, found, origin, budget) if own else None for own in node.keys]
        if all(isinstance(key, (str, float)) for key in keys):
            return {key: _value(own, found, origin, budget) for key, own in zip(keys, node.values, strict=True)}
    elif isinstance(node, ast.Attribute) and _of_module(node) and node.attr in CONSTANTS:
        return CONSTANTS[node.attr]
    elif isinstance(node, ast.Call) and _of_module(node.func) and len(node.args) == 1 and not node.keywords:
        name, own = node.func.attr, _value(node.args[0], found, origin, budget)  # type: ignore[attr-defined]
        if name in ARRAYS:
            return _small(np.array(own, dtype=float), node, origin)
        if name in FUNCTIONS:
            with np.errstate(all="raise"):
                return FUNCTIONS[name](_number(own, node, origin))
    raise _code(node, origin)


def _of_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in MODULES


def _number(value: Value, node: ast.expr, origin: str) -> Value:
    if isinstance(value, (float, np.ndarray)):
        return value
    raise _code(node, origin)


def _small(value: Value, node: ast.expr, origin: str) -> Value:
    if isinstance(value, complex) or (isinstance(value, np.ndarray) and value.size > MAX_ARRAY_SIZE):
        raise _code(node, origin)
    return value


FORMAT = "a parameter file of RotorPy"
LEFT_OUT = ("k_h", "k_flap")
GRAVITY = 9.81  # [m/s²], RotorPy's


def rotorpy_file(text: str, origin: str) -> Imported:
    """Read an aircraft from the text of a parameter file of RotorPy"""
    tables = [own for own in assigned(text, origin).values() if isinstance(own, dict) and "rotor_pos" in own]
    if len(tables) != 1:
        raise VehicleError(f"{origin}: has {len(tables)} dicts with 'rotor_pos'; expected {FORMAT}, with one")
    own, file = tables[0], Path(origin).name

    def value(key: str, default: float | None = None) -> float:
        if key not in own and default is None:
            raise VehicleError(f"{origin}: {key} is missing; expected it in {FORMAT}")
        return finite(_plain(own.get(key, default)), f"{origin}: {key}")

    def number(key: str) -> Estimate:
        return Estimate(value(key), 0.0, f"{file}: {key}")

    rows = tuple(value(key) for key in ("Ixx", "Ixy", "Ixz", "Ixy", "Iyy", "Iyz", "Ixz", "Iyz", "Izz"))
    places, turns = _rotors(own, origin)
    motor = {
        "speed_min": number("rotor_speed_min"),
        "speed_max": number("rotor_speed_max"),
        "rise": number("tau_m"),
        "fall": number("tau_m"),
    }
    rotors = tuple(
        ImportedRotor(
            position=Several(place, f"{file}: rotor_pos, {name}"),
            spin=-turn,
            k_thrust=number("k_eta"),
            k_torque=number("k_m"),
            radius=number("rotor_radius") if "rotor_radius" in own else typical_radius(abs(value("k_eta"))),
            motor=motor,
        )
        for (name, place), turn in zip(places, turns, strict=True)
    )
    effects: dict[str, Record] = {}
    if value("k_d", 0.0) or value("k_z", 0.0):
        effects["rotor_drag"] = {
            "coefficient": Estimate(value("k_d", 0.0), 0.0, f"{file}: k_d"),
            "axial": Estimate(value("k_z", 0.0), 0.0, f"{file}: k_z"),
        }
    drag = tuple(value(key, 0.0) for key in ("c_Dx", "c_Dy", "c_Dz"))
    if any(drag):
        shared, source = min(drag), f"{file}: c_Dx, c_Dy, c_Dz"
        effects["drag"] = {
            "isotropic": Estimate(shared, 0.0, f"{source}; what they share"),
            "quadratic": Several(tuple(each - shared for each in drag), f"{source}; less what they share"),
        }
    left = [f"{key} = {value(key):g}" for key in LEFT_OUT if value(key, 0.0)]
    return Imported(
        name=re.sub(r"\W+", "_", Path(origin).stem.removesuffix("_params")) or "rotorpy",
        origin=origin,
        format=FORMAT,
        mass=number("mass"),
        inertia=Several(rows, f"{file}: Ixx, Ixy, …"),
        rotors=rotors,
        actuation="speed",
        effects=effects,
        gravity=Estimate(GRAVITY, 0.0, "RotorPy's multirotor.py"),
        description=f"{file}, from RotorPy",
        notes=(f"left out, for want of a counterpart: {', '.join(left)}",) if left else (),
    )


def _plain(value: Value) -> Value:
    return value.item() if isinstance(value, (np.generic, np.ndarray)) and value.size == 1 else value


def _rotors(own: Mapping[str, Value], origin: str) -> tuple[list[tuple[str, tuple[float, ...]]], list[int]]:
    positions, turns = own["rotor_pos"], own.get("rotor_directions")
    if not isinstance(positions, dict) or not positions:
        raise VehicleError(f"{origin}: rotor_pos = {shown(positions)}: expected a dict with a place for each rotor")
    places = []
    for name, place in positions.items():
        numbers = np.asarray(place, dtype=float).ravel() if isinstance(place, (list, np.ndarray)) else np.zeros(0)
        if numbers.size != 3:
            raise VehicleError(f"{origin}: rotor_pos, {name} = {shown(place)}: expected three numbers")
        places.append((str(name), tuple(finite(float(x), f"{origin}: rotor_pos, {name}") for x in numbers)))
    listed = list(np.asarray(turns, dtype=float).ravel()) if isinstance(turns, (list, np.ndarray)) else []
    if len(listed) != len(places) or not all(own in (-1.0, 1.0) for own in listed):
        raise VehicleError(
            f"{origin}: rotor_directions = {shown(turns)}: expected 1 or -1 for each of {len(places)} rotors"
        )
    said = _plain(own.get("num_rotors", float(len(places))))
    if not isinstance(said, float) or said != len(places):
        raise VehicleError(f"{origin}: num_rotors = {shown(said)}: expected {len(places)}, as many as rotor_pos has")
    return places, [int(own) for own in listed]
