"""What JavaScript says its own way: traced functions over arrays of numbers, and records as plain objects."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from samara.compiler.trace.program import program_of
from samara.export import code
from samara.export.code import FUNCTIONS, Dialect, Places
from samara.export.field_names import members

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
    """An array that a traced function takes or fills: its name, what each number is, and a template of the numbers"""

    name: str
    holds: Sequence[str]
    template: Any = ()

    @property
    def places(self) -> Places:
        return code.array(self.name, self.holds)


def traced(name: str, function: Callable[..., Any], takes: Sequence[Argument], fills: Sequence[Argument]) -> str:
    """`function(*takes) → fills`, a nested tuple each, as a function of JavaScript that reads arrays and fills arrays"""
    program = program_of(function, *(own.template for own in takes))
    lines = code.Body(program, [own.places for own in takes], [own.places for own in fills], JS).lines
    return braced(f"function {name}({', '.join(own.name for own in (*takes, *fills))})", lines)


def traced_scalar(name: str, function: Callable[..., Any], *names: str) -> str:
    """A function of scalars that gives a scalar"""
    program = program_of(lambda *given: (function(*given),), *(0.0 for _ in names))
    *lines, last = code.Body(program, [Places([own], [own]) for own in names], [Places([name], ["return"])], JS).lines
    return braced(f"export function {name}({', '.join(names)})", [*lines, last.replace("return =", "return", 1)])


def braced(head: str, lines: Sequence[str]) -> str:
    """A function's head and its lines"""
    return "\n".join([f"{head} {{", *(f"  {line}" for line in lines), "}"])


def decimal(value: float) -> str:
    """The shortest decimals that read back as the same number"""
    return code.literal(value, JS).text


def record(tree: Any) -> str:
    """A nested tuple as an object of its named fields, or as an array"""
    if not isinstance(tree, tuple):
        return decimal(float(tree))
    if hasattr(tree, "_fields"):
        named = zip(tree._fields, tree, strict=True)
        return "{ " + ", ".join(f"{name}: {record(own)}" for name, own in named if own != ()) + " }"
    return f"[{', '.join(record(branch) for branch in tree)}]"


def fields(pairs: Iterable[tuple[str, Any]]) -> str:
    """An object of named parts, a line each"""
    return "{\n" + "".join(f"  {name}: {record(tree)},\n" for name, tree in pairs) + "}"


def copies(name: str, own: str, group: Sequence[tuple[str, Any]], *, back: bool = False) -> str:
    """Between an object and the array that loops run over; objects keep their identity, whatever class they are of"""
    paths = members(group)
    loads = [f"{own}[{k}] = {name}.{path};" for k, path in enumerate(paths)]
    text = braced(f"function load_{name}({name}, {own})", loads)
    if back:
        stores = [f"{name}.{path} = {own}[{k}];" for k, path in enumerate(paths)]
        text += "\n\n" + braced(f"function store_{name}({own}, {name})", stores)
    return text
