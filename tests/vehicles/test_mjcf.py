"""MuJoCo's format: accelerations equal MuJoCo's; meshes and files elsewhere are never opened."""

import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import samara
from samara.core.algebra import Vec3, quat_from_euler
from samara.core.extras import MissingExtraError, install_hint
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.formats import read_aircraft
from samara.vehicles.exchange.imported_vehicle import build_imported
from samara.vehicles.exchange.mjcf import read_mjcf

MARTIN = Path(__file__).with_name("martin.xml")
mujoco = pytest.importorskip("mujoco")


def martin():
    """The file's vehicle with missing parameters of an iris, and only gravity and rotors."""
    vehicle = build_imported(read_aircraft(MARTIN), samara.vehicle("iris_documented"))
    retained = ("gravity", "rotors")
    return vehicle.without_effect(*(effect.name for effect in vehicle.structure.effects if effect.name not in retained))


def test_what_it_says_and_what_it_lacks():
    read = read_aircraft(MARTIN)
    assert (read.format, read.name) == ("MJCF", "martin")
    assert read.missing_fields == (
        "rotors.k_thrust",
        "rotors.motor.time_constant_up",
        "rotors.motor.time_constant_down",
    )
    assert [rotor.spin for rotor in read.rotors] == [1, 1, -1, -1]
    vehicle = martin()
    assert vehicle.mass == pytest.approx(1.0, rel=1e-12)
    for rotor in vehicle.rotors:
        assert rotor.k_thrust * rotor.motor.speed_max**2 == pytest.approx(6.0, rel=1e-12)
        assert rotor.k_torque == pytest.approx(0.015 * rotor.k_thrust, rel=1e-12)


@pytest.mark.parametrize("thrusts", [(2.0, 2.5, 3.0, 1.5), (0.0, 0.0, 0.0, 6.0), (2.4525, 2.4525, 2.4525, 2.4525)])
def test_accelerations_are_those_that_mujoco_computes(thrusts):
    """At rest, without MuJoCo's drag: linear acceleration of the body's frame, angular acceleration in body axes."""
    text = MARTIN.read_text().replace('<mesh name="shell" file="not_there.stl"/>', "")
    text = text.replace('<geom type="mesh" mesh="shell" mass="0"/>', "")
    model = mujoco.MjModel.from_xml_string(text)
    model.opt.gravity[2] = -9.80665
    data = mujoco.MjData(model)
    data.ctrl[:] = thrusts
    mujoco.mj_forward(model, data)
    body = model.body("martin").id
    vehicle = martin()
    state = samara.hover(samara.vehicle("iris"))[0]._replace(
        v_W=Vec3(0.0, 0.0, 0.0),
        q_WB=quat_from_euler(0.0, 0.0, math.radians(40.0)),
        rotor_speed=tuple(math.sqrt(t / r.k_thrust) for t, r in zip(thrusts, vehicle.rotors, strict=True)),
        effects=((),) * len(vehicle.structure.effects),
    )
    rate = samara.derivative(state, (0.5,) * 4, vehicle)
    assert np.array(rate.omega_B) == pytest.approx(data.qacc[3:6], rel=1e-9, abs=1e-9)
    from_centre = data.xpos[body] - data.subtree_com[body]
    alpha_W = data.xmat[body].reshape(3, 3) @ data.qacc[3:6]
    centre = data.qacc[:3] - np.cross(alpha_W, from_centre)
    assert np.array(rate.v_W) == pytest.approx(centre, rel=1e-9, abs=1e-9)


def test_a_filter_is_a_lag(tmp_path):
    text = MARTIN.read_text().replace("<motor name", '<general dyntype="filter" dynprm="0.03" ctrlrange="0 6" name')
    path = tmp_path / "own.xml"
    path.write_text(text)
    assert read_mjcf(path).missing_fields == ("rotors.k_thrust",)


WRONG = {
    "an include from the root": (
        ("<option", '<include file="/etc/passwd"/><option'),
        "expected a file beside this one",
    ),
    "an include from above": (("<option", '<include file="../x.xml"/><option'), "expected a file beside this one"),
    "itself": (("<option", '<include file="own.xml"/><option'), "is nested too deeply"),
    "an include that is not there": (("<option", '<include file="x.xml"/><option'), "expected an existing file"),
    "mass of a mesh": (
        ('mesh="shell" mass="0"', 'mesh="shell" mass="0.2"'),
        "whose mass is that of a mesh, which is not opened",
    ),
    "not a number": (('mass="0.9"', 'mass="nan"'), "has geom mass = 'nan': expected finite"),
    "no number": (('mass="0.9"', 'mass="heavy"'), "MuJoCo reports"),
    "no actuators": (("motor ", "nothing "), "MuJoCo reports|has no actuators"),
    "no force": (('gear="0 0 1 0 0 -0.015"', 'gear="0 0 0 0 0 1"'), "with a torque and no force"),
    "no site": (('site="d" ', 'body="martin" '), "at no site|MuJoCo reports"),
    "no range": (('ctrlrange="0 6" ', ""), "without a ctrlrange"),
    "too weak": (('ctrlrange="0 6"', 'ctrlrange="0 1"'), "enough to lift 1 kg"),
    "another root": (("mujoco", "mujoca"), "is the root: expected <mujoco>"),
    "a torque across": (('gear="0 0 1 0 0 0.015"', 'gear="0 0 1 0.5 0 0.015"'), "whose torque is not along its force"),
}


@pytest.mark.parametrize("change, sentence", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_one_sentence(tmp_path, monkeypatch, change, sentence):
    monkeypatch.chdir(tmp_path)
    text = MARTIN.read_text()
    assert change[0] in text
    path = tmp_path / "own.xml"
    path.write_text(text.replace(*change))
    with pytest.raises(VehicleError, match=sentence) as error:
        read_mjcf(path)
    assert str(error.value).startswith("own.xml: ") and len(str(error.value).splitlines()) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["own.xml"]


def test_without_mujoco_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(MissingExtraError, match=re.escape(install_hint("mjcf"))):
        read_mjcf(MARTIN)
