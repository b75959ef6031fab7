"""Instruments of a drone as HTML: values with units, bars with their limits. Every name is escaped."""

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from html import escape

import numpy as np

from samara.core.algebra import euler_from_quat, norm
from samara.core.types import Array
from samara.physics.inputs import command_limits
from samara.physics.multirotor import tilt_rotors
from samara.physics.rotors.propulsion import rotor_loads
from samara.record.recorder import LogLine
from samara.vehicles.shape import CCW_COLOUR, COLOURS, CW_COLOUR, FAILED_COLOUR, GRID, INK
from samara.view.vision_frames import DEPTH_COLOURS, Picture, VisionFrame, common_scale, pictures
from samara.view.web.snapshot import DroneDetail

LOW_CHARGE = 0.2
MAX_LOG_LINES = 6  # log lines shown
STYLE = f"font-size:12px;line-height:1.45;color:{INK};padding:2px 16px 8px 10px;font-variant-numeric:tabular-nums"
ACTIVE_BUTTON_STYLE = (
    f"background:{COLOURS[0]} !important;color:#ffffff !important;border-color:{COLOURS[0]} !important"
)
COMMAND_LABELS = {
    "normalized": "command [%]",
    "duty": "duty [%]",
    "speed": "commanded speed [rad/s]",
    "wrench": "wrench [N, N·m]",
}


def gauges(close: DroneDetail) -> str:
    """Format position, motion, batteries, motors and sensors of one drone."""
    state = close.state_record()
    roll, pitch, yaw = (math.degrees(angle) for angle in euler_from_quat(state.q_WB))
    rows = [
        ("position x, y, z", "{:.2f}, {:.2f}, {:.2f} m".format(*state.p_W)),
        ("speed, climb", f"{norm(state.v_W):.2f}, {state.v_W.z:+.2f} m/s"),
        ("roll, pitch, yaw", f"{roll:.1f}, {pitch:.1f}, {yaw:.1f}°"),
    ]
    if close.reference_W is not None:
        rows.append(("position error", f"{norm(state.p_W - close.reference_W):.2f} m"))
    if close.task:
        rows.append(("task", close.task))
    rows.append(("controller", close.controller))
    status = "crashed" if close.crashed else "landed" if close.landed else ""
    title = f"<b>{escape(close.name)}</b> · {escape(close.vehicle.name)}{f' · <b>{status}</b>' if status else ''}"
    parts = [title, _table(rows), _batteries(close), _motors(close), _sensors(close)]
    return f'<div style="{STYLE}">' + "".join(part for part in parts if part) + "</div>"


def log_html(lines: Sequence[LogLine], refusal: str = "") -> str:
    """Format the last lines of the log, and the reason why the last request was refused."""
    entries = [f"<div>{_line(line)}</div>" for line in list(lines)[-MAX_LOG_LINES:]]
    if refusal:
        entries.append(f"<div>{_refusal(refusal)}</div>")
    return f'<div style="{STYLE}">{"".join(entries) or "no events"}</div>'


def status_html(
    title: str,
    time: float,
    total: float,
    status: str,
    lines: Sequence[LogLine] = (),
    refusal: str = "",
    crashed: bool = False,
) -> str:
    """Format the clock at the top of the page, and the last event."""
    total_text = f" of {total:.1f}" if math.isfinite(total) else ""
    time_text = f'<span style="font-size:20px;font-weight:600">{time:.2f}</span>{total_text} s'
    keys = '<span style="float:right;opacity:.7;line-height:28px">keys: Ctrl-K</span>'
    crash_note = f' · <b style="color:{FAILED_COLOUR}">crashed</b>' if crashed else ""
    latest = _refusal(refusal) if refusal else _line(lines[-1]) if lines else "&nbsp;"
    ellipsis_style = "white-space:nowrap;overflow:hidden;text-overflow:ellipsis"
    clock = f"<div>{escape(title)}</div>{keys}{time_text} · {escape(status)}{crash_note}"
    return f'<div style="{STYLE}">{clock}<div style="{ellipsis_style}">{latest}</div></div>'


def _line(line: LogLine) -> str:
    return f"{line.time_us / 1e6:.2f} s · {_level(line.level)}{escape(line.message)}"


def _refusal(reason: str) -> str:
    return f'<span style="color:{COLOURS[1]}"><b>refused:</b> {escape(reason)}</span>'


def _level(level: str) -> str:
    return "" if level == "info" else f"<b>{escape(level)}</b>: "


def _table(rows: Sequence[tuple[str, str]]) -> str:
    cells = "".join(
        f'<tr><td style="opacity:.75;padding-right:8px;white-space:nowrap">{escape(name)}</td>'
        f'<td style="text-align:right;width:100%">{escape(value)}</td></tr>'
        for name, value in rows
    )
    return f'<table style="width:100%;border-spacing:0">{cells}</table>'


def _bar(fraction: float, colour: str, text: str, mark: float | None = None) -> str:
    """Format a bar from 0 to 1 in a frame that marks the limit, with an optional mark."""
    width = 100.0 * min(max(fraction, 0.0), 1.0) if math.isfinite(fraction) else 0.0
    mark_style = f"left:{100 * mark:.0f}%" if mark is not None else "display:none"
    tick = f'<div style="position:absolute;{mark_style};top:0;bottom:0;width:2px;background:{INK}"></div>'
    return (
        f'<div style="position:relative;height:15px;background:{GRID};margin:1px 0">'
        f'<div style="width:{width:.1f}%;height:100%;background:{colour}"></div>{tick}'
        f'<div style="position:absolute;inset:0;text-align:right;padding-right:4px;line-height:15px;font-size:11px">'
        f"{escape(text)}</div></div>"
    )


def _batteries(close: DroneDetail) -> str:
    parts = []
    batteries = close.batteries()
    for k, battery in enumerate(batteries):
        name = "battery" if len(batteries) == 1 else f"battery {k}"
        electrical = f"{battery.voltage:.2f} V, {battery.current:.1f} A" if battery.connected else "disconnected"
        text = f"{100.0 * battery.charge:.1f} % · {electrical}"
        colour = COLOURS[5] if battery.charge > LOW_CHARGE else COLOURS[4]
        parts.append(
            f"<div>{name}, mark at {100 * LOW_CHARGE:.0f} %</div>{_bar(battery.charge, colour, text, LOW_CHARGE)}"
        )
    return "".join(parts)


def _motors(close: DroneDetail) -> str:
    vehicle, actuation = close.vehicle, close.vehicle.structure.actuation.name
    if not vehicle.rotors:
        return _table([("thrust", f"{close.command[0]:.2f} N")])
    state, environment = close.state_record(), close.environment_record()
    loads = rotor_loads(state, tilt_rotors(state, vehicle), environment)
    is_bounded = command_limits(vehicle) is not None
    heading = f"<div>motors: {COMMAND_LABELS.get(actuation, actuation)}{', frame = 100 %' if is_bounded else ''}</div>"
    rows = []
    for k, (rotor, command, speed, load) in enumerate(
        zip(vehicle.rotors, close.command[: len(vehicle.rotors)], state.rotor_speed, loads, strict=True)
    ):
        ccw = rotor.spin > 0
        power = float(environment.motor_effectiveness[k]) if environment.motor_effectiveness else 1.0
        failure = " FAILED" if power == 0.0 else f" at {100 * power:.0f} %" if power < 1.0 else ""
        command_text = f"{100 * command:.0f} %" if is_bounded else f"{command:.0f}"
        text = f"{command_text} · {speed:.0f} rad/s · {load.thrust:.2f} N{failure}"
        bar = _bar(command if is_bounded else 0.0, CCW_COLOUR if ccw else CW_COLOUR, text)
        name = f"{k} {'↺' if ccw else '↻'}"
        rows.append(
            f'<div style="display:flex"><div style="width:30px">{name}</div><div style="flex:1">{bar}</div></div>'
        )
    return heading + "".join(rows)


def _sensors(close: DroneDetail) -> str:
    rows = [
        (f"{name} {field}", f"{value:.4g} {unit}")
        for name, (fields, units, values) in close.measurements.items()
        for field, unit, value in list(zip(fields, units, values, strict=True))[:9]
    ]
    return f"<div>sensors</div>{_table(rows)}" if rows else ""


MAX_ASPECT_RATIO = 4.0  # largest ratio of width to height: sixteen lidar channels would otherwise be a line


def vision_html(frames: Sequence[VisionFrame]) -> str:
    """Format the images of all vision sensors of a drone, and the colour scale."""
    max_distance = common_scale(frames)
    images = "".join(picture_html(frame.name, picture) for frame in frames for picture in pictures(frame, max_distance))
    scale = _colour_scale(max_distance) if any(len(frame.distances) for frame in frames) else ""
    return f'<div style="{STYLE}">{images}{scale}</div>'


def picture_html(name: str, picture: Picture) -> str:
    """Format a picture with the name of its sensor."""
    rows, columns = picture.colours.shape[:2]
    data = base64.b64encode(encode_png(picture.colours)).decode("ascii")
    ratio = min(columns / rows, MAX_ASPECT_RATIO)
    style = f"display:block;width:100%;margin-bottom:6px;aspect-ratio:{ratio:.3f};image-rendering:pixelated"
    title = f"<span><b>{escape(name)}</b> · {escape(picture.quantity)}</span><span>{escape(picture.note)}</span>"
    heading = f'<div style="display:flex;justify-content:space-between">{title}</div>'
    return f'{heading}<img alt="{escape(name)}" style="{style}" src="data:image/png;base64,{data}">'


def _colour_scale(max_distance: float) -> str:
    """Format the colour scale from near to far, with its ends and middle in metres."""
    colours = ",".join(f"rgb({r:.0f},{g:.0f},{b:.0f})" for r, g, b in DEPTH_COLOURS)
    bar = f'<div style="height:6px;margin-top:3px;background:linear-gradient(to right,{colours})"></div>'
    labels = "".join(f"<span>{text}</span>" for text in ("0", f"{0.5 * max_distance:g}", f"{max_distance:g} m or more"))
    return f'{bar}<div style="display:flex;justify-content:space-between;font-size:11px">{labels}</div>'


def encode_png(pixels: Array) -> bytes:
    """Encode a picture (rows, columns, 3) of bytes as PNG."""
    rows, columns, _ = pixels.shape
    lines = np.concatenate(
        [np.zeros((rows, 1), np.uint8), pixels.reshape(rows, -1)], axis=1
    )  # each row starts with its filter type

    def chunk(chunk_type: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + chunk_type + data + struct.pack(">I", zlib.crc32(chunk_type + data))

    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(lines.tobytes()))
        + chunk(b"IEND", b"")
    )
