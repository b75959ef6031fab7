"""Export of policies as C99 for flight controllers: one header and one source file, in float, with no library but
<math.h>.

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

from samara.compiler.trace.folding_tape import trace_program
from samara.compiler.trace.program import Instruction
from samara.control.action_space import ROTOR_ACTIONS
from samara.control.policy import policy_controller
from samara.control.policy_file import Policy
from samara.core.algebra import ZERO, Vec3
from samara.core.atomic_files import write_text
from samara.core.block_ops import Layer
from samara.core.quantity import Scalar
from samara.core.tree import flatten
from samara.core.version import __version__
from samara.export.c_syntax import (
    C_FLOAT,
    FunctionBody,
    Term,
    Variables,
    array,
    comment,
    float_decimal,
    float_literals,
    wrap_words,
)
from samara.physics.frames import enu_from_ned, state_enu_flu_from_ned_frd, yaw_enu_from_ned
from samara.physics.multirotor import state_at_rest
from samara.physics.rotors.actuator import Lag, lag_step, saturate_speed, speed_from_command
from samara.physics.rotors.propulsion import lag_motors
from samara.physics.types import CALM, Command, Reference, State, Vehicle
from samara.vehicles.trim import hover


class PolicyInputs(NamedTuple):
    """A state, and the position of a reference with its time derivatives, and its yaw."""

    state: State
    derivatives: tuple[Vec3, ...]
    yaw: Scalar


class Units(NamedTuple):
    """Comments in the header about each input, and about the output."""

    p: str = "[m]"
    v: str = "[m/s], world axes"
    q: str = ""
    omega: str = "[rad/s], body axes"
    reference: str = ""
    yaw: str = ""
    output: str = ""


class PolicyInterface(NamedTuple):
    """The caller's axes, units and rotor order: `convert_inputs(inputs)` converts to Samara's,
    `convert_command(command)` from Samara's

    Without `measures_rotors` the C code simulates the motors to obtain the rotor speeds. With `small_stack` the
    outputs of layers are in static memory.
    """

    frames: str
    units: Units
    convert_inputs: Callable[[PolicyInputs], PolicyInputs]
    convert_command: Callable[[Command], tuple[Scalar, ...]]
    measures_rotors: bool = True
    small_stack: bool = False


def _enu_inputs_from_ned(inputs: PolicyInputs) -> PolicyInputs:
    derivatives = tuple(map(enu_from_ned, inputs.derivatives))
    return PolicyInputs(state_enu_flu_from_ned_frd(inputs.state), derivatives, yaw_enu_from_ned(inputs.yaw))


def _command_values(command: Command) -> tuple[Scalar, ...]:
    return tuple(command)


_SI = "Quaternions are Hamilton's, scalar first, from body to world. SI units, radians."
ENU = PolicyInterface(
    f"world: x, y, z up; body: forward, left, up; yaw counter-clockwise from x. {_SI}",
    Units(),
    lambda inputs: inputs,
    _command_values,
)
NED = PolicyInterface(
    f"world: north, east, down; body: forward, right, down; yaw clockwise from north. {_SI}",
    Units(),
    _enu_inputs_from_ned,
    _command_values,
)


class RotorSpeeds(NamedTuple):
    """Speed of each rotor, and the speed last commanded  [rad/s]."""

    speed: tuple[Scalar, ...]
    target: tuple[Scalar, ...]


def lag_motors_in_hover(vehicle: Vehicle) -> tuple[Lag, ...]:
    """Return the motors; raise ValueError unless all of them follow their command with a first-order lag."""
    actuation = vehicle.structure.actuation.name
    is_supported = actuation in ("normalized", "speed") and all(
        isinstance(rotor.motor, Lag) for rotor in vehicle.rotors
    )
    if not is_supported or vehicle.has("actuator"):
        raise ValueError(
            f"the motors of vehicle {vehicle.name!r} do more than follow their command ({actuation}) with a lag, and their "
            "speeds cannot be computed from it; expected motors with time constants and no actuator before them"
        )
    return lag_motors(hover(vehicle)[0], vehicle, CALM)


def commanded_speeds(command: Command, vehicle: Vehicle, motors: tuple[Lag, ...]) -> tuple[Scalar, ...]:
    """Ω that each motor converges to under a command  [rad/s]"""
    motor_speed = saturate_speed if vehicle.structure.actuation.name == "speed" else speed_from_command
    return tuple(motor_speed(u, motor) for u, motor in zip(command, motors, strict=True))


def rotors_at_rest(vehicle: Vehicle) -> RotorSpeeds:
    """Return rotors at rest before the first command."""
    zeros = tuple(0.0 for _ in vehicle.rotors)
    return RotorSpeeds(zeros, zeros)


def advance_rotors(rotors: RotorSpeeds, dt: Scalar, motors: tuple[Lag, ...]) -> RotorSpeeds:
    """Advance the rotor speeds by a time dt [s]."""
    speeds = zip(rotors.speed, rotors.target, motors, strict=True)
    return rotors._replace(speed=tuple(lag_step(speed, target, dt, motor) for speed, target, motor in speeds))


C_PREFIX = "samara_policy"
REFERENCE_DERIVATIVES = "pvaj"  # of a reference: position and its derivatives
OBSERVATIONS_WITHOUT_ROTORS = ("state_error", "raptor", "px4_nn")  # observations that contain no rotor speeds
ACTIVATION_CODE = {
    "linear": "",
    "relu": "y[i] = total > 0.0f ? total : 0.0f;",
    "sigmoid": "y[i] = 1.0f / (1.0f + expf(-total));",
    "tanh": "y[i] = tanhf(total);",
}


class ExportedPolicy(NamedTuple):
    """Paths of the files, parameter count of the network, and size of the policy's state in bytes."""

    header: Path
    source: Path
    parameter_count: int
    state_bytes: int


def write_policy_c(
    policy: Policy, vehicle: Vehicle, folder: str | Path, boundary: PolicyInterface = ENU, description: str = ""
) -> ExportedPolicy:
    """Write samara_policy.h and samara_policy.c.

    Args:
        policy: the policy to export.
        vehicle: vehicle that the policy flies.
        folder: directory of the files.
        boundary: axes, units and rotor order of the caller.
        description: comment for the header.
    """
    adapted = policy.adapt(vehicle)
    text, state_size, layers = _source(adapted, vehicle, boundary)
    header, source = Path(folder) / f"{C_PREFIX}.h", Path(folder) / f"{C_PREFIX}.c"
    write_text(header, _header(adapted, vehicle, state_size, boundary, description))
    write_text(source, text)
    return ExportedPolicy(header, source, sum(layer.size + layer.rows for layer in layers), 4 * state_size)


def uses_rotor_speeds(policy: Policy) -> bool:
    """Whether the policy depends on the rotor speeds."""
    return policy.observation not in OBSERVATIONS_WITHOUT_ROTORS or policy.action not in ROTOR_ACTIONS


def reference_derivatives(policy: Policy) -> str:
    """Derivatives of the reference position that the policy reads: p and v, and for tracking also a and j."""
    return REFERENCE_DERIVATIVES if policy.observation == "tracking" else REFERENCE_DERIVATIVES[:2]


# The function ---------------------------------------------------------------------------------------------------------


class _LayerBody(FunctionBody):
    """A function body whose layers are calls with weight tables."""

    def __init__(self, *arguments: Any, small_stack: bool) -> None:
        self.tables: list[Layer] = []
        self.declared = "static float" if small_stack else "float"
        super().__init__(*arguments)

    def _term(self, instruction: Instruction, inputs: Sequence[Variables]) -> Term:
        if instruction.operation == "row":
            return Term(f"{self.terms[instruction.arguments[0]].text}[{instruction.location[1]}]")
        if instruction.layer is None:
            return super()._term(instruction, inputs)
        layer, k = instruction.layer, len(self.tables)
        self.tables.append(layer)
        layer_inputs = [self.terms[i].number_term().text for i in instruction.arguments]
        previous = f"y{k - 1}"
        if layer_inputs == [f"{previous}[{i}]" for i in range(len(layer_inputs))] and self.tables[k - 1].rows == len(
            layer_inputs
        ):
            x = previous
        else:
            x = f"x{k}"
            self.lines += [
                f"{self.declared} {x}[{layer.columns}];",
                *(f"{x}[{i}] = {value};" for i, value in enumerate(layer_inputs)),
            ]
        self.lines += [
            f"{self.declared} y{k}[{layer.rows}];",
            f"{layer.activation}_layer(&weights_{k}[0][0], bias_{k}, {layer.rows}, {layer.columns}, {x}, y{k});",
        ]
        return Term(f"y{k}")

    def _give_name(self, i: int) -> None:
        if not re.fullmatch(r"y\d+", self.terms[i].text):  # the rows of a layer already have a name
            super()._give_name(i)


def _source(policy: Policy, vehicle: Vehicle, boundary: PolicyInterface) -> tuple[str, int, list[Layer]]:
    """Return the C text, the size of the policy's state in floats, and the layers."""
    controller, rest_state = policy_controller(policy, vehicle, policy.period), state_at_rest(vehicle)
    if controller.uses_depth_camera:
        raise ValueError(
            f"policy {policy.task!r} needs a depth camera; expected a policy without images to export as C"
        )
    simulates_rotors = not boundary.measures_rotors and uses_rotor_speeds(policy)
    motors = lag_motors_in_hover(vehicle) if simulates_rotors else ()
    policy_state = (controller.initial_state, rotors_at_rest(vehicle) if simulates_rotors else ())
    known_state = rest_state[:5] if boundary.measures_rotors else rest_state[:4]
    derivatives = reference_derivatives(policy)
    reference = ((ZERO,) * len(derivatives), 0.0)

    def act(known_state: Any, reference_inputs: Any, policy_state: Any, dt: Any) -> Any:
        controller_state, rotors = policy_state
        if simulates_rotors:
            rotors = advance_rotors(rotors, dt[0], motors)
            known_state = (*known_state, rotors.speed)
        state, vectors, yaw = boundary.convert_inputs(
            PolicyInputs(State(*known_state, *rest_state[len(known_state) :]), *reference_inputs)
        )
        timed_controller = replace(controller, period=dt[0])
        reference = Reference(ZERO)._replace(
            yaw=yaw, **{f"{name}_W": x for name, x in zip(derivatives, vectors, strict=True)}
        )
        command, controller_state = timed_controller(state, reference, vehicle, controller_state)
        if simulates_rotors:
            rotors = rotors._replace(target=commanded_speeds(command, vehicle, motors))
        return boundary.convert_command(command), (controller_state, rotors)

    program = trace_program(act, known_state, reference, policy_state, (0.0,))
    rotors, state_size = len(vehicle.rotors), len(flatten(policy_state))
    names = _struct_members(rotors if boundary.measures_rotors else 0, derivatives)
    inputs = [
        names[0],
        names[1],
        array("memory->held", [f"held[{k}]" for k in range(state_size)]),
        Variables(["dt"], ["dt"]),
    ]
    outputs = [
        array("command", [f"rotor {k}" for k in range(rotors)]),
        array("after", [f"held[{k}]" for k in range(state_size)]),
    ]
    body = _LayerBody(program, inputs, outputs, C_FLOAT, small_stack=boundary.small_stack)
    lines = [float_literals(line) for line in body.lines]
    initial_values = ", ".join(float_decimal(x) for x in flatten(policy_state))
    sections = [
        comment(f"Written by Samara {__version__}; see {C_PREFIX}.h."),
        f'#include "{C_PREFIX}.h"\n\n#include <math.h>\n#include <string.h>',
        *(_table(k, layer) for k, layer in enumerate(body.tables)),
        *(_layer_function(name) for name in dict.fromkeys(layer.activation for layer in body.tables)),
        f"static const float start[{state_size}] = {{\n{wrap_words(initial_values)}\n}};",
        f"void {C_PREFIX}_start({C_PREFIX}_memory *memory) {{\n    memcpy(memory->held, start, sizeof start);\n}}",
        f"{_signature()} {{\n    float after[{state_size}];\n"
        + "".join(f"    {line}\n" for line in lines)
        + "    memcpy(memory->held, after, sizeof after);\n}",
    ]
    return "\n\n".join(sections) + "\n", state_size, body.tables


def _struct_members(rotors: int, derivatives: str) -> tuple[Variables, Variables]:
    """Name the components of a state and of a reference, and their members in the C structs."""
    fields = [("p", 3), ("v", 3), ("q", 4), ("omega", 3), ("rotor_speed", rotors)]
    state = [(f"{name}[{k}]", f"state->{name}[{k}]") for name, count in fields for k in range(count)]
    reference = [(f"wanted_{name}[{k}]", f"reference->{name}[{k}]") for name in derivatives for k in range(3)]
    reference.append(("wanted_yaw", "reference->yaw"))
    groups = ([*zip(*group, strict=True)] for group in (state, reference))
    state_members, reference_members = (Variables(names, places) for names, places in groups)
    return state_members, reference_members


def _signature() -> str:
    return (
        f"void {C_PREFIX}_act(\n    const {C_PREFIX}_state *state,\n    const {C_PREFIX}_reference *reference,\n"
        f"    {C_PREFIX}_memory *memory,\n    float dt,\n    float command[{C_PREFIX.upper()}_ROTORS])"
    )


def _header(policy: Policy, vehicle: Vehicle, state_size: int, boundary: PolicyInterface, description: str) -> str:
    capitals, rotors = C_PREFIX.upper(), len(vehicle.rotors)
    derivatives, units = reference_derivatives(policy), boundary.units
    title = (
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
        f"{units.output or f'The command of each rotor ({vehicle.structure.actuation.name})'}, dt [s] after the last call. It "
        "may be called more often than in training: its state advances once per period."
    )
    state_comment = (
        "The state of the policy: last action, hidden states of recurrent layers, and remaining time of the period."
    )
    if not boundary.measures_rotors and uses_rotor_speeds(policy):
        state_comment += " Also the rotor speeds, simulated from the commands."
    sections = [
        comment(title),
        *([comment(description)] if description else []),
        f"#ifndef {capitals}_H\n#define {capitals}_H",
        '#ifdef __cplusplus\nextern "C" {\n#endif',
        f"#define {capitals}_ROTORS {rotors}",
        f"#define {capitals}_PERIOD {float_decimal(policy.period)} /* [s] between actions in training */",
        _struct("state", state, _STATE_COMMENT if boundary.measures_rotors else "The state of the drone."),
        _struct(
            "reference",
            [
                *(_field(name, 3, units.reference if name == "p" else "") for name in derivatives),
                _field("yaw", 1, units.yaw),
            ],
            "The desired position, its time derivatives, and the desired yaw.",
        ),
        _struct("memory", [f"float held[{state_size}];"], state_comment),
        f"/* Call once before the first action. */\nvoid {C_PREFIX}_start({C_PREFIX}_memory *memory);",
        f"{comment(call)}\n{_signature()};",
        "#ifdef __cplusplus\n}\n#endif",
        f"#endif /* {capitals}_H */",
    ]
    return "\n\n".join(sections) + "\n"


_STATE_COMMENT = "The state of the drone; rotor speeds in the order of its rotors."


def _field(name: str, count: int, description: str) -> str:
    declaration = f"float {name}[{count}];" if count > 1 else f"float {name};"
    return f"{declaration} /* {description} */" if description else declaration


def _struct(name: str, lines: Sequence[str], description: str) -> str:
    return "\n".join(
        [comment(description), "typedef struct {", *(f"    {line}" for line in lines), f"}} {C_PREFIX}_{name};"]
    )


def _layer_function(activation: str) -> str:
    """y = f(W x + b) with four independent partial sums: faster, with smaller rounding errors"""
    activation_code = ACTIVATION_CODE[activation] or "y[i] = total;"
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
        {activation_code}
    }}
}}"""


def _table(index: int, layer: Layer) -> str:
    rows = ",\n".join(f"    {{{', '.join(map(float_decimal, row))}}}" for row in layer.weights)
    return (
        f"static const float weights_{index}[{layer.rows}][{layer.columns}] = {{\n{rows}\n}};\n"
        f"static const float bias_{index}[{layer.rows}] = {{\n{wrap_words(', '.join(map(float_decimal, layer.bias)))}\n}};"
    )


class CodeMetrics(NamedTuple):
    """Code size without the weights, compiled for size on this machine [bytes], and the time of a call  [s]."""

    code_bytes: int
    seconds: float


class CompiledPolicy:
    """Controller that runs the exported C code of a policy, called every `period` [s].

    The C struct is passed in and out as the controller state: one controller serves all drones.
    """

    def __init__(self, policy: Policy, exported: ExportedPolicy, library: ctypes.CDLL, period: float) -> None:
        self._library, self._period, self._rotors = library, ctypes.c_float(period), policy.rotor_count
        self._reads, self._held = reference_derivatives(policy), exported.state_bytes // 4
        start = (ctypes.c_float * self._held)()
        library[f"{C_PREFIX}_start"](start)
        self.initial_state = tuple(start)

    def __call__(
        self, state: State, reference: Reference, vehicle: Vehicle, controller_state: Any
    ) -> tuple[Command, Any]:
        """Evaluate the policy.

        Args:
            state: estimated state of the vehicle.
            reference: desired motion.
            vehicle: not used; part of the interface of controllers.
            controller_state: the state that the previous call returned; `initial_state` at the first call.

        Returns:
            The command and the controller state for the next call.
        """
        derivatives = flatten(tuple(getattr(reference, f"{name}_W") for name in self._reads))
        state_values, reference_values, memory_values = (
            _floats(flatten(state[:5])),
            _floats([*derivatives, reference.yaw]),
            _floats(controller_state),
        )
        command = (ctypes.c_float * self._rotors)()
        self._library[f"{C_PREFIX}_act"](state_values, reference_values, memory_values, self._period, command)
        return tuple(command), tuple(memory_values)


def _floats(values: Sequence[float]) -> Any:
    return (ctypes.c_float * len(values))(*values)


def compile_library(source: Path, library: Path, *options: str) -> ctypes.CDLL:
    """Compile the C code to a library and load it; raise FileNotFoundError without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise FileNotFoundError("no C compiler (cc) on this machine")
    command = [compiler, "-std=c99", "-O2", "-shared", "-fPIC", *options, str(source), "-o", str(library), "-lm"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(
            f"cc: {result.stderr.strip().splitlines()[0] if result.stderr.strip() else result.returncode}"
        )
    return ctypes.CDLL(str(library))


def measure_code(exported: ExportedPolicy, calls: int = 2000) -> CodeMetrics | None:
    """Measure code size and run time on this CPU; None without a compiler."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            library = compile_library(exported.source, Path(folder) / "policy.so")
        except (FileNotFoundError, RuntimeError):
            return None
        object_file = Path(folder) / "policy.o"
        result = subprocess.run(
            ["cc", "-std=c99", "-Os", "-c", str(exported.source), "-o", str(object_file)],
            capture_output=True,
            check=False,
        )
        code = max(0, object_file.stat().st_size - 4 * exported.parameter_count) if result.returncode == 0 else 0
        buffers = [(ctypes.c_float * count)() for count in (64, 16, exported.state_bytes // 4, 64)]
        buffers[0][6] = 1.0  # w of the quaternion
        act, start, dt = library.samara_policy_act, library.samara_policy_start, ctypes.c_float(0.01)
        overhead = _shortest_time(calls, start, buffers[2])  # the overhead of a call
        seconds = _shortest_time(calls, act, buffers[0], buffers[1], buffers[2], dt, buffers[3]) - overhead
    return CodeMetrics(code, max(0.0, seconds))


def _shortest_time(calls: int, function: Any, *arguments: Any) -> float:
    """Return the shortest mean time of a call among ten runs  [s]."""
    times = []
    for _ in range(10):
        start = time.perf_counter()
        for _ in range(calls // 10):
            function(*arguments)
        times.append((time.perf_counter() - start) / (calls // 10))
    return min(times)
