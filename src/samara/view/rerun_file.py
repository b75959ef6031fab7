"""Export of a run as a Rerun recording (.rrd): moving frames with the vehicle's parts, paths, and all streams over time."""

from pathlib import Path
from typing import Any

import numpy as np

from samara.core.atomic_files import atomic_write
from samara.core.extras import import_extra
from samara.record.foxglove import rotation_from_up
from samara.record.run import DroneRecord, Run
from samara.vehicles.shape import COLOURS, BodyBox, Disc, Rod, shape_parts

TIME = "time"


def write_rerun(run: Run, path: str | Path) -> Path:
    """Write a run as a Rerun recording and return its path; needs the extra `rerun`."""
    rr = import_extra("rerun", "Rerun", "rerun-sdk", "rerun")
    with atomic_write(path) as temporary:
        stream = rr.RecordingStream("samara", recording_id=run.scenario)
        stream.save(str(temporary))
        stream.log("world", rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
        for k, track in enumerate(run.drone_records):
            _log_track(rr, stream, track, _rgb(COLOURS[k % len(COLOURS)]))
        for line in run.logs:
            stream.set_time(TIME, duration=line.time_us / 1e6)
            stream.log("log", rr.TextLog(line.message, level=line.level.upper()))
        stream.flush()
        stream.disconnect()
    return Path(path)


def _log_track(rr: Any, stream: Any, track: DroneRecord, colour: tuple[int, int, int]) -> None:
    root = f"world/{track.name}"
    stream.log(f"world/paths/{track.name}", rr.LineStrips3D([track.position], colors=[colour]), static=True)
    reference = rr.LineStrips3D([track.reference_position], colors=[(120, 130, 140)])
    stream.log(f"world/references/{track.name}", reference, static=True)
    for part in shape_parts(track.vehicle):
        stream.log(f"{root}/{part.name.replace(' ', '_')}", _part(rr, part), static=True)
    xyzw = track.attitude[:, [1, 2, 3, 0]]
    poses = rr.Transform3D.columns(translation=track.position, quaternion=xyzw)
    stream.send_columns(root, [rr.TimeColumn(TIME, duration=track.time)], poses)
    for name, table in track.tables.items():
        if not table.has_columns:
            continue  # the pixels of a camera
        times = [rr.TimeColumn(TIME, duration=table.time)]
        for field, values in zip(table.fields, table.rows.T, strict=True):
            entity_path = f"{track.name}/{name}/{field.replace('.', '/').replace('[', '/').replace(']', '')}"
            stream.send_columns(entity_path, times, rr.Scalars.columns(scalars=np.ascontiguousarray(values)))


def _part(rr: Any, part: Rod | Disc | BodyBox) -> Any:
    colour = _rgb(part.colour)
    if isinstance(part, BodyBox):
        return rr.Boxes3D(centers=[part.centre_B], sizes=[part.size_B], colors=[colour], fill_mode="solid")
    if isinstance(part, Rod):
        return rr.LineStrips3D([[part.start_B, part.end_B]], radii=[part.radius], colors=[colour])
    rotation = rotation_from_up(part.axis_B)
    thickness = 0.02 * part.radius
    return rr.Cylinders3D(
        lengths=[thickness],
        radii=[part.radius],
        centers=[part.centre_B],
        quaternions=[rr.Quaternion(xyzw=[float(rotation.x), float(rotation.y), float(rotation.z), float(rotation.w)])],
        colors=[(*colour, 110)],
        fill_mode="solid",
    )


def _rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return red, green, blue
