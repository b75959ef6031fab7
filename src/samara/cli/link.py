"""`samara sticks`: a gamepad or an RC transmitter; `samara ros2`: a flight on ROS 2's topics while it flies."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samara.cli.console import console, interrupts, say
from samara.cli.options import argument, option, out_option

if TYPE_CHECKING:
    from samara.link.joystick import Hands

STICK_PERIOD = 0.02  # [s]
LOOPBACK_HINT = "this computer alone (set ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST for your nodes)"


def sticks(
    device: Annotated[
        str, argument("auto, gamepad, transmitter, a device (/dev/input/js0) or a map (.toml).")
    ] = "auto",
    calibrate: Annotated[Path | None, option("--calibrate", "Measure the sticks' ranges and write this map.")] = None,
    seconds: Annotated[float, option("--seconds", "How long to watch; 0: until Ctrl-C.")] = 0.0,
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
    """Show the sticks until the time is over, Ctrl-C, or the device is gone; append its readings to `readings`."""
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
            time.sleep(STICK_PERIOD)


def ros2(
    scenario: Annotated[str, argument("A shipped scenario or a .toml file.")],
    domain: Annotated[int, typer.Option("--domain", envvar="ROS_DOMAIN_ID", help="The DDS domain.")] = 0,
    interface: Annotated[str, option("--interface", "A network interface such as eth0; default: loopback.")] = "",
    node_name: Annotated[str, option("--node", "Node name; '' announces none, which ROS 2 Humble needs.")] = "samara",
    duration: Annotated[float | None, option("--duration", "Seconds; the scenario's by default.")] = None,
    rate: Annotated[
        float, option("--rate", "Hz of /clock and states; default: the autopilot's.", show_default=False)
    ] = 0.0,
    lockstep: Annotated[bool, option("--lockstep", "Wait at each tick for a command to every drone.")] = False,
    patience: Annotated[float, option("--patience", "Seconds to wait for a command in lockstep.", min=0.1)] = 30.0,
    speed: Annotated[float, option("--speed", "m/s towards a pose that is far away.", min=0.01, max=100.0)] = 2.0,
    fast: Annotated[bool, option("--fast", "As fast as the computer can.")] = False,
    out: Annotated[Path | None, out_option("Record the flight to this file.")] = None,
) -> None:
    """Fly a scenario on ROS 2's topics, without ROS.

    Publishes /clock, /tf, odometry, sensors and batteries. Subscribes to setpoints: pose, twist, trajectory or motors under
    /DRONE/command. Pause, reset, wind and motor failures are topics too: docs/ros2.md lists them all.
    """
    from samara.link.ros2.node import Node
    from samara.scenario.file import load_scenario
    from samara.sim.ros2.bridge import Bridge

    flown = load_scenario(scenario, {} if duration is None else {"duration": duration})
    with Node(domain, interface, name=node_name) as node:
        bridge = Bridge(flown, node, rate=rate, lockstep=lockstep, patience=patience, speed=speed, out=out, tell=say)
        where = f"interface {interface}" if interface else LOOPBACK_HINT
        say(f"{flown.name} on ROS 2: domain {domain}, {where}; Ctrl-C ends it")
        if not interface and not node.is_confined:
            say("its ports could not be kept to loopback: others on the network could send to them")
        try:
            ending = bridge.run(realtime=not fast and not lockstep)
        except KeyboardInterrupt:
            ending = "stopped"
        commands, controls, voice = bridge.commands, bridge.controls, bridge.stage.voice
        say(
            f"{flown.name}: {bridge.simulation.time_us / 1e6:.2f} s, {ending}; "
            f"{voice.said} messages said, {commands.heard + controls.heard} heard"
        )
        if voice.dropped:
            say(f"{voice.dropped} messages had no room and were dropped: someone listens too slowly")
        if commands.refused or commands.malformed + controls.malformed:
            say(f"{commands.refused} refused, {commands.malformed + controls.malformed} not of their type")
