"""Events: actions that happen once, at a time, at a step, or when a condition holds.

    Event(at(5.0), wind_step((4.0, 0.0, 0.0)))
    Event(when(lambda bus: bus.drones[0].state.p_W.z > 5.0), fail_motor(2))

An action is a pure function (setting, bus) → setting; the simulation applies the setting that it returns. An action affects the
named drone, or all drones if none is named.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Any, NamedTuple, TypeAlias

from samara.core.algebra import ZERO, Vec3, euler_from_quat, norm
from samara.core.coerce import Length, PositionArgument, Seconds, Speed, UnitInterval, Velocity, is_number
from samara.core.ops import equal, logical_and
from samara.core.picklable import picklable_factory
from samara.core.quantity import Scalar
from samara.core.sanitise import quote_value
from samara.core.tree import finite_vector
from samara.physics.quantities import DEG_PER_RAD, min_charge, min_voltage, position_error, speed, tilt_deg
from samara.physics.structure.slung_load import LoadState
from samara.physics.types import Reference, State
from samara.plan import trajectory as plan
from samara.plan.trajectory import Trajectory, stop, transfer
from samara.scenario.landing import DEFAULT_LANDING_DEPTH
from samara.scenario.snapshot import SENSOR_FAULTS, BatteryStatus, Bus, DroneBus, Faults, VisionFault
from samara.scenario.timeline import microseconds
from samara.vehicles.payload import Payload
from samara.wind.sources import Constant, Gust, WindSum


class ConditionInputs(NamedTuple):
    """The inputs of a condition on one drone; a `DroneBus` has these fields as well."""

    state: State
    reference: Reference
    landed: Scalar
    crashed: Scalar
    batteries: tuple[BatteryStatus, ...] = ()


QUANTITIES: dict[str, Callable[[Scalar, Any], Scalar]] = {
    "time": lambda time, drone: time,
    "x": lambda time, drone: drone.state.p_W.x,
    "y": lambda time, drone: drone.state.p_W.y,
    "height": lambda time, drone: drone.state.p_W.z,
    "speed": lambda time, drone: speed(drone.state.v_W),
    "climb": lambda time, drone: drone.state.v_W.z,
    "tilt_deg": lambda time, drone: tilt_deg(drone.state.q_WB),
    "yaw_deg": lambda time, drone: DEG_PER_RAD * euler_from_quat(drone.state.q_WB).yaw,
    "charge": lambda time, drone: min_charge([battery.charge for battery in drone.batteries]),
    "voltage": lambda time, drone: min_voltage([battery.voltage for battery in drone.batteries]),
    "error": lambda time, drone: position_error(drone.state.p_W, drone.reference.p_W),
    "landed": lambda time, drone: 1.0 * drone.landed,
    "crashed": lambda time, drone: 1.0 * drone.crashed,
}
COMPARISONS: dict[str, Callable[[Scalar, Scalar], Scalar]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": equal,
}


class Comparison(NamedTuple):
    """A quantity of `QUANTITIES`, a sign of `COMPARISONS`, and a number."""

    quantity: str
    sign: str
    limit: float


Condition = tuple[Comparison, ...]


def is_satisfied(condition: Condition, time: Scalar, drone: Any) -> Scalar:
    """Whether a condition is satisfied by one drone (a `ConditionInputs` or a `DroneBus`) at a time [s]."""
    return reduce(
        logical_and, (COMPARISONS[sign](QUANTITIES[name](time, drone), limit) for name, sign, limit in condition)
    )


def parse_condition(text: str) -> Condition:
    """Parse a condition such as "charge < 0.1 and landed == 1" into its comparisons."""
    parts = [part.split() for part in text.split(" and ")]
    for words in parts:
        if len(words) != 3 or words[0] not in QUANTITIES or words[1] not in COMPARISONS or not _is_number(words[2]):
            raise ValueError(
                f"the condition {text!r} cannot be parsed; expected one of {', '.join(QUANTITIES)}, one of "
                f"{' '.join(COMPARISONS)}, and a number, with spaces between them; several joined by `and`"
            )
    return tuple(Comparison(name, sign, float(limit)) for name, sign, limit in parts)


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


class Order(NamedTuple):
    """An order to the autopilot that flies a drone: arm, disarm, take_off, go_to, reach or land.

    `p_W` is the target position [m] and `speed` the speed of the flight there [m/s]; 0 is the autopilot's default. `reach`
    delays further orders until the drone is at the position.
    """

    kind: str
    p_W: Vec3 = ZERO
    speed: float = 0.0


class DroneSetting(NamedTuple):
    """The task, faults and load of one drone. `since_us` is the start of its task; `orders` are all orders to its autopilot.
    `landing_depth` is the depth below the ground that its landings aim at [m].
    """

    task: Trajectory
    since_us: int = 0
    armed: bool = True
    faults: Faults = Faults()
    payload: Payload = Payload()
    cable_attached: bool = True
    home_W: Vec3 = ZERO
    orders: tuple[Order, ...] = ()
    landing_depth: float = DEFAULT_LANDING_DEPTH

    def add_order(self, kind: str, p_W: Vec3 = ZERO, speed: float = 0.0) -> "DroneSetting":
        """Return the setting with an order appended."""
        return self._replace(orders=(*self.orders, Order(kind, p_W, speed)))


class FlightSettings(NamedTuple):
    """The settings of the drones in order, the source of the wind, and its disturbance."""

    drones: tuple[DroneSetting, ...]
    wind: Any
    wind_disturbance_W: Vec3 = ZERO

    def replace_drone(self, index: int, drone: DroneSetting) -> "FlightSettings":
        """Return the settings with those of one drone replaced."""
        return self._replace(drones=(*self.drones[:index], drone, *self.drones[index + 1 :]))


EventAction: TypeAlias = Callable[[FlightSettings, Bus], FlightSettings]
DroneChange: TypeAlias = Callable[[DroneSetting, DroneBus, int], DroneSetting]

DEFAULT_SPEED = 2.0  # [m/s]: speed of a task that an event starts
LANDING_SPEED = 0.5  # [m/s]
TARGET_TOLERANCE = 1e-6  # [m, m/s]: within this the reference has reached its target


@dataclass(frozen=True)
class TimeTrigger:
    """Trigger at a time in whole microseconds."""

    time_us: int


@dataclass(frozen=True)
class StepTrigger:
    """Trigger at the end of a physics step, counted from 1; 0 is the start."""

    step: int


@dataclass(frozen=True)
class ConditionTrigger:
    """Trigger at the first tick of the scenario clock at which condition(bus) holds.

    A condition given as text also has its `comparisons` and its drone ("" for any): `samara.scenario.events.is_satisfied`
    evaluates it for one drone, and can be traced. A function of the bus has none.
    """

    condition: Callable[[Bus], bool]
    text: str = ""
    comparisons: Condition = ()
    drone: str = ""


@dataclass(frozen=True)
class Event:
    """A trigger and the action it starts, once."""

    trigger: TimeTrigger | StepTrigger | ConditionTrigger
    action: EventAction
    name: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", getattr(self.action, "__name__", "event").replace("_", " "))


def at(time: float) -> TimeTrigger:
    """Trigger at a time [s]."""
    time_us = microseconds(time, "the time of an event")
    if time_us < 0:
        raise ValueError(f"the time of an event is {time!r} s; expected a number that is not negative")
    return TimeTrigger(time_us)


def at_step(step: int) -> StepTrigger:
    """Trigger after a number of physics steps."""
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise ValueError(f"the step of an event is {step!r}; expected a whole number that is not negative")
    return StepTrigger(step)


# Conditions ---------------------------------------------------------------------------------------------------------


@picklable_factory
def when(condition: Callable[[Bus], bool] | str, drone: str = "") -> ConditionTrigger:
    """Trigger when a function of the bus is true, or a condition such as "height > 5 and speed < 1" on a named or any drone."""
    if not isinstance(condition, str):
        if not callable(condition):
            raise ValueError(f"the condition is {quote_value(condition)}; expected a text, or a function of the bus")
        return ConditionTrigger(condition, getattr(condition, "__name__", "condition"))
    sentence = parse_condition(condition)

    def is_met(bus: Bus) -> bool:
        return any(
            is_satisfied(sentence, bus.time, drone_bus) for drone_bus in bus.drones if drone in ("", drone_bus.name)
        )

    return ConditionTrigger(is_met, condition, sentence, drone)


def when_charge_below(charge: float, drone: str = "") -> ConditionTrigger:
    """Trigger when a battery's state of charge, from 0 to 1, falls below a value."""
    return when(f"charge < {charge}", drone)


# Actions ------------------------------------------------------------------------------------------------------------


def _drone_action(drone: str, change: DroneChange, name: str) -> EventAction:
    """Create the action that changes one named drone, or all."""

    def action(setting: FlightSettings, bus: Bus) -> FlightSettings:
        names = [drone_bus.name for drone_bus in bus.drones]
        if drone and drone not in names:
            raise ValueError(f"{name}: no drone {drone!r}: expected one of {', '.join(names)}")
        for index, drone_bus in enumerate(bus.drones):
            if drone in ("", drone_bus.name):
                setting = setting.replace_drone(index, change(setting.drones[index], drone_bus, bus.time_us))
        return setting

    action.__name__ = f"{name} ({drone})" if drone else name
    return action


@picklable_factory
def arm(drone: str = "") -> EventAction:
    """Enable the motors."""
    return _drone_action(
        drone, lambda drone_setting, bus, time_us: drone_setting._replace(armed=True).add_order("arm"), "arm"
    )


@picklable_factory
def disarm(drone: str = "") -> EventAction:
    """Set every motor's command to 0."""
    return _drone_action(
        drone, lambda drone_setting, bus, time_us: drone_setting._replace(armed=False).add_order("disarm"), "disarm"
    )


@picklable_factory
def follow(trajectory: Trajectory, drone: str = "", speed: float = DEFAULT_SPEED) -> EventAction:
    """Follow a trajectory from its start, after a transfer from the present reference at a peak speed [m/s]."""

    def change(drone_setting: DroneSetting, bus: DroneBus, time_us: int) -> DroneSetting:
        start_W = Vec3(*(float(x) for x in trajectory.evaluate(0.0).p_W))
        reference = bus.reference
        if norm(start_W - reference.p_W) < TARGET_TOLERANCE and norm(reference.v_W) < TARGET_TOLERANCE:
            return drone_setting._replace(task=trajectory, since_us=time_us)
        approach = transfer(reference, start_W, speed=speed)
        return drone_setting._replace(task=plan.sequence(approach, trajectory), since_us=time_us)

    return _drone_action(drone, change, f"follow {trajectory.name}")


def _approach(bus: DroneBus, target_W: Vec3, speed: float) -> Trajectory:
    return transfer(bus.reference, target_W, speed=speed)


@picklable_factory
def go_to(p_W: PositionArgument, speed: Speed = DEFAULT_SPEED, drone: str = "") -> EventAction:
    """Fly from the present reference, continuing its motion, to rest at a position [m]."""
    target = finite_vector(p_W, "go to: the position")
    name = f"go to ({target.x:g}, {target.y:g}, {target.z:g})"

    def change(drone_setting: DroneSetting, bus: DroneBus, time_us: int) -> DroneSetting:
        return drone_setting._replace(task=_approach(bus, target, speed), since_us=time_us).add_order(
            "go_to", target, speed
        )

    return _drone_action(drone, change, name)


@picklable_factory
def take_off(height: Length, speed: Speed = DEFAULT_SPEED, drone: str = "") -> EventAction:
    """Arm, and climb vertically to a height above the world's origin [m]."""
    if not 0.0 < height < 10_000.0:
        raise ValueError(f"take off: the height is {height!r} m; expected a number above 0")

    def change(drone_setting: DroneSetting, bus: DroneBus, time_us: int) -> DroneSetting:
        target = bus.reference.p_W._replace(z=float(height))
        new_setting = drone_setting._replace(task=_approach(bus, target, speed), since_us=time_us, armed=True)
        return new_setting.add_order("take_off", target, speed)

    return _drone_action(drone, change, f"take off to {height:g} m")


@picklable_factory
def return_home(height: Length = 0.0, speed: Speed = DEFAULT_SPEED, drone: str = "") -> EventAction:
    """Fly to above the start, at a height [m] or, with 0, at the present height."""

    def change(drone_setting: DroneSetting, bus: DroneBus, time_us: int) -> DroneSetting:
        target = Vec3(drone_setting.home_W.x, drone_setting.home_W.y, height or bus.reference.p_W.z)
        return drone_setting._replace(task=_approach(bus, target, speed), since_us=time_us).add_order(
            "go_to", target, speed
        )

    return _drone_action(drone, change, "return")


@picklable_factory
def land(speed: Speed = LANDING_SPEED, drone: str = "") -> EventAction:
    """Stop, then descend vertically to below the ground, so that the drone rests on it with little thrust."""

    def change(drone_setting: DroneSetting, bus: DroneBus, time_us: int) -> DroneSetting:
        drone_setting = drone_setting.add_order("land")
        stopping = stop(bus.reference)
        stop_W, target_height = (
            stopping.waypoints[-1].p_W,
            bus.environment.ground.point_W.z - drone_setting.landing_depth,
        )
        if target_height >= stop_W.z:
            return drone_setting._replace(task=stopping, since_us=time_us)
        descent = plan.land(stop_W, height=target_height, speed=speed, yaw=bus.reference.yaw)
        return drone_setting._replace(task=plan.sequence(stopping, descent), since_us=time_us)

    return _drone_action(drone, change, "land")


@picklable_factory
def wind_step(wind_W: Velocity) -> EventAction:
    """Replace the wind by a constant one, in world axes [m/s]."""
    source = Constant(finite_vector(wind_W, "wind step: the wind"))

    def action(setting: FlightSettings, bus: Bus) -> FlightSettings:
        return setting._replace(wind=source)

    action.__name__ = f"wind ({source.wind_W.x:g}, {source.wind_W.y:g}, {source.wind_W.z:g}) m/s"
    return action


@picklable_factory
def gust(amplitude_W: Velocity, duration: Seconds) -> EventAction:
    """½ A (1 − cos 2πt/T) on top of the wind, from now [m/s, s]."""
    amplitude = finite_vector(amplitude_W, "gust: the amplitude")
    if not is_number(duration) or duration <= 0.0:
        raise ValueError(f"gust: the duration is {quote_value(duration)} s; expected a positive number")

    def action(setting: FlightSettings, bus: Bus) -> FlightSettings:
        return setting._replace(wind=WindSum((setting.wind, Gust(amplitude, bus.time, duration))))

    action.__name__ = f"gust of {norm(amplitude):g} m/s for {duration:g} s"
    return action


def _set_motor_effectiveness(motor: int, effectiveness: float, drone: str, name: str) -> EventAction:
    if not 0.0 <= effectiveness <= 1.0:
        raise ValueError(f"{name}: effectiveness is {effectiveness}; expected a number within [0, 1]")

    def change(drone_setting: DroneSetting, bus: DroneBus, time_us: int) -> DroneSetting:
        values = list(drone_setting.faults.motor_effectiveness)
        if not 0 <= motor < len(values):
            raise ValueError(f"{name}: {bus.name} has no motor {motor}; expected one of 0 to {len(values) - 1}")
        values[motor] = effectiveness
        return drone_setting._replace(faults=drone_setting.faults._replace(motor_effectiveness=tuple(values)))

    return _drone_action(drone, change, name)


@picklable_factory
def fail_motor(motor: int, drone: str = "") -> EventAction:
    """Fail the motor of a physical propulsor: its rotor spins down."""
    return _set_motor_effectiveness(motor, 0.0, drone, f"fail motor {motor}")


@picklable_factory
def degrade_motor(motor: int, effectiveness: float, drone: str = "") -> EventAction:
    """Limit a motor to a fraction of its command."""
    if not is_number(effectiveness):
        raise ValueError(
            f"degrade motor: effectiveness is {quote_value(effectiveness)}; expected a number within [0, 1]"
        )
    return _set_motor_effectiveness(motor, effectiveness, drone, f"degrade motor {motor} to {effectiveness:g}")


@picklable_factory
def restore_motor(motor: int, drone: str = "") -> EventAction:
    """Restore a motor to full effectiveness."""
    return _set_motor_effectiveness(motor, 1.0, drone, f"restore motor {motor}")


def _set_faults(drone: str, name: str, **changes: Any) -> EventAction:
    return _drone_action(
        drone,
        lambda drone_setting, bus, time_us: drone_setting._replace(faults=drone_setting.faults._replace(**changes)),
        name,
    )


@picklable_factory
def disconnect_battery(drone: str = "") -> EventAction:
    """Disconnect the battery: 0 V on the bus."""
    return _set_faults(drone, "disconnect battery", battery_connected=False)


@picklable_factory
def connect_battery(drone: str = "") -> EventAction:
    """Connect the battery again."""
    return _set_faults(drone, "connect battery", battery_connected=True)


@picklable_factory
def fail_cell(cells: int, drone: str = "") -> EventAction:
    """Fail one of `cells` cells in series: the open-circuit voltage falls to (cells − 1)/cells."""
    if isinstance(cells, bool) or not isinstance(cells, int) or cells < 2:
        raise ValueError(f"fail cell: the battery has {cells!r} cells; expected a whole number of at least 2")
    return _set_faults(drone, f"fail one of {cells} cells", remaining_cells=(cells - 1) / cells)


FAILURE_MODES = ("frozen", "blank", "occluded", "dead")


@picklable_factory
def fail_sensor(sensor: str, drone: str = "", mode: str = "frozen", fraction: float = 0.5) -> EventAction:
    """Fail a sensor: its reading stays constant; a depth camera or a lidar may fail in other modes.

    "blank" returns nothing, "occluded" nothing in `fraction` of the image from its left edge, and "dead" nothing in
    that fraction of its pixels or beams, at random.
    """
    if sensor not in SENSOR_FAULTS:
        raise ValueError(f"fail sensor: no sensor {sensor!r}: expected one of {', '.join(SENSOR_FAULTS)}")
    modes = FAILURE_MODES if SENSOR_FAULTS[sensor] else FAILURE_MODES[:1]
    if mode not in modes:
        raise ValueError(f"fail sensor: {sensor} cannot be {mode!r}; expected {' or '.join(modes)}")
    if not is_number(fraction) or not 0.0 < fraction <= 1.0:
        raise ValueError(f"fail sensor: the fraction is {fraction!r}; expected a number above 0 and up to 1")

    def change(drone_setting: DroneSetting, bus: DroneBus, time_us: int) -> DroneSetting:
        if mode == "frozen":
            return drone_setting._replace(
                faults=drone_setting.faults._replace(sensors=drone_setting.faults.sensors | {sensor})
            )
        fault = VisionFault(sensor, mode, 1.0 if mode == "blank" else float(fraction))
        return drone_setting._replace(
            faults=drone_setting.faults._replace(vision=(*drone_setting.faults.vision, fault))
        )

    return _drone_action(drone, change, f"fail {sensor}" if mode == "frozen" else f"fail {sensor}: {mode}")


@picklable_factory
def restore_sensor(sensor: str, drone: str = "") -> EventAction:
    """Restore a failed sensor."""

    def change(drone_setting: DroneSetting, bus: DroneBus, time_us: int) -> DroneSetting:
        remaining = tuple(fault for fault in drone_setting.faults.vision if fault.sensor != sensor)
        return drone_setting._replace(
            faults=drone_setting.faults._replace(sensors=drone_setting.faults.sensors - {sensor}, vision=remaining)
        )

    return _drone_action(drone, change, f"restore {sensor}")


@picklable_factory
def freeze_estimator(drone: str = "") -> EventAction:
    """Freeze the estimate at its present value."""
    return _set_faults(drone, "freeze estimator", estimator_frozen=True)


@picklable_factory
def unfreeze_estimator(drone: str = "") -> EventAction:
    """Resume the updates of the estimate."""
    return _set_faults(drone, "unfreeze estimator", estimator_frozen=False)


@picklable_factory
def add_payload(
    mass: Annotated[float, UnitInterval("kg", 0.0, 1e4)], r_B: PositionArgument = (0.0, 0.0, 0.0), drone: str = ""
) -> EventAction:
    """Fix a point mass to the body at r_B from the bare vehicle's centre of mass [kg, m]; 0 kg removes it."""
    if not is_number(mass) or mass < 0.0:
        raise ValueError(f"add payload: mass is {quote_value(mass)} kg; expected a finite number that is not negative")
    payload = Payload(float(mass), finite_vector(r_B, "add payload: the position"))
    return _drone_action(
        drone,
        lambda drone_setting, bus, time_us: drone_setting._replace(payload=payload),
        f"payload {payload.mass:g} kg",
    )


@picklable_factory
def release_load(drone: str = "") -> EventAction:
    """Release the cable: the load moves freely."""

    def change(drone_setting: DroneSetting, bus: DroneBus, time_us: int) -> DroneSetting:
        if not any(isinstance(effect, LoadState) for effect in bus.state.effects):
            raise ValueError(f"release load: {bus.name} has no load on a cable; expected a vehicle with slung_load")
        return drone_setting._replace(cable_attached=False)

    return _drone_action(drone, change, "release load")


def event_time_us(event: Event, physics_us: int) -> int | None:
    """Return the time at which an event is due [µs]; None for a condition."""
    if isinstance(event.trigger, TimeTrigger):
        return event.trigger.time_us
    return event.trigger.step * physics_us if isinstance(event.trigger, StepTrigger) else None
