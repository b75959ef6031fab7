"""The battery monitor: voltage and current of the bus, with the errors of an analogue front end."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, NamedTuple

from samara.core.picklable import picklable_factory
from samara.core.quantity import Quantity, Scalar
from samara.physics.rotors.propulsion import bus_current, supply_voltage
from samara.physics.types import Vehicle
from samara.sensors.error_models import quantise
from samara.sensors.sensor import AT_CENTRE, MeasurementInputs, Mounting, Sensor, SensorType, reading_sensor


class BatteryMonitorPart(NamedTuple):
    """Parameters of a battery monitor: gain errors and current offset are standard deviations between parts."""

    rate: Annotated[float, Quantity("Hz", 1.0, 1000.0)]
    delay: Annotated[float, Quantity("s", 0.0, 0.5)]
    voltage_gain: Annotated[float, Quantity("1", 0.0, 1.0)]
    voltage_noise: Annotated[float, Quantity("V", 0.0, 10.0)]
    voltage_resolution: Annotated[float, Quantity("V", 0.0, 1.0)]
    current_gain: Annotated[float, Quantity("1", 0.0, 1.0)]
    current_offset: Annotated[float, Quantity("A", 0.0, 10.0)]
    current_noise: Annotated[float, Quantity("A", 0.0, 10.0)]
    current_resolution: Annotated[float, Quantity("A", 0.0, 1.0)]


class BatteryReading(NamedTuple):
    """Bus voltage [V] and motor current [A], positive while discharging."""

    voltage: Scalar
    current: Scalar


class BatteryErrors(NamedTuple):
    """Gains and offset of one part."""

    voltage_gain: Scalar
    current_gain: Scalar
    current_offset: Scalar


class BatteryMonitorModel(NamedTuple):
    """A battery monitor's part and mounting."""

    part: BatteryMonitorPart
    mounting: Mounting


@lru_cache(maxsize=256)
@picklable_factory
def battery_monitor(part: BatteryMonitorPart, mounting: Mounting = AT_CENTRE, name: str = "") -> Sensor:
    """Create a battery monitor; raise ValueError for a vehicle without a battery."""

    def initial(vehicle: Vehicle, normals: Sequence[Scalar]) -> BatteryErrors:
        if not vehicle.has("battery"):
            raise ValueError(f"vehicle {vehicle.name!r} has no battery to monitor; expected one with a battery")
        return BatteryErrors(
            1.0 + part.voltage_gain * normals[0],
            1.0 + part.current_gain * normals[1],
            part.current_offset * normals[2],
        )

    def equation(inputs: MeasurementInputs) -> tuple[BatteryReading, BatteryErrors]:
        """V' = Q(g_V V + σ_V n),  I' = Q(g_I I + o + σ_I n)  [V, A]"""
        vehicle, errors = inputs.vehicle, inputs.sensor_state
        supply = inputs.state, inputs.command, vehicle, inputs.environment
        if not vehicle.has("battery"):
            raise ValueError(f"vehicle {vehicle.name!r} draws no current; expected one with a battery")
        voltage = errors.voltage_gain * supply_voltage(*supply)
        current = errors.current_gain * bus_current(*supply) + errors.current_offset
        return (
            BatteryReading(
                quantise(voltage + part.voltage_noise * inputs.normals[0], part.voltage_resolution),
                quantise(current + part.current_noise * inputs.normals[1], part.current_resolution),
            ),
            errors,
        )

    return reading_sensor(
        "battery_monitor",
        BatteryReading(0.0, 0.0),
        ("V", "A"),
        equation,
        part,
        name=name,
        normals_needed=2,
        initial=initial,
        start_normals=3,
        model=BatteryMonitorModel(part, mounting),
    )


TYPE = SensorType("battery_monitor", BatteryMonitorPart, battery_monitor)
