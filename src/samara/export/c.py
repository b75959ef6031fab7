"""A vehicle as C99 for programs without Python: one header, one source, no library except the elementary functions.

The equations are emitted from traced programs of the Python source. The rest is the same for every vehicle: the structs, the
four stages of RK4 and the product of sparse Jacobians with sensitivities.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from samara.compiler.derivatives.forward import jacobian_program
from samara.compiler.trace.folding_tape import trace_program
from samara.compiler.trace.program import Program
from samara.core.algebra import Quat, Vec3
from samara.core.atomic_files import write_text
from samara.core.integrate import RK4, unit_quaternions
from samara.core.tree import flatten
from samara.core.version import __version__
from samara.export.c_syntax import FUNCTIONS, WIDTH, Variables, array, braces, c_lines, comment, decimal
from samara.export.field_names import (
    FIELD_DESCRIPTIONS,
    RecordNames,
    describe_command,
    describe_vehicle,
    hover_or_none,
    identifier,
    member_paths,
    vehicle_layout,
)
from samara.physics.effect import Effect
from samara.physics.multirotor import derivative, state_at_rest, zero_command
from samara.physics.types import CALM, Command, Environment, State, Vehicle

RESERVED = set(FUNCTIONS.values()) | set(  # reserved words of C and C++, and names of local variables
    re.findall(
        r"\w+",
        """
        alignas alignof and asm auto bool break case catch char class compl const constexpr continue decltype
        default delete do double else enum explicit export extern false final float for friend goto if inline
        int long mutable namespace new noexcept not nullptr operator or override private protected public
        register restrict return short signed sizeof static struct switch template this throw true try typedef
        typeid typename union unsigned using virtual void volatile wchar_t while xor x u e rates jacobian
        at_unit p_W v_W q_WB omega_B rotor_speed rotor thrust tau_B wind_W air_density ground battery_connected
        j0 j1 jn y0 y1 yn
        """,
    )
)


class Sources(NamedTuple):
    """The files of a vehicle: their name without endings, and the text of header, source and README."""

    name: str
    header: str
    source: str
    readme: str


def write_c(vehicle: Vehicle, folder: str | Path) -> tuple[Path, Path]:
    """Write samara_<vehicle>.h, .c and _README.md into the folder, each atomically; return the paths of header and source."""
    sources = c_sources(vehicle)
    header, source = Path(folder) / f"{sources.name}.h", Path(folder) / f"{sources.name}.c"
    try:
        write_text(header, sources.header)
        write_text(source, sources.source)
        write_text(Path(folder) / f"{sources.name}_README.md", sources.readme)
    except OSError as error:
        raise OSError(f"{folder}: cannot be written to ({error.strerror}); expected a folder for C files") from None
    return header, source


def c_sources(vehicle: Vehicle) -> Sources:
    """Generate the text of the files; the same vehicle gives the same text."""
    layout = vehicle_layout(vehicle, RESERVED)
    code = _code(vehicle, layout)
    header, source = _header(vehicle, layout, code), _source(vehicle, layout, code)
    return Sources(layout.prefix, header, source, _readme(vehicle, layout, code))


class _Structs:
    """The struct types that nested tuples become, each defined once, before it is used."""

    def __init__(self, prefix: str, effects: Sequence[Effect]) -> None:
        self.prefix = prefix
        self.descriptions = FIELD_DESCRIPTIONS | {
            identifier(effect.name, RESERVED): effect.state_description for effect in effects
        }
        self.definitions: dict[str, str] = {}

    def c_type(self, tree: Any) -> tuple[str, str]:
        """Return a C type and the array suffix of a member: ('double', '[4]')."""
        if not isinstance(tree, tuple):
            return "double", ""
        if not hasattr(tree, "_fields"):
            element_type, length = self.c_type(tree[0])
            return element_type, f"[{len(tree)}]{length}"
        record = type(tree)
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", record.__name__).lower()
        group = [(field, value) for field, value in zip(tree._fields, tree, strict=True) if flatten(value)]
        words = record.__doc__ or ""
        if record in (Vec3, Quat) or words.startswith(
            f"{record.__name__}("
        ):  # self-explanatory, or the docstring that Python generates for a named tuple
            words = ""
        return self.define(name, group, record, words), ""

    def define(self, name: str, group: Sequence[tuple[str, Any]], record: Any, words: str = "") -> str:
        """Define the struct of these members; one of the same name but other members gets a number."""
        if record in (Vec3, Quat):
            lines = [f"    double {', '.join(field for field, _ in group)};"]
        else:
            lines = self._lines(group, record)
        for suffix in range(1, 100):
            type_name = f"{self.prefix}_{name}{suffix if suffix > 1 else ''}"
            text = "\n".join([*([comment(words)] if words else []), "typedef struct {", *lines, f"}} {type_name};"])
            if self.definitions.setdefault(type_name, text) == text:
                break
        return type_name

    def _lines(self, group: Sequence[tuple[str, Any]], record: Any) -> list[str]:
        hints = get_type_hints(record, include_extras=True) if record else {}
        declarations, comments = [], []
        for field, tree in group:
            c_type, length = self.c_type(tree)
            declarations.append(f"    {c_type} {field}{length};")
            unit = _unit(hints.get(field))
            comments.append(
                " ".join(part for part in (self.descriptions.get(field, ""), f"[{unit}]" if unit else "") if part)
            )
        column = max(len(declaration) for declaration in declarations)
        return [
            f"{declaration:{column}} /* {comment} */" if comment else declaration
            for declaration, comment in zip(declarations, comments, strict=True)
        ]


def _unit(hint: Any) -> str:
    """Return the unit that an annotation declares, of a number or of all elements of a tuple."""
    if get_origin(hint) is tuple:
        return _unit(get_args(hint)[0])
    declared = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    unit: str = getattr(declared[0], "unit", "") if declared else ""
    return "" if unit == "1" else unit


# The two files -----------------------------------------------------------------------------------------------------


class _Sparse(NamedTuple):
    """A traced function with its Jacobian: the program outputs the values, then the nonzeros, row by row."""

    program: Program
    rows: tuple[int, ...]
    columns: tuple[int, ...]


def _trace_jacobian(function: Any, by: int, *templates: Any) -> _Sparse:
    """Trace a function and its exact Jacobian by the first `by` of its arguments."""
    sizes = [len(flatten(template)) for template in templates]
    jacobian = jacobian_program(trace_program(lambda *arguments: (function(*arguments),), *templates), sizes, range(by))
    return _Sparse(jacobian.program, jacobian.rows, jacobian.columns)


class _ExportedCode(NamedTuple):
    """The traced functions as C: rates of the state, the rates with their Jacobian, and unit quaternions with theirs."""

    rate: list[str]
    rate_jacobian: list[str]
    unit: list[str]
    unit_jacobian: list[str]
    pattern: _Sparse
    unit_pattern: _Sparse


def _code(vehicle: Vehicle, layout: RecordNames) -> _ExportedCode:
    state, command = state_at_rest(vehicle), zero_command(vehicle)

    def rate(state: State, command: Command, environment: Environment) -> State:
        return derivative(state, command, vehicle, environment)

    x, u, e = (array(name, member_paths(group)) for name, group in zip("xue", layout[1:], strict=True))
    rates, at_unit = array("rates", [f"d/dt {path}" for path in x.descriptions]), array("at_unit", x.descriptions)
    slopes, unit_slopes = _trace_jacobian(rate, 2, state, command, CALM), _trace_jacobian(unit_quaternions, 1, state)
    return _ExportedCode(
        c_lines(trace_program(lambda *arguments: (rate(*arguments),), state, command, CALM), [x, u, e], [rates]),
        c_lines(
            slopes.program,
            [x, u, e],
            [rates, _jacobian_places(slopes, rates.descriptions, [*x.descriptions, *u.descriptions])],
        ),
        c_lines(trace_program(lambda arguments: (unit_quaternions(arguments),), state), [x], [at_unit]),
        c_lines(unit_slopes.program, [x], [at_unit, _jacobian_places(unit_slopes, x.descriptions, x.descriptions)]),
        slopes,
        unit_slopes,
    )


def _jacobian_places(matrix: _Sparse, values: Sequence[str], inputs: Sequence[str]) -> Variables:
    names = [f"{values[row]} by {inputs[column]}" for row, column in zip(matrix.rows, matrix.columns, strict=True)]
    return array("jacobian", names)


def _header(vehicle: Vehicle, layout: RecordNames, code: _ExportedCode) -> str:
    p, capitals = layout.prefix, layout.prefix.upper()
    structs = _Structs(p, vehicle.structure.effects)
    structs.define("vec3", [(f, 0.0) for f in Vec3._fields], Vec3)
    structs.define("quat", [(f, 0.0) for f in Quat._fields], Quat)
    order = "State: its numbers in this order are the rows of A and B and the columns of A."
    structs.define("state", layout.state, State, order)
    structs.define("command", layout.command, None, f"Command: {describe_command(vehicle)}.")
    structs.define(
        "environment", layout.environment, Environment, "Environment: inputs that are constant during a step."
    )
    input_arguments = f"    const {p}_command *command,\n    const {p}_environment *environment,\n"
    parts = [
        comment(*_header_text(vehicle, p)),
        f"#ifndef {capitals}_H\n#define {capitals}_H",
        '#ifdef __cplusplus\nextern "C" {\n#endif',
        f"#define {capitals}_STATES {len(member_paths(layout.state))} /* numbers in a state */\n"
        f"#define {capitals}_COMMANDS {len(member_paths(layout.command))} /* numbers in a command */",
        *structs.definitions.values(),
        "/* Still air of sea-level density, level ground at height 0, battery connected:\n"
        f" *     {p}_environment calm = {capitals}_CALM; */\n"
        f"#define {capitals}_CALM \\\n    {braces(tuple(tree for _, tree in layout.environment))}",
        *_hover_declaration(vehicle, p),
        "/* The rate of change of every number of the state, per second. */\n"
        f"void {p}_derivative(\n    const {p}_state *state,\n{input_arguments}    {p}_state *out);",
        comment(
            "One step of the classical Runge-Kutta method over dt [s], with constant command and environment. The "
            "quaternion is normalised. Numbers that are not finite are not detected: they propagate."
        )
        + "\n"
        f"void {p}_step(\n    {p}_state *state,\n{input_arguments}    double dt);",
        comment(
            "The exact Jacobian of that step, row by row: A with respect to the state before the step, B with respect to "
            f"the command. Needs up to {_stack(layout, code)} KB of stack."
        )
        + "\n"
        f"void {p}_linearize(\n    const {p}_state *state,\n{input_arguments}    double dt,\n"
        f"    double A[{capitals}_STATES * {capitals}_STATES],\n"
        f"    double B[{capitals}_STATES * {capitals}_COMMANDS]);",
        "#ifdef __cplusplus\n}\n#endif",
        f"#endif /* {capitals}_H */",
    ]
    return "\n\n".join(parts) + "\n"


def _header_text(vehicle: Vehicle, prefix: str) -> list[str]:
    """Return the text at the top of the header, by paragraphs."""
    return [
        *describe_vehicle(vehicle, prefix),
        "The functions allocate no memory and keep no state between calls: any number of threads may call them. "
        "They need the elementary functions of <math.h> (-lm).",
        f"Generated by Samara {__version__} (samara export c). Do not edit; change the vehicle or Samara instead.",
    ]


def _hover_declaration(vehicle: Vehicle, p: str) -> list[str]:
    if hover_or_none(vehicle) is None:
        return ["/* No hover function: this vehicle cannot hover level in calm air. */"]
    return [
        "/* Level and at rest 1 m above the origin in calm air, and the command that keeps it there. */\n"
        f"void {p}_hover({p}_state *state, {p}_command *command);"
    ]


def _stack(layout: RecordNames, code: _ExportedCode) -> int:
    """Return the stack use of `linearize` in units of 1024 bytes, if every local variable has its own memory."""
    n, m = len(member_paths(layout.state)), len(member_paths(layout.command))
    arrays = (n + m) ** 2 + 2 * n * (n + m) + len(code.pattern.rows) + len(code.unit_pattern.rows)
    return math.ceil((arrays + len(code.rate_jacobian)) * 8 / 1024)


def _source(vehicle: Vehicle, layout: RecordNames, code: _ExportedCode) -> str:
    p, capitals = layout.prefix, layout.prefix.upper()
    numbers = "const double x[STATES], const double u[COMMANDS], const double e[ENVIRONMENT]"
    rows, columns = code.pattern.rows, code.pattern.columns
    parts = [
        comment(
            f"{p}: see the header. Generated by Samara {__version__}; the functions rate, rate_jacobian, unit and "
            "unit_jacobian are traced from its equations."
        ),
        f'#include "{p}.h"\n\n#include <math.h>',
        f"enum {{\n    STATES = {capitals}_STATES,\n    COMMANDS = {capitals}_COMMANDS,\n"
        f"    ENVIRONMENT = {len(member_paths(layout.environment))},\n    INPUTS = STATES + COMMANDS,\n"
        f"    NONZEROS = {len(rows)},\n    UNIT_NONZEROS = {len(code.unit_pattern.rows)}\n}};",
        "/* Runge-Kutta coefficients: the node and the weight of each stage. */\n"
        f"static const double NODE[] = {braces(tuple(row[-1] if row else 0.0 for row in RK4.stages))};\n"
        f"static const double WEIGHT[] = {braces(RK4.weights)};",
        "/* Positions of the Jacobians' nonzero entries. */\n"
        + _table("ROW", "NONZEROS", rows)
        + _table("COLUMN", "NONZEROS", columns)
        + _table("UNIT_ROW", "UNIT_NONZEROS", code.unit_pattern.rows)
        + _table("UNIT_COLUMN", "UNIT_NONZEROS", code.unit_pattern.columns),
        _copy_functions(p, layout),
        _function(f"rate({numbers},\n    double rates[STATES])", code.rate),
        _function(
            f"rate_jacobian({numbers},\n    double rates[STATES], double jacobian[NONZEROS])", code.rate_jacobian
        ),
        _function("unit(const double x[STATES], double at_unit[STATES])", code.unit),
        _function(
            "unit_jacobian(const double x[STATES], double at_unit[STATES],\n    double jacobian[UNIT_NONZEROS])",
            code.unit_jacobian,
        ),
        *_hover_definition(vehicle, layout),
        _FUNCTIONS.replace("PREFIX", p).replace("CAPITALS", capitals),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _table(name: str, length: str, numbers: Sequence[int]) -> str:
    rows = wrap(", ".join(str(number) for number in numbers), WIDTH - 4)
    return f"static const unsigned short {name}[{length}] = {{\n    " + "\n    ".join(rows) + "\n};\n"


def _function(signature: str, lines: Sequence[str]) -> str:
    return "\n".join([f"static void {signature}", "{", *(f"    {line}" for line in lines), "}"])


def _copy_functions(p: str, layout: RecordNames) -> str:
    """Emit the copies between structs and the arrays that loops run over."""

    def load_function(name: str, array: str, length: str, group: Sequence[tuple[str, Any]]) -> str:
        lines = [f"    {array}[{k}] = {name}->{path};" for k, path in enumerate(member_paths(group))]
        head = f"static void load_{name}(const {p}_{name} *{name}, double {array}[{length}])"
        return "\n".join([head, "{", *lines, "}"])

    stored = [f"    state->{path} = x[{k}];" for k, path in enumerate(member_paths(layout.state))]
    return "\n\n".join(
        [
            load_function("state", "x", "STATES", layout.state),
            load_function("command", "u", "COMMANDS", layout.command),
            load_function("environment", "e", "ENVIRONMENT", layout.environment),
            "\n".join([f"static void store_state(const double x[STATES], {p}_state *state)", "{", *stored, "}"]),
        ]
    )


def _hover_definition(vehicle: Vehicle, layout: RecordNames) -> list[str]:
    trim = hover_or_none(vehicle)
    if trim is None:
        return []
    lines = [
        f"    {name}->{path} = {decimal(float(value))};"
        for name, group, values in zip(("state", "command"), layout[1:3], trim, strict=True)
        for path, value in zip(member_paths(group), flatten(values), strict=True)
    ]
    p = layout.prefix
    return ["\n".join([f"void {p}_hover({p}_state *state, {p}_command *command)", "{", *lines, "}"])]


_FUNCTIONS = """
void PREFIX_derivative(
    const PREFIX_state *state,
    const PREFIX_command *command,
    const PREFIX_environment *environment,
    PREFIX_state *out)
{
    double x[STATES], u[COMMANDS], e[ENVIRONMENT], k[STATES];

    load_state(state, x);
    load_command(command, u);
    load_environment(environment, e);
    rate(x, u, e, k);
    store_state(k, out);
}

void PREFIX_step(
    PREFIX_state *state,
    const PREFIX_command *command,
    const PREFIX_environment *environment,
    double dt)
{
    double x[STATES], u[COMMANDS], e[ENVIRONMENT], k[STATES] = {0.0}, at[STATES], next[STATES];
    int stage, i;

    load_state(state, x);
    load_state(state, next);
    load_command(command, u);
    load_environment(environment, e);
    for (stage = 0; stage < 4; stage++) {
        for (i = 0; i < STATES; i++)
            at[i] = x[i] + dt * NODE[stage] * k[i];
        rate(at, u, e, k);
        for (i = 0; i < STATES; i++)
            next[i] += dt * WEIGHT[stage] * k[i];
    }
    unit(next, x);
    store_state(x, state);
}

/* product = matrix * dense, the matrix given by its nonzeros */
static void multiply(int nonzeros, const unsigned short row[], const unsigned short column[],
    const double matrix[], double dense[][INPUTS], double product[][INPUTS])
{
    int n, i, j;

    for (i = 0; i < STATES; i++)
        for (j = 0; j < INPUTS; j++)
            product[i][j] = 0.0;
    for (n = 0; n < nonzeros; n++)
        for (j = 0; j < INPUTS; j++)
            product[row[n]][j] += matrix[n] * dense[column[n]][j];
}

/* The step once more, and with every number its slopes by state and command: d_at, d_k, d_next. */
void PREFIX_linearize(
    const PREFIX_state *state,
    const PREFIX_command *command,
    const PREFIX_environment *environment,
    double dt,
    double A[CAPITALS_STATES * CAPITALS_STATES],
    double B[CAPITALS_STATES * CAPITALS_COMMANDS])
{
    double x[STATES], u[COMMANDS], e[ENVIRONMENT], k[STATES] = {0.0}, at[STATES], next[STATES];
    double d_at[INPUTS][INPUTS], d_k[STATES][INPUTS], d_next[STATES][INPUTS];
    double jacobian[NONZEROS], unit_slopes[UNIT_NONZEROS];
    int stage, i, j;

    load_state(state, x);
    load_state(state, next);
    load_command(command, u);
    load_environment(environment, e);
    for (i = 0; i < INPUTS; i++)
        for (j = 0; j < INPUTS; j++)
            d_at[i][j] = i == j ? 1.0 : 0.0;
    for (i = 0; i < STATES; i++)
        for (j = 0; j < INPUTS; j++) {
            d_k[i][j] = 0.0;
            d_next[i][j] = d_at[i][j];
        }
    for (stage = 0; stage < 4; stage++) {
        for (i = 0; i < STATES; i++) {
            at[i] = x[i] + dt * NODE[stage] * k[i];
            for (j = 0; j < INPUTS; j++)
                d_at[i][j] = (i == j ? 1.0 : 0.0) + dt * NODE[stage] * d_k[i][j];
        }
        rate_jacobian(at, u, e, k, jacobian);
        multiply(NONZEROS, ROW, COLUMN, jacobian, d_at, d_k);
        for (i = 0; i < STATES; i++) {
            next[i] += dt * WEIGHT[stage] * k[i];
            for (j = 0; j < INPUTS; j++)
                d_next[i][j] += dt * WEIGHT[stage] * d_k[i][j];
        }
    }
    unit_jacobian(next, x, unit_slopes);
    multiply(UNIT_NONZEROS, UNIT_ROW, UNIT_COLUMN, unit_slopes, d_next, d_k);
    for (i = 0; i < STATES; i++) {
        for (j = 0; j < STATES; j++)
            A[i * STATES + j] = d_k[i][j];
        for (j = 0; j < COMMANDS; j++)
            B[i * COMMANDS + j] = d_k[i][STATES + j];
    }
}
"""


# README ------------------------------------------------------------------------------------------------------------


def _readme(vehicle: Vehicle, layout: RecordNames, code: _ExportedCode) -> str:
    """Return the README: purpose, build, functions, conventions and a complete program."""
    p, hovers = layout.prefix, hover_or_none(vehicle) is not None
    rows = [
        (f"{p}_derivative(state, command, environment, out)", "the rate of every number of the state"),
        (f"{p}_step(state, command, environment, dt)", "one step of RK4 over dt [s]"),
        (f"{p}_linearize(state, command, environment, dt, A, B)", "the exact Jacobian of that step, row by row"),
    ]
    if hovers:
        rows.insert(
            0,
            (
                f"{p}_hover(state, command)",
                "level and at rest 1 m above the origin, and the command that keeps it there",
            ),
        )
    start = (
        f"    {p}_hover(&state, &command);" if hovers else "    state.q_WB.w = 1.0; /* level, at rest at the origin */"
    )
    zero = "" if hovers else " = {0}"
    return f"""# {vehicle.name} in C99

{" ".join(_header_text(vehicle, p)[:1])}

`{p}.h` and `{p}.c` need only a C compiler and its elementary functions (`-lm`). The functions allocate no memory and keep no
state between calls: any number of threads may call them. `{p}_linearize` needs about {_stack(layout, code)} KB of stack.

```
cc -std=c99 -O2 main.c {p}.c -lm -o main
```

| function | result |
|---|---|
{chr(10).join(f"| `{signature}` | {words} |" for signature, words in rows)}

A command is {describe_command(vehicle)}. Double precision, SI units, radians; world axes east-north-up, body axes
forward-left-up; `q_WB` rotates body vectors into the world. The header describes every struct.

```c
#include <stdio.h>

#include "{p}.h"

int main(void)
{{
    {p}_environment environment = {p.upper()}_CALM;
    {p}_state state{zero};
    {p}_command command{zero};
    int millisecond;

{start}
    for (millisecond = 0; millisecond < 1000; millisecond++)
        {p}_step(&state, &command, &environment, 1e-3);
    printf("%.9f %.9f %.9f m\\n", state.p_W.x, state.p_W.y, state.p_W.z);
    return 0;
}}
```

Generated by Samara {__version__} (samara export c). Do not edit; change the vehicle or Samara instead.
"""
