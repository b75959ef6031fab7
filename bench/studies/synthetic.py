"""Synthetic vehicles and the logs of their simulated flights, on which an identification can be validated.

A vehicle is drawn from the ranges of real ones, 20 g to 5 kg, and is the same for the same seed and number. It flies in Dryden
wind, which no log contains, and is logged by the sensors of `samara.sensors` and a Kalman filter.
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
from samara.identify.manoeuvres import FlightVolume, identification_controller
from samara.physics.air.atmosphere import STANDARD_GRAVITY
from samara.physics.air.drag import Drag
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.inflow import hover_induced
from samara.physics.rotors.propulsion import ROTOR_MOMENTUM
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY, Rotor
from samara.physics.types import Vehicle
from samara.plan.trajectory import Trajectory, hover
from samara.record.streams import StreamBlock, concatenate_blocks
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Rates
from samara.sensors.registry import part
from samara.sensors.sensor import Sensor
from samara.sim.setup import Variation
from samara.sim.simulation import Simulation
from samara.vehicles.build import build_vehicle, switch_on
from samara.wind.turbulence import Dryden

MIN_MASS_KG, MAX_MASS_KG = 0.02, 5.0  # [kg]
CORNERS = ((1.0, 1.0, -1.0), (1.0, -1.0, 1.0), (-1.0, -1.0, -1.0), (-1.0, 1.0, 1.0))  # x, y, spin
PRIOR_SIGMA = 0.2  # σ of the logarithm of the initial parameters about the truth
WIND_SPEED = 2.0  # [m/s]
INDOORS = FlightVolume(wind=WIND_SPEED)
OUTDOORS = FlightVolume(reach=10.0, low=2.0, high=12.0, speed=6.0, wind=WIND_SPEED)
MAX_FLIGHTS_IN_MEMORY = 20  # flights in memory at the same time
MOTOR_SPREAD = 0.05  # largest relative difference of a motor's speed range from the mean, with `telemetry`
SPEED_SIGMA, IDLE_SIGMA = 0.1, 0.05  # σ of the start's error: logarithm of the range; idle over full speed
CURVE_SIGMA = 0.1  # σ of the part of the thrust that grows with Ω instead of Ω²
ROTOR_MASS_FRACTION, ROTOR_GYRATION_RADIUS = 0.006, 0.45  # of a rotor that turns: of the vehicle's mass, of the radius
ARM_DAMPING = 0.1  # with less, many of these vehicles enter a limit cycle with their controller
MAX_IMU_DELAY_S, MAX_POSE_DELAY_S, MAX_SPEED_DELAY_S = 0.003, 0.02, 0.004


class Case(NamedTuple):
    """A vehicle by its number, its prior model, the log of its flight, and the flown task."""

    number: int
    truth: Vehicle
    start: Vehicle
    log: FlightLog
    task: Trajectory


def random_vehicle(seed: int, number: int) -> Vehicle:
    """Draw a quadrotor in X: mass uniform in its logarithm, matching sizes, and a few percent of scatter between rotors.

    m ~ size^2.5, J = m k² with k 0.42 to 0.6 arms, C_T 0.08 to 0.14, kM/kF 0.12 to 0.28 radii, motor lags of 15 to 90 ms, drag
    equal to the weight at 12 to 40 m/s, and a centre of mass up to a few percent of the arm from the middle.
    """
    rng = np.random.Generator(np.random.Philox(key=[seed, number]))

    def uniform(low: float, high: float) -> float:
        return float(rng.uniform(low, high))

    def log_uniform(low: float, high: float) -> float:
        """Draw uniformly in the logarithm."""
        return math.exp(uniform(math.log(low), math.log(high)))

    mass = log_uniform(MIN_MASS_KG, MAX_MASS_KG)
    weight = mass * STANDARD_GRAVITY
    arm = 0.046 * (mass / 0.028) ** 0.4 * math.exp(0.1 * float(rng.standard_normal()))
    radius = math.sqrt(2.0) * arm * uniform(0.34, 0.44)
    kx = arm * uniform(0.42, 0.6)
    ky = kx * uniform(0.9, 1.15)
    jx, jy = mass * kx * kx, mass * ky * ky
    jz = (jx + jy) * uniform(0.8, 0.97)
    k_thrust = uniform(0.08, 0.14) * SEA_LEVEL_DENSITY * (2.0 * radius) ** 4 / (2.0 * math.pi) ** 2
    k_torque = k_thrust * radius * uniform(0.12, 0.28)
    hover_speed = math.sqrt(weight / (4.0 * k_thrust))
    max_speed = hover_speed * math.sqrt(uniform(2.0, 3.5))
    moment = {"roll": uniform(0.12, 0.3), "pitch": uniform(0.12, 0.3)}
    induced = float(hover_induced(weight / 4.0, SEA_LEVEL_DENSITY, radius))
    time_constant = log_uniform(
        0.015, _max_time_constant(max(moment.values()) * STANDARD_GRAVITY * arm / (min(kx, ky) ** 2 * induced))
    )
    motor = Lag(uniform(0.08, 0.2) * max_speed, max_speed, time_constant, time_constant * uniform(1.0, 1.5))
    off_x, off_y = 0.03 * arm * np.clip(rng.standard_normal(2), -2.0, 2.0)
    rotors = []
    for x, y, spin in CORNERS:
        hub_B = Vec3(x * arm / math.sqrt(2.0) - float(off_x), y * arm / math.sqrt(2.0) - float(off_y), 0.1 * arm)
        scatter = 1.0 + 0.02 * float(rng.standard_normal())
        rotors.append(Rotor(hub_B, UP, spin, scatter * k_thrust, scatter * k_torque, radius=radius, motor=motor))
    lateral_drag = weight / uniform(12.0, 40.0)
    isotropic = 0.1 * lateral_drag if number % 3 == 0 else 0.0
    return build_vehicle(
        "synthetic",
        mass=mass,
        inertia=(jx, jy, jz),
        rotors=rotors,
        effects={
            "drag": Drag(Vec3(lateral_drag, lateral_drag * uniform(0.8, 1.25), 0.0), isotropic=isotropic),
            "rotor_drag": {"coefficient": 0.0, "axial": weight / uniform(12.0, 30.0) / (4.0 * hover_speed)},
            "airspeed_moment": moment,
        },
    )


def spread_motors(vehicle: Vehicle, seed: int, number: int) -> Vehicle:
    """Return the vehicle with speed ranges that differ by up to `MOTOR_SPREAD` between motors, and rotors with inertia."""
    rng = np.random.Generator(np.random.Philox(key=[seed, number + 2**33]))
    rotors = []
    for rotor in vehicle.rotors:
        factor = 1.0 + float(rng.uniform(-MOTOR_SPREAD, MOTOR_SPREAD))
        motor = rotor.motor._replace(speed_min=factor * rotor.motor.speed_min, speed_max=factor * rotor.motor.speed_max)
        inertia = ROTOR_MASS_FRACTION * vehicle.mass * (ROTOR_GYRATION_RADIUS * rotor.radius) ** 2
        rotors.append(rotor._replace(motor=motor, inertia=inertia))
    return replace(vehicle, rotors=tuple(rotors)).with_effect(ROTOR_MOMENTUM)


class ModelError(NamedTuple):
    """What a flown vehicle has and the model of an identification lacks, and the delays of its sensors [s]."""

    truth: Vehicle
    start: Vehicle
    delays: dict[str, float]


def add_model_error(truth: Vehicle, start: Vehicle, seed: int, number: int) -> ModelError:
    """Give the flown vehicle a thrust curve, quadratic drag and flexible arms, and the start a wrong speed range.

    Part of the thrust grows with Ω (σ 0.1), the drag doubles at 10 to 40 m/s, the arms' first frequency is 50 to 75 Hz, and
    the start's range is off by 10 % (σ) and its idle speed by 5 % of full speed (σ). Delays: IMU up to 3 ms, pose up to
    20 ms, rotor speeds up to 4 ms.
    """
    rng = np.random.Generator(np.random.Philox(key=[seed, number + 2**34]))
    linear = float(np.clip(CURVE_SIGMA * rng.standard_normal(), -0.25, 0.25))
    doubling_speed = float(np.exp(rng.uniform(math.log(10.0), math.log(40.0))))
    frequency = float(rng.uniform(50.0, 75.0))
    scale = math.exp(SPEED_SIGMA * float(rng.standard_normal()))
    motor = start.rotors[0].motor
    idle = float(np.clip(motor.speed_min / motor.speed_max + IDLE_SIGMA * rng.standard_normal(), 0.0, 0.35))
    speed_max = scale * motor.speed_max
    motor = motor._replace(speed_min=idle * speed_max, speed_max=speed_max)
    rotors = tuple(
        rotor._replace(motor=motor, k_thrust=rotor.k_thrust / scale**2, k_torque=rotor.k_torque / scale**2)
        for rotor in start.rotors
    )
    start = replace(start, rotors=rotors)
    truth = truth.replace({"drag.quadratic": truth["drag"].linear * (1.0 / doubling_speed)})
    truth = switch_on(truth, "thrust_curve", linear=linear)
    truth = switch_on(truth, "arms", frequency=frequency, damping_ratio=ARM_DAMPING)
    delays = {
        "imu": float(rng.uniform(0.0, MAX_IMU_DELAY_S)),
        "pose": float(rng.uniform(0.0, MAX_POSE_DELAY_S)),
        "state": float(rng.uniform(0.0, MAX_SPEED_DELAY_S)),
    }
    return ModelError(truth, start, delays)


def _max_time_constant(moment_rate: float) -> float:
    """Return the largest motor time constant that still allows control in wind, at most 90 ms; `turning` is ω̇/v  [s].

    The airspeed moment and gravity form a pendulum, ω = (g ω̇/v)^⅓; the loops that gains are designed for have 0.35/τ.
    """
    return min(0.090, 0.35 / (0.7 * (STANDARD_GRAVITY * moment_rate) ** (1.0 / 3.0)) / 1.25 - 0.01)


def prior_vehicle(truth: Vehicle, seed: int, number: int) -> Vehicle:
    """Return the prior model before the flight: exact mass, geometry and speeds, equal rotors, a centred centre of mass, and
    every other parameter wrong by about 20 %."""
    rng = np.random.Generator(np.random.Philox(key=[seed, number + 2**32]))

    def perturb(number: Any) -> float:
        return float(number) * math.exp(PRIOR_SIGMA * float(rng.standard_normal()))

    k_thrust, k_torque = (
        perturb(np.mean([getattr(rotor, name) for rotor in truth.rotors])) for name in ("k_thrust", "k_torque")
    )
    hub_centre = [float(np.mean([getattr(rotor.r_B, axis) for rotor in truth.rotors])) for axis in "xy"]
    motor = truth.rotors[0].motor._replace(
        time_constant_up=perturb(truth.rotors[0].motor.time_constant_up),
        time_constant_down=perturb(truth.rotors[0].motor.time_constant_down),
    )
    rotors = tuple(
        rotor._replace(
            r_B=Vec3(rotor.r_B.x - hub_centre[0], rotor.r_B.y - hub_centre[1], rotor.r_B.z),
            k_thrust=k_thrust,
            k_torque=k_torque,
            motor=motor,
        )
        for rotor in truth.rotors
    )
    jx, jy, jz = (perturb(getattr(truth.inertia_B, axis)) for axis in ("xx", "yy", "zz"))
    inertia = truth.inertia_B._replace(xx=jx, yy=jy, zz=min(max(jz, 1.01 * abs(jx - jy)), 0.99 * (jx + jy)))
    drag, rotor_drag, moment = truth["drag"], truth["rotor_drag"], truth["airspeed_moment"]
    return replace(truth, rotors=rotors, inertia_B=inertia).replace(
        {
            "drag.linear": Vec3(*(perturb(component) for component in drag.linear)),
            "drag.isotropic": perturb(drag.isotropic),
            "rotor_drag.axial": perturb(rotor_drag.axial),
            "airspeed_moment.roll": perturb(moment.roll),
            "airspeed_moment.pitch": perturb(moment.pitch),
        }
    )


def case_volume(vehicle: Vehicle, number: int) -> FlightVolume:
    """Return the volume of a flight: indoors for vehicles with motion capture, the even ones; outdoors for the others.

    The speed is at most half the induced speed of hover, so that the wakes stay below the vehicle in wind too.
    """
    volume = INDOORS if is_captured(number) else OUTDOORS
    rotor, thrust = vehicle.rotors[0], vehicle.mass * STANDARD_GRAVITY / len(vehicle.rotors)
    return volume._replace(speed=min(volume.speed, 0.5 * float(hover_induced(thrust, SEA_LEVEL_DENSITY, rotor.radius))))


def is_captured(number: int) -> bool:
    """Whether the vehicle has motion capture; else it flies on GPS."""
    return number % 2 == 0


def cases(
    numbers: Sequence[int],
    seed: int = 1,
    duration: float = 120.0,
    *,
    still: bool = False,
    telemetry: bool = False,
    model_error: bool = False,
) -> Iterator[Case]:
    """Yield each vehicle, its prior model, and its log of the flight planned for the prior model.

    If that plan cannot be flown safely, the flight is planned for the vehicle itself. With `still`, vehicles hover instead,
    which excites little; an identification must then flag most parameters. With `telemetry`, ESCs report the rotor speeds of
    motors that differ (`spread_motors`). With `model_error`, the vehicle has what the model lacks (`add_model_error`).
    """
    for captured in (True, False):
        group = [case_number for case_number in numbers if is_captured(case_number) == captured]
        for first in range(0, len(group), MAX_FLIGHTS_IN_MEMORY):
            case_numbers = group[first : first + MAX_FLIGHTS_IN_MEMORY]
            truths = [random_vehicle(seed, case_number) for case_number in case_numbers]
            starts = [
                prior_vehicle(truth, seed, case_number) for truth, case_number in zip(truths, case_numbers, strict=True)
            ]
            delays: list[dict[str, float]] = [{}] * len(case_numbers)
            if model_error:
                errors = [
                    add_model_error(truth, start, seed, case_number)
                    for truth, start, case_number in zip(truths, starts, case_numbers, strict=True)
                ]
                truths, starts, delays = (list(column) for column in zip(*errors, strict=True))
            if telemetry:
                truths = [
                    spread_motors(truth, seed, case_number)
                    for truth, case_number in zip(truths, case_numbers, strict=True)
                ]
                starts = [_with_rotor_inertia(start, truth) for start, truth in zip(starts, truths, strict=True)]
            volumes = [case_volume(truth, case_number) for truth, case_number in zip(truths, case_numbers, strict=True)]
            if still:
                tasks = [hover(volume.home_W, duration=duration) for volume in volumes]
            else:
                tasks = _plan_tasks(truths, starts, volumes, duration)
            logs = _logs(truths, tasks, case_numbers, captured, seed, telemetry, delays)
            yield from (Case(*fields) for fields in zip(case_numbers, truths, starts, logs, tasks, strict=True))


def _with_rotor_inertia(start: Vehicle, truth: Vehicle) -> Vehicle:
    """Return the start with the rotors' inertia, which is known from their weight."""
    rotors = tuple(
        rotor._replace(inertia=true_rotor.inertia) for rotor, true_rotor in zip(start.rotors, truth.rotors, strict=True)
    )
    return replace(start, rotors=rotors).with_effect(ROTOR_MOMENTUM)


def _plan_tasks(
    truths: Sequence[Vehicle], starts: Sequence[Vehicle], volumes: Sequence[FlightVolume], duration: float
) -> list[Trajectory]:
    plans = plan_flights(starts, duration, volumes)
    return [
        plan_flight(truth, duration, volume).trajectory if isinstance(plan, ValueError) else plan.trajectory
        for truth, volume, plan in zip(truths, volumes, plans, strict=True)
    ]


def simulate_logs(
    vehicles: Sequence[Vehicle],
    tasks: Sequence[Trajectory],
    numbers: Sequence[int],
    *,
    captured: bool,
    seed: int = 0,
    telemetry: bool = False,
) -> list[FlightLog]:
    """Fly each vehicle's task, which begins in hover, in an independent wind that the log does not contain; return the logs.

    With `captured`, motion capture logs the pose at 100 Hz with 0.5 mm and 0.2°, and gyroscope and accelerometer at 500 Hz.
    Else the log has the Kalman filter's estimate from IMU, GPS, barometer and magnetometer at 100 Hz, and the IMU at 250 Hz.
    Commands are logged at 250 Hz, and with `telemetry` also the rotor speeds.
    """
    logs: list[FlightLog] = []
    for first in range(0, len(vehicles), MAX_FLIGHTS_IN_MEMORY):
        batch = slice(first, first + MAX_FLIGHTS_IN_MEMORY)
        logs += _logs(vehicles[batch], tasks[batch], numbers[batch], captured, seed, telemetry)
    return logs


def logging_scenario(
    vehicles: Sequence[Vehicle], tasks: Sequence[Trajectory], numbers: Sequence[int], *, captured: bool, telemetry: bool
) -> Scenario:
    """Return the scenario of these vehicles side by side, with the sensors of their logs, in the wind of the first one."""
    rates = Rates(sensor=500.0 if captured else 250.0, log=250.0 if telemetry else 100.0)
    sensors = _captured_sensors() if captured else _flying_sensors()
    estimator = TRUTH if captured else ekf(sensors, 1.0 / rates.estimator, STANDARD_GRAVITY)
    drones = tuple(
        Drone(
            f"synthetic_{number}",
            vehicle,
            task,
            Vec3(*(float(x) for x in task.evaluate(0.0).p_W)),
            airborne=True,
            controller=identification_controller(INDOORS),
            estimator=estimator,
            sensors=sensors,
        )
        for vehicle, task, number in zip(vehicles, tasks, numbers, strict=True)
    )
    end = math.ceil(max(task.duration for task in tasks))
    return Scenario("synthetic", drones, float(end), rates=rates, wind=case_wind(numbers[0]))


def case_wind(number: int) -> Dryden:
    """Return the wind of a case; successive cases have different directions."""
    return Dryden.from_direction(WIND_SPEED, 2.4 * number)


def _logs(
    vehicles: Sequence[Vehicle],
    tasks: Sequence[Trajectory],
    numbers: Sequence[int],
    captured: bool,
    seed: int,
    telemetry: bool,
    delays: Sequence[dict[str, float]] | None = None,
) -> list[FlightLog]:
    scenario = logging_scenario(vehicles, tasks, numbers, captured=captured, telemetry=telemetry)
    seeds = [seed * 1_000_000 + number for number in numbers]
    blocks: list[StreamBlock] = []
    winds = tuple(case_wind(number) for number in numbers)
    Simulation(
        scenario, lambda new_blocks, lines: blocks.extend(new_blocks), seeds=seeds, variation=Variation(winds)
    ).run()
    recorded = concatenate_blocks(blocks)
    return [
        _log(recorded, drone, task.duration, captured, telemetry, drone_delays)
        for drone, task, drone_delays in zip(scenario.drones, tasks, delays or [{}] * len(tasks), strict=True)
    ]


def _captured_sensors() -> tuple[Sensor, ...]:
    cameras = part("vicon", rate=100.0, delay=0.0, position_noise=5e-4, attitude_noise=math.radians(0.2))
    return part("bmi088", rate=500.0).sensor(), cameras.sensor()


def _flying_sensors() -> tuple[Sensor, ...]:
    return tuple(part(name).sensor() for name in ("bmi088", "neo-m9n", "bmp388", "bmm150"))


def _log(
    recorded: dict[str, tuple[Array, Array]],
    drone: Drone,
    end: float,
    captured: bool,
    telemetry: bool,
    delays: dict[str, float],
) -> FlightLog:
    def signal(stream: str, rows: slice) -> Signal:
        times_us, values = recorded[f"/{drone.name}/{stream}"]
        time = times_us * 1e-6 + delays.get("pose" if stream == pose else stream, 0.0)
        in_task = time <= end
        return Signal(time[in_task], values[in_task, rows].T.copy())

    pose, attitude_column = ("motion_capture", 3) if captured else ("estimate", 6)
    return FlightLog(
        drone.name,
        "synthetic",
        "samara",
        command=signal("command", slice(None)),
        rotor_speed=signal("state", slice(13, 13 + len(drone.vehicle.rotors))) if telemetry else None,
        position=signal(pose, slice(0, 3)),
        velocity=None if captured else signal(pose, slice(3, 6)),
        attitude=signal(pose, slice(attitude_column, attitude_column + 4)),
        rate=signal("imu", slice(3, 6)),
        specific_force=signal("imu", slice(0, 3)),
        truth=MOTION_CAPTURE if captured else ESTIMATE,
    )
