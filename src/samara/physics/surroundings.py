"""What a vehicle needs to be told from outside: a command of its size, and an environment with a place for all it reads."""

from samara.physics.effect import Wrench
from samara.physics.types import CALM, Command, Environment, Vehicle


def empty_command(vehicle: Vehicle) -> Command:
    """0 for each rotor, or a wrench of 0"""
    return (0.0,) * vehicle.command_size


def require_command_size(command: Command, vehicle: Vehicle) -> None:
    """A ValueError about a command of another size than the vehicle takes"""
    if len(command) != vehicle.command_size:
        kind, size = vehicle.structure.actuation.name, vehicle.command_size
        raise ValueError(f"command has {len(command)} numbers; vehicle {vehicle.name!r} ({kind}) takes {size}")


def environment_of(vehicle: Vehicle, environment: Environment = CALM) -> Environment:
    """The environment with a power of 1 for each motor, ready to be changed

    A vehicle whose rotors feel the wind at their hubs has one for each, and one that can be pushed has a push of 0.
    """
    return environment._replace(
        hub_wind_W=tuple(environment.wind_W for _ in vehicle.rotors) if vehicle.reads("hub_wind_W") else (),
        pushes=(Wrench(),) if vehicle.reads("pushes") else (),
        motor_power=tuple(1.0 for _ in vehicle.rotors),
    )
