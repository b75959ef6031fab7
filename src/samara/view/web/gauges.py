"""What a drone's instruments show, as a piece of HTML: numbers with units, bars with their limits. Every name is escaped."""

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from html import escape

import numpy as np

from samara.core.algebra import euler_from_quat, norm
from samara.core.types import Array
from samara.physics.multirotor import tilted
from samara.physics.rotors.propulsion import rotor_loads
from samara.record.recorder import LogLine
from samara.vehicles.limits import command_limits
from samara.vehicles.shape import CLOCKWISE, COLOURS, COUNTER_CLOCKWISE, FAILED, GRID, INK
from samara.view.depth_colours import ANCHORS, Seen, coloured, common_scale
from samara.view.web.snapshot import Close

LOW_CHARGE = 0.2
LINES = 6  # of the log
STYLE = f"font-size:12px;line-height:1.45;color:{INK};padding:2px 16px 8px 10px;font-variant-numeric:tabular-nums"
FILLED = f"background:{COLOURS[0]} !important;color:#ffffff !important;border-color:{COLOURS[0]} !important"
WORDS = {
    "normalized": "command [%]",
    "duty": "duty [%]",
    "speed": "wanted speed [rad/s]",
    "wrench": "wrench [N, N·m]",
}


def gauges(close: Close) -> str:
    """Position, motion, batteries, motors and sensors of one drone"""
    state = close.full_state()
    roll, pitch, yaw = (math.degrees(angle) for angle in euler_from_quat(state.q_WB))
    rows = [
        ("position x, y, z", "{:.2f}, {:.2f}, {:.2f} m".format(*state.p_W)),
        ("speed, climb", f"{norm(state.v_W):.2f}, {state.v_W.z:+.2f} m/s"),
        ("roll, pitch, yaw", f"{roll:.1f}, {pitch:.1f}, {yaw:.1f}°"),
    ]
    if close.reference_W is not None:
        rows.append(("off its reference", f"{norm(state.p_W - close.reference_W):.2f} m"))
    if close.task:
        rows.append(("task", close.task))
    rows.append(("controller", close.controller))
    standing = "crashed" if close.crashed else "landed" if close.landed else ""
    title = f"<b>{escape(close.name)}</b> · {escape(close.vehicle.name)}{f' · <b>{standing}</b>' if standing else ''}"
    parts = [title, _table(rows), _batteries(close), _motors(close), _sensors(close)]
    return f'<div style="{STYLE}">' + "".join(part for part in parts if part) + "</div>"


def log_html(lines: Sequence[LogLine], refused: str = "") -> str:
    """The last lines of the log, and why the last wish was refused"""
    shown = [f"<div>{_line(line)}</div>" for line in list(lines)[-LINES:]]
    if refused:
        shown.append(f"<div>{_refusal(refused)}</div>")
    return f'<div style="{STYLE}">{"".join(shown) or "nothing has happened yet"}</div>'


def status_html(
    title: str,
    time: float,
    total: float,
    words: str,
    lines: Sequence[LogLine] = (),
    refused: str = "",
    crashed: bool = False,
) -> str:
    """The clock at the top of the page, and what happened last"""
    end = f" of {total:.1f}" if math.isfinite(total) else ""
    big = f'<span style="font-size:20px;font-weight:600">{time:.2f}</span>{end} s'
    keys = '<span style="float:right;opacity:.7;line-height:28px">keys: Ctrl-K</span>'
    wreck = f' · <b style="color:{FAILED}">crashed</b>' if crashed else ""
    last = _refusal(refused) if refused else _line(lines[-1]) if lines else "&nbsp;"
    short = "white-space:nowrap;overflow:hidden;text-overflow:ellipsis"
    clock = f"<div>{escape(title)}</div>{keys}{big} · {escape(words)}{wreck}"
    return f'<div style="{STYLE}">{clock}<div style="{short}">{last}</div></div>'


def _line(line: LogLine) -> str:
    return f"{line.time_us / 1e6:.2f} s · {_level(line.level)}{escape(line.message)}"


def _refusal(refused: str) -> str:
    return f'<span style="color:{COLOURS[1]}"><b>not done:</b> {escape(refused)}</span>'


def _level(level: str) -> str:
    return "" if level == "info" else f"<b>{escape(level)}</b>: "


def _table(rows: Sequence[tuple[str, str]]) -> str:
    cells = "".join(
        f'<tr><td style="opacity:.75;padding-right:8px;white-space:nowrap">{escape(name)}</td>'
        f'<td style="text-align:right;width:100%">{escape(value)}</td></tr>'
        for name, value in rows
    )
    return f'<table style="width:100%;border-spacing:0">{cells}</table>'


def _bar(share: float, colour: str, text: str, mark: float | None = None) -> str:
    """A bar from 0 to 1 in its frame, which is the limit; a second mark where one is given."""
    wide = 100.0 * min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.0
    at = f"left:{100 * mark:.0f}%" if mark is not None else "display:none"
    tick = f'<div style="position:absolute;{at};top:0;bottom:0;width:2px;background:{INK}"></div>'
    return (
        f'<div style="position:relative;height:15px;background:{GRID};margin:1px 0">'
        f'<div style="width:{wide:.1f}%;height:100%;background:{colour}"></div>{tick}'
        f'<div style="position:absolute;inset:0;text-align:right;padding-right:4px;line-height:15px;font-size:11px">'
        f"{escape(text)}</div></div>"
    )


def _batteries(close: Close) -> str:
    parts = []
    batteries = close.batteries()
    for k, own in enumerate(batteries):
        name = "battery" if len(batteries) == 1 else f"battery {k}"
        live = f"{own.voltage:.2f} V, {own.current:.1f} A" if own.connected else "disconnected"
        text = f"{100.0 * own.charge:.1f} % · {live}"
        colour = COLOURS[5] if own.charge > LOW_CHARGE else COLOURS[4]
        parts.append(f"<div>{name}, mark at {100 * LOW_CHARGE:.0f} %</div>{_bar(own.charge, colour, text, LOW_CHARGE)}")
    return "".join(parts)


def _motors(close: Close) -> str:
    vehicle, kind = close.vehicle, close.vehicle.structure.actuation.name
    if not vehicle.rotors:
        return _table([("thrust", f"{close.command[0]:.2f} N")])
    state, around = close.full_state(), close.surroundings()
    loads = rotor_loads(state, tilted(state, vehicle), around)
    bounded = command_limits(vehicle) is not None
    head = f"<div>motors: {WORDS.get(kind, kind)}{', frame = 100 %' if bounded else ''}</div>"
    rows = []
    for k, (rotor, told, speed, load) in enumerate(
        zip(vehicle.rotors, close.command[: len(vehicle.rotors)], state.rotor_speed, loads, strict=True)
    ):
        ccw = rotor.spin > 0
        power = float(around.motor_power[k]) if around.motor_power else 1.0
        health = " FAILED" if power == 0.0 else f" at {100 * power:.0f} %" if power < 1.0 else ""
        wanted = f"{100 * told:.0f} %" if bounded else f"{told:.0f}"
        text = f"{wanted} · {speed:.0f} rad/s · {load.thrust:.2f} N{health}"
        bar = _bar(told if bounded else 0.0, COUNTER_CLOCKWISE if ccw else CLOCKWISE, text)
        name = f"{k} {'↺' if ccw else '↻'}"
        rows.append(
            f'<div style="display:flex"><div style="width:30px">{name}</div><div style="flex:1">{bar}</div></div>'
        )
    return head + "".join(rows)


def _sensors(close: Close) -> str:
    rows = [
        (f"{name} {field}", f"{value:.4g} {unit}")
        for name, (fields, units, said) in close.measurements.items()
        for field, unit, value in list(zip(fields, units, said, strict=True))[:9]
    ]
    return f"<div>sensors</div>{_table(rows)}" if rows else ""


FLATTEST = 4.0  # width to height: a lidar's sixteen channels would be a line


def eyes_html(eyes: Sequence[Seen]) -> str:
    """All eyes of a drone below each other, and what their colours mean"""
    far = common_scale(eyes)
    pictures = "".join(picture_html(seen, far) for seen in eyes)
    return f'<div style="{STYLE}">{pictures}{_legend(far)}</div>'


def picture_html(seen: Seen, far: float) -> str:
    """A picture with its name and the nearest that is in it  [m]"""
    image = np.asarray(seen.said).reshape(seen.eye.part.shape)
    met = image[image > 0.0]
    nearest = f"nearest {met.min():.2f} m" if len(met) else "nothing seen"
    kind, (rows, columns) = "depth" if seen.eye.is_camera else "range", image.shape
    data = base64.b64encode(png(coloured(_as_seen(seen, image), far))).decode("ascii")
    ratio = min(columns / rows, FLATTEST)
    style = f"display:block;width:100%;margin-bottom:6px;aspect-ratio:{ratio:.3f};image-rendering:pixelated"
    title = f"<span><b>{escape(seen.name)}</b> · {kind}</span><span>{nearest}</span>"
    head = f'<div style="display:flex;justify-content:space-between">{title}</div>'
    return f'{head}<img alt="{escape(seen.name)}" style="{style}" src="data:image/png;base64,{data}">'


def _as_seen(seen: Seen, image: Array) -> Array:
    """A lidar's columns go from right to left; in the picture left is left"""
    return image if seen.eye.is_camera else image[:, ::-1]


def _legend(far: float) -> str:
    """A bar from near to far, with its ends and its middle in metres"""
    colours = ",".join(f"rgb({r:.0f},{g:.0f},{b:.0f})" for r, g, b in ANCHORS)
    bar = f'<div style="height:6px;margin-top:3px;background:linear-gradient(to right,{colours})"></div>'
    ends = "".join(f"<span>{text}</span>" for text in ("0", f"{0.5 * far:g}", f"{far:g} m and more"))
    return f'{bar}<div style="display:flex;justify-content:space-between;font-size:11px">{ends}</div>'


def png(pixels: Array) -> bytes:
    """A picture (rows, columns, 3) of bytes as a PNG file"""
    rows, columns, _ = pixels.shape
    lines = np.concatenate(
        [np.zeros((rows, 1), np.uint8), pixels.reshape(rows, -1)], axis=1
    )  # each begins with its filter

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(lines.tobytes())) + part(b"IEND", b"")
    )
