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

from samara.compiler.trace.program import program_of
from samara.core.atomic_files import write_text
from samara.core.integrate import RK4, unit_quaternions
from samara.core.tree import flatten, unflatten
from samara.core.version import __version__
from samara.export.c_syntax import FUNCTIONS, Body, Dialect, Places, array, comment, literal
from samara.export.field_names import Layout, about_command, about_vehicle, layout_of, members, trim_of
from samara.physics.multirotor import at_rest, derivative, empty_command, environment_of
from samara.physics.types import Environment, State, Vehicle

JS = Dialect({operation: f"Math.{name}" for operation, name in FUNCTIONS.items()}, "NaN", "Infinity", "const", "const")
RESERVED = frozenset(  # words of JavaScript, and the names of locals
    re.findall(
        r"\w+",
        """
        arguments async await break case catch class const continue debugger default delete do else enum eval
        export extends false finally for function if implements import in instanceof interface let new null
        package private protected public return static super switch this throw true try typeof undefined var
        void while with yield Math NaN Infinity x u e r m p rates at_unit p_W v_W q_WB omega_B rotor_speed rotor
        servo thrust tau_B wind_W air_density ground battery_connected hub_wind_W pushes motor_power
        """,
    )
)


class Argument(NamedTuple):
    """An array that a traced function reads or fills: its name, the description of each element, and a template."""

    name: str
    holds: Sequence[str]
    template: Any = ()

    @property
    def places(self) -> Places:
        return array(self.name, self.holds)


def traced(name: str, function: Callable[..., Any], takes: Sequence[Argument], fills: Sequence[Argument]) -> str:
    """Trace `function(*takes) → fills`, a nested tuple each, as a JavaScript function that reads and fills arrays."""
    program = program_of(function, *(argument.template for argument in takes))
    lines = Body(program, [argument.places for argument in takes], [argument.places for argument in fills], JS).lines
    return braced(f"function {name}({', '.join(argument.name for argument in (*takes, *fills))})", lines)


def traced_scalar(name: str, function: Callable[..., Any], *names: str) -> str:
    """Trace a function of scalars that returns a scalar as an exported JavaScript function."""
    program = program_of(lambda *scalars: (function(*scalars),), *(0.0 for _ in names))
    *lines, last = Body(
        program, [Places([parameter], [parameter]) for parameter in names], [Places([name], ["return"])], JS
    ).lines
    return braced(f"export function {name}({', '.join(names)})", [*lines, last.replace("return =", "return", 1)])


def braced(head: str, lines: Sequence[str]) -> str:
    """Format a function's head and its lines."""
    return "\n".join([f"{head} {{", *(f"  {line}" for line in lines), "}"])


def decimal(value: float) -> str:
    """Return the shortest decimals that read back as the same number."""
    return literal(value, JS).text


def record(tree: Any) -> str:
    """Format a nested tuple as an object of its named fields, or as an array."""
    if not isinstance(tree, tuple):
        return decimal(float(tree))
    if hasattr(tree, "_fields"):
        named_values = zip(tree._fields, tree, strict=True)
        return "{ " + ", ".join(f"{name}: {record(value)}" for name, value in named_values if value != ()) + " }"
    return f"[{', '.join(record(branch) for branch in tree)}]"


def fields(pairs: Iterable[tuple[str, Any]]) -> str:
    """Format an object of named parts, a line each."""
    return "{\n" + "".join(f"  {name}: {record(tree)},\n" for name, tree in pairs) + "}"


def copies(name: str, array_name: str, group: Sequence[tuple[str, Any]], *, back: bool = False) -> str:
    """Emit copies between an object and the array that loops run over; objects keep their identity and class."""
    paths = members(group)
    loads = [f"{array_name}[{k}] = {name}.{path};" for k, path in enumerate(paths)]
    text = braced(f"function load_{name}({name}, {array_name})", loads)
    if back:
        stores = [f"{name}.{path} = {array_name}[{k}];" for k, path in enumerate(paths)]
        text += "\n\n" + braced(f"function store_{name}({array_name}, {name})", stores)
    return text


SCRIPT = Path(__file__).parent / "js" / "time.mjs"
PATIENCE = 20.0  # [s]


def microseconds_a_step(module: Path) -> float | None:
    """Return the best time of ten runs [µs per step]; None without Node, or if Node does not support ES modules."""
    node = shutil.which("node")
    if node is None:
        return None
    try:
        process = subprocess.run([node, SCRIPT, module.absolute()], capture_output=True, text=True, timeout=PATIENCE)
        return float(process.stdout)
    except (ValueError, OSError, subprocess.TimeoutExpired):
        return None


OWN = Path(__file__).parent / "js"  # source files that are the same for every vehicle
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


def js_layout(vehicle: Vehicle) -> Layout:
    """Return the names of the components in JavaScript; the environment has a power for each motor."""
    return layout_of(vehicle, RESERVED, js_environment(vehicle))


def js_environment(vehicle: Vehicle) -> Environment:
    """Return the environment template: one wind for all hubs, a power for each motor."""
    return environment_of(vehicle)._replace(hub_wind_W=())


def js_source(vehicle: Vehicle) -> str:
    """Generate the text of the module; the same vehicle gives the same text."""
    layout, environment = js_layout(vehicle), js_environment(vehicle)
    state, command = state_argument(vehicle), Argument("u", members(layout.command), empty_command(vehicle))
    environment_argument = Argument("e", members(layout.environment), environment)
    rates = Argument("rates", [f"d/dt {path}" for path in state.holds])
    parts = [
        comment(*_about(vehicle, layout.prefix)),
        f"const NAME = {json.dumps(vehicle.name)};\n"
        f"export const STATES = {len(state.holds)}; /* numbers in a state */\n"
        f"export const COMMANDS = {len(command.holds)}; /* numbers in a command */\n"
        f"const ENVIRONMENT = {len(environment_argument.holds)};\n{runge_kutta()}",
        "/** A state at rest in the origin. */\n" + _exported_function("atRest", fields(layout.state)),
        "/** Still air of sea-level density, level ground at height 0, all motors and the battery well. */\n"
        + _exported_function("calm", fields(layout.environment)),
        "const CALM = calm();",
        *_hover(vehicle, layout),
        (OWN / "vehicle.js").read_text(encoding="utf-8").strip(),
        "/* The objects as arrays. */",
        copies("state", "x", layout.state, back=True),
        copies("environment", "e", layout.environment),
        "/* Traced from the equations. */",
        traced(
            "rate", lambda s, c, env: (derivative(s, c, vehicle, env),), [state, command, environment_argument], [rates]
        ),
        traced("unit", lambda s: (unit_quaternions(s),), [state], [Argument("at_unit", state.holds)]),
    ]
    return "\n\n".join(parts) + "\n"


def state_argument(vehicle: Vehicle) -> Argument:
    """Return the array x of a state's components, as traced functions take it."""
    return Argument("x", members(js_layout(vehicle).state), at_rest(vehicle))


def runge_kutta() -> str:
    """Return the coefficients of the classical method."""
    nodes = ", ".join(decimal(row[-1] if row else 0.0) for row in RK4.stages)
    weights = ", ".join(map(decimal, RK4.weights))
    return f"const NODE = [{nodes}], WEIGHT = [{weights}]; /* Runge-Kutta */"


def shaped(group: Any, values: Any) -> str:
    """Format an object with a group's names and the leaves of a nested tuple."""
    numbers = iter(flatten(values))
    return fields((name, unflatten(tree, numbers)) for name, tree in group)


def _about(vehicle: Vehicle, prefix: str) -> list[str]:
    return [
        *about_vehicle(vehicle, prefix),
        "A state is an object of plain objects { x, y, z }, { w, x, y, z } and arrays, under the names of Samara's state; a "
        f"command is an array: {about_command(vehicle)}. environment.motor_power is what is left of each motor: 0 has failed.",
        f"Generated by Samara {__version__} (samara export vehicle --js); changes belong into the vehicle or into Samara.",
    ]


def _exported_function(name: str, text: str) -> str:
    return braced(f"export function {name}()", f"return {text};".split("\n"))


def _hover(vehicle: Vehicle, layout: Layout) -> list[str]:
    trim = trim_of(vehicle)
    if trim is None:
        return ["/* No hover here: this vehicle cannot hold still and level in calm air. */"]
    state, command = trim
    return [
        "/** Level and at rest 1 m above the origin in calm air, and the command that keeps it there. */\n"
        + _exported_function(
            "hover", f"{{ state: {shaped(layout.state, _plain(state))}, command: {record(tuple(command))} }}"
        )
    ]


def _plain(state: State) -> Any:
    """Convert to floats: a trim may contain NumPy scalars."""
    return tuple(float(x) for x in flatten(state))
