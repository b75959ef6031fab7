"""The vehicle from which an identification starts: recorded with the flight, or scaled from a similar aircraft."""

import math
from collections.abc import Sequence
from pathlib import Path

from samara.core.algebra import Vec3
from samara.core.quantity import Scalar
from samara.identify.flight_log import FlightLog
from samara.physics.types import Vehicle
from samara.record.load import load_run
from samara.record.run import DroneRecord
from samara.vehicles.build import Provenance, build_vehicle
from samara.vehicles.limits import replace_dc_motors
from samara.vehicles.loader import vehicle as load_vehicle

MODELS = {4: "iris", 6: "hexarotor_x", 8: "octorotor_x"}
"""By the number of rotors: the shipped vehicle that is scaled."""
SAMARA_FORMAT = "samara"


def recorded_vehicle(logs: Sequence[FlightLog], paths: Sequence[Path]) -> Vehicle | None:
    """Return the vehicle stored in the logs: that of Samara's own recordings, if it is the same in all of them."""
    if not logs or any(log.format != SAMARA_FORMAT for log in logs):
        return None
    files = [file for path in paths for file in (sorted(path.rglob("*.mcap")) if path.is_dir() else [path])]
    vehicles = [record.vehicle for file in files for record in _drone_records(file)]
    return vehicles[0] if all(vehicle == vehicles[0] for vehicle in vehicles) else None


def _drone_records(path: Path) -> tuple[DroneRecord, ...]:
    try:
        return load_run(path).drone_records
    except ValueError:  # `read_logs` has reported it
        return ()


def scaled_vehicle(rotor_count: int, *, mass: float, diagonal: float) -> Vehicle:
    """Scale a shipped vehicle to a mass [kg] and a distance between opposite rotors [m].

    The rotors of a quadrotor are at the corners of a square. With λ the ratio of lengths and μ that of masses, J ∝ μ λ².
    Propellers have the same coefficients, k_T ∝ λ⁴, k_Q ∝ λ⁵ and J_rotor ∝ λ⁵, so that Ω ∝ √μ / λ². The thrust-to-weight ratio
    and the hover command are those of the shipped vehicle, and the motors' time constants scale as √λ, as the time of a fall
    over the vehicle's size.

    Args:
        rotor_count: 4, 6 or 8.
        mass: total mass [kg].
        diagonal: distance between opposite rotors [m].

    Raises:
        ValueError: another number of rotors, or a size that is not positive.
    """
    if rotor_count not in MODELS:
        counts = ", ".join(map(str, MODELS))
        raise ValueError(
            f"the log has {rotor_count} motors; expected {counts}, or a vehicle file (`samara vehicle new`)"
        )
    for name, value in (("mass", mass), ("diagonal", diagonal)):
        if not (math.isfinite(value) and value > 0.0):
            raise ValueError(f"{name} = {value:g}: expected a positive number")
    model = replace_dc_motors(load_vehicle(MODELS[rotor_count]))
    size = diagonal / (2.0 * max(math.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in model.rotors))
    weight = mass / model.mass
    speed, time = math.sqrt(weight) / size**2, math.sqrt(size)

    def scale_motor(motor: Scalar) -> Scalar:
        return motor._replace(
            speed_min=motor.speed_min * speed,
            speed_max=motor.speed_max * speed,
            time_constant_up=motor.time_constant_up * time,
            time_constant_down=motor.time_constant_down * time,
            full_voltage=0.0,
        )

    def position(r_B: Vec3) -> Vec3:
        corner = diagonal / math.sqrt(8.0)
        is_square = rotor_count == 4
        return r_B._replace(x=math.copysign(corner, r_B.x), y=math.copysign(corner, r_B.y)) if is_square else r_B * size

    rotors = [
        rotor._replace(
            r_B=position(rotor.r_B),
            k_thrust=rotor.k_thrust * size**4,
            k_torque=rotor.k_torque * size**5,
            inertia=rotor.inertia * size**5,
            radius=rotor.radius * size,
            motor=scale_motor(rotor.motor),
        )
        for rotor in model.rotors
    ]
    source = f"scaled from {model.name} to the mass and size of the aircraft"
    keys = ("body.inertia", "rotor.k_thrust", "rotor.k_torque", "rotor.inertia", "rotor.radius")
    motor_keys = (f"motor.{name}" for name in ("speed_min", "speed_max", "time_constant_up", "time_constant_down"))
    return build_vehicle(
        "scaled",
        mass=mass,
        inertia=model.inertia_B * (weight * size**2),
        rotors=rotors,
        provenance=Provenance(
            description=f"{rotor_count} rotors, {mass:g} kg, {diagonal:g} m: {MODELS[rotor_count]} scaled",
            sources=[("body.mass", "given"), *((key, source) for key in (*keys, *motor_keys))],
        ),
    )
