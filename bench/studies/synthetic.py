"""Vehicles that nobody built, and logs of flights that they flew in simulation: what an identification can be proven on.

A vehicle is drawn from ranges that real ones have, from 20 g to 5 kg, and is the same for the same seed and number. It flies in
Dryden's wind, which no log tells, and is logged by the sensors of `samara.sensors` and its own Kalman filter.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from samara.core.algebra import UP, Vec3
from samara.core.types import Array
from samara.estimate.ekf import ekf
from samara.estimate.ideal import TRUTH
from samara.identify.experiment_design import plan_flight, plan_flights
from samara.identify.flight_log import ESTIMATE, MOTION_CAPTURE, FlightLog, Signal
from samara.identify.manoeuvres import Room, controller_for
from samara.physics.air.atmosphere import STANDARD_GRAVITY
from samara.physics.air.drag import Drag
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.inflow import hover_induced
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY, Rotor
from samara.physics.types import Vehicle
from samara.plan.trajectory import Trajectory, hover
from samara.record.streams import Block, tables
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Rates
from samara.sensors.registry import part
from samara.sensors.sensor import Sensor
from samara.sim.setup import Variation
from samara.sim.simulation import Simulation
from samara.vehicles.build import build_vehicle
from samara.wind.turbulence import Dryden

LIGHTEST, HEAVIEST = 0.02, 5.0  # [kg]
CORNERS = ((1.0, 1.0, -1.0), (1.0, -1.0, 1.0), (-1.0, -1.0, -1.0), (-1.0, 1.0, 1.0))  # x, y, spin
DOUBT = 0.2  # σ of the logarithm of a start's numbers about the truth
WIND = 2.0  # [m/s]
INDOORS = Room(wind=WIND)
OUTDOORS = Room(reach=10.0, low=2.0, high=12.0, speed=6.0, wind=WIND)
AT_ONCE = 20  # flights in memory


class Case(NamedTuple):
    """A vehicle by its number, what was believed of it before, the log of its flight, and what it was to fly"""

    number: int
    truth: Vehicle
    start: Vehicle
    log: FlightLog
    task: Trajectory


def random_vehicle(seed: int, number: int) -> Vehicle:
    """A quadrotor in X: mass drawn evenly over decades, sizes that go with it, and a few percent of difference between rotors

    m ~ size^2.5, J = m k² with k 0.42 to 0.6 arms, C_T 0.08 to 0.14, kM/kF 0.12 to 0.28 radii, motors of 15 to 90 ms, drag
    that is the weight at 12 to 40 m/s, and a centre of mass up to some percent of the arm off the middle.
    """
    draw = np.random.Generator(np.random.Philox(key=[seed, number]))

    def between(low: float, high: float) -> float:
        return float(draw.uniform(low, high))

    def evenly(low: float, high: float) -> float:
        """Over decades"""
        return math.exp(between(math.log(low), math.log(high)))

    mass = evenly(LIGHTEST, HEAVIEST)
    weight = mass * STANDARD_GRAVITY
    arm = 0.046 * (mass / 0.028) ** 0.4 * math.exp(0.1 * float(draw.standard_normal()))
    radius = math.sqrt(2.0) * arm * between(0.34, 0.44)
    kx = arm * between(0.42, 0.6)
    ky = kx * between(0.9, 1.15)
    jx, jy = mass * kx * kx, mass * ky * ky
    jz = (jx + jy) * between(0.8, 0.97)
    k_thrust = between(0.08, 0.14) * SEA_LEVEL_DENSITY * (2.0 * radius) ** 4 / (2.0 * math.pi) ** 2
    k_torque = k_thrust * radius * between(0.12, 0.28)
    hovering = math.sqrt(weight / (4.0 * k_thrust))
    fastest = hovering * math.sqrt(between(2.0, 3.5))
    moment = {"roll": between(0.12, 0.3), "pitch": between(0.12, 0.3)}
    induced = float(hover_induced(weight / 4.0, SEA_LEVEL_DENSITY, radius))
    rise = evenly(0.015, _slowest_rise(max(moment.values()) * STANDARD_GRAVITY * arm / (min(kx, ky) ** 2 * induced)))
    motor = Lag(between(0.08, 0.2) * fastest, fastest, rise, rise * between(1.0, 1.5))
    off_x, off_y = 0.03 * arm * np.clip(draw.standard_normal(2), -2.0, 2.0)
    rotors = []
    for x, y, spin in CORNERS:
        hub_B = Vec3(x * arm / math.sqrt(2.0) - float(off_x), y * arm / math.sqrt(2.0) - float(off_y), 0.1 * arm)
        own = 1.0 + 0.02 * float(draw.standard_normal())
        rotors.append(Rotor(hub_B, UP, spin, own * k_thrust, own * k_torque, radius=radius, motor=motor))
    sideways = weight / between(12.0, 40.0)
    isotropic = 0.1 * sideways if number % 3 == 0 else 0.0
    return build_vehicle(
        "synthetic",
        mass=mass,
        inertia=(jx, jy, jz),
        rotors=rotors,
        effects={
            "drag": Drag(Vec3(sideways, sideways * between(0.8, 1.25), 0.0), isotropic=isotropic),
            "rotor_drag": {"coefficient": 0.0, "axial": weight / between(12.0, 30.0) / (4.0 * hovering)},
            "airspeed_moment": moment,
        },
    )


def _slowest_rise(turning: float) -> float:
    """The time constant of motors with which it can still be held in a wind, at most 90 ms; `turning` is ω̇/v of airspeed  [s]

    The moment of airspeed and gravity make a pendulum of it, ω = (g ω̇/v)^⅓; the loops that gains are made for have 0.35/τ.
    """
    return min(0.090, 0.35 / (0.7 * (STANDARD_GRAVITY * turning) ** (1.0 / 3.0)) / 1.25 - 0.01)


def doubted(truth: Vehicle, seed: int, number: int) -> Vehicle:
    """What is believed before the flight: mass, geometry and speeds as they are, rotors alike, the centre of mass in the
    middle, and everything else off by a fifth or so"""
    draw = np.random.Generator(np.random.Philox(key=[seed, number + 2**32]))

    def off(number: Any) -> float:
        return float(number) * math.exp(DOUBT * float(draw.standard_normal()))

    k_thrust, k_torque = (
        off(np.mean([getattr(own, name) for own in truth.rotors])) for name in ("k_thrust", "k_torque")
    )
    middle = [float(np.mean([getattr(own.r_B, axis) for own in truth.rotors])) for axis in "xy"]
    motor = truth.rotors[0].motor._replace(rise=off(truth.rotors[0].motor.rise), fall=off(truth.rotors[0].motor.fall))
    rotors = tuple(
        own._replace(
            r_B=Vec3(own.r_B.x - middle[0], own.r_B.y - middle[1], own.r_B.z),
            k_thrust=k_thrust,
            k_torque=k_torque,
            motor=motor,
        )
        for own in truth.rotors
    )
    jx, jy, jz = (off(getattr(truth.inertia_B, axis)) for axis in ("xx", "yy", "zz"))
    inertia = truth.inertia_B._replace(xx=jx, yy=jy, zz=min(max(jz, 1.01 * abs(jx - jy)), 0.99 * (jx + jy)))
    drag, wake, moment = truth["drag"], truth["rotor_drag"], truth["airspeed_moment"]
    return replace(truth, rotors=rotors, inertia_B=inertia).replace(
        {
            "drag.linear": Vec3(*(off(own) for own in drag.linear)),
            "drag.isotropic": off(drag.isotropic),
            "rotor_drag.axial": off(wake.axial),
            "airspeed_moment.roll": off(moment.roll),
            "airspeed_moment.pitch": off(moment.pitch),
        }
    )


def room_of(vehicle: Vehicle, number: int) -> Room:
    """Indoors for those that motion capture looks at, the even ones; outdoors for the others

    No faster than half the induced speed of hover: with the wind the wakes still stay below it.
    """
    room = INDOORS if is_captured(number) else OUTDOORS
    rotor, thrust = vehicle.rotors[0], vehicle.mass * STANDARD_GRAVITY / len(vehicle.rotors)
    return room._replace(speed=min(room.speed, 0.5 * float(hover_induced(thrust, SEA_LEVEL_DENSITY, rotor.radius))))


def is_captured(number: int) -> bool:
    """Whether motion capture looks at it; else it flies on GPS"""
    return number % 2 == 0


def cases(
    numbers: Sequence[int], seed: int = 1, duration: float = 120.0, *, still: bool = False, telemetry: bool = False
) -> Iterator[Case]:
    """Each vehicle, what is believed of it, and its log of the flight that was planned for what is believed

    Where that cannot be flown safely the flight is planned for the vehicle itself. `still` ones hover for as long instead,
    which tells little: whoever identifies them has to say so. With `telemetry` ESCs tell the speeds of their rotors.
    """
    for captured in (True, False):
        alike = [own for own in numbers if is_captured(own) == captured]
        for first in range(0, len(alike), AT_ONCE):
            some = alike[first : first + AT_ONCE]
            truths = [random_vehicle(seed, own) for own in some]
            starts = [doubted(truth, seed, own) for truth, own in zip(truths, some, strict=True)]
            rooms = [room_of(truth, own) for truth, own in zip(truths, some, strict=True)]
            if still:
                tasks = [hover(room.home_W, duration=duration) for room in rooms]
            else:
                tasks = _planned(truths, starts, rooms, duration)
            logs = _logs(truths, tasks, some, captured, seed, telemetry)
            yield from (Case(*own) for own in zip(some, truths, starts, logs, tasks, strict=True))


def _planned(
    truths: Sequence[Vehicle], starts: Sequence[Vehicle], rooms: Sequence[Room], duration: float
) -> list[Trajectory]:
    plans = plan_flights(starts, duration, rooms)
    return [
        plan_flight(truth, duration, room).trajectory if isinstance(plan, ValueError) else plan.trajectory
        for truth, room, plan in zip(truths, rooms, plans, strict=True)
    ]


def logs_of(
    vehicles: Sequence[Vehicle],
    tasks: Sequence[Trajectory],
    numbers: Sequence[int],
    *,
    captured: bool,
    seed: int = 0,
    telemetry: bool = False,
) -> list[FlightLog]:
    """Each vehicle's log of its task, which begins in hover, in a wind of its own that the log does not tell

    `captured` by motion capture: pose at 100 Hz with 0.5 mm and 0.2°, gyroscope and accelerometer at 500 Hz. Else what the
    Kalman filter makes of IMU, GPS, barometer and magnetometer, at 100 Hz, and the IMU at 250 Hz. Commands at 250 Hz, and with
    `telemetry` the rotors' speeds.
    """
    logs: list[FlightLog] = []
    for first in range(0, len(vehicles), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        logs += _logs(vehicles[some], tasks[some], numbers[some], captured, seed, telemetry)
    return logs


def scenario_of(
    vehicles: Sequence[Vehicle], tasks: Sequence[Trajectory], numbers: Sequence[int], *, captured: bool, telemetry: bool
) -> Scenario:
    """The flight of these vehicles side by side, with the sensors of their logs, in the first one's wind"""
    rates = Rates(sensor=500.0 if captured else 250.0, log=250.0 if telemetry else 100.0)
    sensors = _captured_sensors() if captured else _flying_sensors()
    estimator = TRUTH if captured else ekf(sensors, 1.0 / rates.estimator, STANDARD_GRAVITY)
    drones = tuple(
        Drone(
            f"synthetic_{number}",
            vehicle,
            task,
            Vec3(*(float(x) for x in task.at(0.0).p_W)),
            airborne=True,
            controller=controller_for(INDOORS),
            estimator=estimator,
            sensors=sensors,
        )
        for vehicle, task, number in zip(vehicles, tasks, numbers, strict=True)
    )
    end = math.ceil(max(task.duration for task in tasks))
    return Scenario("synthetic", drones, float(end), rates=rates, wind=wind_of(numbers[0]))


def wind_of(number: int) -> Dryden:
    """From all around, one after the other"""
    return Dryden.from_direction(WIND, 2.4 * number)


def _logs(
    vehicles: Sequence[Vehicle],
    tasks: Sequence[Trajectory],
    numbers: Sequence[int],
    captured: bool,
    seed: int,
    telemetry: bool,
) -> list[FlightLog]:
    scenario = scenario_of(vehicles, tasks, numbers, captured=captured, telemetry=telemetry)
    seeds = [seed * 1_000_000 + number for number in numbers]
    blocks: list[Block] = []
    winds = tuple(wind_of(number) for number in numbers)
    Simulation(scenario, lambda own, lines: blocks.extend(own), seeds=seeds, variation=Variation(winds)).run()
    found = tables(blocks)
    return [
        _log(found, drone, task.duration, captured, telemetry)
        for drone, task in zip(scenario.drones, tasks, strict=True)
    ]


def _captured_sensors() -> tuple[Sensor, ...]:
    cameras = part("vicon", rate=100.0, delay=0.0, position_noise=5e-4, attitude_noise=math.radians(0.2))
    return part("bmi088", rate=500.0).sensor(), cameras.sensor()


def _flying_sensors() -> tuple[Sensor, ...]:
    return tuple(part(name).sensor() for name in ("bmi088", "neo-m9n", "bmp388", "bmm150"))


def _log(
    found: dict[str, tuple[Array, Array]], drone: Drone, until: float, captured: bool, telemetry: bool
) -> FlightLog:
    def signal(stream: str, rows: slice) -> Signal:
        times_us, values = found[f"/{drone.name}/{stream}"]
        time = times_us * 1e-6
        kept = time <= until
        return Signal(time[kept], values[kept, rows].T.copy())

    pose, place = ("motion_capture", 3) if captured else ("estimate", 6)
    return FlightLog(
        drone.name,
        "synthetic",
        "samara",
        command=signal("command", slice(None)),
        rotor_speed=signal("state", slice(13, 13 + len(drone.vehicle.rotors))) if telemetry else None,
        position=signal(pose, slice(0, 3)),
        velocity=None if captured else signal(pose, slice(3, 6)),
        attitude=signal(pose, slice(place, place + 4)),
        rate=signal("imu", slice(3, 6)),
        specific_force=signal("imu", slice(0, 3)),
        truth=MOTION_CAPTURE if captured else ESTIMATE,
    )
