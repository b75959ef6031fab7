"""Files for other viewers: the scene and layout for Foxglove, a file for Rerun. Read by independent libraries."""

import json
import math

import numpy as np
import pytest
from foxglove_schemas_protobuf.SceneUpdate_pb2 import SceneUpdate
from mcap_protobuf.reader import read_protobuf_messages
from support.command import call

import samara
from samara.core.algebra import Quat, Vec3, rotate
from samara.core.extras import install_hint
from samara.record.foxglove import rotation_from_up, scene_message
from samara.record.load import load_run
from samara.record.recorder import LogLine
from samara.record.recording import read_recording
from samara.sim.fly import create_recorder
from samara.vehicles.shape import BodyBox, Disc, Rod, shape_parts
from samara.view.foxglove_layout import layout


@pytest.fixture(scope="module")
def flown(tmp_path_factory):
    path = tmp_path_factory.mktemp("flown") / "run.mcap"
    samara.fly("motor_failure", settings={"duration": 1.5}, out=path)
    return path


def scenes(path):
    return [message for message in read_protobuf_messages(path) if message.topic == "/scene"]


def test_a_recording_describes_once_how_its_drones_look(flown):
    """One foxglove.SceneUpdate at time 0: for each drone an entity in its frame, locked to it, without expiry."""
    (scene,) = scenes(flown)
    assert scene.log_time_ns == 0
    assert scene.proto_msg.DESCRIPTOR.full_name == "foxglove.SceneUpdate"
    run = load_run(flown)
    frames = {message.proto_msg.child_frame_id for message in read_protobuf_messages(flown) if message.topic == "/tf"}
    assert [entity_of_drone.frame_id for entity_of_drone in scene.proto_msg.entities] == ["quad", "hexa"]
    assert {"quad", "hexa"} <= frames
    for entity, drone_record in zip(scene.proto_msg.entities, run.drone_records, strict=True):
        assert entity.frame_locked and entity.lifetime.seconds == entity.lifetime.nanos == 0
        parts = shape_parts(drone_record.vehicle)
        assert len(entity.cubes) == sum(isinstance(part, BodyBox) for part in parts)
        round_parts = [part for part in parts if not isinstance(part, BodyBox)]
        for cylinder, part in zip(entity.cylinders, round_parts, strict=True):
            q = cylinder.pose.orientation
            axis = np.array(rotate(Quat(q.w, q.x, q.y, q.z), Vec3(0.0, 0.0, 1.0)))
            centre = np.array([cylinder.pose.position.x, cylinder.pose.position.y, cylinder.pose.position.z])
            assert cylinder.size.x == cylinder.size.y == 2.0 * part.radius
            if isinstance(part, Rod):  # its ends are half its length from its middle
                ends = centre + 0.5 * cylinder.size.z * np.stack([-axis, axis])
                assert ends == pytest.approx(np.array([part.start_B, part.end_B]), abs=1e-12)
            else:
                assert isinstance(part, Disc)
                assert np.abs(axis @ np.array(part.axis_B)) == pytest.approx(1.0)
                assert centre == pytest.approx(np.array(part.centre_B))


def test_the_scene_is_not_a_stream_and_harms_none(flown, tmp_path):
    """The recording is complete, has its streams, and a run that is saved again has the scene again."""
    recording = read_recording(flown)
    assert recording.complete and "/scene" not in recording.streams
    saved = load_run(flown).save(tmp_path / "again.mcap")
    first, second = (scenes(path)[0].proto_msg.SerializeToString() for path in (flown, saved))
    assert first == second


def test_the_scene_shows_the_reference_path(tmp_path):
    """A figure of eight is a line strip in the world frame: points of the trajectory in order; a hover draws none."""
    scenario = samara.load_scenario("figure8")
    with create_recorder(scenario, tmp_path / "run.mcap", overwrite=False) as recorder:
        recorder.write({}, [LogLine(0, "info", "test", "nothing is flown")])
    (scene,) = scenes(tmp_path / "run.mcap")
    entity = scene.proto_msg.entities[-1]
    (line,) = entity.lines
    assert (entity.frame_id, entity.id) == ("world", f"{scenario.drones[0].name} reference")
    points = np.array([(p.x, p.y, p.z) for p in line.points])
    task = scenario.drones[0].task
    times = np.linspace(0.0, min(task.duration, scenario.duration), len(points))
    assert np.abs(points - np.array(task.evaluate(times).p_W).T).max() < 1e-12
    entities = SceneUpdate.FromString(
        scene_message({"a": samara.vehicle("crazyflie")}, references={"a": np.ones((9, 3))})
    )
    assert len(entities.entities) == 1
    many = {f"d{k}": np.arange(3000.0).reshape(1000, 3) for k in range(100)}
    path_entities = SceneUpdate.FromString(scene_message({}, references=many)).entities
    assert [len(path_entity.lines[0].points) for path_entity in path_entities] == [240] * 100
    assert path_entities[0].lines[0].points[-1].z == 2999.0


@pytest.mark.parametrize("axis", [(0, 0, 1), (0, 0, -1), (1, 0, 0), (0.3, -0.5, 0.2), (1e-9, 0, -1), (0, 0, 0)])
def test_the_shortest_turn_takes_z_to_the_axis(axis):
    q = rotation_from_up(Vec3(*map(float, axis)))
    length = math.hypot(*axis)
    expected = np.array(axis) / length if length else np.array([0.0, 0.0, 1.0])
    assert sum(x * x for x in q) == pytest.approx(1.0)
    assert np.array(rotate(q, Vec3(0.0, 0.0, 1.0))) == pytest.approx(expected, abs=1e-8)
    assert q.z == 0.0  # no twist about z


def leaves(tree):
    return [tree] if isinstance(tree, str) else [*leaves(tree["first"]), *leaves(tree["second"])]


def test_every_path_of_the_layout_is_a_field_of_the_recording(flown):
    """Protobuf finds '/quad/state.p_W_x' in the message of that topic; every panel is in the layout once."""
    panel_layout = json.loads(json.dumps(layout(load_run(flown))))
    messages = {message.topic: message.proto_msg for message in read_protobuf_messages(flown)}
    paths = [path["value"] for panel in panel_layout["configById"].values() for path in panel.get("paths", ())]
    assert len(paths) > 20
    for path in paths:
        topic, _, field = path.partition(".")
        assert isinstance(getattr(messages[topic], field), float), path
    assert sorted(leaves(panel_layout["layout"])) == sorted(panel_layout["configById"])
    assert set(panel_layout["configById"]["3D!samara"]["topics"]) <= set(messages)
    motors = [path["value"] for path in panel_layout["configById"]["Plot!motors"]["paths"]]
    supply = [path["value"] for path in panel_layout["configById"]["Plot!supply"]["paths"]]
    assert {
        "/quad/derived.voltage",
        "/quad/derived.current",
        "/quad/derived.airspeed",
        "/hexa/derived.airspeed",
    } <= set(supply)
    assert motors[:4] == [f"/quad/command.motor_{k}" for k in range(4)] and len(motors) == 10


def test_samara_export_foxglove_layout(flown, monkeypatch, capsys, tmp_path):
    out = tmp_path / "layout.json"
    status, output, err = call(monkeypatch, capsys, "export", "foxglove-layout", str(flown), "-o", str(out))
    assert (status, output, err) == (0, f"{out}\n", "")
    assert json.loads(out.read_text(encoding="utf-8")) == layout(load_run(flown))


def test_samara_export_rerun(flown, monkeypatch, capsys, tmp_path):
    """Write a file in Rerun's format; without its library, a message names the package."""
    out = tmp_path / "run.rrd"
    try:
        import rerun  # noqa: F401
    except ImportError:
        status, _, err = call(monkeypatch, capsys, "export", "rerun", str(flown), "-o", str(out))
        assert (status, err) == (2, f"samara: Rerun needs rerun-sdk: {install_hint('rerun')}\n")
        assert list(tmp_path.iterdir()) == []
        pytest.skip("rerun-sdk, 170 MB, is not installed")
    status, output, err = call(monkeypatch, capsys, "export", "rerun", str(flown), "-o", str(out))
    assert (status, output) == (0, f"{out}\n")
    assert out.read_bytes().startswith(b"RRF2")
    assert out.stat().st_size > 10_000
