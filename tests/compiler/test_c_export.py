"""The exported C is the same vehicle: compiled as strict C99, it gives Python's rates and steps, and CasADi's Jacobian.

The struct consists of doubles in the order of `samara.core.tree.leaf_names`, which is tested: a NumPy array can
represent it.
"""

import ctypes
import math
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import casadi
import numpy as np
import pytest
from support.c_compiler import COMPILER_SYMBOLS, ELEMENTARY_FUNCTIONS, STRICT, compiler, run
from support.command import call
from support.repository import skip_or_fail
from support.sampling import build_case
from support.traced_flights import fly, make_rotor
from support.tricopter import tricopter

import samara
from samara.compiler.trace.program import Instruction, Program
from samara.core import ops
from samara.core.algebra import Vec3
from samara.core.integrate import rk4
from samara.core.tree import flatten, leaf_names, unflatten
from samara.export.c import c_sources, write_c
from samara.export.c_syntax import array, c_lines
from samara.physics.effect import Effect, Wrench
from samara.physics.multirotor import derivative, replace_tilt_angles, state_at_rest
from samara.physics.rotors.actuator import ActuatorState, SecondOrder
from samara.physics.types import CALM, State, Vehicle
from samara.vehicles.build import Provenance

DT = 1e-3


class Exported(NamedTuple):
    """A vehicle, and its functions compiled: each takes and returns flat arrays."""

    vehicle: Vehicle
    header: Path
    source: Path
    object: Path
    loaded: Any

    def call(self, function: str, *arguments: Any) -> None:
        entry = getattr(self.loaded, f"{self.header.stem}_{function}")
        entry.restype = None
        entry(*(ctypes.c_double(a) if isinstance(a, float) else a.ctypes.data_as(ctypes.c_void_p) for a in arguments))

    def derivative(self, x, u, e):
        out = np.empty_like(x)
        self.call("derivative", x, u, e, out)
        return out

    def step(self, x, u, e, dt):
        x = x.copy()
        self.call("step", x, u, e, dt)
        return x

    def linearize(self, x, u, e, dt):
        A, B = np.empty((len(x), len(x))), np.empty((len(x), len(u)))
        self.call("linearize", x, u, e, dt, A, B)
        return np.hstack([A, B])

    def hover(self):
        x, u = np.empty(len(flatten(state_at_rest(self.vehicle)))), np.empty(self.vehicle.command_size)
        self.call("hover", x, u)
        return x, u


def compile_export(vehicle: Vehicle, folder: Path, *options: str) -> Exported:
    cc = compiler()
    header, source = write_c(vehicle, folder)
    compiled, library = source.with_suffix(".o"), source.with_suffix(".so")
    run(cc, *STRICT, *options, "-fPIC", "-c", source, "-o", compiled)
    run(cc, "-shared", compiled, "-o", library, "-lm")
    return Exported(vehicle, header, source, compiled, ctypes.CDLL(str(library)))


def representative_vehicles() -> list[Any]:
    """Shipped vehicles that differ in effects, actuation or rotor count; two of them in every run."""
    representatives: dict[Any, str] = {}
    for name in samara.vehicle_names():
        vehicle = samara.vehicle(name)
        structure = vehicle.structure
        representatives.setdefault(
            (structure.actuation, structure.effects, structure.inflow, len(vehicle.rotors)), name
        )
    often = ("crazyflie", "iris")
    return [pytest.param(name, marks=() if name in often else pytest.mark.long) for name in representatives.values()]


@pytest.fixture(scope="module")
def export(tmp_path_factory) -> Callable[[str], Exported]:
    """Compile a shipped vehicle, once."""
    return cache(lambda name: compile_export(samara.vehicle(name), tmp_path_factory.mktemp(name)))


@pytest.fixture(params=representative_vehicles())
def shipped(request, export) -> Exported:
    return export(request.param)


@pytest.fixture
def iris(export) -> Exported:
    return export("iris")


def sample_points(vehicle: Vehicle) -> list[tuple[State, tuple, Any]]:
    """States, commands and environments: random ones near the ground, at rest, and at the ends of all ranges. Motors are
    healthy, the wind is the same at all hubs and there are no external wrenches: the C code supports no others."""
    points = build_case(derivative, vehicle.name).points
    plain = {"hub_wind_W": (), "external_wrenches": (), "motor_effectiveness": ()}
    return [(state, command, environment._replace(**plain)) for state, command, _, environment in points]


def arrays(*trees: Any) -> list[np.ndarray]:
    return [np.array(flatten(tree), dtype=float) for tree in trees]


def excess(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, relative if the value is above one."""
    return float((np.abs(a - b) / np.maximum(1.0, np.abs(b))).max())


def casadi_jacobian(vehicle: Vehicle) -> casadi.Function:
    """CasADi's Jacobian of the whole traced step, all four stages unrolled."""
    templates = (state_at_rest(vehicle), (0.0,) * vehicle.command_size, CALM, (0.0,))
    symbols = [casadi.SX.sym(name, len(flatten(tree))) for name, tree in zip("xueh", templates, strict=True)]
    state, command, environment, (dt,) = (
        unflatten(tree, iter(casadi.vertsplit(symbol))) for tree, symbol in zip(templates, symbols, strict=True)
    )
    after = rk4(lambda s: derivative(s, command, vehicle, environment), state, dt)
    jacobian = casadi.jacobian(casadi.vertcat(*flatten(after)), casadi.vertcat(*symbols[:2]))
    return casadi.Function("jacobian", symbols, [jacobian])


# The numbers -------------------------------------------------------------------------------------------------------


def test_rates_are_those_of_python(shipped):
    """ẋ at any point, relative above one."""
    for state, command, environment in sample_points(shipped.vehicle):
        expected = np.array(flatten(samara.derivative(state, command, shipped.vehicle, environment)))
        assert excess(shipped.derivative(*arrays(state, command, environment)), expected) <= 1e-13


def test_a_step_is_that_of_python(shipped):
    """x(t + dt) from any point, relative above one."""
    for state, command, environment in sample_points(shipped.vehicle):
        expected = np.array(flatten(samara.step(state, command, shipped.vehicle, DT, environment=environment)))
        assert excess(shipped.step(*arrays(state, command, environment), DT), expected) <= 1e-14


def test_a_servo_tilts_its_rotor_in_c_too(tmp_path):
    """Rates and a step of a tricopter while its tail servo moves."""
    tricopter_c = compile_export(tricopter(), tmp_path)
    state, command = samara.hover(tricopter_c.vehicle)
    state = replace_tilt_angles(state, (0.2,), tricopter_c.vehicle)._replace(omega_B=samara.Vec3(0.5, -0.3, 0.2))
    servo_command = (*command[:3], -0.7)
    rates = np.array(flatten(samara.derivative(state, servo_command, tricopter_c.vehicle)))
    assert excess(tricopter_c.derivative(*arrays(state, servo_command, CALM)), rates) <= 1e-13
    after = np.array(flatten(samara.step(state, servo_command, tricopter_c.vehicle, DT)))
    assert excess(tricopter_c.step(*arrays(state, servo_command, CALM), DT), after) <= 1e-14


def test_the_linearization_is_casadis_jacobian_of_the_whole_step(shipped):
    """Sensitivities carried through the stages by products, against one unrolled expression."""
    reference = casadi_jacobian(shipped.vehicle)
    for state, command, environment in sample_points(shipped.vehicle):
        x, u, e = arrays(state, command, environment)
        expected = np.array(reference(x, u, e, DT))
        assert np.isfinite(expected).all()
        assert excess(shipped.linearize(x, u, e, DT), expected) <= 1e-12


def test_hover_is_the_trim(shipped):
    """The values of `samara.hover`; all rates except the battery's are negligible beside 1 g and Ω / 1 s."""
    x, u = shipped.hover()
    state, command = samara.hover(shipped.vehicle)
    assert x.tolist() == flatten(state)
    assert u.tolist() == flatten(command)
    rates = shipped.derivative(x, u, *arrays(CALM))
    steady = [i for i, name in enumerate(leaf_names(state)) if not name.endswith(("charge", "polarisation"))]
    assert (np.abs(rates[steady]) <= 2e-13 * np.maximum(9.8, np.abs(x[steady]))).all()


def differences(step: Any, x: np.ndarray, size: np.ndarray) -> np.ndarray:
    """∂step/∂x by central differences, the error of order h² removed: (4 D(h/2) − D(h)) / 3"""

    def central(i: int, h: float) -> np.ndarray:
        move = np.where(np.arange(len(x)) == i, h, 0.0)
        return (step(x + move) - step(x - move)) / (2.0 * h)

    return np.stack([(4.0 * central(i, h / 2) - central(i, h)) / 3.0 for i, h in enumerate(size)], axis=1)


def test_the_linearization_is_the_limit_of_differences(shipped):
    """In the air, away from every kink: tumbling, in a breeze, with the rotors off balance."""
    x, u = shipped.hover()
    (e,) = arrays(CALM._replace(wind_W=Vec3(2.0, -1.0, 0.5), air_density=1.1))
    rng = np.random.default_rng(5)
    x[3:13] += rng.uniform(-0.4, 0.4, 10)
    x[6:10] /= np.linalg.norm(x[6:10])
    x[13 : 13 + len(shipped.vehicle.rotors)] *= rng.uniform(0.95, 1.05, len(shipped.vehicle.rotors))
    if shipped.vehicle.name.startswith("iris"):
        x[-2] = 0.43  # half empty, between two entries of the table
    u *= rng.uniform(0.97, 1.03, len(u))
    both = np.concatenate([x, u])
    exact = shipped.linearize(x, u, e, DT)
    size = 1e-3 * np.maximum(0.1, np.abs(both))
    numeric = differences(lambda z: shipped.step(z[: len(x)], z[len(x) :], e, DT), both, size)
    assert excess(numeric, exact) <= 1e-9


def test_the_linearization_keeps_the_quaternion_on_the_sphere(shipped):
    """|q'| = 1 for every input, so q' · ∂q' = 0: the normalisation at the end of the step is in the Jacobian."""
    for state, command, environment in sample_points(shipped.vehicle):
        x, u, e = arrays(state, command, environment)
        q = shipped.step(x, u, e, DT)[6:10]
        slopes = shipped.linearize(x, u, e, DT)[6:10]
        assert np.abs(q @ slopes).max() <= 8 * 1.2e-16 * max(1.0, np.abs(slopes).max())  # four products, each rounded


def test_dynamics_are_independent_of_position(shipped):
    """Far from the ground the equations are independent of position: ∂x'/∂p is the identity's columns."""
    x, u = shipped.hover()
    x[2] = 50.0
    assert (shipped.linearize(x, u, *arrays(CALM), DT)[:, :3] == np.eye(len(x))[:, :3]).all()


@pytest.mark.long
def test_an_optimizing_compiler_changes_nothing(tmp_path):
    """-O2 may exploit undefined behaviour; the code has none."""
    vehicle = samara.vehicle("iris_documented")
    (tmp_path / "fast").mkdir()
    plain, fast = compile_export(vehicle, tmp_path, "-O0"), compile_export(vehicle, tmp_path / "fast", "-O2")
    for state, command, environment in sample_points(vehicle):
        x, u, e = arrays(state, command, environment)
        assert excess(fast.step(x, u, e, DT), plain.step(x, u, e, DT)) <= 1e-14
        assert excess(fast.linearize(x, u, e, DT), plain.linearize(x, u, e, DT)) <= 1e-12


# Any vehicle -------------------------------------------------------------------------------------------------------


def every_operation(effect_state, state, command, vehicle, environment):
    """No physics: a force in which every function of `samara.core.ops` occurs."""
    a, b = effect_state[0] + 0.3 * ops.sin(state.p_W.x), ops.cos(state.v_W.y) * 0.5
    between = ops.logical_and(a < b, ops.logical_or(b <= 1.0, ops.equal(a, b)))
    x = ops.where(between, ops.asin(a * b) + ops.acos(0.5 * b), ops.atan(a) - ops.tan(b))
    y = ops.exp(-a * a) + ops.log(2.0 + b) + ops.power(1.5 + a * b, 2.5) + ops.power(2.0, b)
    z = ops.atan2(a, b) + ops.wrap_angle(7.0 * a) + ops.sign(b) + ops.floor(3.0 * a) + ops.minimum(a, b)
    return Wrench(
        f_W=Vec3(x, y, z) + effect_state[1] * effect_state[2][1], tau_B=Vec3(0.0, effect_state[3].position, 0.0)
    )


def effect_rates(effect_state, state, command, vehicle, environment):
    drift = Vec3(
        ops.clamp(state.v_W.x, -1.0, 1.0), -effect_state[1].y, ops.safe_divide(effect_state[0], effect_state[1].z)
    )
    return (
        -effect_state[0],
        drift,
        (effect_state[2][1], -effect_state[2][0]),
        ActuatorState(effect_state[3].rate, -effect_state[3].position),
        (),
    )


def odd_vehicle() -> Vehicle:
    """A vehicle unlike the shipped ones: every operation, an effect named like a word of C with a state of unlike parts,
    second-order actuators, and texts that try to end their comment."""
    rotors = [make_rotor(spin=s)._replace(r_B=Vec3(*r)) for r, s in zip(CORNERS, (1, 1, -1, -1), strict=True)]
    vehicle = samara.build_vehicle(
        "9 Ünusual */ #error",
        mass=1.3,
        inertia=(0.02, 0.03, 0.04),
        rotors=rotors,
        actuation="speed",
        effects={"actuator": SecondOrder(20.0, 0.7, 15.0), "gravity": {"model": "spherical"}},
        provenance=Provenance("ends here: */ #error\n\\ ???/ /*/ \u202e"),
    )
    initial = (0.2, Vec3(0.1, 0.2, 0.3), (0.4, 0.5), ActuatorState(0.6, 0.7), ())
    return vehicle.with_effect(Effect("int", lambda vehicle: initial, effect_rates, every_operation)).with_effect(
        Effect(
            "exp",
            lambda vehicle: 0.5,
            lambda effect_state, *further: -effect_state,
            lambda effect_state, *further: Wrench(f_W=Vec3(effect_state, effect_state, effect_state)),
        )
    )


CORNERS = ((0.2, -0.2, 0.0), (-0.2, 0.2, 0.0), (0.2, 0.2, 0.0), (-0.2, -0.2, 0.0))


def test_every_operation_and_any_names(tmp_path):
    """Rates and Jacobian with every operation and with hostile names and texts."""
    odd = compile_export(odd_vehicle(), tmp_path)
    assert odd.header.name == "samara_9_nusual_error.h"
    assert all(f"{function}(" in odd.source.read_text() for function in ELEMENTARY_FUNCTIONS)
    reference = casadi_jacobian(odd.vehicle)
    rng = np.random.default_rng(3)
    (rest_state,) = arrays(state_at_rest(odd.vehicle))
    for _ in range(20):
        state = unflatten(
            state_at_rest(odd.vehicle), iter((rest_state + rng.uniform(-0.5, 0.5, len(rest_state))).tolist())
        )
        command = tuple(rng.uniform(0.0, 2.0, 4).tolist())
        x, u, e = arrays(state, command, CALM)
        expected = np.array(flatten(samara.derivative(state, command, odd.vehicle)))
        assert excess(odd.derivative(x, u, e), expected) <= 1e-14
        assert excess(odd.linearize(x, u, e, DT), np.array(reference(x, u, e, DT))) <= 1e-13


def test_a_square_computes_its_operand_once():
    """(a + b)² as t t with t = a + b; a² of a plain number needs no temporary."""
    steps = (
        Instruction("input", location=(0, 0)),
        Instruction("input", location=(0, 1)),
        Instruction("multiply", (0, 0)),
        Instruction("add", (0, 1)),
        Instruction("multiply", (3, 3)),
    )
    lines = c_lines(Program(steps, ((2, 4),)), [array("x", ["a", "b"])], [array("y", ["p", "q"])])
    assert lines[2:] == ["y[0] = a * a; /* p */", "const double t1 = a + b;", "y[1] = t1 * t1; /* q */"]


def test_nan_propagates(iris):
    """NaN propagates through a clamp of the command and through a selection."""
    x, u = iris.hover()
    u[2] = math.nan
    rates = iris.derivative(x, u, *arrays(CALM))
    assert math.isnan(rates[13 + 2])
    assert math.isnan(iris.step(x, u, *arrays(CALM), DT)[13 + 2])


def test_a_vehicle_that_cannot_hover_is_exported_without_it(tmp_path):
    """An unbalanced vehicle still has rates."""
    iris = samara.vehicle("iris")
    ahead = tuple(rotor._replace(r_B=rotor.r_B + Vec3(0.5, 0.0, 0.0)) for rotor in iris.rotors)
    sources = c_sources(iris.replace(rotors=ahead).without_effect("contact"))
    assert "_hover(" not in sources.header + sources.source
    assert "cannot hover level" in sources.header
    assert "samara_iris_step(" in sources.header


# The files ---------------------------------------------------------------------------------------------------------


def named_members(vehicle: Vehicle) -> list[str]:
    """'effects[5][0].x' by the effect's name: 'contact[0].x'"""
    effects = [effect.name for effect in vehicle.structure.effects]
    return [
        re.sub(r"^effects\[(\d+)\]", lambda m: effects[int(m[1])], name) for name in leaf_names(state_at_rest(vehicle))
    ]


def test_the_struct_is_laid_out_like_the_python_state(iris, tmp_path):
    """Member k of `leaf_names` is at an offset of k doubles, according to the compiler."""
    members = named_members(iris.vehicle)
    offsets = ", ".join(f"offsetof(samara_iris_state, {member})" for member in members)
    program = tmp_path / "offsets.c"
    program.write_text(
        f"""#include <stddef.h>
#include <stdio.h>
#include "samara_iris.h"
int main(void)
{{
    const size_t offsets[SAMARA_IRIS_STATES] = {{{offsets}}};
    int i;
    for (i = 0; i < SAMARA_IRIS_STATES; i++)
        printf("%d ", (int)(offsets[i] / sizeof(double)));
    printf("%d\\n", (int)(sizeof(samara_iris_state) / sizeof(double)));
    return 0;
}}
"""
    )
    run(compiler(), *STRICT, f"-I{iris.header.parent}", program, "-o", tmp_path / "offsets")
    assert [int(word) for word in run(tmp_path / "offsets").split()] == list(range(len(members) + 1))


def test_the_program_of_the_documentation_flies(iris, tmp_path, repository):
    """Compiled and run as on the page; after one second the state is Python's, and the output is that of the page."""
    page = (repository / "docs" / "howto" / "export-c.md").read_text(encoding="utf-8")
    (tmp_path / "main.c").write_text(re.search(r"^```c\n(.*?)^```$", page, re.MULTILINE | re.DOTALL).group(1))
    run(
        compiler(), *STRICT, f"-I{iris.header.parent}", tmp_path / "main.c", iris.object, "-lm", "-o", tmp_path / "main"
    )
    printed = run(tmp_path / "main")
    flown = fly(iris.vehicle, *samara.hover(iris.vehicle), seconds=1.0)[-1]
    names = named_members(iris.vehicle)
    height, charge = flown[names.index("p_W.z")], flown[names.index("battery[0].charge")]
    assert printed == f"height {height:.9f} m, charge {charge:.6f}\n"
    assert printed in page


def test_the_program_of_the_readme_flies(iris, tmp_path):
    """It ends where a second of hover in Python ends; the functions it lists are those that the header declares."""
    readme = (iris.header.parent / "samara_iris_README.md").read_text(encoding="utf-8")
    (tmp_path / "main.c").write_text(re.search(r"^```c\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL).group(1))
    run(
        compiler(), *STRICT, f"-I{iris.header.parent}", tmp_path / "main.c", iris.object, "-lm", "-o", tmp_path / "main"
    )
    flown = fly(iris.vehicle, *samara.hover(iris.vehicle), seconds=1.0)[-1]
    assert [float(word) for word in run(tmp_path / "main").split()[:3]] == pytest.approx(flown[:3], abs=1e-9)
    listed = set(re.findall(r"^\| `(\w+)\(", readme, re.MULTILINE))
    declared = set(re.findall(r"^void (\w+)\(", iris.header.read_text(encoding="utf-8"), re.MULTILINE))
    assert listed == declared


@pytest.mark.long
def test_the_readme_of_a_vehicle_that_cannot_hover_starts_at_rest(tmp_path):
    iris = samara.vehicle("iris")
    ahead = tuple(rotor._replace(r_B=rotor.r_B + Vec3(0.5, 0.0, 0.0)) for rotor in iris.rotors)
    header, source = write_c(iris.replace(rotors=ahead).without_effect("contact"), tmp_path)
    readme = (tmp_path / f"{header.stem}_README.md").read_text(encoding="utf-8")
    (tmp_path / "main.c").write_text(re.search(r"^```c\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL).group(1))
    run(compiler(), *STRICT, f"-I{tmp_path}", tmp_path / "main.c", source, "-lm", "-o", tmp_path / "main")
    _, _, z, _ = run(tmp_path / "main").split()
    assert -0.5 * 9.81 < float(z) < -3.0  # it falls, held back by its drag


def test_the_stack_in_the_documentation_is_the_headers(iris, repository):
    (size,) = re.findall(r"(\d+) KB of\s+\W*stack", iris.header.read_text())
    assert f"{size} KB for the Iris" in (repository / "docs" / "howto" / "export-c.md").read_text(encoding="utf-8")


def test_code_allocates_nothing_and_has_no_mutable_data(shipped):
    """The object file imports elementary functions only, and has no mutable data."""
    nm = shutil.which("nm")
    if nm is None:
        skip_or_fail("there is no `nm` to list symbols with")
    symbols = [line.split()[-2:] for line in run(nm, shipped.object).splitlines()]
    imported = {name for kind, name in symbols if kind == "U"}
    assert imported <= ELEMENTARY_FUNCTIONS | COMPILER_SYMBOLS
    assert "sqrt" in imported  # of the quaternion's length: the list is not empty
    assert {kind for kind, _ in symbols} <= {"U", "T", "t", "R", "r"}
    public = {name for kind, name in symbols if kind == "T"}
    assert public == {f"{shipped.header.stem}_{name}" for name in ("hover", "derivative", "step", "linearize")}


def test_the_header_serves_cpp_too(iris, tmp_path):
    """Included twice, compiled as C++ and linked with the C object."""
    (tmp_path / "main.cpp").write_text(
        """#include "samara_iris.h"
#include "samara_iris.h"
int main()
{
    samara_iris_environment calm = SAMARA_IRIS_CALM;
    samara_iris_state state;
    samara_iris_command command;
    samara_iris_hover(&state, &command);
    samara_iris_step(&state, &command, &calm, 1e-3);
    return state.p_W.z > 0.999 && calm.ground.normal_W.z == 1.0 ? 0 : 1;
}
"""
    )
    strict = ("-std=c++11", *STRICT[1:])
    cpp = compiler("c++")
    run(cpp, *strict, f"-I{iris.header.parent}", tmp_path / "main.cpp", iris.object, "-lm", "-o", tmp_path / "m")
    run(tmp_path / "m")


def test_the_header_explains_itself(iris):
    """Name, description, effects and sources; meaning and unit of each member; and no local paths."""
    text = iris.header.read_text()
    one_line = re.sub(r"\s+\*?\s*", " ", text)
    structure = iris.vehicle.structure
    assert structure.description in one_line
    assert f"Effects: {', '.join(effect.name for effect in structure.effects)}." in one_line
    assert all(source in one_line for _, source in structure.sources)
    for member, unit in (
        ("p_W", "m"),
        ("v_W", "m/s"),
        ("omega_B", "rad/s"),
        ("rotor_speed[4]", "rad/s"),
        ("wind_W", "m/s"),
    ):
        assert re.search(rf" {re.escape(member)}; +/\* .* \[{unit}\] \*/$", text, re.MULTILINE), member
    assert str(iris.header.parent) not in text + iris.source.read_text()


def test_constants_are_read_back_as_they_were(iris):
    """Every parameter of the vehicle that one digit less would change is in the source, to the last bit."""
    printed = {float(number) for number in re.findall(r"\d+\.\d+(?:e[-+]\d+)?", iris.source.read_text())}
    vehicle = iris.vehicle
    for value in (vehicle.rotors[0].k_thrust, vehicle.rotors[0].k_torque, vehicle.rotors[0].motor.resistance, 1 / 3):
        assert value in printed


# The command -------------------------------------------------------------------------------------------------------


def test_the_command_writes_its_files_and_prints_their_paths(monkeypatch, capsys, tmp_path):
    """The same files as from Python, and the same each time."""
    folder = tmp_path / "new" / "out"
    status, out, err = call(monkeypatch, capsys, "export", "c", "rigid_body_quadrotor", "-o", str(folder))
    assert (status, err) == (0, "")
    sources = c_sources(samara.vehicle("rigid_body_quadrotor"))
    assert sources.name == "samara_rigid_body_quadrotor"
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == {
        f"{sources.name}.h": sources.header,
        f"{sources.name}.c": sources.source,
        f"{sources.name}_README.md": sources.readme,
    }
    assert out.splitlines() == [f"header {folder / sources.name}.h", f"source {folder / sources.name}.c"]


@pytest.mark.parametrize("motor_lag", [None, pytest.param(0.05, marks=pytest.mark.long)])
def test_samara_export_rigid_body(monkeypatch, capsys, tmp_path, motor_lag):
    """The vehicle of the rigid-body document, with motors or without: a second of its C is a second of its Python."""
    lag = [] if motor_lag is None else ["--motor-lag", str(motor_lag)]
    status, out, err = call(monkeypatch, capsys, "export", "rigid-body", *lag, "-o", str(tmp_path))
    assert (status, err) == (0, "") and "samara_rigid_body_quadrotor.c" in out
    readme = (tmp_path / "samara_rigid_body_quadrotor_README.md").read_text(encoding="utf-8")
    program = re.search(r"^```c\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL).group(1)
    (tmp_path / "main.c").write_text(program.replace("for (", "state.v_W.x = 2.0;\n    for ("))
    source = tmp_path / "samara_rigid_body_quadrotor.c"
    run(compiler(), *STRICT, f"-I{tmp_path}", tmp_path / "main.c", source, "-lm", "-o", tmp_path / "main")
    decay = 0.1 / 1.2  # dx = v/k (1 - exp(-k t)), k = D/m
    assert [float(word) for word in run(tmp_path / "main").split()[:3]] == pytest.approx(
        [2.0 / decay * -math.expm1(-decay), 0.0, 1.0], abs=1e-8
    )


def test_samara_export_rigid_body_as_javascript(monkeypatch, capsys, tmp_path):
    status, _, _ = call(monkeypatch, capsys, "export", "rigid-body", "--js", "-o", str(tmp_path))
    assert status == 0 and {path.name for path in tmp_path.iterdir()} == {
        "samara_rigid_body_quadrotor.js",
        "package.json",
    }
    status, _, err = call(monkeypatch, capsys, "export", "rigid-body", "--motor-lag", "0", "-o", str(tmp_path))
    assert status == 2 and "motor.time_constant_up = 0.0 s: expected a positive number" in err


def test_a_user_file_is_exported_under_its_name(monkeypatch, capsys, tmp_path):
    samara.save_vehicle(samara.vehicle("rigid_body_quadrotor", mass=0.9), tmp_path / "mine.toml")
    text = (tmp_path / "mine.toml").read_text().replace('name = "rigid_body_quadrotor"', 'name = "My Body"')
    (tmp_path / "mine.toml").write_text(text)
    status, _, err = call(monkeypatch, capsys, "export", "c", str(tmp_path / "mine.toml"), "-o", str(tmp_path))
    assert (status, err) == (0, "")
    assert "0.9 kg" in (tmp_path / "samara_my_body.h").read_text()


def test_bad_input_is_one_sentence_and_leaves_nothing(monkeypatch, capsys, tmp_path):
    """An unknown vehicle, and a folder that is a file."""
    status, out, err = call(monkeypatch, capsys, "export", "c", "irish", "-o", str(tmp_path / "out"))
    assert (status, out) == (2, "")
    assert err.startswith("samara: no vehicle 'irish'; expected a .toml file or one of crazyflie, ")
    assert err.count("\n") == 1
    taken = tmp_path / "taken"
    taken.write_text("mine")
    for folder in (taken, taken / "below"):
        status, out, err = call(monkeypatch, capsys, "export", "c", "crazyflie_documented", "-o", str(folder))
        assert (status, out) == (2, "")
        assert err.startswith(f"samara: {folder}: cannot be written to (")
        assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    assert taken.read_text() == "mine"
