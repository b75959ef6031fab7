"""URDF and xacro: links combine as in MuJoCo, rotors come from three types of files, and no code of a file is executed."""

import math
from pathlib import Path
from xml.etree.ElementTree import tostring

import numpy as np
import pytest

import samara
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.formats import read_aircraft
from samara.vehicles.exchange.imported_vehicle import build_imported
from samara.vehicles.exchange.safe_xml import read_xml
from samara.vehicles.exchange.urdf import read_urdf
from samara.vehicles.exchange.xacro import evaluate, expand_xacro

WREN = Path(__file__).with_name("wren.xacro")
SPARROW = """<robot name="sparrow">
  <properties kf="3e-10" km="8e-12" thrust2weight="2.1" prop_radius="0.023" drag_coeff_xy="9e-7" drag_coeff_z="1e-6"/>
  <link name="base_link"><inertial><mass value="0.03"/><inertia ixx="1.5e-5" iyy="1.6e-5" izz="2.2e-5"/></inertial></link>
  {}
</robot>"""
PROP = """<link name="prop{i}_link"><inertial><origin xyz="{x} {y} 0"/><mass value="0"/></inertial></link>
  <joint name="prop{i}_joint" type="fixed"><parent link="base_link"/><child link="prop{i}_link"/></joint>"""
WHOLE = '<mujoco><compiler fusestatic="false"/></mujoco></robot>'  # so that MuJoCo does not weld the body to the world
PLACES = ((0.03, -0.03), (-0.03, -0.03), (-0.03, 0.03), (0.03, 0.03))


def sparrow():
    return SPARROW.format("\n".join(PROP.format(i=i, x=x, y=y) for i, (x, y) in enumerate(PLACES)))


def test_macros_become_an_aircraft():
    read = read_aircraft(WREN)
    assert (read.format, read.name, read.missing_fields) == ("URDF", "wren", ())
    vehicle = build_imported(read)
    assert vehicle.mass == pytest.approx(0.67, rel=1e-14)
    offset = vehicle.rotors[2].r_B - vehicle.rotors[3].r_B
    assert list(offset) == pytest.approx([2 * 0.11 * math.cos(math.pi / 4)] * 2 + [0.0], abs=1e-15)
    assert [rotor.spin for rotor in vehicle.rotors] == [1, 1, -1, -1]
    assert [rotor.motor.time_constant_up for rotor in vehicle.rotors] == [0.012, 0.012, 0.012, 0.011]
    assert vehicle.rotors[0].k_torque == 1.1e-06 * 0.012 and vehicle.rotors[0].radius == 0.0635
    assert vehicle["rolling_moment"].coefficient == 1e-07
    assert len(vehicle["contact"].points_B) == 4


def test_links_are_one_body_as_mujoco_has_them():
    """Mass, centre of mass and inertia equal MuJoCo's for the expanded file."""
    mujoco = pytest.importorskip("mujoco", minversion="3.14")  # older ones ignore the rotation of <inertial>
    text = tostring(expand_xacro(read_xml(WREN), WREN.parent).element, encoding="unicode")
    model = mujoco.MjModel.from_xml_string(text.replace("</robot>", WHOLE))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    masses, centres = model.body_mass, data.xipos
    centre = (masses[:, None] * centres).sum(axis=0) / masses.sum()
    inertia = np.zeros((3, 3))
    for mass, body_centre, orientation, moments in zip(masses, centres, data.ximat, model.body_inertia, strict=True):
        d, R = body_centre - centre, orientation.reshape(3, 3)
        inertia += R @ np.diag(moments) @ R.T + mass * (d @ d * np.eye(3) - np.outer(d, d))
    vehicle = build_imported(read_urdf(WREN))
    assert vehicle.mass == pytest.approx(masses.sum(), rel=1e-12)
    assert np.array(vehicle.inertia_B).reshape(3, 3) == pytest.approx(inertia, rel=1e-6, abs=1e-11)
    hub = vehicle.rotors[0].r_B
    expected = np.array([0.11 * math.cos(math.pi / 4), -0.11 * math.cos(math.pi / 4), 0.02]) - centre
    assert np.array(hub) == pytest.approx(expected, rel=1e-9)


def test_files_of_gym_pybullet_drones(tmp_path):
    """kf per rpm²; the highest speed lifts thrust2weight times the weight; the lag comes from --defaults-from"""
    path = tmp_path / "sparrow.urdf"
    path.write_text(sparrow())
    read = read_urdf(path)
    assert read.missing_fields == ("rotors.motor.time_constant_up", "rotors.motor.time_constant_down")
    vehicle = build_imported(read, samara.vehicle("crazyflie"))
    assert vehicle.rotors[0].k_thrust == pytest.approx(3e-10 * (60 / (2 * math.pi)) ** 2, rel=1e-14)
    thrust = sum(rotor.k_thrust * rotor.motor.speed_max**2 for rotor in vehicle.rotors)
    assert thrust == pytest.approx(2.1 * 0.03 * 9.8, rel=1e-13)
    assert [(rotor.r_B.x, rotor.r_B.y) for rotor in vehicle.rotors] == [pytest.approx(place) for place in PLACES]
    assert vehicle["rotor_drag"] == (9e-7, 1e-6)
    state, command = samara.hover(vehicle)
    rate = samara.derivative(
        state._replace(rotor_speed=(state.rotor_speed[0] * 1.1, *state.rotor_speed[1:])), command, vehicle
    )
    assert rate.omega_B.z < 0.0  # the first turns counter-clockwise: faster, it turns the body clockwise


def test_a_file_with_joints_alone_lacks_what_turns_them(tmp_path):
    text = sparrow().replace('type="fixed"', 'type="continuous"').replace("<properties", "<nothing")
    path = tmp_path / "sparrow.urdf"
    path.write_text(text)
    read = read_urdf(path)
    assert set(read.missing_fields) >= {"rotors.spin", "rotors.k_thrust", "rotors.k_torque", "rotors.motor.speed_max"}
    vehicle = build_imported(read, samara.vehicle("crazyflie_documented"))
    by_place = {(r.r_B.x > 0, r.r_B.y > 0): r.spin for r in samara.vehicle("crazyflie_documented").rotors}
    assert [r.spin for r in vehicle.rotors] == [by_place[r.r_B.x > 0, r.r_B.y > 0] for r in vehicle.rotors]


TREE = {
    "a circle": (
        '<link name="a"/><link name="b"/>'
        + "".join(
            f'<joint name="{i}" type="fixed"><parent link="{p}"/><child link="{c}"/></joint>'
            for i, (p, c) in enumerate((("a", "b"), ("b", "a")))
        ),
        "without a parent|is its own ancestor",
    ),
    "two parents": (
        '<link name="a"/><link name="b"/>'
        + "".join(f'<joint name="{i}" type="fixed"><parent link="a"/><child link="b"/></joint>' for i in range(2)),
        "a second parent",
    ),
    "no link": (
        '<link name="a"/><joint name="j" type="fixed"><parent link="a"/><child link="z"/></joint>',
        "joins link 'z'",
    ),
    "no mass": ('<link name="a"/>', "has no link with a mass"),
    "no rotors": ('<link name="a"><inertial><mass value="1"/></inertial></link>', "expected rotors"),
    "not a number": (
        '<link name="a"><inertial><mass value="nan"/></inertial></link>',
        "mass value = 'nan': expected a finite",
    ),
    "below nothing": ('<link name="a"><inertial><mass value="-1"/></inertial></link>', "has the mass -1 kg"),
}


@pytest.mark.parametrize("inside, sentence", TREE.values(), ids=TREE)
def test_a_tree_that_is_none_is_one_sentence(tmp_path, inside, sentence):
    path = tmp_path / "own.urdf"
    path.write_text(f"<robot name='own'>{inside}</robot>")
    with pytest.raises(VehicleError, match=sentence) as error:
        read_urdf(path)
    assert str(error.value).startswith("own.urdf: ") and len(str(error.value).splitlines()) == 1


XACRO = {
    "code": ("<a b=\"${__import__('os').system('touch harm')}\"/>", "has a Call|calls|Attribute"),
    "an attribute": ('<a b="${pi.__class__}"/>', "has a Attribute, which is not arithmetic"),
    "a file": ("<a b=\"${open('/etc/passwd')}\"/>", "calls 'open', which is not a supported function"),
    "a list": ('<a b="${[x for x in (1, 2)]}"/>', "has a ListComp"),
    "a lambda": ('<a b="${(lambda: 1)()}"/>', "has a Call"),
    "a yaml": ("<a b=\"${xacro.load_yaml('x')}\"/>", "has a Call"),
    "a huge power": ('<a b="${9**9**9}"/>', "has the exponent"),
    "a huge text": ("<a b=\"${'a' * 999999999}\"/>", "has a BinOp"),
    "eval": ('<a b="$(eval 1)"/>', r"uses '\$\(eval 1\)'"),
    "the environment": ('<a b="$(env HOME)"/>', "uses"),
    "no name": ('<a b="${nobody}"/>', "has the name 'nobody', which is not a property"),
    "itself": ('<x:property name="p" value="${p}"/><a b="${p}"/>', "which is defined by itself"),
    "division": ('<a b="${1/0}"/>', "cannot be computed, division by zero"),
    "a bomb": (
        '<x:macro name="m0" params=""><a/></x:macro>'
        + "".join(f'<x:macro name="m{i}" params="">{f"<x:m{i - 1}/>" * 10}</x:macro>' for i in range(1, 9))
        + "<x:m8/>",
        "has too many elements and evaluations; expected at most 50,000",
    ),
    "a macro of itself": ('<x:macro name="m" params=""><x:m/></x:macro><x:m/>', "is nested too deeply"),
    "a macro that calls itself in the blocks it hands over": (
        '<x:macro name="m" params="**b"><x:m><w><x:m><w><x:m><w/></x:m></w></x:m></w></x:m></x:macro><x:m><w/></x:m>',
        "is nested too deeply",
    ),
    "an include from above": ('<x:include filename="../../etc/passwd"/>', "expected a file beside it"),
    "an include from the root": ('<x:include filename="/etc/passwd"/>', "expected a file beside it"),
    "an include of a package": (
        '<x:include filename="$(find p)/../../../etc/x"/>',
        "expected a file beside it|beside the file",
    ),
    "an include that is not there": ('<x:include filename="none.xacro"/>', "expected 'none.xacro' beside the file"),
    "no such macro": ("<x:nothing/>", "has xacro:nothing, which is not a macro"),
    "no parameter": ('<x:macro name="m" params="a"/><x:m/>', "is called without 'a'"),
    "no condition": ('<x:if value="perhaps"/>', "has the condition 'perhaps'"),
}


@pytest.mark.parametrize("inside, sentence", XACRO.values(), ids=XACRO)
def test_what_xacro_may_not_is_one_sentence_and_is_not_done(tmp_path, monkeypatch, inside, sentence):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "own.xacro"
    path.write_text(f'<robot name="own" xmlns:x="http://www.ros.org/wiki/xacro">{inside}</robot>')
    with pytest.raises(VehicleError, match=sentence) as error:
        read_urdf(path)
    assert str(error.value).startswith("own.xacro: ") and len(str(error.value).splitlines()) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["own.xacro"]


@pytest.mark.parametrize(
    "text, value",
    [
        ("1 + 2 * 3", 7),
        ("-(2 ** 0.5)", -math.sqrt(2)),
        ("mass * (0.1 * 0.1 + 0.2 * 0.2) / 12", 0.5 * (0.1 * 0.1 + 0.2 * 0.2) / 12),
        ("radians(90) + atan2(0, -1)", 1.5 * math.pi),
        ("1 if mass > 0.1 and not False else 2", 1),
        ("max(1, 2, mass)", 2),
        ("'a' + 'b'", "ab"),
        ("7 // 2 % 2", 1),
    ],
)
def test_arithmetic_is_pythons(text, value):
    assert evaluate(text, {"mass": 0.5}.__getitem__) == value
