"""`samara sticks`: show and calibrate a gamepad or RC transmitter; `samara ros2`: fly a scenario on ROS 2 topics."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samara.cli.console import console, interrupts, say
from samara.cli.options import argument, option, out_option

if TYPE_CHECKING:
    from samara.link.joystick import Hands

STICK_PERIOD = 0.02  # [s]
LOOPBACK_HINT = "this computer only (set ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST for your nodes)"


def sticks(
    device: Annotated[
        str, argument("Device: auto, gamepad, transmitter, a path (/dev/input/js0) or a map (.toml).")
    ] = "auto",
    calibrate: Annotated[
        Path | None, option("--calibrate", "Measure the ranges of the sticks and write this map.")
    ] = None,
    seconds: Annotated[float, option("--seconds", "Duration of the display [s]; 0: until Ctrl-C.")] = 0.0,
) -> None:
    """Show the sticks of a gamepad or RC transmitter as Samara reads them, or calibrate them."""
    from samara.link.joystick import calibrated, open_hands, save_stick_map

    stick_device = open_hands(device)
    say(f"{stick_device.joystick.name or stick_device.joystick.path}")
    try:
        if calibrate is None:
            _watch(stick_device, seconds, [])
            return
        say("Move every stick to all its ends, then release it; the last position is the centre.")
        readings: list[dict[int, int]] = []
        _watch(stick_device, seconds or 15.0, readings)
        save_stick_map(calibrated(stick_device.stick_map, readings), calibrate)
        say(f"map       {calibrate}; fly with: samara fly hover --sticks {calibrate}")
    finally:
        stick_device.close()


def _watch(stick_device: "Hands", seconds: float, readings: list[dict[int, int]]) -> None:
    """Show the sticks until the time is over, Ctrl-C is pressed or the device is gone; append readings to `readings`."""
    from rich.live import Live

    deadline = time.monotonic() + seconds if seconds else float("inf")
    with interrupts() as interrupt, Live(console=console(), refresh_per_second=10) as display:
        while time.monotonic() < deadline:
            interrupt.check()
            position = stick_device.read()
            if position is None:
                raise ValueError(f"{stick_device.joystick.path}: the device is gone; expected it to stay connected")
            readings.append(dict(stick_device.joystick.axes))
            axes = "  ".join(f"{name} {float(value):+.2f}" for name, value in position._asdict().items())
            display.update(f"{axes}  {'armed' if stick_device.armed else 'disarmed'}")
            time.sleep(STICK_PERIOD)


def ros2(
    scenario: Annotated[str, argument("Scenario: a shipped name or a .toml file.")],
    domain: Annotated[int, typer.Option("--domain", envvar="ROS_DOMAIN_ID", help="DDS domain.")] = 0,
    interface: Annotated[str, option("--interface", "Network interface such as eth0; default: loopback.")] = "",
    node_name: Annotated[str, option("--node", "Node name; '' announces no node, as ROS 2 Humble needs.")] = "samara",
    duration: Annotated[float | None, option("--duration", "Duration [s]; default: the scenario's.")] = None,
    rate: Annotated[
        float, option("--rate", "Rate of /clock and states [Hz]; default: the autopilot's.", show_default=False)
    ] = 0.0,
    lockstep: Annotated[bool, option("--lockstep", "Wait at each tick for a command to every drone.")] = False,
    patience: Annotated[float, option("--patience", "Time to wait for a command in lockstep [s].", min=0.1)] = 30.0,
    speed: Annotated[float, option("--speed", "Speed towards a distant pose [m/s].", min=0.01, max=100.0)] = 2.0,
    fast: Annotated[bool, option("--fast", "Fly as fast as the computer can.")] = False,
    out: Annotated[Path | None, out_option("Record the flight to this file.")] = None,
) -> None:
    """Fly a scenario on ROS 2 topics, without a ROS installation.

    Publishes /clock, /tf, odometry, sensors and batteries. Subscribes to setpoints under /DRONE/command: pose, twist,
    trajectory or motors. Pause, reset, wind and motor failures are topics too; docs/ros2.md lists them all.
    """
    from samara.link.ros2.node import Node
    from samara.scenario.file import load_scenario
    from samara.sim.ros2.bridge import Bridge

    loaded = load_scenario(scenario, {} if duration is None else {"duration": duration})
    with Node(domain, interface, name=node_name) as node:
        bridge = Bridge(loaded, node, rate=rate, lockstep=lockstep, patience=patience, speed=speed, out=out, tell=say)
        network = f"interface {interface}" if interface else LOOPBACK_HINT
        say(f"{loaded.name} on ROS 2: domain {domain}, {network}; Ctrl-C ends it")
        if not interface and not node.is_confined:
            say("the ports could not be restricted to loopback: other computers on the network can send to them")
        try:
            outcome = bridge.run(realtime=not fast and not lockstep)
        except KeyboardInterrupt:
            outcome = "stopped"
        commands, controls, voice = bridge.commands, bridge.controls, bridge.stage.voice
        say(
            f"{loaded.name}: {bridge.simulation.time_us / 1e6:.2f} s, {outcome}; "
            f"{voice.said} messages published, {commands.heard + controls.heard} received"
        )
        if voice.dropped:
            say(f"{voice.dropped} messages were dropped because a queue was full: a subscriber reads too slowly")
        if commands.refused or commands.malformed + controls.malformed:
            say(f"{commands.refused} messages refused, {commands.malformed + controls.malformed} malformed")
