"""Events: something happens once, at a time, at a step, or when a condition holds.

    Event(at(5.0), wind_step((4.0, 0.0, 0.0)))
    Event(when(lambda bus: bus.drones[0].state.p_W.z > 5.0), fail_motor(2))

An action is a pure function (setting, bus) → setting: what it changes is a new record, and the simulation makes it so. Drones
are named, or all of them meant when none is.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Any, NamedTuple, TypeAlias

from samara.core.algebra import ZERO, Vec3, euler_from_quat, norm
from samara.core.coerce import Length, Limits, Place, Seconds, Speed, Velocity, is_number
from samara.core.ops import equal, logical_and
from samara.core.picklable import remade
from samara.core.quantity import Scalar
from samara.core.sanitise import shown
from samara.core.tree import three_in
from samara.physics.quantities import DEGREES, least_charge, least_voltage, position_error, speed, tilt_deg
from samara.physics.structure.slung_load import LoadState
from samara.physics.types import Reference, State
from samara.plan import trajectory as plan
from samara.plan.trajectory import Trajectory, stop, transfer
from samara.scenario.landing import BELOW_GROUND
from samara.scenario.snapshot import SENSOR_FAULTS, BatteryStatus, Blindness, Bus, DroneBus, Faults
from samara.scenario.timeline import microseconds
from samara.vehicles.payload import Payload
from samara.wind.sources import Constant, Gust, Sum


class Watched(NamedTuple):
    """What a condition looks at of one drone; a `DroneBus` has it too."""

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
    "yaw_deg": lambda time, drone: DEGREES * euler_from_quat(drone.state.q_WB).yaw,
    "charge": lambda time, drone: least_charge([battery.charge for battery in drone.batteries]),
    "voltage": lambda time, drone: least_voltage([battery.voltage for battery in drone.batteries]),
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


Sentence = tuple[Comparison, ...]


def holds(sentence: Sentence, time: Scalar, drone: Any) -> Scalar:
    """Whether all of it is true of one drone (a `Watched` or a `DroneBus`) at a time [s]: a condition"""
    return reduce(
        logical_and, (COMPARISONS[sign](QUANTITIES[name](time, drone), limit) for name, sign, limit in sentence)
    )


def read_sentence(text: str) -> Sentence:
    """ "charge < 0.1 and landed == 1" as its comparisons"""
    parts = [part.split() for part in text.split(" and ")]
    for words in parts:
        if len(words) != 3 or words[0] not in QUANTITIES or words[1] not in COMPARISONS or not _is_number(words[2]):
            raise ValueError(
                f"the condition {text!r} is not understood; expected one of {', '.join(QUANTITIES)}, one of "
                f"{' '.join(COMPARISONS)}, and a number, with spaces between them; several joined by `and`"
            )
    return tuple(Comparison(name, sign, float(limit)) for name, sign, limit in parts)


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


class Order(NamedTuple):
    """What an autopilot that flies a drone is asked: arm, disarm, take_off, go_to, reach or land.

    A place in the world [m], and a speed [m/s; 0: its own]. To reach a place is to be there before anything else is asked.
    """

    kind: str
    p_W: Vec3 = ZERO
    speed: float = 0.0


class DroneSetting(NamedTuple):
    """What one drone is to do, and what is wrong with it. `since_us` is when its task began; `orders` are all its autopilot
    was asked so far. `landing_depth` is how far below the ground its landings aim [m]."""

    task: Trajectory
    since_us: int = 0
    armed: bool = True
    faults: Faults = Faults()
    payload: Payload = Payload()
    cable_holds: bool = True
    home_W: Vec3 = ZERO
    orders: tuple[Order, ...] = ()
    landing_depth: float = BELOW_GROUND

    def ordered(self, kind: str, p_W: Vec3 = ZERO, speed: float = 0.0) -> "DroneSetting":
        """The setting with one order more"""
        return self._replace(orders=(*self.orders, Order(kind, p_W, speed)))


class Setting(NamedTuple):
    """The drones' settings in their order, the wind's source and what disturbs it."""

    drones: tuple[DroneSetting, ...]
    wind: Any
    wind_disturbance_W: Vec3 = ZERO

    def with_drone(self, index: int, drone: DroneSetting) -> "Setting":
        """The setting with another one for this drone"""
        return self._replace(drones=(*self.drones[:index], drone, *self.drones[index + 1 :]))


Action: TypeAlias = Callable[[Setting, Bus], Setting]
Change: TypeAlias = Callable[[DroneSetting, DroneBus, int], DroneSetting]

SPEED = 2.0  # [m/s], of a task an event gives
LANDING_SPEED = 0.5  # [m/s]
AT_HAND = 1e-6  # [m, m/s]: a reference that is already there


@dataclass(frozen=True)
class At:
    """At a time in whole microseconds."""

    time_us: int


@dataclass(frozen=True)
class AtStep:
    """At the end of so many physics steps."""

    step: int


@dataclass(frozen=True)
class When:
    """At the first instant of the scenario axis at which condition(bus) holds.

    One that was written as a sentence keeps it, and whom it is about ("" for any drone): `samara.scenario.events.holds`
    says of one drone whether it is true, and can be traced. A function of the bus has no sentence.
    """

    condition: Callable[[Bus], bool]
    text: str = ""
    sentence: Sentence = ()
    drone: str = ""


@dataclass(frozen=True)
class Event:
    """What happens, and when; once."""

    trigger: At | AtStep | When
    action: Action
    name: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", getattr(self.action, "__name__", "event").replace("_", " "))


def at(time: float) -> At:
    """At a time  [s]"""
    exact = microseconds(time, "the time of an event")
    if exact < 0:
        raise ValueError(f"the time of an event is {time!r} s; expected a number that is not negative")
    return At(exact)


def at_step(step: int) -> AtStep:
    """After so many physics steps"""
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise ValueError(f"the step of an event is {step!r}; expected a whole number that is not negative")
    return AtStep(step)


# Conditions ---------------------------------------------------------------------------------------------------------


@remade
def when(condition: Callable[[Bus], bool] | str, drone: str = "") -> When:
    """When a function of the bus holds, or a sentence such as "height > 5 and speed < 1" of a named drone, or of any"""
    if not isinstance(condition, str):
        if not callable(condition):
            raise ValueError(f"the condition {shown(condition)} is none; expected a sentence, or a function of the bus")
        return When(condition, getattr(condition, "__name__", "condition"))
    sentence = read_sentence(condition)

    def met(bus: Bus) -> bool:
        return any(holds(sentence, bus.time, own) for own in bus.drones if drone in ("", own.name))

    return When(met, condition, sentence, drone)


def when_charge_below(charge: float, drone: str = "") -> When:
    """When a battery's state of charge falls below this, from 0 to 1"""
    return when(f"charge < {charge}", drone)


# Actions ------------------------------------------------------------------------------------------------------------


def _on(drone: str, change: Change, name: str) -> Action:
    """The change of one named drone, or of all."""

    def action(setting: Setting, bus: Bus) -> Setting:
        known = [own.name for own in bus.drones]
        if drone and drone not in known:
            raise ValueError(f"{name}: there is no drone {drone!r}; there are {', '.join(known)}")
        for index, own in enumerate(bus.drones):
            if drone in ("", own.name):
                setting = setting.with_drone(index, change(setting.drones[index], own, bus.time_us))
        return setting

    action.__name__ = f"{name} ({drone})" if drone else name
    return action


@remade
def arm(drone: str = "") -> Action:
    """The motors may turn"""
    return _on(drone, lambda own, bus, now: own._replace(armed=True).ordered("arm"), "arm")


@remade
def disarm(drone: str = "") -> Action:
    """Every motor's command is 0"""
    return _on(drone, lambda own, bus, now: own._replace(armed=False).ordered("disarm"), "disarm")


@remade
def follow(trajectory: Trajectory, drone: str = "", speed: float = SPEED) -> Action:
    """A trajectory from its beginning, once the reference of now has been brought there, at a peak speed"""

    def change(own: DroneSetting, bus: DroneBus, now: int) -> DroneSetting:
        first = Vec3(*(float(x) for x in trajectory.at(0.0).p_W))
        here = bus.reference
        if norm(first - here.p_W) < AT_HAND and norm(here.v_W) < AT_HAND:
            return own._replace(task=trajectory, since_us=now)
        way = transfer(here, first, speed=speed)
        return own._replace(task=plan.sequence(way, trajectory), since_us=now)

    return _on(drone, change, f"follow {trajectory.name}")


def _from_here(bus: DroneBus, target_W: Vec3, speed: float) -> Trajectory:
    return transfer(bus.reference, target_W, speed=speed)


@remade
def go_to(p_W: Place, speed: Speed = SPEED, drone: str = "") -> Action:
    """From the reference of now, in its motion, to rest at a place"""
    target = three_in(p_W, "go to: the place")
    name = f"go to ({target.x:g}, {target.y:g}, {target.z:g})"

    def change(own: DroneSetting, bus: DroneBus, now: int) -> DroneSetting:
        return own._replace(task=_from_here(bus, target, speed), since_us=now).ordered("go_to", target, speed)

    return _on(drone, change, name)


@remade
def take_off(height: Length, speed: Speed = SPEED, drone: str = "") -> Action:
    """Armed, and straight up to a height above the world's origin  [m]"""
    if not 0.0 < height < 10_000.0:
        raise ValueError(f"take off: the height is {height!r} m; expected a number above 0")

    def change(own: DroneSetting, bus: DroneBus, now: int) -> DroneSetting:
        target = bus.reference.p_W._replace(z=float(height))
        risen = own._replace(task=_from_here(bus, target, speed), since_us=now, armed=True)
        return risen.ordered("take_off", target, speed)

    return _on(drone, change, f"take off to {height:g} m")


@remade
def return_home(height: Length = 0.0, speed: Speed = SPEED, drone: str = "") -> Action:
    """To above the place it started from, at a height or, with 0, at the height it has"""

    def change(own: DroneSetting, bus: DroneBus, now: int) -> DroneSetting:
        target = Vec3(own.home_W.x, own.home_W.y, height or bus.reference.p_W.z)
        return own._replace(task=_from_here(bus, target, speed), since_us=now).ordered("go_to", target, speed)

    return _on(drone, change, "return")


@remade
def land(speed: Speed = LANDING_SPEED, drone: str = "") -> Action:
    """To rest, then straight down to below the ground, so that it stands there with little thrust"""

    def change(own: DroneSetting, bus: DroneBus, now: int) -> DroneSetting:
        own = own.ordered("land")
        first = stop(bus.reference)
        above, bottom = first.waypoints[-1].p_W, bus.environment.ground.point_W.z - own.landing_depth
        if bottom >= above.z:
            return own._replace(task=first, since_us=now)
        down = plan.land(above, height=bottom, speed=speed, yaw=bus.reference.yaw)
        return own._replace(task=plan.sequence(first, down), since_us=now)

    return _on(drone, change, "land")


@remade
def wind_step(wind_W: Velocity) -> Action:
    """From now on this wind, in world axes  [m/s]"""
    source = Constant(three_in(wind_W, "wind step: the wind"))

    def action(setting: Setting, bus: Bus) -> Setting:
        return setting._replace(wind=source)

    action.__name__ = f"wind ({source.wind_W.x:g}, {source.wind_W.y:g}, {source.wind_W.z:g}) m/s"
    return action


@remade
def gust(amplitude_W: Velocity, duration: Seconds) -> Action:
    """½ A (1 − cos 2πt/T) on top of the wind, from now  [m/s, s]"""
    amplitude = three_in(amplitude_W, "gust: the amplitude")
    if not is_number(duration) or duration <= 0.0:
        raise ValueError(f"gust: the duration is {shown(duration)} s; expected a positive number")

    def action(setting: Setting, bus: Bus) -> Setting:
        return setting._replace(wind=Sum((setting.wind, Gust(amplitude, bus.time, duration))))

    action.__name__ = f"gust of {norm(amplitude):g} m/s for {duration:g} s"
    return action


def _motor(motor: int, power: float, drone: str, name: str) -> Action:
    if not 0.0 <= power <= 1.0:
        raise ValueError(f"{name}: power is {power}; expected a number within [0, 1]")

    def change(own: DroneSetting, bus: DroneBus, now: int) -> DroneSetting:
        powers = list(own.faults.motor_power)
        if not 0 <= motor < len(powers):
            raise ValueError(f"{name}: {bus.name} has no motor {motor}; expected one of 0 to {len(powers) - 1}")
        powers[motor] = power
        return own._replace(faults=own.faults._replace(motor_power=tuple(powers)))

    return _on(drone, change, name)


@remade
def fail_motor(motor: int, drone: str = "") -> Action:
    """A physical propulsor's motor is dead: its rotor spins down"""
    return _motor(motor, 0.0, drone, f"fail motor {motor}")


@remade
def degrade_motor(motor: int, power: float, drone: str = "") -> Action:
    """A motor delivers only this fraction of its command"""
    if not is_number(power):
        raise ValueError(f"degrade motor: power is {shown(power)}; expected a number within [0, 1]")
    return _motor(motor, power, drone, f"degrade motor {motor} to {power:g}")


@remade
def restore_motor(motor: int, drone: str = "") -> Action:
    """A motor is healthy again"""
    return _motor(motor, 1.0, drone, f"restore motor {motor}")


def _fault(drone: str, name: str, **changes: Any) -> Action:
    return _on(drone, lambda own, bus, now: own._replace(faults=own.faults._replace(**changes)), name)


@remade
def disconnect_battery(drone: str = "") -> Action:
    """0 V on the bus"""
    return _fault(drone, "disconnect battery", battery_connected=False)


@remade
def connect_battery(drone: str = "") -> Action:
    """The battery is back"""
    return _fault(drone, "connect battery", battery_connected=True)


@remade
def fail_cell(cells: int, drone: str = "") -> Action:
    """One of so many cells in series is gone: the open-circuit voltage falls to (cells − 1)/cells"""
    if isinstance(cells, bool) or not isinstance(cells, int) or cells < 2:
        raise ValueError(f"fail cell: the battery has {cells!r} cells; expected a whole number of at least 2")
    return _fault(drone, f"fail one of {cells} cells", cells_left=(cells - 1) / cells)


FAILURES = ("frozen", "blank", "occluded", "dead")


@remade
def fail_sensor(sensor: str, drone: str = "", how: str = "frozen", share: float = 0.5) -> Action:
    """What the sensor told stays as it was last; a depth camera or a lidar may fail in other ways too

    "blank" sees nothing, "occluded" nothing in a `share` of the picture from its left edge, and "dead" nothing in that share of
    its pixels or beams, here and there.
    """
    if sensor not in SENSOR_FAULTS:
        raise ValueError(f"fail sensor: {sensor!r} is none; expected one of {', '.join(SENSOR_FAULTS)}")
    modes = FAILURES if SENSOR_FAULTS[sensor] else FAILURES[:1]
    if how not in modes:
        raise ValueError(f"fail sensor: {sensor} cannot be {how!r}; expected {' or '.join(modes)}")
    if not is_number(share) or not 0.0 < share <= 1.0:
        raise ValueError(f"fail sensor: the share is {share!r}; expected a number above 0 and up to 1")

    def broken(own: DroneSetting, bus: DroneBus, now: int) -> DroneSetting:
        if how == "frozen":
            return own._replace(faults=own.faults._replace(sensors=own.faults.sensors | {sensor}))
        fault = Blindness(sensor, how, 1.0 if how == "blank" else float(share))
        return own._replace(faults=own.faults._replace(eyes=(*own.faults.eyes, fault)))

    return _on(drone, broken, f"fail {sensor}" if how == "frozen" else f"fail {sensor}: {how}")


@remade
def restore_sensor(sensor: str, drone: str = "") -> Action:
    """The sensor works again"""

    def whole(own: DroneSetting, bus: DroneBus, now: int) -> DroneSetting:
        eyes = tuple(fault for fault in own.faults.eyes if fault.sensor != sensor)
        return own._replace(faults=own.faults._replace(sensors=own.faults.sensors - {sensor}, eyes=eyes))

    return _on(drone, whole, f"restore {sensor}")


@remade
def freeze_estimator(drone: str = "") -> Action:
    """The estimate no longer changes"""
    return _fault(drone, "freeze estimator", estimator_frozen=True)


@remade
def unfreeze_estimator(drone: str = "") -> Action:
    """The estimate follows the truth again"""
    return _fault(drone, "unfreeze estimator", estimator_frozen=False)


@remade
def add_payload(
    mass: Annotated[float, Limits("kg", 0.0, 1e4)], r_B: Place = (0.0, 0.0, 0.0), drone: str = ""
) -> Action:
    """A point mass is fixed to the body at r_B from the bare vehicle's centre of mass  [kg, m]; 0 kg drops it"""
    if not is_number(mass) or mass < 0.0:
        raise ValueError(f"add payload: mass is {shown(mass)} kg; expected a finite number that is not negative")
    payload = Payload(float(mass), three_in(r_B, "add payload: the place"))
    return _on(drone, lambda own, bus, now: own._replace(payload=payload), f"payload {payload.mass:g} kg")


@remade
def release_load(drone: str = "") -> Action:
    """The cable is let go: the load flies on by itself"""

    def change(own: DroneSetting, bus: DroneBus, now: int) -> DroneSetting:
        if not any(isinstance(effect, LoadState) for effect in bus.state.effects):
            raise ValueError(f"release load: {bus.name} has none on a cable; expected a vehicle with slung_load")
        return own._replace(cable_holds=False)

    return _on(drone, change, "release load")


def event_time_us(event: Event, physics_us: int) -> int | None:
    """When an event is due, if that is a time and no condition  [µs]"""
    if isinstance(event.trigger, At):
        return event.trigger.time_us
    return event.trigger.step * physics_us if isinstance(event.trigger, AtStep) else None
