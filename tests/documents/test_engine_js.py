"""Document 000's modules under Node: Python's engine over ten seconds, and the document's own checks."""

import re

import numpy as np
import pytest
from support.command import call
from support.node import node, printed

import samara
from samara.backends.js import write_js
from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.documents.engine import CrazyflieParams, DroneEngine, MotorModel
from samara.documents.engine_js import write_engine_js

DT = 5e-3
FLY = """
import { DronePhysicsEngine } from "./drone_physics_engine.js";
const { allocation, params, wind_W, commands, dt } = given;
const engine = new DronePhysicsEngine(params, { allocation, wind_W });
const flown = commands.map((command) => {
  engine.applyMotorCommands(...command);
  engine.step(dt);
  const { p_W, v_W, q_WB, omega_B, motorSpeeds } = engine.getState();
  const three = (own) => [own.x, own.y, own.z];
  return [...three(p_W), ...three(v_W), q_WB.w, ...three(q_WB), ...three(omega_B), ...motorSpeeds];
});
console.log(JSON.stringify(flown));
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    folder = tmp_path_factory.mktemp("engine")
    write_engine_js(folder)
    return folder


@pytest.mark.parametrize("allocation", ("documented", "geometric"))
@pytest.mark.parametrize("mass", (None, 0.032))
def test_ten_seconds_are_those_of_python(modules, allocation, mass):
    """2000 steps of a tumbling flight, after each within 1e-12 of the largest number of the state, and of each quantity."""
    random, params = np.random.default_rng(7), {} if mass is None else {"mass": mass, "dragLinear": Vec3(0.1, 0.2, 0.3)}
    wind_W = Vec3(1.0, -0.5, 0.2)
    engine = DroneEngine(CrazyflieParams(**params), allocation, wind_W=wind_W)
    commands = np.repeat(random.uniform(0.55, 0.58, (100, 4)), 20, axis=0).tolist()
    expected = []
    for command in commands:
        engine.apply_motor_commands(*command)
        engine.step(DT)
        expected.append(flatten(engine.get_state()))
    told = {name: own._asdict() if isinstance(own, Vec3) else own for name, own in params.items()}
    given = {
        "allocation": allocation,
        "params": told,
        "wind_W": wind_W._asdict(),
        "commands": commands,
        "dt": DT,
    }
    flown, expected = np.array(printed(modules, FLY, given)), np.array(expected)
    assert np.abs(expected[:, 10:13]).max() > 1.0  # it turned
    error = np.abs(flown - expected)
    assert (error.max(axis=1) <= 1e-12 * np.abs(expected).max(axis=1)).all()
    for own in (slice(0, 3), slice(3, 6), slice(6, 10), slice(10, 13), slice(13, 17)):
        assert error[:, own].max() <= 1e-10 * np.abs(expected[:, own]).max()


def test_the_documents_sign_and_gravity_tests(modules):
    """Motor 0 faster: τx > 0, τz < 0; front motors faster: τy > 0; without thrust, v_z = −0.981 m/s after 0.1 s."""
    said = printed(
        modules,
        """
        import { DronePhysicsEngine } from "./drone_physics_engine.js";
        const torque = (...motorSpeeds) => {
          const engine = new DronePhysicsEngine();
          engine.reset({ motorSpeeds });
          return engine.motorWrench().tau_B;
        };
        const falling = new DronePhysicsEngine({ omegaMin: 0, dragLinear: { x: 0, y: 0, z: 0 } });
        falling.applyMotorCommands(0, 0, 0, 0);
        for (let i = 0; i < 20; i++) falling.step(0.005);
        console.log(JSON.stringify([torque(1620, 1400, 1400, 1400), torque(1620, 1620, 1400, 1400), falling.getState().v_W]));
        """,
    )
    one, front, fallen = said
    assert one["x"] > 0.0 and one["z"] < 0.0 and front["y"] > 0.0
    engine = DroneEngine()
    engine.reset(motorSpeeds=(1620.0, 1400.0, 1400.0, 1400.0))
    assert list(one.values()) == pytest.approx(list(engine.motor_wrench().tau_B), rel=1e-14)
    assert fallen["z"] == pytest.approx(-0.981, abs=1e-12)


def test_a_motor_alone(modules):
    said = printed(
        modules,
        'import { MotorModel } from "./motor_model.js";\nconst motor = new MotorModel();\n'
        "console.log(JSON.stringify([motor.step(2000, 0.015), motor.step(500, 0.1), motor.tau]));",
    )
    motor = MotorModel()
    assert said == pytest.approx([motor.step(2000.0, 0.015), motor.step(500.0, 0.1), motor.tau], rel=1e-15)


def test_a_state_is_the_readers_own_and_vectors_of_a_library_keep_their_class(modules):
    """What getState returned stays; a Vector3 put into the state is written to, not replaced; reset goes back."""
    said = printed(
        modules,
        """
        import { DronePhysicsEngine } from "./drone_physics_engine.js";
        class Vector3 { x = 0; y = 0; z = 0; copy(v) { this.x = v.x; this.y = v.y; this.z = v.z; return this; } }
        const engine = new DronePhysicsEngine(), own = engine.state.p_W = new Vector3();
        engine.applyMotorCommands(1, 1, 1, 1);
        engine.step(0.005);
        const kept = engine.getState(), before = JSON.stringify(kept);
        engine.step(0.005);
        const same = before === JSON.stringify(kept) && engine.state.p_W === own && own.z !== kept.p_W.z;
        engine.reset(kept);
        const back = JSON.stringify(engine.getState()) === before && new Vector3().copy(kept.p_W).z === kept.p_W.z;
        console.log(JSON.stringify([same, back]));
        """,
    )
    assert said == [True, True]


WRONG = {
    "engine.step(-1)": "dt = -1 s: expected a positive number, at most 3600",
    "engine.step(NaN)": "dt = NaN s: expected a positive number, at most 3600",
    "engine.applyMotorCommands(0.5, NaN, 0.5, 0.5)": "motor command u1 is NaN; expected a number within [0, 1]",
    "engine.applyMotorCommands(0.5)": "motor command u1 is undefined; expected a number within [0, 1]",
    "new DronePhysicsEngine({ weight: 1 })": "params.weight: expected one of mass, armLength",
    "new DronePhysicsEngine({ mass: -1 })": "params.mass = -1: expected a positive number",
    "new DronePhysicsEngine({ inertia: { Jxx: 1 } })": "params.inertia.Jyy = NaN: expected a positive number",
    "new DronePhysicsEngine({}, { allocation: 'x' })": "allocation x: expected one of documented, geometric",
    "engine.reset({ p_W: { x: 1, y: 2 } })": "a state has numbers that are not finite",
    "new MotorModel(0)": "tau = 0 s: expected a positive number",
}


def test_wrong_input_is_one_sentence(modules):
    calls = ",".join(f"() => {text}" for text in WRONG)
    said = printed(
        modules,
        'import { DronePhysicsEngine } from "./drone_physics_engine.js";\nimport { MotorModel } from "./motor_model.js";\n'
        "const engine = new DronePhysicsEngine();\n"
        f"const said = [{calls}].map((call) => {{ try {{ call(); }} catch (error) {{ return error.message; }} }});\n"
        "console.log(JSON.stringify(said));",
    )
    assert all(own.startswith(expected) for own, expected in zip(said, WRONG.values(), strict=True)), said


def test_the_programs_of_the_documentation_print_what_it_says(tmp_path, repository):
    page = (repository / "docs" / "javascript.md").read_text(encoding="utf-8")
    write_engine_js(tmp_path)
    write_js(samara.vehicle("iris"), tmp_path)
    programs = re.findall(r"^```js\n(.*?)^```\n\n```\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(programs) == page.count("```js")
    for program, says in programs:
        assert printed(tmp_path, program, read=str) == says


def test_samara_export_engine_and_vehicle(monkeypatch, capsys, tmp_path):
    """The files, and what a step takes."""
    node()
    status, out, _ = call(monkeypatch, capsys, "export", "engine", "--js", "-o", str(tmp_path))
    assert status == 0 and "params_crazyflie.js" in out and "µs a step" in out
    assert {path.name for path in tmp_path.iterdir()} == {
        "drone_physics_engine.js",
        "motor_model.js",
        "params_crazyflie.js",
    }
    status, out, _ = call(monkeypatch, capsys, "export", "vehicle", "hakoniwa", "--js", "-o", str(tmp_path))
    assert status == 0 and "samara_hakoniwa.js" in out and "µs a step" in out
    status, out, _ = call(monkeypatch, capsys, "export", "vehicle", "hakoniwa", "-o", str(tmp_path))
    assert status == 0 and "samara_hakoniwa.h" in out
    status, _, err = call(monkeypatch, capsys, "export", "vehicle", "nothing", "--js")
    assert status == 2 and "no vehicle 'nothing'" in err
