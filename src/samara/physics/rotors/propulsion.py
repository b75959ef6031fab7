"""The propulsion of a vehicle: actuators, motors on the common bus, rotor loads and the wrench on the body.

Command → actuator → motor on the common bus → rotor speed → load → wrench. A motor with a lag follows its target within the
speed range at the bus voltage, [Ω_min, Ω_max] V/V_full: a command in [0, 1] spans that range, a commanded speed is limited
to it. It takes Q Ω / η from the bus.
"""

from samara.core.algebra import ZERO, Vec3
from samara.core.ops import clamp, is_zero, maximum, minimum, safe_divide, where
from samara.core.quantity import Duty, Ratio, RotorSpeed, Scalar, Tree
from samara.physics.effect import Actuation, Effect, Role, Wrench, add_wrenches
from samara.physics.rotors.actuator import (
    ActuatorState,
    Lag,
    SecondOrder,
    command_from_speed,
    input_power,
    lag_rate,
    lag_target,
    saturate_speed,
    scale_speed_range,
    second_order_rate,
    speed_from_command,
)
from samara.physics.rotors.battery import (
    BatteryState,
    Ideal,
    Thevenin,
    VoltageSource,
    battery_rate,
    battery_source,
    branch_current,
    parallel_sources,
    voltage_under_power,
)
from samara.physics.rotors.motor import (
    DcMotor,
    bus_load,
    dc_motor_rate,
    effective_duty,
    limited_current,
    steady_current,
    steady_duty,
    voltage_for_current,
)
from samara.physics.rotors.rotor import (
    RotorLoad,
    air_velocity,
    axial_speed,
    density_ratio,
    rotor_load,
    rotor_momentum_torque,
    rotor_wrench,
)
from samara.physics.types import Command, Environment, State, Vehicle


def rotor_loads(state: State, vehicle: Vehicle, environment: Environment) -> tuple[RotorLoad, ...]:
    """Tᵢ, Qᵢ of every rotor in its air, or those of an effect with `loads`, plus the `additional_loads` of other effects
    [N, N·m]"""
    loads = _base_loads(state, vehicle, environment)
    for index, effect in enumerate(vehicle.structure.effects):
        if effect.additional_loads is not None:
            increments = effect.additional_loads(state.effects[index], state, vehicle, environment)
            loads = tuple(
                RotorLoad(load.thrust + increment.thrust, load.torque + increment.torque)
                for load, increment in zip(loads, increments, strict=True)
            )
    return loads


def _base_loads(state: State, vehicle: Vehicle, environment: Environment) -> tuple[RotorLoad, ...]:
    for index, effect in enumerate(vehicle.structure.effects):
        if effect.loads is not None:
            return effect.loads(state.effects[index], state, vehicle, environment)
    ratio = density_ratio(environment.air_density)
    factors: list[Scalar] = [ratio] * len(vehicle.rotors)
    if vehicle.structure.inflow is not None:
        v_air_B = air_velocity(state.q_WB, state.v_W, environment.wind_W)
        factors = [
            ratio * vehicle.structure.inflow(axial_speed(v_air_B, rotor), speed, rotor.radius)
            for speed, rotor in zip(state.rotor_speed, vehicle.rotors, strict=True)
        ]
    return tuple(
        rotor_load(speed, rotor, factor)
        for speed, rotor, factor in zip(state.rotor_speed, vehicle.rotors, factors, strict=True)
    )


def bus_voltage(
    source: VoltageSource, duties: tuple[Duty, ...], speeds: tuple[RotorSpeed, ...], motors: tuple[DcMotor, ...]
) -> Scalar:
    """V = V₀ − R₀ Σ I_bus(V)  [V]

    The load is piecewise linear in V, with corners at the voltages at which a motor reaches a limit or begins to charge.
    V lies between V₀ and V₀ − R₀ Σ I_bus(V₀); the corners reduce that interval to one piece, on which Newton's step is exact.
    """
    motor_duties = tuple(zip(duties, speeds, motors, strict=True))

    def residual(voltage: Scalar) -> tuple[Scalar, Scalar]:
        demand: Scalar = 0.0
        slope: Scalar = 0.0
        for duty, speed, motor in motor_duties:
            load = bus_load(duty, voltage, speed, motor)
            demand, slope = demand + load.current, slope + load.slope
        return voltage - source.voltage + source.resistance * demand, 1.0 + source.resistance * slope

    loaded_voltage = source.voltage - residual(source.voltage)[0]
    low, high = minimum(source.voltage, loaded_voltage), maximum(source.voltage, loaded_voltage)
    for duty, speed, motor in motor_duties:
        for current in _corner_currents(motor):
            corner = clamp(voltage_for_current(current, duty, speed, motor), low, high)
            below = residual(corner)[0] <= 0
            low, high = where(below, corner, low), where(below, high, corner)
    middle = 0.5 * (low + high)
    excess, slope = residual(middle)
    return middle - excess / slope


def _corner_currents(motor: DcMotor) -> tuple[Scalar, ...]:
    """Return the corner currents of a motor's load on the bus; without charging the lower limit is 0."""
    if is_zero(motor.current_min):
        return (0.0, motor.current_max)
    return (motor.current_min, 0.0, motor.current_max)


def actuator_outputs(state: State, command: Command, vehicle: Vehicle) -> Command:
    """Return the rotor commands that reach the motors: the positions of the actuators, if the vehicle has any."""
    if not vehicle.has("actuator"):
        return command[: len(vehicle.rotors)]
    return tuple(actuator_state.position for actuator_state in state.effects[vehicle.index("actuator")])


def supply_voltage(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> Scalar:
    """The bus voltage under the motors' load; 0 without a battery or with it disconnected  [V]

    Motors with a lag draw a power that is independent of the voltage; DC motors draw a current that grows with it.
    """
    if not vehicle.has("battery"):
        return 0.0
    battery = vehicle["battery"]
    if isinstance(battery, Ideal):
        voltage = battery.voltage
    else:
        source = parallel_sources(_sources(state, vehicle))
        if _has_dc_motors(vehicle):
            motors = tuple(rotor.motor for rotor in vehicle.rotors)
            voltage = bus_voltage(source, _duties(state, command, vehicle, environment), state.rotor_speed, motors)
        else:
            voltage = voltage_under_power(source, _total_input_power(state, vehicle, environment))
    return environment.battery_connected * voltage


def bus_current(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> Scalar:
    """I = Σ Iᵢ over the motors, positive while discharging the battery; 0 without a battery  [A]"""
    if not vehicle.has("battery"):
        return 0.0
    voltage = supply_voltage(state, command, vehicle, environment)
    total: Scalar = 0.0
    if _has_dc_motors(vehicle):
        duties = _duties(state, command, vehicle, environment)
        for duty, speed, rotor in zip(duties, state.rotor_speed, vehicle.rotors, strict=True):
            total = total + bus_load(duty, voltage, speed, rotor.motor).current
    elif isinstance(vehicle["battery"], Ideal):
        total = safe_divide(_total_input_power(state, vehicle, environment), voltage)
    else:
        for source in _sources(state, vehicle):
            total = total + branch_current(source, voltage)
    return environment.battery_connected * total


def motor_currents(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> tuple[Scalar, ...]:
    """Iᵢ: the current of each motor from the bus, positive while discharging the battery  [A]"""
    voltage = supply_voltage(state, command, vehicle, environment)
    if _has_dc_motors(vehicle):
        motors = zip(_duties(state, command, vehicle, environment), state.rotor_speed, vehicle.rotors, strict=True)
        currents = [bus_load(duty, voltage, speed, rotor.motor).current for duty, speed, rotor in motors]
    else:
        currents = [safe_divide(power, voltage) for power in _input_powers(state, vehicle, environment)]
    return tuple(environment.battery_connected * current for current in currents)


def _has_dc_motors(vehicle: Vehicle) -> bool:
    return any(isinstance(rotor.motor, DcMotor) for rotor in vehicle.rotors)


def _total_input_power(state: State, vehicle: Vehicle, environment: Environment) -> Scalar:
    """P = Σ Pᵢ over the motors with a lag  [W]"""
    total: Scalar = 0.0
    for power in _input_powers(state, vehicle, environment):
        total = total + power
    return total


def _input_powers(state: State, vehicle: Vehicle, environment: Environment) -> list[Scalar]:
    """Pᵢ of every motor with a lag; 0 for a failed motor while its rotor runs down  [W]"""
    loads = rotor_loads(state, vehicle, environment)
    input_powers = [
        input_power(speed, load.torque, rotor.motor)
        for speed, load, rotor in zip(state.rotor_speed, loads, vehicle.rotors, strict=True)
    ]
    if environment.motor_effectiveness:
        effectiveness = _motor_effectiveness(environment, len(input_powers))
        input_powers = [
            where(factor > 0.0, input_power, 0.0)
            for factor, input_power in zip(effectiveness, input_powers, strict=True)
        ]
    return input_powers


def lag_motors(state: State, vehicle: Vehicle, environment: Environment) -> tuple[Lag, ...]:
    """Return the motors with their speed ranges at the bus voltage; unchanged without a battery, and for DC motors."""
    motors = tuple(rotor.motor for rotor in vehicle.rotors)
    if not vehicle.has("battery") or _has_dc_motors(vehicle):
        return motors
    voltage = supply_voltage(state, (), vehicle, environment)
    rated = rated_voltages(vehicle)
    return tuple(scale_speed_range(motor, voltage / full) for motor, full in zip(motors, rated, strict=True))


def rated_voltages(vehicle: Vehicle) -> tuple[Scalar, ...]:
    """V_full of every motor with a lag: its `full_voltage`, or that of the full battery if it is 0  [V]"""
    full = full_voltage(vehicle)
    rated = (rotor.motor.full_voltage for rotor in vehicle.rotors if isinstance(rotor.motor, Lag))
    return tuple(where(volts <= 0.0, full, volts) for volts in rated)


def full_voltage(vehicle: Vehicle) -> Scalar:
    """The bus voltage with full batteries and without load; 0 without a battery  [V]"""
    if not vehicle.has("battery"):
        return 0.0
    if isinstance(vehicle["battery"], Ideal):
        return vehicle["battery"].voltage
    full = zip(_full_batteries(vehicle), vehicle["battery"], strict=True)
    return parallel_sources(tuple(battery_source(battery_state, battery) for battery_state, battery in full)).voltage


def _sources(state: State, vehicle: Vehicle) -> tuple[VoltageSource, ...]:
    battery_states = state.effects[vehicle.index("battery")]
    return tuple(
        battery_source(battery_state, battery)
        for battery_state, battery in zip(battery_states, vehicle["battery"], strict=True)
    )


def apply_effectiveness(commands: tuple[Ratio, ...], environment: Environment) -> tuple[Scalar, ...]:
    """eᵢ uᵢ: the speed or duty that each motor delivers, eᵢ its effectiveness"""
    if not environment.motor_effectiveness:
        return commands
    return tuple(
        factor * value for factor, value in zip(_motor_effectiveness(environment, len(commands)), commands, strict=True)
    )


def compensate_effectiveness(desired: tuple[Ratio, ...], environment: Environment) -> tuple[Scalar, ...]:
    """uᵢ / eᵢ, the inverse of `apply_effectiveness`; 0 for a failed motor"""
    if not environment.motor_effectiveness:
        return desired
    return tuple(
        safe_divide(value, factor)
        for factor, value in zip(_motor_effectiveness(environment, len(desired)), desired, strict=True)
    )


def _motor_effectiveness(environment: Environment, motor_count: int) -> tuple[Scalar, ...]:
    if len(environment.motor_effectiveness) != motor_count:
        raise ValueError(
            f"motor_effectiveness has {len(environment.motor_effectiveness)} numbers; "
            f"expected one for each of {motor_count} motors, or none"
        )
    return environment.motor_effectiveness


def _duties(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> tuple[Scalar, ...]:
    duties = tuple(
        effective_duty(duty, rotor.motor)
        for duty, rotor in zip(actuator_outputs(state, command, vehicle), vehicle.rotors, strict=True)
    )
    return apply_effectiveness(duties, environment)


# Actuations --------------------------------------------------------------------------------------------------------


def _normalized_rates(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> tuple[Scalar, ...]:
    motors = lag_motors(state, vehicle, environment)
    targets = tuple(
        speed_from_command(u, motor) for u, motor in zip(actuator_outputs(state, command, vehicle), motors, strict=True)
    )
    return _lag_rates(targets, state, vehicle, environment)


def _normalized_steady(state: State, vehicle: Vehicle, environment: Environment) -> Command:
    return _normalized_commands(state.rotor_speed, state, vehicle, environment)


def _normalized_inverse(
    state: State, accelerations: tuple[Scalar, ...], vehicle: Vehicle, environment: Environment
) -> Command:
    return _normalized_commands(_lag_targets(state, accelerations, vehicle), state, vehicle, environment)


def _normalized_commands(
    targets: tuple[Scalar, ...], state: State, vehicle: Vehicle, environment: Environment
) -> Command:
    """Return the command for these speeds at the bus voltage of the state, with the battery connected."""
    motors = lag_motors(state, vehicle, environment._replace(battery_connected=1.0))
    return tuple(
        command_from_speed(target, motor)
        for target, motor in zip(compensate_effectiveness(targets, environment), motors, strict=True)
    )


def _lag_targets(state: State, accelerations: tuple[Scalar, ...], vehicle: Vehicle) -> tuple[Scalar, ...]:
    """Return the speeds to command for these rotor accelerations."""
    return tuple(
        lag_target(speed, acceleration, rotor.motor)
        for speed, acceleration, rotor in zip(state.rotor_speed, accelerations, vehicle.rotors, strict=True)
    )


def _speed_rates(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> tuple[Scalar, ...]:
    motors = lag_motors(state, vehicle, environment)
    targets = tuple(
        saturate_speed(target, motor)
        for target, motor in zip(actuator_outputs(state, command, vehicle), motors, strict=True)
    )
    return _lag_rates(targets, state, vehicle, environment)


def _speed_steady(state: State, vehicle: Vehicle, environment: Environment) -> Command:
    return compensate_effectiveness(state.rotor_speed, environment)


def _speed_inverse(
    state: State, accelerations: tuple[Scalar, ...], vehicle: Vehicle, environment: Environment
) -> Command:
    return compensate_effectiveness(_lag_targets(state, accelerations, vehicle), environment)


def _lag_rates(
    targets: tuple[Scalar, ...], state: State, vehicle: Vehicle, environment: Environment
) -> tuple[Scalar, ...]:
    return tuple(
        lag_rate(speed, target, rotor.motor)
        for target, speed, rotor in zip(
            apply_effectiveness(targets, environment), state.rotor_speed, vehicle.rotors, strict=True
        )
    )


def _duty_rates(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> tuple[Scalar, ...]:
    voltage = supply_voltage(state, command, vehicle, environment)
    return tuple(
        dc_motor_rate(
            speed,
            environment.battery_connected * limited_current(duty, voltage, speed, rotor.motor),
            load.torque,
            rotor.inertia,
            rotor.motor,
        )
        for duty, speed, load, rotor in zip(
            _duties(state, command, vehicle, environment),
            state.rotor_speed,
            rotor_loads(state, vehicle, environment),
            vehicle.rotors,
            strict=True,
        )
    )


def _duty_steady(state: State, vehicle: Vehicle, environment: Environment) -> Command:
    return _duty_inverse(state, tuple(0.0 for _ in vehicle.rotors), vehicle, environment)


def _duty_inverse(
    state: State, accelerations: tuple[Scalar, ...], vehicle: Vehicle, environment: Environment
) -> Command:
    """dᵢ = Uᵢ / V with Uᵢ = R I + K Ω; V is that of the bus under P = Σ Uᵢ Iᵢ / η.

    J Ω̇ is a load on the motor, as the air torque is.
    """
    battery = vehicle["battery"]
    source = (
        VoltageSource(battery.voltage, 0.0)
        if isinstance(battery, Ideal)
        else parallel_sources(_sources(state, vehicle))
    )
    loads = rotor_loads(state, vehicle, environment)
    power: Scalar = 0.0
    motor_voltages = []
    for speed, acceleration, load, rotor in zip(state.rotor_speed, accelerations, loads, vehicle.rotors, strict=True):
        torque = load.torque + rotor.inertia * acceleration
        motor_voltage = steady_duty(speed, torque, 1.0, rotor.motor)
        motor_voltages.append(motor_voltage)
        power = power + motor_voltage * steady_current(speed, torque, rotor.motor) / rotor.motor.efficiency
    voltage = voltage_under_power(source, power)
    return compensate_effectiveness(tuple(motor_voltage / voltage for motor_voltage in motor_voltages), environment)


def _no_rotors(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> tuple[Scalar, ...]:
    return ()


def _wrench_steady(state: State, vehicle: Vehicle, environment: Environment) -> Command:
    return (vehicle.mass * vehicle["gravity"].acceleration, 0.0, 0.0, 0.0)


def _wrench_inverse(
    state: State, accelerations: tuple[Scalar, ...], vehicle: Vehicle, environment: Environment
) -> Command:
    return _wrench_steady(state, vehicle, environment)


NORMALIZED = Actuation("normalized", _normalized_rates, _normalized_steady, _normalized_inverse)
SPEED = Actuation("speed", _speed_rates, _speed_steady, _speed_inverse)
DUTY = Actuation("duty", _duty_rates, _duty_steady, _duty_inverse)
WRENCH = Actuation("wrench", _no_rotors, _wrench_steady, _wrench_inverse)


# Effects of rotors and supply --------------------------------------------------------------------------------------


def _rotor_wrenches(
    effect_state: object, state: State, command: Command, vehicle: Vehicle, environment: Environment
) -> Wrench:
    total = Wrench()
    for load, rotor in zip(rotor_loads(state, vehicle, environment), vehicle.rotors, strict=True):
        total = add_wrenches(total, rotor_wrench(load, rotor))
    return total


def _rotor_momentum(
    effect_state: object, state: State, command: Command, vehicle: Vehicle, environment: Environment
) -> Wrench:
    accelerations = vehicle.structure.actuation.rotor_acceleration(state, command, vehicle, environment)
    tau_B = ZERO
    for speed, acceleration, rotor in zip(state.rotor_speed, accelerations, vehicle.rotors, strict=True):
        tau_B = tau_B + rotor_momentum_torque(state.omega_B, speed, acceleration, rotor)
    return Wrench(tau_B=tau_B)


def _commanded_wrench(
    effect_state: object, state: State, command: Command, vehicle: Vehicle, environment: Environment
) -> Wrench:
    thrust, *tau_B = command
    return Wrench(f_B=Vec3(0.0, 0.0, thrust), tau_B=Vec3(*tau_B))


def _full_batteries(vehicle: Vehicle) -> tuple[BatteryState, ...]:
    return tuple(BatteryState(1.0, 0.0) for _ in vehicle["battery"])


def _battery_rates(
    battery_states: tuple[BatteryState, ...], state: State, command: Command, vehicle: Vehicle, environment: Environment
) -> tuple[BatteryState, ...]:
    batteries: tuple[Thevenin, ...] = vehicle["battery"]
    voltage = supply_voltage(state, command, vehicle, environment)
    return tuple(
        battery_rate(battery_state, environment.battery_connected * branch_current(source, voltage), battery)
        for battery_state, source, battery in zip(battery_states, _sources(state, vehicle), batteries, strict=True)
    )


def _initial_actuators(vehicle: Vehicle) -> tuple[ActuatorState, ...]:
    return tuple(ActuatorState(0.0, 0.0) for _ in vehicle.rotors)


def _actuator_rates(
    actuator_states: tuple[ActuatorState, ...],
    state: State,
    command: Command,
    vehicle: Vehicle,
    environment: Environment,
) -> tuple[ActuatorState, ...]:
    actuator: SecondOrder = vehicle["actuator"]
    targets = command[: len(actuator_states)]
    return tuple(
        second_order_rate(actuator_state, target, actuator)
        for actuator_state, target in zip(actuator_states, targets, strict=True)
    )


def _steady_actuators(
    actuator_states: Tree, state: State, command: Command, vehicle: Vehicle, environment: Environment
) -> tuple[ActuatorState, ...]:
    return tuple(ActuatorState(target, 0.0) for target in command[: len(actuator_states)])


ROTORS = Effect("rotors", wrench=_rotor_wrenches, role=Role.THRUST)
ROTOR_MOMENTUM = Effect("rotor_momentum", wrench=_rotor_momentum, role=Role.MOMENTUM)
COMMANDED_WRENCH = Effect("commanded_wrench", wrench=_commanded_wrench, role=Role.THRUST)
IDEAL_BATTERY = Effect("battery", role=Role.SUPPLY)
THEVENIN_BATTERY = Effect(
    "battery",
    initial=_full_batteries,
    derivative=_battery_rates,
    role=Role.SUPPLY,
    state_description="the states of the batteries",
)
SECOND_ORDER_ACTUATOR = Effect(
    "actuator",
    initial=_initial_actuators,
    derivative=_actuator_rates,
    steady_state=_steady_actuators,
    role=Role.ACTUATOR,
    state_description="the states of the actuators",
)
