"""`samara sticks`: show and calibrate a gamepad or an RC transmitter."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samara.cli.console import console, say
from samara.cli.interrupts import interrupts

if TYPE_CHECKING:
    from samara.link.joystick import Hands

EVERY = 0.02  # [s]


def sticks(
    device: Annotated[
        str, typer.Argument(help="auto, gamepad, transmitter, a device such as /dev/input/js0, or a map (.toml).")
    ] = "auto",
    calibrate: Annotated[
        Path | None, typer.Option("--calibrate", help="Measure the range of each stick and write the map to this file.")
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", help="How long to watch; 0: until Ctrl-C.")] = 0.0,
) -> None:
    """Show the sticks of a gamepad or RC transmitter as Samara reads them, or calibrate it."""
    from samara.link.joystick import calibrated, open_hands, save_stick_map

    hands = open_hands(device)
    say(f"{hands.joystick.name or hands.joystick.path}")
    try:
        if calibrate is None:
            _watch(hands, seconds, [])
            return
        say("Move every stick to all its ends, then let go; the last position is the centre.")
        readings: list[dict[int, int]] = []
        _watch(hands, seconds or 15.0, readings)
        save_stick_map(calibrated(hands.stick_map, readings), calibrate)
        say(f"map       {calibrate}; fly with: samara fly hover --sticks {calibrate}")
    finally:
        hands.close()


def _watch(hands: "Hands", seconds: float, readings: list[dict[int, int]]) -> None:
    """Show the sticks until the time is over, Ctrl-C, or the device is gone; append what it reports to `readings`"""
    from rich.live import Live

    until = time.monotonic() + seconds if seconds else float("inf")
    with interrupts() as interrupt, Live(console=console(), refresh_per_second=10) as line:
        while time.monotonic() < until:
            interrupt.check()
            position = hands.read()
            if position is None:
                raise ValueError(f"{hands.joystick.path}: the device is gone; expected it to stay connected")
            readings.append(dict(hands.joystick.axes))
            numbers = "  ".join(f"{name} {float(value):+.2f}" for name, value in position._asdict().items())
            line.update(f"{numbers}  {'armed' if hands.armed else 'disarmed'}")
            time.sleep(EVERY)
