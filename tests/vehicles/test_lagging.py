"""DC motors replaced by motors with a lag: the same hover, the same full speed, the same small steps."""

import numpy as np
import pytest

import samara
from samara.physics.multirotor import derivative
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.battery import Ideal
from samara.physics.rotors.propulsion import IDEAL_BATTERY
from samara.vehicles.limits import replace_dc_motors, thrust_limits
from samara.vehicles.trim import hover


@pytest.mark.parametrize("name", ["iris", "iris_documented", "hakoniwa"])
def test_hover_is_where_it_was(name):
    """The line passes through hover: the hover duty is the hover command."""
    dc_vehicle = samara.vehicle(name)
    dc_state, duties = hover(dc_vehicle)
    lag_state, commands = hover(replace_dc_motors(dc_vehicle))
    assert np.allclose(lag_state.rotor_speed, dc_state.rotor_speed, rtol=1e-9)
    assert np.allclose(commands, duties, rtol=1e-6)


def test_a_small_step_of_duty_is_answered_as_before():
    """J Ω̇ = M(d, Ω) − Q(Ω) about hover is τ Ω̇ = Ω_cmd − Ω: 1 − e^{−t/τ} of the final change, against the full equations"""
    dc_vehicle = samara.vehicle("iris").without_effect("battery").with_effect(IDEAL_BATTERY, Ideal(12.0))
    lagging = replace_dc_motors(dc_vehicle)
    assert isinstance(lagging.rotors[0].motor, Lag)
    state, duties = hover(dc_vehicle)
    raised_duties = tuple(duty + 1e-4 for duty in duties)
    tau = lagging.rotors[0].motor.time_constant_up

    def speed_change(time: float, dt: float) -> np.ndarray:
        spinning = state
        for _ in range(round(time / dt)):
            rate = np.array(derivative(spinning, raised_duties, dc_vehicle, samara.CALM).rotor_speed)
            spinning = spinning._replace(rotor_speed=tuple(np.array(spinning.rotor_speed) + dt * rate))
        return np.array(spinning.rotor_speed) - np.array(state.rotor_speed)

    assert np.allclose(speed_change(tau, tau / 1000) / speed_change(12 * tau, tau / 50), 1.0 - np.exp(-1.0), atol=2e-3)


def test_full_command_is_full_duty_at_the_voltage_of_hover_and_a_lag_stays_what_it_is():
    dc_vehicle = samara.vehicle("iris")
    lagging = replace_dc_motors(dc_vehicle)
    max_thrusts = [rotor.k_thrust * rotor.motor.speed_max**2 for rotor in lagging.rotors]
    sagging_thrusts = [limit.high for limit in thrust_limits(dc_vehicle)]
    assert all(
        a > b for a, b in zip(max_thrusts, sagging_thrusts, strict=True)
    )  # at full duty the battery of the real one sags
    assert np.allclose(max_thrusts, sagging_thrusts, rtol=0.25)
    crazyflie = samara.vehicle("crazyflie")
    assert replace_dc_motors(crazyflie) is crazyflie
