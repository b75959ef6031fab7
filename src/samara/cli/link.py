"""`samara sticks`: show and calibrate a gamepad or RC transmitter; `samara ros2`: fly a scenario on ROS 2 topics."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samara.cli.console import command_text, console, handle_interrupts, say
from samara.cli.options import (
    Realtime,
    ScenarioArgument,
    ScenarioController,
    ScenarioDuration,
    ScenarioSeed,
    ScenarioSensors,
    ScenarioVehicle,
    Settings,
    Wind,
    argument,
    option,
    out_option,
    parse_settings,
)

if TYPE_CHECKING:
    from samara.link.joystick import StickInput

STICK_PERIOD = 0.02  # [s]
CALIBRATION_DURATION = 15.0  # [s]
LOOPBACK_HINT = "this computer only (set ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST for your nodes)"


def sticks(
    device: Annotated[
        str, argument("Device: auto, gamepad, transmitter, a path (/dev/input/js0) or a map (.toml).")
    ] = "auto",
    calibrate: Annotated[bool, option("--calibrate", "Measure the ranges of the sticks and write a map.")] = False,
    out: Annotated[Path | None, out_option("File for the map of --calibrate; default: sticks.toml.")] = None,
    duration: Annotated[
        float, option("--duration", "Duration of the display [s]; 0: until Ctrl-C, with --calibrate 15 s.", min=0.0)
    ] = 0.0,
) -> None:
    """Show the sticks of a gamepad or RC transmitter as Samara reads them, or calibrate them."""
    from samara.link.joystick import calibrate_stick_map, open_stick_input, save_stick_map

    if out is not None and not calibrate:
        raise ValueError(f"--out {out}: only --calibrate writes a file; expected both or neither")
    stick_device = open_stick_input(device)
    say(f"{stick_device.joystick.name or stick_device.joystick.path}")
    try:
        if not calibrate:
            _watch(stick_device, duration, [])
            return
        say("Move every stick to all its ends, then release it; the last position is the centre.")
        readings: list[dict[int, int]] = []
        _watch(stick_device, duration or CALIBRATION_DURATION, readings)
        path = out or Path("sticks.toml")
        save_stick_map(calibrate_stick_map(stick_device.stick_map, readings), path)
        say(f"map       {path}; fly with: {command_text('fly', 'hover', '--sticks', path)}")
    finally:
        stick_device.close()


def _watch(stick_device: "StickInput", duration: float, readings: list[dict[int, int]]) -> None:
    """Show the sticks until the time is over, Ctrl-C is pressed or the device is gone; append readings to `readings`."""
    from rich.live import Live

    deadline = time.monotonic() + duration if duration else float("inf")
    with handle_interrupts() as interrupt, Live(console=console(), refresh_per_second=10) as display:
        while time.monotonic() < deadline:
            interrupt.check()
            position = stick_device.read()
            if position is None:
                raise ValueError(f"{stick_device.joystick.path}: the device is gone; expected it to stay connected")
            readings.append(dict(stick_device.joystick.axes))
            axes = "  ".join(f"{name} {float(value):+.2f}" for name, value in position._asdict().items())
            display.update(f"{axes}  {'armed' if stick_device.is_armed else 'disarmed'}")
            time.sleep(STICK_PERIOD)


def ros2(
    scenario: ScenarioArgument,
    settings: Settings = None,
    vehicle: ScenarioVehicle = None,
    controller: ScenarioController = None,
    wind: Wind = None,
    sensors: ScenarioSensors = None,
    seed: ScenarioSeed = None,
    duration: ScenarioDuration = None,
    domain: Annotated[int, typer.Option("--domain", envvar="ROS_DOMAIN_ID", help="DDS domain.")] = 0,
    interface: Annotated[str, option("--interface", "Network interface such as eth0; default: loopback.")] = "",
    node_name: Annotated[str, option("--node", "Node name; '' announces no node, as ROS 2 Humble needs.")] = "samara",
    rate: Annotated[
        float, option("--rate", "Rate of /clock and states [Hz]; default: the autopilot's.", show_default=False)
    ] = 0.0,
    lockstep: Annotated[bool, option("--lockstep", "Wait at each tick for a command to every drone.")] = False,
    timeout: Annotated[float, option("--timeout", "Time to wait for a command in lockstep [s].", min=0.1)] = 30.0,
    max_speed: Annotated[
        float, option("--max-speed", "Maximum speed towards a distant pose [m/s].", min=0.01, max=100.0)
    ] = 2.0,
    realtime: Realtime = True,
    out: Annotated[Path | None, out_option("File for a recording (.mcap); default: none.")] = None,
) -> None:
    """Fly a scenario on ROS 2 topics, without a ROS installation.

    Publishes /clock, /tf, odometry, sensors and batteries. Subscribes to setpoints under /DRONE/command: pose, twist,
    trajectory or motors. Pause, reset, wind and motor failures are topics too; docs/howto/ros2.md lists them all.
    """
    from samara.link.ros2.node import Ros2Node
    from samara.scenario.changes import Changes, change_scenario
    from samara.sim.ros2.bridge import Bridge

    changes = Changes(vehicle, controller, wind, sensors, seed, duration)
    loaded = change_scenario(scenario, changes, parse_settings(settings or []))
    with Ros2Node(domain, interface, name=node_name) as node:
        bridge = Bridge(
            loaded,
            node,
            rate=rate,
            lockstep=lockstep,
            lockstep_timeout=timeout,
            speed=max_speed,
            out=out,
            on_message=say,
        )
        network = f"interface {interface}" if interface else LOOPBACK_HINT
        say(f"{loaded.name} on ROS 2: domain {domain}, {network}; Ctrl-C ends it")
        if not interface and not node.is_confined:
            say("the ports could not be restricted to loopback: other computers on the network can send to them")
        try:
            outcome = bridge.run(realtime=realtime and not lockstep)
        except KeyboardInterrupt:
            outcome = "stopped"
        commands, controls, voice = bridge.commands, bridge.controls, bridge.stage.publishers
        say(
            f"{loaded.name}: {bridge.simulation.time_us / 1e6:.2f} s, {outcome}; "
            f"{voice.sent_count} messages published, {commands.message_count + controls.message_count} received"
        )
        if voice.dropped_count:
            say(f"{voice.dropped_count} messages were dropped because a queue was full: a subscriber reads too slowly")
        if commands.rejected_count or commands.malformed_count + controls.malformed_count:
            say(
                f"{commands.rejected_count} messages refused, {commands.malformed_count + controls.malformed_count} malformed"
            )
