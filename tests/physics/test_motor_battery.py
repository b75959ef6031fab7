"""Motors, actuators and batteries: closed forms, Kirchhoff's laws, and every watt accounted for."""

import math

import numpy as np
import pytest
from scipy.integrate import simpson
from scipy.optimize import brentq
from support.traced_flights import fly, record_state, record_states

import samara
from samara import Environment
from samara.core.integrate import rk4, rk45
from samara.physics.multirotor import derivative
from samara.physics.rotors.actuator import ActuatorState, Lag, SecondOrder, lag_rate, lag_step, second_order_rate
from samara.physics.rotors.battery import (
    BatteryState,
    Ideal,
    Thevenin,
    VoltageSource,
    battery_rate,
    battery_source,
    branch_current,
    parallel_sources,
)
from samara.physics.rotors.motor import DcMotor, dc_motor_rate, effective_duty, limited_current
from samara.physics.rotors.propulsion import IDEAL_BATTERY, THEVENIN_BATTERY, bus_voltage, supply_voltage

SMALL = Thevenin(7200.0, (0.0, 1.0), (12.0, 12.0), 0.05, 0.1, 100.0)  # 2 Ah, flat 12 V: the NED simulator's case


# The motors of the documents ---------------------------------------------------------------------------------------


def iris_on_12_volts():
    return samara.vehicle("iris_documented").with_effect(IDEAL_BATTERY, Ideal(12.0))


def test_the_iris_thrust_coefficient_lifts_twice_its_weight_at_full_duty():
    """The NED simulator: with 12 V, duty 1 and no-load current ignored the torque balance K(V − KΩ)/R = Q + bΩ, at
    Q = 0.05 m · T and T = mg/2, gives Ω; then kT ρ = T/Ω², and hover is that Ω over √2."""
    constant, weight = 60.0 / (2.0 * math.pi * 920.0), 1.5 * 9.80665
    assert constant == pytest.approx(0.01037967, abs=5e-9)
    thrust = weight / 2.0
    full_speed = (constant * 12.0 / 0.25 - 0.05 * thrust) / (constant**2 / 0.25 + 2e-6)
    rotor = samara.vehicle("iris_documented").rotors[0]
    assert rotor.motor.constant == pytest.approx(constant, rel=1e-15)
    assert rotor.k_thrust == pytest.approx(thrust / full_speed**2, rel=1e-6)  # the seed gives six digits
    assert rotor.k_thrust / 1.225 == pytest.approx(6.61102e-5, rel=1e-6)
    assert rotor.k_torque / 1.225 == pytest.approx(3.30551e-6, rel=1e-6)
    state, _ = samara.hover(iris_on_12_volts())
    assert state.rotor_speed == pytest.approx((full_speed / math.sqrt(2.0),) * 4, rel=1e-6)


def test_ned_simulator_hover_speed_duty_and_current():
    """The iris hovers at 213.095 rad/s, which at 12 V takes a duty of 0.56674 and 10.6 A of bus current per motor."""
    state, command = samara.hover(iris_on_12_volts())
    assert state.rotor_speed == pytest.approx((213.095,) * 4, abs=5e-4)
    assert command == pytest.approx((0.56674,) * 4, abs=5e-6)
    # by another method: the power that leaves the bus turns the rotor and heats the winding and the controller
    speed, constant = 213.09521203, 60.0 / (2.0 * math.pi * 920.0)
    drag_torque = 0.05 * 1.5 * 9.80665 / 4.0
    current = 0.6 + (drag_torque + 2e-6 * speed) / constant
    power = (current**2 * 0.25 + constant * speed * current) / 0.98
    assert power / 12.0 == pytest.approx(10.6, abs=0.05)
    bus_current = command[0] * limited_current(command[0], 12.0, state.rotor_speed[0], iris_motor()) / 0.98
    assert bus_current == pytest.approx(power / 12.0, rel=1e-9)


def iris_motor() -> DcMotor:
    return samara.vehicle("iris_documented").rotors[0].motor


def test_hakoniwa_hover_speed_and_duty():
    """Ω = √(mg/4Ct) = 1448.42 rad/s; K V d = (K² + DR) Ω + Cq R Ω² gives d = 0.4766 at 14.8 V."""
    state, command = samara.hover(samara.vehicle("hakoniwa"))
    speed = math.sqrt(0.71 * 9.81 / (4.0 * 8.3e-7))
    duty = (3.28e-3**2 * speed + 3e-8 * 0.12 * speed**2) / (3.28e-3 * 14.8)
    assert state.rotor_speed == pytest.approx((speed,) * 4, rel=1e-14)
    assert command == pytest.approx((duty,) * 4, rel=1e-13)
    assert speed == pytest.approx(1448.42, abs=5e-3)
    assert duty == pytest.approx(0.4766, abs=5e-5)


@pytest.mark.parametrize("duty", [0.1, 0.5, 1.0])
def test_a_motor_runs_up_to_the_speed_at_which_its_torques_balance(duty):
    """Left to itself at a constant voltage, the iris motor settles where K(I − I₀) = kM Ω² + bΩ (SciPy's root)."""
    rotor = samara.vehicle("iris_documented").rotors[0]
    motor = rotor.motor

    def balance(speed):
        current = (duty * 12.0 - motor.constant * speed) / 0.25
        return motor.constant * (current - 0.6) - rotor.k_torque * speed**2 - 2e-6 * speed

    def rate(speed):
        current = limited_current(duty, 12.0, speed, motor)
        return dc_motor_rate(speed, current, rotor.k_torque * speed * speed, rotor.inertia, motor)

    settled = rk45(rate, 0.0, 2.0, rtol=1e-12, atol=1e-10)
    assert settled == pytest.approx(brentq(balance, 0.0, 2000.0, xtol=1e-13), rel=1e-10)


def test_a_stalled_motor_is_held_to_its_current_limit():
    """Stalled at full duty the iris motor would draw V/R = 48 A; at 24 V the controller limits it to 60 A."""
    motor = iris_motor()
    assert limited_current(1.0, 12.0, 0.0, motor) == pytest.approx(48.0, rel=1e-15)
    assert limited_current(1.0, 24.0, 0.0, motor) == 60.0
    assert dc_motor_rate(0.0, 60.0, 0.0, 1.2e-5, motor) == pytest.approx(motor.constant * 59.4 / 1.2e-5, rel=1e-15)


def test_below_the_dead_zone_nothing_turns():
    """The NED simulator: duty under 0.02 is none; beyond 1 it is 1."""
    motor = iris_motor()
    assert [effective_duty(duty, motor) for duty in (0.0, 0.0199, 0.02, 0.5, 1.7)] == [0.0, 0.0, 0.02, 0.5, 1.0]


def test_a_fast_rotor_charges_the_battery_only_where_the_controller_lets_it():
    """Back-EMF above the applied voltage: Hakoniwa's motor pushes current back, the NED simulator's blocks it."""
    for name, sign in (("hakoniwa", -1.0), ("iris_documented", 0.0)):
        motor = samara.vehicle(name).rotors[0].motor
        current = limited_current(0.2, 12.0, 1.5 * 0.2 * 12.0 / motor.constant, motor)
        assert current == pytest.approx(sign * 0.5 * 0.2 * 12.0 / motor.resistance, rel=1e-13)


# First-order lag ---------------------------------------------------------------------------------------------------


def test_ned_simulator_first_order_actuator_case():
    """τ .1, dt .05: 1 − e^{−.5}, in one step"""
    assert lag_step(0.0, 1.0, 0.05, Lag(0.0, 1.0, 0.1, 0.1)) == pytest.approx(1.0 - math.exp(-0.5), rel=1e-15)


def test_rk4_converges_to_the_exact_lag_step():
    """Halving the step divides RK4's distance from the exact step by 2⁴."""
    motor = Lag(0.0, 2500.0, 0.015, 0.015)
    exact = lag_step(300.0, 1544.0, 0.06, motor)
    errors = []
    for steps in (8, 16, 32, 64):
        speed = 300.0
        for _ in range(steps):
            speed = rk4(lambda w: lag_rate(w, 1544.0, motor), speed, 0.06 / steps)
        errors.append(abs(speed - exact))
    assert np.log2(np.array(errors[:-1]) / errors[1:]) == pytest.approx([4.0] * 3, abs=0.35)
    assert np.log2(errors[-2] / errors[-1]) == pytest.approx(4.0, abs=0.1)
    assert errors[-1] < 2e-8 * exact


def test_the_exact_lag_step_may_be_cut_anywhere():
    """e^{−a} e^{−b} = e^{−(a+b)}: one step of dt is any two that make dt."""
    motor = Lag(0.0, 2500.0, 0.02, 0.07)
    for start, target in ((200.0, 1500.0), (1500.0, 200.0)):
        once = lag_step(start, target, 0.05, motor)
        twice = lag_step(lag_step(start, target, 0.013, motor), target, 0.037, motor)
        assert twice == pytest.approx(once, rel=1e-14)


def test_speeding_up_and_slowing_down_have_their_own_time_constants():
    """After one time constant 1 − 1/e of the step is done, with τ_up upwards and τ_down downwards."""
    motor = Lag(0.0, 2500.0, 0.03, 0.05)
    done = 1.0 - math.exp(-1.0)
    assert lag_step(0.0, 1000.0, 0.03, motor) == pytest.approx(1000.0 * done, rel=1e-15)
    assert lag_step(1000.0, 0.0, 0.05, motor) == pytest.approx(1000.0 * (1.0 - done), rel=1e-15)
    assert lag_rate(0.0, 1000.0, motor) == pytest.approx(1000.0 / 0.03, rel=1e-15)
    assert lag_rate(1000.0, 0.0, motor) == pytest.approx(-1000.0 / 0.05, rel=1e-15)


# Second-order actuator ---------------------------------------------------------------------------------------------


def damped_oscillation(t, x0, v0, target, wn, zeta):
    """ẍ + 2ζωn ẋ + ωn² (x − u) = 0 from (x0, v0), ζ < 1: position and rate in closed form."""
    wd, decay = wn * math.sqrt(1.0 - zeta**2), np.exp(-zeta * wn * t)
    a, b = x0 - target, (v0 + zeta * wn * (x0 - target)) / (wn * math.sqrt(1.0 - zeta**2))
    x = target + decay * (a * np.cos(wd * t) + b * np.sin(wd * t))
    v = decay * ((b * wd - zeta * wn * a) * np.cos(wd * t) - (a * wd + zeta * wn * b) * np.sin(wd * t))
    return x, v


def test_the_second_order_actuator_is_a_damped_oscillation():
    """ωn 30, ζ 0.7 (the NED simulator), and lightly damped, while the rate limit is far away."""
    for zeta in (0.7, 0.1):
        actuator = SecondOrder(30.0, zeta, 1e6)
        actuator_state = ActuatorState(0.1, -2.0)
        for step in range(1, 6):
            actuator_state = rk45(
                lambda s, a=actuator: second_order_rate(s, 0.8, a), actuator_state, 0.05, rtol=1e-12, atol=1e-14
            )
            expected = damped_oscillation(0.05 * step, 0.1, -2.0, 0.8, 30.0, zeta)
            assert actuator_state.position == pytest.approx(expected[0], abs=1e-11)
            assert actuator_state.rate == pytest.approx(expected[1], abs=1e-9)


def test_the_rate_limit_turns_the_step_response_into_oscillation_line_oscillation():
    """From rest the rate grows to the limit, stays there until the spring term ωn²(u − x) falls to the damping 2ζωn ẋ, and the
    actuator coasts in: three closed forms, joined at their boundaries."""
    wn, zeta, limit, target = 30.0, 0.7, 3.0, 1.0
    reached = brentq(lambda t: damped_oscillation(t, 0.0, 0.0, target, wn, zeta)[1] - limit, 0.0, 0.02, xtol=1e-16)
    x_reached = damped_oscillation(reached, 0.0, 0.0, target, wn, zeta)[0]
    x_leaving = target - 2.0 * zeta * limit / wn
    leaving = reached + (x_leaving - x_reached) / limit

    actuator, actuator_state, dt = SecondOrder(wn, zeta, limit), ActuatorState(0.0, 0.0), 1e-4
    for step in range(1, 5001):
        before, actuator_state = (
            actuator_state.position,
            rk4(lambda s: second_order_rate(s, target, actuator), actuator_state, dt),
        )
        assert actuator_state.position - before <= limit * dt * (1.0 + 1e-12)
        time = step * dt
        if time < reached:
            expected = damped_oscillation(time, 0.0, 0.0, target, wn, zeta)[0]
        elif time < leaving:
            expected = x_reached + limit * (time - reached)
        else:
            expected = damped_oscillation(time - leaving, x_leaving, limit, target, wn, zeta)[0]
        assert actuator_state.position == pytest.approx(
            expected, abs=1e-6
        )  # the limit is met inside a step: first order in dt
    assert 0.0 < reached < 0.05 < 0.2 < leaving < 0.3  # all three pieces were passed through


def test_an_actuated_vehicle_follows_its_actuators():
    """The rotors follow the actuator's position, not the command: at first 0, then its damped oscillation."""
    plain = samara.vehicle("crazyflie_documented")
    vehicle = plain.with_effect(samara.physics.rotors.propulsion.SECOND_ORDER_ACTUATOR, SecondOrder(30.0, 0.7, 1e6))
    state, command = samara.hover(vehicle)
    stepped = tuple(u + 0.1 for u in command)
    assert derivative(state, stepped, vehicle).rotor_speed == pytest.approx((0.0,) * 4, abs=1e-9)
    assert derivative(state._replace(effects=()), stepped, without_effects(plain)).rotor_speed[0] > 1e3
    for _ in range(20):
        state = samara.step(state, stepped, vehicle, 1e-3)
    position, rate = damped_oscillation(0.02, command[0], 0.0, stepped[0], 30.0, 0.7)
    for actuator_state in state.effects[vehicle.index("actuator")]:
        assert actuator_state == pytest.approx((position, rate), abs=1e-6)


def without_effects(vehicle):
    return vehicle.without_effect(*(effect.name for effect in vehicle.structure.effects))


# Batteries ---------------------------------------------------------------------------------------------------------


def test_ned_simulator_thevenin_case():
    """2 Ah, OCV 12 V, R0 .05, R1 .1, C1 100, 5 A for 10 s: SOC .99305556, V1 .31606028, V 11.43393972."""
    battery_state = rk45(lambda s: battery_rate(s, 5.0, SMALL), BatteryState(1.0, 0.0), 10.0, rtol=1e-13, atol=1e-15)
    assert battery_state.charge == pytest.approx(1.0 - 5.0 * 10.0 / 7200.0, abs=1e-12)
    assert battery_state.polarisation == pytest.approx(5.0 * 0.1 * (1.0 - math.exp(-10.0 / (0.1 * 100.0))), abs=1e-11)
    terminal = battery_source(battery_state, SMALL).voltage - 5.0 * SMALL.resistance
    assert terminal == pytest.approx(12.0 - 0.25 - 0.5 * (1.0 - math.exp(-1.0)), abs=1e-10)
    assert (battery_state.charge, battery_state.polarisation, terminal) == pytest.approx(
        (0.99305556, 0.31606028, 11.43393972), abs=5e-9
    )


def test_the_open_circuit_voltage_goes_through_the_table_of_the_ned_simulator():
    """SOC 0, .1, .5, .9, 1 → 9, 10.8, 11.4, 12.3, 12.6 V, straight between them, constant beyond (NumPy's interp)."""
    battery = samara.vehicle("iris_documented")["battery"][0]
    charge = np.linspace(-0.1, 1.1, 1201)
    actual = samara.physics.rotors.battery.open_circuit_voltage(charge, battery)
    expected = np.interp(charge, [0.0, 0.1, 0.5, 0.9, 1.0], [9.0, 10.8, 11.4, 12.3, 12.6])
    assert actual == pytest.approx(expected, rel=1e-14)


def test_ned_simulator_sharing_case():
    """Equal batteries with R0 .05 and .10 Ω share the current 2 : 1, and together act as 1/(1/.05 + 1/.1)."""
    sources = (VoltageSource(12.0, 0.05), VoltageSource(12.0, 0.10))
    combined = parallel_sources(sources)
    assert combined == pytest.approx((12.0, 1.0 / 30.0), rel=1e-15)
    voltage = combined.voltage - combined.resistance * 30.0
    first, second = (branch_current(source, voltage) for source in sources)
    assert (first, second) == pytest.approx((20.0, 10.0), rel=1e-13)


def test_unequal_batteries_charge_each_other():
    """Kirchhoff, no load: the current from the fuller battery to the emptier one is ΔV/(R₁ + R₂)."""
    sources = (VoltageSource(12.6, 0.02), VoltageSource(11.4, 0.03))
    voltage = parallel_sources(sources).voltage
    assert branch_current(sources[0], voltage) == pytest.approx(1.2 / 0.05, rel=1e-13)
    assert branch_current(sources[1], voltage) == pytest.approx(-1.2 / 0.05, rel=1e-13)


def test_ned_simulator_back_emf_case():
    """Back-EMF 1.2 × duty × OCV at duty .2: the controller blocks, I = 0 and V = OCV."""
    motor = iris_motor()
    speed = 1.2 * 0.2 * 12.0 / motor.constant
    assert bus_voltage(VoltageSource(12.0, 0.05), (0.2,), (speed,), (motor,)) == 12.0


def test_a_disconnected_battery_gives_no_voltage_and_takes_no_current():
    """0 V on the bus; the rotors coast down against air and bearings only; the charge stays, V1 relaxes over R1 C1."""
    cut = Environment(battery_connected=0.0)
    for name in ("iris_documented", "hakoniwa"):  # the second could brake by charging, had it a circuit to charge
        vehicle = samara.vehicle(name)
        state, command = samara.hover(vehicle)
        assert supply_voltage(state, command, vehicle, cut) == 0.0
        rotor = vehicle.rotors[0]
        coasting = -(rotor.k_torque * state.rotor_speed[0] ** 2 + rotor.motor.damping * state.rotor_speed[0])
        assert derivative(state, command, vehicle, cut).rotor_speed[0] == pytest.approx(
            coasting / rotor.inertia, rel=1e-14
        )
    vehicle = samara.vehicle("iris_documented")
    state, command = samara.hover(vehicle)
    state = replace_packs(state, vehicle, BatteryState(0.7, 0.3))
    (rate,) = derivative(state, command, vehicle, cut).effects[vehicle.index("battery")]
    assert rate == pytest.approx((0.0, -0.3 / (0.01 * 2000.0)), rel=1e-15)


# The bus -----------------------------------------------------------------------------------------------------------


def random_loads(rng, count, motors):
    """Sources and motors in every regime at once: limited, charging or not, dead, standing, faster than the bus allows."""
    source = VoltageSource(rng.uniform(6.0, 25.0, count), 10.0 ** rng.uniform(-3.0, -0.5, count))
    loads = []
    for _ in range(motors):
        motor = DcMotor(
            constant=rng.uniform(1e-3, 0.05, count),
            resistance=10.0 ** rng.uniform(-1.7, -0.3, count),
            current_min=np.where(rng.random(count) < 0.5, 0.0, -rng.choice([5.0, 60.0, 1e9], count)),
            current_max=rng.choice([1.0, 20.0, 60.0, 1e9], count),
            efficiency=rng.uniform(0.5, 1.0, count),
            dead_zone=rng.uniform(0.0, 0.1, count),
        )
        duty = effective_duty(rng.uniform(0.0, 1.0, count) ** 2, motor)
        balanced = duty * source.voltage / motor.constant
        speed = np.where(rng.random(count) < 0.1, 0.0, balanced * rng.uniform(0.0, 2.0, count))
        loads.append((duty, speed, motor))
    return source, *(tuple(column) for column in zip(*loads, strict=True))


def motor_bus_current(voltage, duty, speed, motor):
    """The current of one motor from the bus: by its power, P = dVI, and the controller's efficiency."""
    unlimited = (duty * voltage - motor.constant * speed) / motor.resistance
    current = np.clip(unlimited, motor.current_min, motor.current_max)
    power = duty * voltage * current
    return np.where(power > 0.0, power / motor.efficiency, power * motor.efficiency) / voltage, current, unlimited


@pytest.mark.parametrize("motors", [1, 4, 8])
def test_the_bus_voltage_satisfies_kirchhoff_whatever_the_motors_do(motors):
    """V = V₀ − R₀ Σ I(V) to 1e-12 of the larger side over 20 000 random loads, all regimes among them."""
    source, duties, speeds, kinds = random_loads(np.random.default_rng(motors), 20000, motors)
    voltage = bus_voltage(source, duties, speeds, kinds)
    parts = [motor_bus_current(voltage, *load) for load in zip(duties, speeds, kinds, strict=True)]
    demand = sum(current for current, _, _ in parts)
    residual = voltage - (source.voltage - source.resistance * demand)
    assert np.abs(residual).max() < 2e-12
    assert voltage.min() > 0.0
    limited = [np.mean(current != unlimited) for _, current, unlimited in parts]
    charging = [np.mean(current < 0.0) for _, current, _ in parts]
    idle = [np.mean(duty == 0.0) for duty in duties]
    assert min(limited) > 0.1 and min(charging) > 0.05 and min(idle) > 0.03  # no regime is missing


def test_the_bus_voltage_is_the_root_scipy_finds():
    """Brent's method on the same equation, bracketed by 0 V and the highest voltage that charging could give."""
    source, duties, speeds, kinds = random_loads(np.random.default_rng(7), 300, 4)
    voltage = bus_voltage(source, duties, speeds, kinds)
    for i in range(300):
        loads = [
            (d[i], w[i], DcMotor(*(np.broadcast_to(x, 300)[i] for x in k)))
            for d, w, k in zip(duties, speeds, kinds, strict=True)
        ]

        def excess(v, i=i, loads=loads):
            return v - source.voltage[i] + source.resistance[i] * sum(motor_bus_current(v, *load)[0] for load in loads)

        root = brentq(excess, 1e-9, 1e5, xtol=1e-13, rtol=1e-15)
        assert voltage[i] == pytest.approx(root, rel=1e-12)


# Every watt --------------------------------------------------------------------------------------------------------


def power_balance(states, command, vehicle):
    """(chemical power, its uses) at every state of a batch, from the rates of the state alone."""
    rate = derivative(states, command, vehicle)
    at = vehicle.index("battery")
    chemical, spent, voltages = 0.0, {}, []

    def spend(use, watts):
        spent[use] = spent.get(use, 0.0) + watts

    for battery, battery_state, rates in zip(vehicle["battery"], states.effects[at], rate.effects[at], strict=True):
        current = -rates.charge * battery.capacity
        ocv = np.interp(battery_state.charge, battery.table_charge, battery.table_voltage)
        chemical = chemical + ocv * current
        spend("R0", current**2 * battery.resistance)
        spend("R1", battery_state.polarisation**2 / battery.polarisation_resistance)
        spend("C1", battery.polarisation_capacitance * battery_state.polarisation * rates.polarisation)
        voltages.append(ocv - battery_state.polarisation - current * battery.resistance)
    voltage = voltages[0]
    assert np.ptp(voltages, axis=0) == pytest.approx(0.0, abs=1e-12)  # one bus, one voltage

    for duty, speed, acceleration, rotor in zip(
        command, states.rotor_speed, rate.rotor_speed, vehicle.rotors, strict=True
    ):
        motor = rotor.motor
        from_bus, current, _ = motor_bus_current(voltage, duty, speed, motor)
        inflow = 1.0 / (1.0 + 8.0 * (states.v_W.z / (speed * rotor.radius)) ** 2)  # level, in still air
        spend("controller", voltage * from_bus - duty * voltage * current)
        spend("copper", current**2 * motor.resistance)
        spend("friction", motor.constant * speed * np.clip(current, 0.0, motor.no_load_current))
        spend("bearings", motor.damping * speed**2)
        spend("air", rotor.k_torque * inflow * speed**3)
        spend("rotors", rotor.inertia * speed * acceleration)
    return chemical, spent


def replace_packs(state, vehicle, *packs):
    at = vehicle.index("battery")
    return state._replace(effects=(*state.effects[:at], packs, *state.effects[at + 1 :]))


def two_batteries(vehicle):
    """A second, half-empty and smaller pack beside the first."""
    first = vehicle["battery"][0]
    second = first._replace(resistance=0.05, capacity=first.capacity / 3.0, polarisation_capacitance=700.0)
    return vehicle.with_effect(THEVENIN_BATTERY, (first, second))


def charging(vehicle):
    return vehicle.replace({"rotors.motor.current_min": -60.0})


@pytest.mark.parametrize(
    "change", [lambda vehicle: vehicle, two_batteries, charging], ids=["iris_documented", "two batteries", "charging"]
)
def test_the_power_of_the_battery_is_rotor_power_plus_heat(change):
    """OCV · I = R0 + R1 + controller + copper + friction + air + d/dt (½ C1 V1² + ½ J Ω²), at every instant of a flight
    that climbs, chops its throttle and climbs again; the tolerance is the rounding of the largest term."""
    vehicle = change(samara.vehicle("iris_documented"))
    state, hovering = samara.hover(vehicle, p_W=(0.0, 0.0, 100.0))
    packs = (BatteryState(0.95, 0.02), BatteryState(0.65, 0.02))
    state = replace_packs(state, vehicle, *packs[: len(vehicle["battery"])])
    uses, lowest = set(), 0.0
    for factor, seconds in ((1.3, 1.0), (0.1, 0.3), (1.1, 1.0)):
        command = tuple(factor * duty for duty in hovering)
        records = fly(vehicle, state, command, seconds)
        chemical, spent = power_balance(record_states(vehicle, records), command, vehicle)
        imbalance = np.abs(chemical - sum(spent.values()))
        assert imbalance.max() < 1e-13 * max(np.abs(watts).max() for watts in spent.values())
        uses |= {use for use, watts in spent.items() if watts.max() > 1e-3}
        lowest = min(lowest, chemical.min())
        state = record_state(vehicle, records[-1])
    assert uses == {"R0", "R1", "C1", "controller", "copper", "friction", "bearings", "air", "rotors"}
    assert (lowest < -1.0) == (change is charging)


def test_the_energy_taken_from_the_battery_is_the_area_under_its_table():
    """Over a complete climb, capacity × ∫ OCV dSOC (from the table) is the time integral of all uses (Simpson)."""
    vehicle = samara.vehicle("iris_documented")
    state, hovering = samara.hover(vehicle)
    state = replace_packs(state, vehicle, BatteryState(0.85, 0.0))
    command = tuple(1.2 * duty for duty in hovering)
    dt = 5e-4
    states = record_states(vehicle, fly(vehicle, state, command, 2.0, dt=dt))
    watts = sum(power_balance(states, command, vehicle)[1].values())
    charge = states.effects[vehicle.index("battery")][0].charge
    assert 0.5 < charge[-1] < charge[0] < 0.9  # one straight piece of the table: 11.4 V at .5, 12.3 V at .9
    mean_voltage = 11.4 + (0.5 * (charge[0] + charge[-1]) - 0.5) / 0.4 * 0.9
    taken = 18000.0 * (charge[0] - charge[-1]) * mean_voltage
    assert simpson(watts, dx=dt) == pytest.approx(taken, rel=1e-10)
