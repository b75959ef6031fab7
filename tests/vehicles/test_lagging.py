"""DC motors as motors with a lag: the same hover, the same full speed, the same small steps."""

import numpy as np
import pytest

import samara
from samara.physics.multirotor import derivative
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.battery import Ideal
from samara.physics.rotors.propulsion import IDEAL_BATTERY
from samara.vehicles.limits import thrust_limits, with_lag_motors
from samara.vehicles.trim import hover


@pytest.mark.parametrize("name", ["iris", "iris_documented", "hakoniwa"])
def test_hover_is_where_it_was(name):
    """The line goes through hover: the duty that hovered is the command that hovers"""
    own = samara.vehicle(name)
    was, duties = hover(own)
    now, commands = hover(with_lag_motors(own))
    assert np.allclose(now.rotor_speed, was.rotor_speed, rtol=1e-9)
    assert np.allclose(commands, duties, rtol=1e-6)


def test_a_small_step_of_duty_is_answered_as_before():
    """J Ω̇ = M(d, Ω) − Q(Ω) about hover is τ Ω̇ = Ω_cmd − Ω: 1 − e^{−t/τ} of the final change, against the full equations"""
    plain = samara.vehicle("iris").without_effect("battery").with_effect(IDEAL_BATTERY, Ideal(12.0))
    lagging = with_lag_motors(plain)
    assert isinstance(lagging.rotors[0].motor, Lag)
    state, duties = hover(plain)
    up = tuple(duty + 1e-4 for duty in duties)
    tau = lagging.rotors[0].motor.rise

    def after(time: float, dt: float) -> np.ndarray:
        turning = state
        for _ in range(round(time / dt)):
            rate = np.array(derivative(turning, up, plain, samara.CALM).rotor_speed)
            turning = turning._replace(rotor_speed=tuple(np.array(turning.rotor_speed) + dt * rate))
        return np.array(turning.rotor_speed) - np.array(state.rotor_speed)

    assert np.allclose(after(tau, tau / 1000) / after(12 * tau, tau / 50), 1.0 - np.exp(-1.0), atol=2e-3)


def test_full_command_is_full_duty_at_the_voltage_of_hover_and_a_lag_stays_what_it_is():
    own = samara.vehicle("iris")
    lagging = with_lag_motors(own)
    most = [rotor.k_thrust * rotor.motor.speed_max**2 for rotor in lagging.rotors]
    sagging = [limit.high for limit in thrust_limits(own)]
    assert all(a > b for a, b in zip(most, sagging, strict=True))  # at full duty the battery of the real one sags
    assert np.allclose(most, sagging, rtol=0.25)
    crazyflie = samara.vehicle("crazyflie")
    assert with_lag_motors(crazyflie) is crazyflie
