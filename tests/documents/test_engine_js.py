"""Document 000's modules under Node: equal to Python's engine over ten seconds, and the document's checks."""

import json
import re
import subprocess

import numpy as np
import pytest
from support.command import call
from support.node import node, run_script

import samara
from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.documents.engine import CrazyflieParams, DroneEngine, MotorModel
from samara.documents.engine_js import write_engine_js
from samara.export.javascript import write_js

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
    """2000 steps of a tumbling flight, after each within 1e-12 of the largest component of the state, and of each quantity."""
    random, params = np.random.default_rng(7), {} if mass is None else {"mass": mass, "dragLinear": Vec3(0.1, 0.2, 0.3)}
    wind_W = Vec3(1.0, -0.5, 0.2)
    engine = DroneEngine(CrazyflieParams(**params), allocation, wind_W=wind_W)
    commands = np.repeat(random.uniform(0.55, 0.58, (100, 4)), 20, axis=0).tolist()
    expected = []
    for command in commands:
        engine.apply_motor_commands(*command)
        engine.step(DT)
        expected.append(flatten(engine.get_state()))
    json_params = {name: value._asdict() if isinstance(value, Vec3) else value for name, value in params.items()}
    job = {
        "allocation": allocation,
        "params": json_params,
        "wind_W": wind_W._asdict(),
        "commands": commands,
        "dt": DT,
    }
    flown, expected = np.array(run_script(modules, FLY, job)), np.array(expected)
    assert np.abs(expected[:, 10:13]).max() > 1.0  # it turned
    error = np.abs(flown - expected)
    assert (error.max(axis=1) <= 1e-12 * np.abs(expected).max(axis=1)).all()
    for quantity in (slice(0, 3), slice(3, 6), slice(6, 10), slice(10, 13), slice(13, 17)):
        assert error[:, quantity].max() <= 1e-10 * np.abs(expected[:, quantity]).max()


def test_the_documents_sign_and_gravity_tests(modules):
    """Motor 0 faster: τx > 0, τz < 0; front motors faster: τy > 0; without thrust, v_z = −0.981 m/s after 0.1 s."""
    output = run_script(
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
    one, front, fallen = output
    assert one["x"] > 0.0 and one["z"] < 0.0 and front["y"] > 0.0
    engine = DroneEngine()
    engine.reset(motorSpeeds=(1620.0, 1400.0, 1400.0, 1400.0))
    assert list(one.values()) == pytest.approx(list(engine.motor_wrench().tau_B), rel=1e-14)
    assert fallen["z"] == pytest.approx(-0.981, abs=1e-12)


def test_a_motor_alone(modules):
    output = run_script(
        modules,
        'import { MotorModel } from "./motor_model.js";\nconst motor = new MotorModel();\n'
        "console.log(JSON.stringify([motor.step(2000, 0.015), motor.step(500, 0.1), motor.tau]));",
    )
    motor = MotorModel()
    assert output == pytest.approx([motor.step(2000.0, 0.015), motor.step(500.0, 0.1), motor.tau], rel=1e-15)


def test_a_state_is_the_readers_own_and_vectors_of_a_library_keep_their_class(modules):
    """A returned state is independent; a Vector3 in the state is written to, not replaced; reset restores it."""
    output = run_script(
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
    assert output == [True, True]


LAWS = """
import { createRequire } from "node:module";
import { DronePhysicsEngine } from "./drone_physics_engine.js";
import * as small from "./vectors.js";

const three = given && createRequire(import.meta.url)("three");
const round = (own) => [...own].map((value) => Math.round(value * 1e12) / 1e12 + 0);
const laws = (library, options) => {
  const engine = new DronePhysicsEngine({}, options);
  engine.reset({ p_W: [1, 2, 3], v_W: new library.Vector3(2, 3, 6), q_WB: new library.Quaternion(0, 0, 1, 1) });
  const { p_W, v_W, q_WB, omega_B } = engine.state, before = q_WB.clone();
  const classes = [p_W, v_W, omega_B, engine.getState().p_W, engine.motorWrench().tau_B, engine.wind_W]
    .every((own) => own instanceof library.Vector3) && q_WB instanceof library.Quaternion;
  engine.state.q_WB.multiply(new library.Quaternion(1, 0, 0, 0));
  const turned = round(q_WB);
  q_WB.copy(before);
  engine.step(0.001);
  return {
    classes,
    kept: engine.state.q_WB === q_WB && engine.state.p_W === p_W,
    attitude: round(before),
    length: new library.Vector3(2, 3, 6).length(),
    body: round(new library.Vector3(1, 2, 3).applyQuaternion(before)),
    back: round(new library.Vector3(-2, 1, 3).applyQuaternion(before.clone().invert())),
    turned,
    first: round(before.clone().premultiply(new library.Quaternion(1, 0, 0, 0))),
    cross: round(new library.Vector3(1, 2, 3).cross(new library.Vector3(4, 5, 6))),
    sum: round(new library.Vector3(1, 2, 3).addScaledVector(new library.Vector3(4, 5, 6), 2).sub({ x: 1, y: 1, z: 1 })),
    unit: round(new library.Vector3(2, 3, 6).normalize().multiplyScalar(7)),
    distance: new library.Vector3(1, 2, 3).distanceTo(new library.Vector3(3, 5, 9)),
    matrix: round(new library.Vector3(1, 2, 3).applyMatrix3({ elements: [1, 4, 7, 2, 5, 8, 3, 6, 9] })),
    axis: round(new library.Quaternion().setFromAxisAngle({ x: 0, y: 1, z: 0 }, Math.PI / 2)),
    json: JSON.stringify([new library.Vector3(1, 2, 3), new library.Quaternion(0, 0, 0, 1)]),
    stored: [before._x, before._y, before._z, before._w].every((own, i) => own === before.toArray()[i]),
  };
};
const said = { small: laws(small, {}), option: laws(small, { THREE: small }) };
globalThis.THREE = { Vector3: class extends small.Vector3 {}, Quaternion: class extends small.Quaternion {} };
said.page = laws(globalThis.THREE, {});
delete globalThis.THREE;
if (three) {
  said.three = laws(three, { THREE: three });
  const engine = new DronePhysicsEngine(); // small classes, given to functions of three.js
  const roll = 0.3, pitch = -0.2, yaw = 0.9;
  const asked = new three.Quaternion().setFromEuler(new three.Euler(roll, pitch, yaw, "XYZ"));
  engine.reset({ q_WB: asked });
  const euler = new three.Euler().setFromQuaternion(engine.state.q_WB, "XYZ");
  const matrix = new three.Matrix4().makeRotationFromQuaternion(engine.state.q_WB);
  const turned = new three.Vector3(1, 2, 3).applyMatrix4(matrix), same = new small.Vector3(1, 2, 3).applyQuaternion(asked);
  said.euler = round([euler.x - roll, euler.y - pitch, euler.z - yaw, turned.distanceTo(same)]);
}
console.log(JSON.stringify(said));
"""


def test_state_vectors_follow_the_laws_of_three_js(modules):
    """q = 90° about z, v = (1, 2, 3), by hand: with the small classes, with those of a page, and with three.js if the
    package is installed (NODE_PATH)."""
    has_three = (
        subprocess.run([node(), "-e", "require.resolve('three')"], capture_output=True, cwd=modules).returncode == 0
    )
    output = run_script(modules, LAWS, has_three)
    assert output.pop("euler", [0, 0, 0, 0]) == [0, 0, 0, 0]
    assert set(output) == {"small", "option", "page"} | ({"three"} if has_three else set())
    half = round(0.5**0.5, 12)
    for laws in output.values():
        assert laws == {
            "classes": True,
            "kept": True,
            "attitude": [0, 0, half, half],
            "length": 7,
            "body": [-2, 1, 3],
            "back": [1, 2, 3],
            "turned": [half, half, 0, 0],
            "first": [half, -half, 0, 0],
            "cross": [-3, 6, -3],
            "sum": [8, 11, 14],
            "unit": [2, 3, 6],
            "distance": 7,
            "matrix": [14, 32, 50],
            "axis": [0, half, 0, half],
            "json": '[{"x":1,"y":2,"z":3},[0,0,0,1]]',
            "stored": True,
        }


def test_names_of_the_origins_controllers_are_aliases(modules):
    """position, velocity, orientation, …, CRAZYFLIE_PARAMS and PARAMS: the same objects, or the same numbers in their shape."""
    output = run_script(
        modules,
        """
        import { CRAZYFLIE_PARAMS, DronePhysicsEngine, MotorModel, PARAMS } from "./drone_physics_engine.js";
        import { PARAMS_CRAZYFLIE } from "./params_crazyflie.js";
        const engine = new DronePhysicsEngine(Object.assign({}, CRAZYFLIE_PARAMS, { mass: 0.03 }));
        const velocity_W = { x: 4, y: 5, z: 6 };
        engine.reset({ position: [1, 2, 3], velocity: velocity_W, orientation: [0, 0, 1, 0], angularVelocity: [7, 8, 9] });
        const { state } = engine, { position, velocity, orientationQuat, quaternion, angularVelocity } = engine.getState();
        state.position.x += 10;
        console.log(JSON.stringify([
          state.position === state.p_W && state.orientation === state.q_WB && state.angularVelocity === state.omega_B,
          state.p_W.x, [...position], [...velocity], [...orientationQuat], [...quaternion], [...angularVelocity],
          engine.params.mass, engine.params.omegaMax, Object.keys(engine.params).includes("motor"),
          PARAMS === PARAMS_CRAZYFLIE, CRAZYFLIE_PARAMS.motor, CRAZYFLIE_PARAMS.maxThrustPerMotor, new MotorModel().tau,
          new DronePhysicsEngine({ motor: { omegaMax: 2000 } }).params.omegaMax,
        ]));
        """,
    )
    motor = {"omegaMin": 300, "omegaMax": 2500, "tauMotor": 0.015}
    assert output[:11] == [
        *(True, 11, [1, 2, 3], [4, 5, 6], [0, 0, 1, 0], [0, 0, 1, 0], [7, 8, 9], 0.03, 2500, False, True),
    ]
    assert output[11] == motor and output[12] == pytest.approx(0.18, rel=1e-12) and output[13:] == [0.015, 2000]


def test_a_state_survives_json(modules):
    output = run_script(
        modules,
        """
        import { DronePhysicsEngine } from "./drone_physics_engine.js";
        const engine = new DronePhysicsEngine();
        engine.reset({ p_W: [1, 2, 3], q_WB: [0.6, 0, 0, 0.8] });
        engine.applyMotorCommands(1, 0, 1, 0);
        engine.step(0.005);
        const text = JSON.stringify(engine.getState());
        engine.reset(JSON.parse(text));
        console.log(JSON.stringify([text === JSON.stringify(engine.getState())]));
        """,
    )
    assert output == [True]


def test_a_package_json_of_the_users_own_is_left_alone(tmp_path):
    (tmp_path / "package.json").write_text('{"name": "page"}')
    write_engine_js(tmp_path)
    assert json.loads((tmp_path / "package.json").read_text()) == {"name": "page"}


WRONG = {
    "engine.step(-1)": "dt = -1 s: expected a positive number, at most 3600",
    "engine.step(NaN)": "dt = NaN s: expected a positive number, at most 3600",
    "engine.applyMotorCommands(0.5, NaN, 0.5, 0.5)": "motor command u1 is NaN; expected a number within [0, 1]",
    "engine.applyMotorCommands(0.5)": "motor command u1 is undefined; expected a number within [0, 1]",
    "new DronePhysicsEngine({ weight: 1 })": "params.weight: expected one of mass, armLength",
    "new DronePhysicsEngine({ mass: -1 })": "params.mass = -1: expected a positive number",
    "new DronePhysicsEngine({ inertia: { Jxx: 1 } })": "params.inertia.Jyy = NaN: expected a positive number",
    "new DronePhysicsEngine({}, { allocation: 'x' })": "allocation x: expected one of documented, geometric",
    "new DronePhysicsEngine({ motor: { kv: 1 } })": "params.motor.kv: expected one of omegaMin, omegaMax, tauMotor",
    "new DronePhysicsEngine({ omegaMax: 1, motor: { omegaMax: 2 } })": "params.omegaMax and params.motor.omegaMax differ",
    "engine.reset({ pos: { x: 1, y: 2, z: 3 } })": "reset: pos: expected one of p_W, v_W, q_WB, omega_B, motorSpeeds, position",
    "engine.reset({ p_W: { x: 1, y: 2 } })": "reset: p_W.z = undefined: expected a finite number",
    "engine.reset({ p_W: 3 })": "reset: p_W = 3: expected 3 numbers",
    "engine.reset({ q_WB: [0, 0, 0, 0] })": "reset: q_WB: expected numbers that are not all 0",
    "engine.reset({ motorSpeeds: [1, 2, 3] })": "reset: motorSpeeds = 1,2,3: expected 4 numbers",
    "engine.reset({ motorSpeeds: [1, 2, 3, -4] })": "reset: motorSpeeds = 1,2,3,-4 rad/s: expected numbers that are not",
    "new MotorModel(0)": "tau = 0 s: expected a positive number",
}


def test_wrong_input_is_one_sentence(modules):
    calls = ",".join(f"() => {text}" for text in WRONG)
    output = run_script(
        modules,
        'import { DronePhysicsEngine } from "./drone_physics_engine.js";\nimport { MotorModel } from "./motor_model.js";\n'
        "const engine = new DronePhysicsEngine();\n"
        f"const said = [{calls}].map((call) => {{ try {{ call(); }} catch (error) {{ return error.message; }} }});\n"
        "console.log(JSON.stringify(said));",
    )
    assert all(message.startswith(expected) for message, expected in zip(output, WRONG.values(), strict=True)), output


def test_the_programs_of_the_documentation_print_what_it_says(tmp_path, repository):
    page = (repository / "docs" / "howto" / "export-javascript.md").read_text(encoding="utf-8")
    write_engine_js(tmp_path)
    write_js(samara.vehicle("iris"), tmp_path)
    programs = re.findall(r"^```js\n(.*?)^```\n\n```\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(programs) == page.count("```js")
    for program, says in programs:
        assert run_script(tmp_path, program, parse=str) == says


def test_samara_export_engine_and_vehicle(monkeypatch, capsys, tmp_path):
    """The files, and the duration of a step."""
    node()
    status, out, _ = call(monkeypatch, capsys, "export", "engine", "--js", "-o", str(tmp_path))
    assert status == 0 and "params_crazyflie.js" in out and "µs per step" in out
    assert {path.name for path in tmp_path.iterdir()} == {
        "drone_physics_engine.js",
        "motor_model.js",
        "package.json",
        "params_crazyflie.js",
        "vectors.js",
    }
    assert json.loads((tmp_path / "package.json").read_text())["type"] == "module"
    status, out, _ = call(monkeypatch, capsys, "export", "vehicle", "hakoniwa", "--js", "-o", str(tmp_path))
    assert status == 0 and "samara_hakoniwa.js" in out and "µs per step" in out
    status, out, _ = call(monkeypatch, capsys, "export", "vehicle", "hakoniwa", "-o", str(tmp_path))
    assert status == 0 and "samara_hakoniwa.h" in out
    status, _, err = call(monkeypatch, capsys, "export", "vehicle", "nothing", "--js")
    assert status == 2 and "no vehicle 'nothing'" in err
