"""A policy as C99 for flight controllers: one header, one source, float, no library but the elementary functions.

The equations are those of `samara.control.policy`, traced; each layer is a loop over a constant table.
"""

import ctypes
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from samara.compiler.trace.program import Instruction, program_of
from samara.control.action_space import OF_ROTORS
from samara.control.policy import policy_controller
from samara.control.policy_file import Policy
from samara.core.algebra import ZERO, Vec3
from samara.core.atomic_files import write_text
from samara.core.block_ops import Layer
from samara.core.quantity import Scalar
from samara.core.tree import flatten
from samara.core.version import __version__
from samara.export.c_syntax import FUNCTIONS, WIDTH, Body, Dialect, Places, Term, array, comment
from samara.physics.frames import enu_from_ned, state_enu_flu_from_ned_frd, yaw_enu_from_ned
from samara.physics.multirotor import at_rest
from samara.physics.rotors.actuator import Lag, lag_step, saturate_speed, speed_from_command
from samara.physics.rotors.propulsion import lag_motors
from samara.physics.types import CALM, Command, Reference, State, Vehicle
from samara.vehicles.trim import hover


class PolicyInputs(NamedTuple):
    """A state, and of a reference the position with its derivatives by time, and the yaw."""

    state: State
    moving: tuple[Vec3, ...]
    yaw: Scalar


class Units(NamedTuple):
    """The comments in the header about each input, and about the output."""

    p: str = "[m]"
    v: str = "[m/s], world axes"
    q: str = ""
    omega: str = "[rad/s], body axes"
    moving: str = ""
    yaw: str = ""
    given: str = ""


class Boundary(NamedTuple):
    """`ours(inputs)` are the inputs in our axes and units; `theirs(command)` the outputs in the caller's order and meaning

    Without `measures_rotors` the C simulates the motors to know the rotor speeds. With a `small_stack` the
    outputs of layers are in static memory.
    """

    frames: str
    units: Units
    ours: Callable[[PolicyInputs], PolicyInputs]
    theirs: Callable[[Command], tuple[Scalar, ...]]
    measures_rotors: bool = True
    small_stack: bool = False


def _ours_from_ned(inputs: PolicyInputs) -> PolicyInputs:
    moving = tuple(map(enu_from_ned, inputs.moving))
    return PolicyInputs(state_enu_flu_from_ned_frd(inputs.state), moving, yaw_enu_from_ned(inputs.yaw))


def _as_it_is(command: Command) -> tuple[Scalar, ...]:
    return tuple(command)


_SI = "Quaternions are Hamilton's, scalar first, from body to world. SI units, radians."
OURS = Boundary(
    f"world: x, y, z up; body: forward, left, up; yaw counter-clockwise from x. {_SI}",
    Units(),
    lambda inputs: inputs,
    _as_it_is,
)
NED = Boundary(
    f"world: north, east, down; body: forward, right, down; yaw clockwise from north. {_SI}",
    Units(),
    _ours_from_ned,
    _as_it_is,
)


class RotorSpeeds(NamedTuple):
    """The speed of each rotor, and the last speed commanded  [rad/s]"""

    speed: tuple[Scalar, ...]
    target: tuple[Scalar, ...]


def motors_in_hover(vehicle: Vehicle) -> tuple[Lag, ...]:
    """The motors, all with a lag behind their command alone; ValueError with one sentence where they are not"""
    kind = vehicle.structure.actuation.name
    known = kind in ("normalized", "speed") and all(isinstance(rotor.motor, Lag) for rotor in vehicle.rotors)
    if not known or vehicle.has("actuator"):
        raise ValueError(
            f"the motors of vehicle {vehicle.name!r} do more than follow their command ({kind}) with a lag, and their speeds "
            "cannot be computed from it; expected motors with time constants and no actuator before them"
        )
    return lag_motors(hover(vehicle)[0], vehicle, CALM)


def commanded_speeds(command: Command, vehicle: Vehicle, motors: tuple[Lag, ...]) -> tuple[Scalar, ...]:
    """Ω that each motor comes to under a command  [rad/s]"""
    speed_of = saturate_speed if vehicle.structure.actuation.name == "speed" else speed_from_command
    return tuple(speed_of(u, motor) for u, motor in zip(command, motors, strict=True))


def resting_rotors(vehicle: Vehicle) -> RotorSpeeds:
    """Rotors at rest, with no command yet"""
    still = tuple(0.0 for _ in vehicle.rotors)
    return RotorSpeeds(still, still)


def advance_rotors(rotors: RotorSpeeds, dt: Scalar, motors: tuple[Lag, ...]) -> RotorSpeeds:
    """A time dt later  [s]"""
    speeds = zip(rotors.speed, rotors.target, motors, strict=True)
    return rotors._replace(speed=tuple(lag_step(speed, target, dt, motor) for speed, target, motor in speeds))


C_FLOAT = Dialect(
    {operation: f"{name}f" for operation, name in FUNCTIONS.items()},
    "NAN",
    "INFINITY",
    "const float",
    "const int",
    "(void){};",
)
PREFIX = "samara_policy"
MOVING = "pvaj"  # of a reference: position and its derivatives
WITHOUT_ROTORS = ("state_error", "raptor", "px4_nn")  # observations that have no speeds of rotors
LITERAL = re.compile(r"(?<![\w.])(\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+)(?![\w.])")
ACTIVATED = {
    "linear": "",
    "relu": "y[i] = total > 0.0f ? total : 0.0f;",
    "sigmoid": "y[i] = 1.0f / (1.0f + expf(-total));",
    "tanh": "y[i] = tanhf(total);",
}


class Exported(NamedTuple):
    """Where the files are, how many numbers the network has, and bytes of memory between calls."""

    header: Path
    source: Path
    parameters: int
    memory_bytes: int


def write_policy_c(
    policy: Policy, vehicle: Vehicle, folder: str | Path, boundary: Boundary = OURS, about: str = ""
) -> Exported:
    """Writes samara_policy.h and .c into the folder, in the axes and units of a boundary; `about` goes into the header"""
    own = policy.fitted(vehicle)
    text, memory, layers = _source(own, vehicle, boundary)
    header, source = Path(folder) / f"{PREFIX}.h", Path(folder) / f"{PREFIX}.c"
    write_text(header, _header(own, vehicle, memory, boundary, about))
    write_text(source, text)
    return Exported(header, source, sum(each.size + each.rows for each in layers), 4 * memory)


def sees_rotors(policy: Policy) -> bool:
    """Whether it matters to it how fast its rotors turn"""
    return policy.observation not in WITHOUT_ROTORS or policy.action not in OF_ROTORS


def read_of_reference(policy: Policy) -> str:
    """What it takes of a reference beside the yaw: p and v, and of one that tracks a and j as well"""
    return MOVING if policy.observation == "tracking" else MOVING[:2]


# The function ---------------------------------------------------------------------------------------------------------


class _Layers(Body):
    """A body whose layers are calls on tables."""

    def __init__(self, *given: Any, small_stack: bool) -> None:
        self.tables: list[Layer] = []
        self.declared = "static float" if small_stack else "float"
        super().__init__(*given)

    def _term(self, instruction: Instruction, inputs: Sequence[Places]) -> Term:
        if instruction.operation == "row":
            return Term(f"{self.terms[instruction.arguments[0]].text}[{instruction.place[1]}]")
        if instruction.layer is None:
            return super()._term(instruction, inputs)
        own, k = instruction.layer, len(self.tables)
        self.tables.append(own)
        given = [self.terms[i].as_number().text for i in instruction.arguments]
        last = f"y{k - 1}"
        if given == [f"{last}[{i}]" for i in range(len(given))] and self.tables[k - 1].rows == len(given):
            x = last
        else:
            x = f"x{k}"
            self.lines += [
                f"{self.declared} {x}[{own.columns}];",
                *(f"{x}[{i}] = {each};" for i, each in enumerate(given)),
            ]
        self.lines += [
            f"{self.declared} y{k}[{own.rows}];",
            f"{own.activation}_layer(&weights_{k}[0][0], bias_{k}, {own.rows}, {own.columns}, {x}, y{k});",
        ]
        return Term(f"y{k}")

    def _give_name(self, i: int) -> None:
        if not re.fullmatch(r"y\d+", self.terms[i].text):  # the rows of a layer have one
            super()._give_name(i)


def _source(policy: Policy, vehicle: Vehicle, boundary: Boundary) -> tuple[str, int, list[Layer]]:
    """The text, how many numbers are remembered, and the layers"""
    controller, resting = policy_controller(policy, vehicle, policy.period), at_rest(vehicle)
    if controller.looks:
        raise ValueError(f"policy {policy.task!r} flies by a depth camera; expected one without pictures to write as C")
    follows = not boundary.measures_rotors and sees_rotors(policy)
    motors = motors_in_hover(vehicle) if follows else ()
    memory = (controller.initial_memory, resting_rotors(vehicle) if follows else ())
    known = resting[:5] if boundary.measures_rotors else resting[:4]
    reads = read_of_reference(policy)
    reference = ((ZERO,) * len(reads), 0.0)

    def act(known: Any, asked: Any, memory: Any, dt: Any) -> Any:
        remembered, turning = memory
        if follows:
            turning = advance_rotors(turning, dt[0], motors)
            known = (*known, turning.speed)
        state, vectors, yaw = boundary.ours(PolicyInputs(State(*known, *resting[len(known) :]), *asked))
        own = replace(controller, period=dt[0])
        wanted = Reference(ZERO)._replace(yaw=yaw, **{f"{name}_W": x for name, x in zip(reads, vectors, strict=True)})
        command, remembered = own(state, wanted, vehicle, remembered)
        if follows:
            turning = turning._replace(target=commanded_speeds(command, vehicle, motors))
        return boundary.theirs(command), (remembered, turning)

    program = program_of(act, known, reference, memory, (0.0,))
    rotors, held = len(vehicle.rotors), len(flatten(memory))
    names = _places(rotors if boundary.measures_rotors else 0, reads)
    inputs = [names[0], names[1], array("memory->held", [f"held[{k}]" for k in range(held)]), Places(["dt"], ["dt"])]
    outputs = [
        array("command", [f"rotor {k}" for k in range(rotors)]),
        array("after", [f"held[{k}]" for k in range(held)]),
    ]
    body = _Layers(program, inputs, outputs, C_FLOAT, small_stack=boundary.small_stack)
    lines = [LITERAL.sub(r"\1f", line) for line in body.lines]
    start = ", ".join(_decimal(x) for x in flatten(memory))
    parts = [
        comment(f"Written by Samara {__version__}; see {PREFIX}.h."),
        f'#include "{PREFIX}.h"\n\n#include <math.h>\n#include <string.h>',
        *(_table(k, own) for k, own in enumerate(body.tables)),
        *(_layer_function(name) for name in dict.fromkeys(own.activation for own in body.tables)),
        f"static const float start[{held}] = {{\n{_wrapped(start)}\n}};",
        f"void {PREFIX}_start({PREFIX}_memory *memory) {{\n    memcpy(memory->held, start, sizeof start);\n}}",
        f"{_signature()} {{\n    float after[{held}];\n"
        + "".join(f"    {line}\n" for line in lines)
        + "    memcpy(memory->held, after, sizeof after);\n}",
    ]
    return "\n\n".join(parts) + "\n", held, body.tables


def _places(rotors: int, reads: str) -> tuple[Places, Places]:
    """The numbers of a state and of a reference, and where they are in the structs"""
    fields = [("p", 3), ("v", 3), ("q", 4), ("omega", 3), ("rotor_speed", rotors)]
    state = [(f"{name}[{k}]", f"state->{name}[{k}]") for name, count in fields for k in range(count)]
    asked = [(f"wanted_{name}[{k}]", f"reference->{name}[{k}]") for name in reads for k in range(3)]
    asked.append(("wanted_yaw", "reference->yaw"))
    return Places(*zip(*state, strict=True)), Places(*zip(*asked, strict=True))


def _signature() -> str:
    return (
        f"void {PREFIX}_act(\n    const {PREFIX}_state *state,\n    const {PREFIX}_reference *reference,\n"
        f"    {PREFIX}_memory *memory,\n    float dt,\n    float command[{PREFIX.upper()}_ROTORS])"
    )


def _header(policy: Policy, vehicle: Vehicle, held: int, boundary: Boundary, about: str) -> str:
    capitals, rotors = PREFIX.upper(), len(vehicle.rotors)
    reads, units = read_of_reference(policy), boundary.units
    whole = (
        f"A policy for {vehicle.name}, trained to {policy.task}: SHA-256 {policy.digest}. Written by Samara {__version__}. "
        f"Frames: {boundary.frames}"
    )
    state = [
        _field("p", 3, units.p),
        _field("v", 3, units.v),
        _field("q", 4, units.q),
        _field("omega", 3, units.omega),
        *([_field("rotor_speed", rotors, "[rad/s]")] if boundary.measures_rotors else []),
    ]
    call = (
        f"{units.given or f'The command of each rotor ({vehicle.structure.actuation.name})'}, dt [s] after the last call. It "
        "may be called more often than in training: what it remembers advances once a period."
    )
    remembered = "What it remembers: the last action, what its recurrent layers hold, and the time left of a period."
    if not boundary.measures_rotors and sees_rotors(policy):
        remembered += " How fast its rotors turn, as their motors follow the commands."
    parts = [
        comment(whole),
        *([comment(about)] if about else []),
        f"#ifndef {capitals}_H\n#define {capitals}_H",
        '#ifdef __cplusplus\nextern "C" {\n#endif',
        f"#define {capitals}_ROTORS {rotors}",
        f"#define {capitals}_PERIOD {_decimal(policy.period)} /* [s] between actions in training */",
        _struct("state", state, _KNOWN if boundary.measures_rotors else "What is known of the drone."),
        _struct(
            "reference",
            [*(_field(name, 3, units.moving if name == "p" else "") for name in reads), _field("yaw", 1, units.yaw)],
            "Where it should be, the derivatives of that by time, and which way it should face.",
        ),
        _struct("memory", [f"float held[{held}];"], remembered),
        f"/* Before the first call. */\nvoid {PREFIX}_start({PREFIX}_memory *memory);",
        f"{comment(call)}\n{_signature()};",
        "#ifdef __cplusplus\n}\n#endif",
        f"#endif /* {capitals}_H */",
    ]
    return "\n\n".join(parts) + "\n"


_KNOWN = "What is known of the drone; rotor speeds in the order of its rotors."


def _field(name: str, count: int, about: str) -> str:
    declared = f"float {name}[{count}];" if count > 1 else f"float {name};"
    return f"{declared} /* {about} */" if about else declared


def _struct(name: str, lines: Sequence[str], about: str) -> str:
    return "\n".join([comment(about), "typedef struct {", *(f"    {line}" for line in lines), f"}} {PREFIX}_{name};"])


def _layer_function(activation: str) -> str:
    """y = f(W x + b), four sums at a time: they do not wait for each other, and round less"""
    last = ACTIVATED[activation] or "y[i] = total;"
    return f"""static void {activation}_layer(
    const float *w, const float *b, int rows, int columns, const float *x, float *y) {{
    for (int i = 0; i < rows; i++, w += columns) {{
        float sums[4] = {{b[i], 0.0f, 0.0f, 0.0f}};
        int j = 0;
        for (; j + 4 <= columns; j += 4) {{
            sums[0] += w[j] * x[j];
            sums[1] += w[j + 1] * x[j + 1];
            sums[2] += w[j + 2] * x[j + 2];
            sums[3] += w[j + 3] * x[j + 3];
        }}
        for (; j < columns; j++) sums[0] += w[j] * x[j];
        const float total = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        {last}
    }}
}}"""


def _table(k: int, own: Layer) -> str:
    rows = ",\n".join(f"    {{{', '.join(map(_decimal, row))}}}" for row in own.weights)
    return (
        f"static const float weights_{k}[{own.rows}][{own.columns}] = {{\n{rows}\n}};\n"
        f"static const float bias_{k}[{own.rows}] = {{\n{_wrapped(', '.join(map(_decimal, own.bias)))}\n}};"
    )


def _decimal(value: float) -> str:
    """Nine digits, which read back as the same float"""
    text = f"{value:.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def _wrapped(text: str) -> str:
    lines, line = [], ""
    for word in text.split(" "):
        if len(line) + len(word) > WIDTH - 6:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "\n".join(f"    {own}" for own in [*lines, line])


class Measured(NamedTuple):
    """Bytes of code, without the weights, as this machine's compiler makes them for size; and the time of a call  [s]"""

    code_bytes: int
    seconds: float


class PolicyInC:
    """`controller(state, reference, vehicle, memory) → command, memory`, called every `period` [s], by the C of a policy

    What the C keeps in its struct is handed on as the memory: one controller flies as many drones as there are.
    """

    def __init__(self, policy: Policy, exported: Exported, library: ctypes.CDLL, period: float) -> None:
        self._library, self._period, self._rotors = library, ctypes.c_float(period), policy.rotors
        self._reads, self._held = read_of_reference(policy), exported.memory_bytes // 4
        start = (ctypes.c_float * self._held)()
        library[f"{PREFIX}_start"](start)
        self.initial_memory = tuple(start)

    def __call__(self, state: State, reference: Reference, vehicle: Vehicle, memory: Any) -> tuple[Command, Any]:
        asked = flatten(tuple(getattr(reference, f"{name}_W") for name in self._reads))
        known, wanted, held = _floats(flatten(state[:5])), _floats([*asked, reference.yaw]), _floats(memory)
        command = (ctypes.c_float * self._rotors)()
        self._library[f"{PREFIX}_act"](known, wanted, held, self._period, command)
        return tuple(command), tuple(held)


def _floats(numbers: Sequence[float]) -> Any:
    return (ctypes.c_float * len(numbers))(*numbers)


def compiled(source: Path, into: Path, *options: str) -> ctypes.CDLL:
    """The C as a library of this machine; FileNotFoundError where there is no compiler"""
    compiler = shutil.which("cc")
    if compiler is None:
        raise FileNotFoundError("no C compiler, cc, on this machine")
    command = [compiler, "-std=c99", "-O2", "-shared", "-fPIC", *options, str(source), "-o", str(into), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"cc: {done.stderr.strip().splitlines()[0] if done.stderr.strip() else done.returncode}")
    return ctypes.CDLL(str(into))


def measured(exported: Exported, calls: int = 2000) -> Measured | None:
    """Size and time on this CPU; None where there is no compiler"""
    with tempfile.TemporaryDirectory() as folder:
        try:
            library = compiled(exported.source, Path(folder) / "policy.so")
        except (FileNotFoundError, RuntimeError):
            return None
        small = Path(folder) / "policy.o"
        made = subprocess.run(
            ["cc", "-std=c99", "-Os", "-c", str(exported.source), "-o", str(small)], capture_output=True, check=False
        )
        code = max(0, small.stat().st_size - 4 * exported.parameters) if made.returncode == 0 else 0
        numbers = [(ctypes.c_float * count)() for count in (64, 16, exported.memory_bytes // 4, 64)]
        numbers[0][6] = 1.0  # of the quaternion
        act, start, dt = library.samara_policy_act, library.samara_policy_start, ctypes.c_float(0.01)
        started = _best(calls, start, numbers[2])  # next to nothing but the call itself
        seconds = _best(calls, act, numbers[0], numbers[1], numbers[2], dt, numbers[3]) - started
    return Measured(code, max(0.0, seconds))


def _best(calls: int, function: Any, *given: Any) -> float:
    """The shortest mean time of a call among ten  [s]"""
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        for _ in range(calls // 10):
            function(*given)
        times.append((time.perf_counter() - begin) / (calls // 10))
    return min(times)
