"""Export of model-predictive control as C99 for microcontrollers: one header and one source file, in float, with static arrays.

The functions of the source are the loops of `samara.control.mpc.batch_cpu` for one problem, traced; only their sequence, one
warm-started real-time iteration, is written here. It is that of `Solver.begin` and `Solver.iterate` with one iteration.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from samara.compiler.llvm.array_loop import ArrayLoop, ArraySpec, LoopElement, Pass, compile_loops
from samara.control.mpc import MPC
from samara.control.mpc.batch_cpu import BatchLoops, batch_loops
from samara.control.mpc.flight import split_shift
from samara.control.mpc.iteration import RolloutChoice
from samara.control.mpc.problem import INITIAL_PENALTY, Problem
from samara.control.mpc.programs import Arrays
from samara.control.mpc.reference import point_goal_loops
from samara.core.algebra import ZERO
from samara.core.atomic_files import write_text
from samara.core.tree import flatten
from samara.core.version import __version__
from samara.export.c_figures import count_instructions
from samara.export.c_loops import array_sizes, constant_array, loops_code
from samara.export.c_syntax import comment, float_decimal

C_PREFIX = "samara_mpc"
POINTERS = ("nominal", "tried")  # trajectories; the two change places
CHOICE_FIELDS = ("accepted", "index", "alpha")
FLOAT_BYTES = 4
COUNTED_CALLS = 10
STATE_ORDER = "position [m] and velocity [m/s] in the world, attitude w, x, y, z, body rates [rad/s]"


class ExportedMpc(NamedTuple):
    """Paths of the files, and bytes of constants and of static variables."""

    header: Path
    source: Path
    constant_bytes: int
    state_bytes: int


def write_mpc_c(mpc: MPC, folder: str | Path) -> ExportedMpc:
    """Write samara_mpc.h and samara_mpc.c: the controller's real-time iteration to a point.

    Args:
        mpc: the controller, without delay; its constraints must not depend on time. The disturbance observer and the
            compensation of motor lag are not exported.
        folder: directory of the files.
    """
    if mpc.options.delay > 0.0:
        raise ValueError(f"delay = {mpc.options.delay:g} s: is not exported; expected an MPC without delay")
    code = _MpcCode(mpc)
    header, source = Path(folder) / f"{C_PREFIX}.h", Path(folder) / f"{C_PREFIX}.c"
    write_text(header, code.header)
    write_text(source, code.source)
    constants, variables = (
        sum(sizes) * FLOAT_BYTES for sizes in (map(len, code.constants.values()), code.sizes.values())
    )
    return ExportedMpc(header, source, constants, variables)


def instructions_per_iteration(exported: ExportedMpc) -> float | None:
    """Return the instructions of one iteration on this machine, towards a point at one metre; None without a tool."""
    program = f"""#include "{C_PREFIX}.h"
int main(void)
{{
    const float state[{C_PREFIX.upper()}_STATES] = {{[6] = 1.0f}}, target[3] = {{1.0f, 0.0f, 0.0f}};
    float input[{C_PREFIX.upper()}_INPUTS];
    int i;

    {C_PREFIX}_init();
    for (i = 0; i < {COUNTED_CALLS}; i++)
        (void){C_PREFIX}_solve(state, target, 0.0f, input);
    return 0;
}}
"""
    return count_instructions(exported.source, program, f"{C_PREFIX}_solve", COUNTED_CALLS)


class _MpcCode:
    """The texts of header and source, and the arrays: values of the constants, sizes of the variables."""

    def __init__(self, mpc: MPC) -> None:
        problem, horizon, step_sizes = mpc.problem, mpc.horizon, mpc.line_search
        traced = batch_loops(problem, len(step_sizes), shooting=False, width=1, dtype="float32")
        parameters, goal_loops = flatten(mpc.parameters), point_goal_loops(mpc.model, problem.sizes.data)
        phases = {
            "rollout": traced.loops["rollout"],
            "backward": _join_derivatives(traced.loops["derivatives"], traced.loops["backward"]),
            "choose": traced.loops["choose"],
            "write_goals": goal_loops,
        }
        if problem.sizes.constraints:  # as in flight, without growth of the penalty
            phases["update"] = traced.loops["update"][1:]
        steps = {"choose": 1, "write_goals": horizon + 1}
        sizes = array_sizes((loop, steps.get(name, horizon)) for name, loops in phases.items() for loop in loops)
        smoothing = 1.0 if problem.max_change is not None else float(problem.smoothing(mpc.parameters))
        constants: dict[str, Sequence[float]] = {
            "parameters": parameters,
            "curvature": _constant_curvature(problem, traced, parameters),
            "shaping": mpc.shaping,
            "push": ZERO,
            "later": [smoothing] * (horizon - 1) + [0.0],
            "sizes": step_sizes,
            "tolerance": [mpc.tolerance],
            "growth": [1.0],
        }
        self.constants = {name: values for name, values in constants.items() if name in sizes}
        self.constants |= {"level": problem.command, "rest": flatten(problem.state)}
        self.sizes = {name: size for name, size in sizes.items() if name not in (*self.constants, *POINTERS)}
        self.sizes["trajectories"] = 2 * (horizon + 2) * problem.sizes.step
        functions = [
            loops_code(name, loops, {"write_goals": "HORIZON + 1", "choose": "1"}.get(name, "HORIZON"), POINTERS)
            for name, loops in phases.items()
        ]
        self.header = _header(mpc)
        self.source = _source(mpc, traced.gains, self.constants, self.sizes, functions)


def _join_derivatives(derivatives: tuple[ArrayLoop, ...], backward: tuple[ArrayLoop, ...]) -> tuple[ArrayLoop, ...]:
    """Join the derivatives of a stage to its backward step, with memory for those of one stage instead of the horizon."""
    end, stages = backward
    passes = (*(loop_pass for loop in derivatives for loop_pass in loop.passes), *stages.passes)
    return end, stages._replace(passes=tuple(_reuse_stage(loop_pass) for loop_pass in passes))


def _reuse_stage(loop_pass: LoopElement) -> Pass:
    def fixed(arrays: tuple[ArraySpec, ...]) -> tuple[ArraySpec, ...]:
        return tuple(array._replace(step_stride=0) if array.name == "stages" else array for array in arrays)

    assert isinstance(loop_pass, Pass)
    return loop_pass._replace(inputs=fixed(loop_pass.inputs), outputs=fixed(loop_pass.outputs))


def _constant_curvature(problem: Problem, traced: BatchLoops, parameters: Sequence[float]) -> list[float]:
    """The entries of the Hessian that depend on the parameters alone."""
    if not traced.curvature:
        return []
    loops = compile_loops(traced.loops["constants"])
    arrays = Arrays(parameters=problem.sizes.parameters, curvature=traced.curvature)
    arrays["parameters"][:] = parameters
    loops.call(arrays.table(loops), 1)
    curvature: list[float] = arrays["curvature"].tolist()
    return curvature


# The two files -----------------------------------------------------------------------------------------------------------


def _signature() -> str:
    capitals = C_PREFIX.upper()
    return (
        f"int {C_PREFIX}_solve(const float state[{capitals}_STATES], const float target_position[3], float yaw,\n"
        f"    float input[{capitals}_INPUTS])"
    )


def _describe_inputs(mpc: MPC) -> str:
    if mpc.model.takes_wrench:
        return "collective thrust [N] and torque about x, y, z [N m], body axes forward, left, up"
    return "thrust of each rotor [N], in the order of the vehicle's rotors"


def _header(mpc: MPC) -> str:
    capitals, sizes, low, high = C_PREFIX.upper(), mpc.problem.sizes, *mpc.model.limits
    limits = ", ".join(f"{a:.6g} to {b:.6g}" for a, b in zip(low, high, strict=True))
    constraints = ", ".join(dict.fromkeys(mpc.problem.all_constraint_names())) or "none"
    title = (
        f"Model-predictive control of {mpc.vehicle.name} to a point: one warm-started real-time iteration. "
        f"Written by Samara {__version__} (samara export mpc). Do not edit."
    )
    frames = (
        "World: x, y, z up; body: forward, left, up. The quaternion is Hamilton's, scalar first, from body to world. SI "
        "units, radians. All memory is static: no allocation, one controller for each program, not reentrant. The observer of "
        "disturbances and the compensation of motor lag, which the controller has in simulations, are not part of it."
    )
    solve = (
        f"Call every PERIOD. state: {STATE_ORDER}. input: {_describe_inputs(mpc)}. Returns 0, or 1 if the state, the target "
        "or the predicted cost is not finite: the input is then that of hover, and the next call starts anew."
    )
    sections = [
        comment(title, frames, f"Limits of the inputs: {limits}. Constraints: {constraints}."),
        f"#ifndef {capitals}_H\n#define {capitals}_H",
        '#ifdef __cplusplus\nextern "C" {\n#endif',
        f"#define {capitals}_STATES {sizes.state} /* {STATE_ORDER} */\n"
        f"#define {capitals}_INPUTS {sizes.command} /* {_describe_inputs(mpc)} */\n"
        f"#define {capitals}_HORIZON {mpc.horizon} /* steps of the prediction */\n"
        f"#define {capitals}_DT {float_decimal(mpc.model.dt)} /* duration of a step [s] */\n"
        f"#define {capitals}_PERIOD {float_decimal(mpc.period)} /* time between two calls [s] */",
        f"/* Call once before the first solution: the plan is hover. */\nvoid {C_PREFIX}_init(void);",
        f"{comment(solve)}\n{_signature()};",
        "#ifdef __cplusplus\n}\n#endif",
        f"#endif /* {capitals}_H */",
    ]
    return "\n\n".join(sections) + "\n"


def _source(
    mpc: MPC, gains: int, constants: dict[str, Sequence[float]], sizes: dict[str, int], functions: Sequence[str]
) -> str:
    problem, (shift, fraction) = mpc.problem, split_shift(mpc.period, mpc.model.dt, mpc.horizon)
    shifted, is_constrained = problem.sizes.data - problem.goal_size - 1, problem.sizes.constraints > 0
    has_data = shifted >= 0
    numbers: dict[str, str | int] = {
        "STATES": f"{C_PREFIX.upper()}_STATES",
        "INPUTS": f"{C_PREFIX.upper()}_INPUTS",
        "HORIZON": f"{C_PREFIX.upper()}_HORIZON",
        "STEP": "STATES + INPUTS",
        "STEP_SIZES": len(mpc.line_search),
        "GAINS": gains,
        "FEEDFORWARD": gains - problem.sizes.command,
        "SHIFT": shift,
        **{f"CHOICE_{name.upper()}": k for k, name in enumerate(RolloutChoice._fields) if name in CHOICE_FIELDS},
    }
    if has_data:
        numbers |= {"DATA": problem.sizes.data, "GOAL": problem.goal_size, "SHIFTED": shifted}
    variables = [f"static float {name}[{size}];" for name, size in sizes.items() if name != "trajectories"]
    replacements = {
        "PREFIX": C_PREFIX,
        "SIGNATURE": _signature(),
        "FRACTION": float_decimal(fraction),
        "RESET_DATA": _RESET_DATA.replace("DT", f"{C_PREFIX.upper()}_DT").replace(
            "PENALTY", float_decimal(INITIAL_PENALTY)
        )
        if has_data
        else "",
        "SHIFT_DATA": "\n    shift_rows(goals + GOAL + 1, HORIZON + 1, DATA, SHIFTED);" if is_constrained else "",
        "UPDATE": "\n    update(nominal);" if is_constrained else "",
    }
    sequence = re.sub(r"@(\w+)@", lambda match: replacements[match[1]], _SEQUENCE)
    sections = [
        comment(
            f"See {C_PREFIX}.h. Written by Samara {__version__}; the functions before `roll_out` are traced programs."
        ),
        f'#include "{C_PREFIX}.h"\n\n#include <math.h>',
        "enum {\n" + ",\n".join(f"    {name} = {value}" for name, value in numbers.items()) + "\n};",
        *(constant_array(name, values) for name, values in constants.items()),
        "\n".join(variables),
        "/* Row 0: the previous input; row k + 1: state and input of step k. */\n"
        "static float trajectories[2][(HORIZON + 2) * STEP];\n"
        "static float *nominal = trajectories[0], *tried = trajectories[1];",
        *functions,
        sequence.strip(),
    ]
    return "\n\n".join(sections) + "\n"


_RESET_DATA = """
    for (k = 0; k <= HORIZON; k++) {
        goals[DATA * k + GOAL] = (float)k * DT;
        for (i = 0; i < SHIFTED; i++)
            goals[DATA * k + GOAL + 1 + i] = i == 0 ? PENALTY : 0.0f;
    }"""

_SEQUENCE = """
/* Roll out the feedback from the present state, around the nominal trajectory; return the cost. */
static float roll_out(float step_size)
{
    alpha[0] = step_size;
    rollout(nominal, tried);
    return cost[0];
}

static void swap_trajectories(void)
{
    float *const rejected = nominal;

    nominal = tried;
    tried = rejected;
}

/* Shift rows by the time between two calls, linear between steps; the last row is repeated. */
static void shift_rows(float *rows, int count, int stride, int width)
{
    int k, i;

    for (k = 0; k < count; k++) {
        const int first = k + SHIFT < count ? k + SHIFT : count - 1;
        const int second = k + SHIFT + 1 < count ? k + SHIFT + 1 : count - 1;

        for (i = 0; i < width; i++)
            rows[stride * k + i] = rows[stride * first + i] * (1.0f - @FRACTION@)
                + @FRACTION@ * rows[stride * second + i];
    }
}

/* Roll out the shifted inputs, or hover if that costs less; return the cost. */
static float begin(void)
{
    float hover_cost, warm_cost;
    int k, i;

    shift_rows(nominal + STEP + STATES, HORIZON, STEP, INPUTS);
    for (k = 0; k < HORIZON; k++) {
        for (i = 0; i < FEEDFORWARD; i++)
            gains[GAINS * k + i] = 0.0f;
        for (i = 0; i < INPUTS; i++)
            gains[GAINS * k + FEEDFORWARD + i] = level[i] - nominal[STEP * (k + 1) + STATES + i];
    }
    hover_cost = roll_out(1.0f);
    warm_cost = roll_out(0.0f);
    if (!(warm_cost <= hover_cost))
        warm_cost = roll_out(1.0f);
    swap_trajectories();
    return warm_cost;
}

static void iterate(float initial_cost)
{
    int i;

    least[0] = initial_cost;
    damping[0] = 0.0f;
    backward(nominal);
    for (i = STEP_SIZES - 1; i >= 0; i--)
        costs[i] = roll_out(sizes[i]);
    choose();
    if (choice[CHOICE_ACCEPTED] > 0.0f) {
        if (choice[CHOICE_INDEX] > 0.0f)
            (void)roll_out(choice[CHOICE_ALPHA]); /* else it is the last one */
        swap_trajectories();
    }@UPDATE@
}

void @PREFIX@_init(void)
{
    int k, i;

    for (k = 0; k < HORIZON + 2; k++) {
        for (i = 0; i < STATES; i++)
            trajectories[0][STEP * k + i] = trajectories[1][STEP * k + i] = rest[i];
        for (i = 0; i < INPUTS; i++)
            trajectories[0][STEP * k + STATES + i] = trajectories[1][STEP * k + STATES + i] = level[i];
    }
    for (i = 0; i < INPUTS; i++)
        given[STATES + i] = level[i];@RESET_DATA@
}

@SIGNATURE@
{
    const float norm = sqrtf(state[6] * state[6] + state[7] * state[7] + state[8] * state[8] + state[9] * state[9]);
    float total = yaw, initial_cost = INFINITY;
    int i;

    for (i = 0; i < STATES; i++)
        total += state[i];
    for (i = 0; i < 3; i++) {
        total += target_position[i];
        target[i] = target_position[i];
        target[3 + i] = state[i];
    }
    target[6] = yaw;
    if (total - total == 0.0f && norm > 0.0f) {
        for (i = 0; i < STATES; i++)
            given[i] = i >= 6 && i < 10 ? state[i] / norm : state[i];
        for (i = 0; i < 6; i++)
            path[i] = state[i];
        write_goals();@SHIFT_DATA@
        initial_cost = begin();
    }
    if (initial_cost < INFINITY)
        iterate(initial_cost);
    else
        @PREFIX@_init();
    for (i = 0; i < INPUTS; i++)
        input[i] = given[STATES + i] = nominal[STEP + STATES + i];
    return initial_cost < INFINITY ? 0 : 1;
}
"""
