"""Malicious and truncated files: one sentence each, and nothing is opened, fetched or written."""

import os

import pytest
from vehicles.test_sdf import HERON, write_model

from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.formats import FORMATS, read_aircraft
from samara.vehicles.exchange.link_tree import LinkPose

BOMB = '<?xml version="1.0"?><!DOCTYPE sdf [<!ENTITY a "aaaaaaaaaa">' + "".join(
    f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' for i in range(9)
)
HOSTILE = {
    "an entity bomb": (BOMB + "]><sdf>&j;</sdf>", "has a document type, whose entities can expand"),
    "an outside entity": (
        '<!DOCTYPE sdf [<!ENTITY x SYSTEM "file:///etc/passwd">]><sdf>&x;</sdf>',
        "has a document type, whose entities can expand",
    ),
    "a document type alone": ('<!DOCTYPE sdf SYSTEM "http://localhost/x.dtd"><sdf/>', "has a document type"),
    "cut off": ("<sdf version='1.9'><model name='a'>", "is not XML, no element found"),
    "not closed": ("<sdf><model></sdf>", "is not XML, mismatched tag"),
    "empty": ("", "is not XML, no element found"),
    "zero bytes": ("<sdf>\x00</sdf>", "is not XML|has 0 models"),
    "another encoding": ("<?xml version='1.0' encoding='nonsense-9'?><sdf/>", "is not XML, unknown encoding"),
    "no model": ("<sdf/>", "has 0 models: expected one"),
    "two models": ("<sdf><model name='a'/><model name='b'/></sdf>", "has 2 models: expected one"),
    "no name": ("<sdf><model><link/></model></sdf>", "has no attribute name: expected one"),
    "deep": (
        "<sdf>" + "<model name='a'>" * 5000 + "</model>" * 5000 + "</sdf>",
        r"is nested too deeply \(elements\); expected at most 40",
    ),
    "no mass at all": (
        "<sdf><model name='a'><link name='l'><inertial><mass>0</mass></inertial></link></model></sdf>",
        "no motor model",
    ),
}


@pytest.mark.parametrize("text, sentence", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_sdf_is_one_sentence(tmp_path, text, sentence):
    path = tmp_path / "own.sdf"
    path.write_text(text)
    with pytest.raises(VehicleError, match=sentence) as error:
        read_aircraft(path)
    assert str(error.value).startswith("own.sdf: ") and "\n" not in str(error.value)
    assert len(str(error.value)) < 400


def test_ten_gigabytes_are_not_read(tmp_path):
    path = tmp_path / "huge.sdf"
    with path.open("wb") as file:
        file.truncate(10 << 30)
    with pytest.raises(VehicleError, match=r"huge\.sdf: cannot be read, it is larger than 16 MB"):
        read_aircraft(path)


def test_a_pipe_and_a_folder_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.sdf")
    for path in (tmp_path / "pipe.sdf", tmp_path):
        with pytest.raises(VehicleError, match="cannot be read, it is not a regular file"):
            read_aircraft(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(VehicleError, match=r"nowhere\.sdf: cannot be read, No such file"):
        read_aircraft(tmp_path / "nowhere.sdf")


def test_a_link_out_of_the_folder_is_no_model_beside(tmp_path):
    away = tmp_path / "away"
    path = write_model(tmp_path / "here", HERON.read_text())
    away.mkdir()
    (away / "model.sdf").write_text((tmp_path / "here" / "heron_base" / "model.sdf").read_text())
    os.symlink(away, tmp_path / "here" / "stork")
    path.write_text(HERON.read_text().replace("model://heron_base", "model://stork"))
    with pytest.raises(VehicleError, match="a model beside this file and nowhere else"):
        read_aircraft(path)


def test_meshes_are_never_opened(tmp_path):
    """Neither a huge one nor one that is a pipe, whose reading would never end."""
    path = write_model(tmp_path, HERON.read_text())
    meshes = tmp_path / "heron_base" / "meshes"
    meshes.mkdir()
    os.mkfifo(meshes / "not_there.dae")
    assert read_aircraft(path).missing_fields == ()


def test_what_is_no_vehicle_is_told_what_is_read(tmp_path):
    path = tmp_path / "letter.tex"
    path.write_text("Dear all")
    with pytest.raises(VehicleError, match="begins with 'Dear all': expected one of") as error:
        read_aircraft(path)
    assert all(file_format.name in str(error.value) for file_format in FORMATS)


@pytest.mark.parametrize(
    "head", ["<!---->" * 9000, "<?a?>" * 9000, " " * 60000 + "<", "<!DOCTYPE x [" * 5000, "<!--" * 9000]
)
def test_what_a_file_is_is_told_in_one_pass(tmp_path, head):
    """Endless comments do not block the reader."""
    path = tmp_path / "own.tex"
    path.write_text(head)
    with pytest.raises(VehicleError, match="begins with"):
        read_aircraft(path)


@pytest.mark.parametrize("ending", ["sdf", "urdf"])
def test_a_chain_of_frames_is_walked_once(tmp_path, monkeypatch, ending):
    """n links, each relative to the previous one: n compositions of poses, where n² / 2 made 1.4 MB take hours."""
    n, calls = 300, []
    compose = LinkPose.compose
    monkeypatch.setattr(LinkPose, "compose", lambda self, other: calls.append(1) or compose(self, other))
    if ending == "sdf":
        links = "".join(f'<link name="l{i}"><pose relative_to="l{i + 1}"/></link>' for i in range(n))
        text = f'<sdf><model name="a">{links}<link name="l{n}"/>{MOTOR}</model></sdf>'
    else:
        links = "".join(f'<link name="l{i}"/>' for i in range(n + 1))
        joints = (
            f'<joint name="j{i}"><parent link="l{i}"/><child link="l{i + 1}"/></joint>' for i in reversed(range(n))
        )
        text = f'<robot name="a">{links}{"".join(joints)}</robot>'
    path = tmp_path / f"own.{ending}"
    path.write_text(text)
    with pytest.raises(VehicleError, match=r"jointName|no link with a mass"):
        read_aircraft(path)
    assert n <= len(calls) <= 4 * n


MOTOR = (
    '<plugin filename="gz-sim-multicopter-motor-model-system" name="gz::sim::systems::MulticopterMotorModel">'
    "<linkName>l0</linkName><jointName>j</jointName><turningDirection>ccw</turningDirection>"
    "<motorNumber>0</motorNumber><motorConstant>1</motorConstant></plugin>"
)
