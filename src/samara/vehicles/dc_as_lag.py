"""DC motors as motors with a lag that turn as fast at hover and at full duty, and follow as quickly there."""

from dataclasses import replace

from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.battery import Ideal
from samara.physics.rotors.motor import DcMotor
from samara.physics.rotors.propulsion import IDEAL_BATTERY, NORMALIZED, motor_currents, rotor_loads, supply_voltage
from samara.physics.types import CALM, Vehicle
from samara.vehicles.limits import thrust_limits
from samara.vehicles.trim import hover

_STEP = 1e-5  # of a rotor's speed, for the slope of its acceleration


def with_lag_motors(vehicle: Vehicle) -> Vehicle:
    """Ω_cmd = Ω_min + u (Ω_max − Ω_min), τ = −1 / (∂Ω̇/∂Ω): the vehicle with its DC motors so, u in the place of the duty

    The straight line goes through hover and full duty at the voltage that the bus has at hover; τ is that of hover, up and
    down, and the efficiency is what turns the rotors then. A vehicle whose motors have a lag stays as it is.
    """
    if not any(isinstance(rotor.motor, DcMotor) for rotor in vehicle.rotors):
        return vehicle
    direct = vehicle.without_effect("actuator") if vehicle.has("actuator") else vehicle
    state, duties = hover(direct)
    volts = float(supply_voltage(state, duties, direct, CALM))
    currents = motor_currents(state, duties, direct, CALM)
    loads = rotor_loads(state, direct, CALM)
    steady = direct.without_effect("battery").with_effect(IDEAL_BATTERY, Ideal(volts))
    state = hover(steady)[0]
    acceleration = steady.structure.actuation.rotor_acceleration
    rotors = []
    for i, (rotor, most) in enumerate(zip(vehicle.rotors, thrust_limits(steady), strict=True)):
        speed, fastest = float(state.rotor_speed[i]), float((most.high / rotor.k_thrust) ** 0.5)
        slowest = max((speed - duties[i] * fastest) / (1.0 - duties[i]), 0.0)
        ends = []
        for step in (_STEP, -_STEP):
            speeds = (*state.rotor_speed[:i], speed * (1.0 + step), *state.rotor_speed[i + 1 :])
            ends.append(acceleration(state._replace(rotor_speed=speeds), duties, steady, CALM)[i])
        lag = float(2.0 * _STEP * speed / (ends[1] - ends[0]))
        share = min(float(loads[i].torque * speed / (volts * currents[i])), 1.0)
        rotors.append(rotor._replace(motor=Lag(slowest, fastest, lag, lag, share, volts)))
    structure = replace(direct.structure, actuation=NORMALIZED)
    return replace(direct, structure=structure, rotors=tuple(rotors))
