"""`samara ros2`: a flight on ROS 2's topics while it flies."""

from pathlib import Path
from typing import Annotated

import typer

from samara.cli.console import say

LOOPBACK_HINT = "this computer alone (set ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST for your nodes)"


def ros2(
    scenario: Annotated[str, typer.Argument(help="A shipped scenario or a .toml file.")],
    domain: Annotated[int, typer.Option("--domain", envvar="ROS_DOMAIN_ID", help="The DDS domain.")] = 0,
    interface: Annotated[
        str,
        typer.Option("--interface", help="A network interface such as eth0; by default nothing leaves this computer."),
    ] = "",
    node_name: Annotated[
        str,
        typer.Option("--node", help="Name in `ros2 node list`; '' announces no node, which ROS 2 Humble needs."),
    ] = "samara",
    duration: Annotated[
        float | None, typer.Option("--duration", help="Seconds; the scenario's own by default.")
    ] = None,
    rate: Annotated[
        float,
        typer.Option("--rate", show_default=False, help="Hz of /clock and of all states; the autopilot's by default."),
    ] = 0.0,
    lockstep: Annotated[
        bool, typer.Option("--lockstep", help="Wait at each tick of /clock for a command to every drone.")
    ] = False,
    patience: Annotated[
        float, typer.Option("--patience", min=0.1, help="Seconds to wait for a command in lockstep.")
    ] = 30.0,
    speed: Annotated[
        float, typer.Option("--speed", min=0.01, max=100.0, help="m/s towards a pose that is far away.")
    ] = 2.0,
    fast: Annotated[bool, typer.Option("--fast", help="As fast as the computer can.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Record the flight to this file.")] = None,
) -> None:
    """Fly a scenario on ROS 2's topics, without ROS.

    Publishes /clock, /tf, odometry, sensors and batteries. Subscribes to setpoints: pose, twist, trajectory or motors under
    /DRONE/command. Pause, reset, wind and motor failures are topics too: docs/ros2.md lists them all.
    """
    from samara.link.ros2.node import Node
    from samara.scenario.file import load_scenario
    from samara.sim.ros2.bridge import Bridge

    own = load_scenario(scenario, {} if duration is None else {"duration": duration})
    with Node(domain, interface, name=node_name) as node:
        bridge = Bridge(own, node, rate=rate, lockstep=lockstep, patience=patience, speed=speed, out=out, tell=say)
        where = f"interface {interface}" if interface else LOOPBACK_HINT
        say(f"{own.name} on ROS 2: domain {domain}, {where}; Ctrl-C ends it")
        if not interface and not node.is_confined:
            say("its ports could not be kept to loopback: others on the network could send to them")
        try:
            became = bridge.run(realtime=not fast and not lockstep)
        except KeyboardInterrupt:
            became = "stopped"
        commands, controls, voice = bridge.commands, bridge.controls, bridge.stage.voice
        say(
            f"{own.name}: {bridge.simulation.time_us / 1e6:.2f} s, {became}; "
            f"{voice.said} messages said, {commands.heard + controls.heard} heard"
        )
        if voice.dropped:
            say(f"{voice.dropped} messages had no room and were dropped: someone listens too slowly")
        if commands.refused or commands.malformed + controls.malformed:
            say(f"{commands.refused} refused, {commands.malformed + controls.malformed} not of their type")
