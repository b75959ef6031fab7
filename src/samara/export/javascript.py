"""A vehicle as an ES module for browsers and Node: no dependency, plain objects, the same traced equations as C.

The rest is the same for every vehicle: the objects and the four stages of RK4.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from samara.compiler.trace.folding_tape import trace_program
from samara.core.atomic_files import write_text
from samara.core.integrate import RK4, unit_quaternions
from samara.core.tree import flatten, unflatten
from samara.core.version import __version__
from samara.export.c_syntax import FUNCTIONS, FunctionBody, LanguageSyntax, Variables, array, comment, literal
from samara.export.field_names import (
    RecordNames,
    describe_command,
    describe_vehicle,
    hover_or_none,
    member_paths,
    vehicle_layout,
)
from samara.physics.multirotor import complete_environment, derivative, state_at_rest, zero_command
from samara.physics.types import Environment, State, Vehicle

JS = LanguageSyntax(
    {operation: f"Math.{name}" for operation, name in FUNCTIONS.items()}, "NaN", "Infinity", "const", "const"
)
RESERVED = frozenset(  # reserved words of JavaScript, and names of local variables
    re.findall(
        r"\w+",
        """
        arguments async await break case catch class const continue debugger default delete do else enum eval
        export extends false finally for function if implements import in instanceof interface let new null
        package private protected public return static super switch this throw true try typeof undefined var
        void while with yield Math NaN Infinity x u e r m p rates at_unit p_W v_W q_WB omega_B rotor_speed rotor
        servo thrust tau_B wind_W air_density ground battery_connected hub_wind_W external_wrenches motor_effectiveness
        """,
    )
)


class ArrayArgument(NamedTuple):
    """An array that a traced function reads or fills: its name, the description of each element, and a template."""

    name: str
    descriptions: Sequence[str]
    template: Any = ()

    @property
    def variables(self) -> Variables:
        return array(self.name, self.descriptions)


def trace_function(
    name: str, function: Callable[..., Any], inputs: Sequence[ArrayArgument], outputs: Sequence[ArrayArgument]
) -> str:
    """Trace `function(*inputs) → outputs`, a nested tuple each, as a JavaScript function that reads and fills arrays."""
    program = trace_program(function, *(argument.template for argument in inputs))
    lines = FunctionBody(
        program, [argument.variables for argument in inputs], [argument.variables for argument in outputs], JS
    ).lines
    return function_text(f"function {name}({', '.join(argument.name for argument in (*inputs, *outputs))})", lines)


def trace_scalar_function(name: str, function: Callable[..., Any], *names: str) -> str:
    """Trace a function of scalars that returns a scalar as an exported JavaScript function."""
    program = trace_program(lambda *scalars: (function(*scalars),), *(0.0 for _ in names))
    *lines, last = FunctionBody(
        program, [Variables([parameter], [parameter]) for parameter in names], [Variables([name], ["return"])], JS
    ).lines
    return function_text(f"export function {name}({', '.join(names)})", [*lines, last.replace("return =", "return", 1)])


def function_text(head: str, lines: Sequence[str]) -> str:
    """Format a function's head and its lines."""
    return "\n".join([f"{head} {{", *(f"  {line}" for line in lines), "}"])


def decimal(value: float) -> str:
    """Return the shortest decimals that read back as the same number."""
    return literal(value, JS).text


def record_text(tree: Any) -> str:
    """Format a nested tuple as an object of its named fields, or as an array."""
    if not isinstance(tree, tuple):
        return decimal(float(tree))
    if hasattr(tree, "_fields"):
        named_values = zip(tree._fields, tree, strict=True)
        return "{ " + ", ".join(f"{name}: {record_text(value)}" for name, value in named_values if value != ()) + " }"
    return f"[{', '.join(record_text(branch) for branch in tree)}]"


def fields(pairs: Iterable[tuple[str, Any]]) -> str:
    """Format an object of named parts, a line each."""
    return "{\n" + "".join(f"  {name}: {record_text(tree)},\n" for name, tree in pairs) + "}"


def copy_functions(name: str, array_name: str, group: Sequence[tuple[str, Any]], *, with_store: bool = False) -> str:
    """Emit copies between an object and the array that loops run over; objects keep their identity and class."""
    paths = member_paths(group)
    loads = [f"{array_name}[{k}] = {name}.{path};" for k, path in enumerate(paths)]
    text = function_text(f"function load_{name}({name}, {array_name})", loads)
    if with_store:
        stores = [f"{name}.{path} = {array_name}[{k}];" for k, path in enumerate(paths)]
        text += "\n\n" + function_text(f"function store_{name}({array_name}, {name})", stores)
    return text


TIMING_SCRIPT = Path(__file__).parent / "js" / "time.mjs"
TIMEOUT_S = 20.0  # [s]


def measure_step_time(module: Path) -> float | None:
    """Return the best time of ten runs [µs per step]; None without Node, or if Node does not support ES modules."""
    node = shutil.which("node")
    if node is None:
        return None
    try:
        process = subprocess.run(
            [node, TIMING_SCRIPT, module.absolute()], capture_output=True, text=True, timeout=TIMEOUT_S
        )
        return float(process.stdout)
    except (ValueError, OSError, subprocess.TimeoutExpired):
        return None


SOURCE_FOLDER = Path(__file__).parent / "js"  # source files that are the same for every vehicle
PACKAGE = json.dumps({"private": True, "type": "module"}, indent=2) + "\n"


def write_js(vehicle: Vehicle, folder: str | Path) -> Path:
    """Write samara_<vehicle>.js and package.json into the folder and return the path of the module."""
    name = f"{js_layout(vehicle).prefix}.js"
    return write_modules({name: js_source(vehicle)}, folder)[0]


def write_modules(texts: Mapping[str, str], folder: str | Path) -> list[Path]:
    """Write ES modules by their file names, each atomically, and return their paths.

    A package.json with "type": "module" is added, so that every version of Node loads them as ES modules; an existing one is
    left unchanged.
    """
    package = {} if (Path(folder) / "package.json").exists() else {"package.json": PACKAGE}
    try:
        for name, text in {**texts, **package}.items():
            write_text(Path(folder) / name, text)
    except OSError as error:
        raise OSError(f"{folder}: cannot be written to ({error.strerror}); expected a folder for modules") from None
    return [Path(folder) / name for name in texts]


def js_layout(vehicle: Vehicle) -> RecordNames:
    """Return the names of the components in JavaScript; the environment has an effectiveness for each motor."""
    return vehicle_layout(vehicle, RESERVED, js_environment(vehicle))


def js_environment(vehicle: Vehicle) -> Environment:
    """Return the environment template: one wind for all hubs, an effectiveness for each motor."""
    return complete_environment(vehicle)._replace(hub_wind_W=())


def js_source(vehicle: Vehicle) -> str:
    """Generate the text of the module; the same vehicle gives the same text."""
    layout, environment = js_layout(vehicle), js_environment(vehicle)
    state, command = state_argument(vehicle), ArrayArgument("u", member_paths(layout.command), zero_command(vehicle))
    environment_argument = ArrayArgument("e", member_paths(layout.environment), environment)
    rates = ArrayArgument("rates", [f"d/dt {path}" for path in state.descriptions])
    parts = [
        comment(*_header_text(vehicle, layout.prefix)),
        f"const NAME = {json.dumps(vehicle.name)};\n"
        f"export const STATES = {len(state.descriptions)}; /* numbers in a state */\n"
        f"export const COMMANDS = {len(command.descriptions)}; /* numbers in a command */\n"
        f"const ENVIRONMENT = {len(environment_argument.descriptions)};\n{runge_kutta()}",
        "/** A state at rest at the origin. */\n" + _exported_function("atRest", fields(layout.state)),
        "/** Still air of sea-level density, level ground at height 0, all motors working, battery connected. */\n"
        + _exported_function("calm", fields(layout.environment)),
        "const CALM = calm();",
        *_hover(vehicle, layout),
        (SOURCE_FOLDER / "vehicle.js").read_text(encoding="utf-8").strip(),
        "/* The objects as arrays. */",
        copy_functions("state", "x", layout.state, with_store=True),
        copy_functions("environment", "e", layout.environment),
        "/* Traced from the equations. */",
        trace_function(
            "rate", lambda s, c, env: (derivative(s, c, vehicle, env),), [state, command, environment_argument], [rates]
        ),
        trace_function(
            "unit", lambda s: (unit_quaternions(s),), [state], [ArrayArgument("at_unit", state.descriptions)]
        ),
    ]
    return "\n\n".join(parts) + "\n"


def state_argument(vehicle: Vehicle) -> ArrayArgument:
    """Return the array x of a state's components, as traced functions take it."""
    return ArrayArgument("x", member_paths(js_layout(vehicle).state), state_at_rest(vehicle))


def runge_kutta() -> str:
    """Return the coefficients of the classical method."""
    nodes = ", ".join(decimal(row[-1] if row else 0.0) for row in RK4.stages)
    weights = ", ".join(map(decimal, RK4.weights))
    return f"const NODE = [{nodes}], WEIGHT = [{weights}]; /* Runge-Kutta */"


def object_text(group: Any, values: Any) -> str:
    """Format an object with a group's names and the leaves of a nested tuple."""
    numbers = iter(flatten(values))
    return fields((name, unflatten(tree, numbers)) for name, tree in group)


def _header_text(vehicle: Vehicle, prefix: str) -> list[str]:
    return [
        *describe_vehicle(vehicle, prefix),
        "A state is an object of plain objects { x, y, z }, { w, x, y, z } and arrays, under the names of Samara's state; a "
        f"command is an array: {describe_command(vehicle)}. environment.motor_effectiveness has one fraction per motor.",
        f"Generated by Samara {__version__} (samara export vehicle --js). Do not edit; change the vehicle or Samara instead.",
    ]


def _exported_function(name: str, text: str) -> str:
    return function_text(f"export function {name}()", f"return {text};".split("\n"))


def _hover(vehicle: Vehicle, layout: RecordNames) -> list[str]:
    trim = hover_or_none(vehicle)
    if trim is None:
        return ["/* No hover function: this vehicle cannot hover level in calm air. */"]
    state, command = trim
    return [
        "/** Level and at rest 1 m above the origin in calm air, and the command that keeps it there. */\n"
        + _exported_function(
            "hover",
            f"{{ state: {object_text(layout.state, _float_leaves(state))}, command: {record_text(tuple(command))} }}",
        )
    ]


def _float_leaves(state: State) -> Any:
    """Convert to floats: a trim may contain NumPy scalars."""
    return tuple(float(x) for x in flatten(state))
