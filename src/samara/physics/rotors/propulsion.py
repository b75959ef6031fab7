"""The rotors of a vehicle together: what drives them, what they draw, and what they do to the body.

Command → actuator → motor on the common bus → rotor speed → load → wrench. A motor with a lag follows its target within the
speeds that the bus voltage leaves it, [Ω_min, Ω_max] V/V_full: a command in [0, 1] spans that range, a commanded speed is held
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
    drawn_power,
    lag_rate,
    lag_target,
    saturate_speed,
    second_order_rate,
    slowed,
    speed_from_command,
)
from samara.physics.rotors.battery import (
    BatteryState,
    Ideal,
    Source,
    Thevenin,
    battery_rate,
    parallel_sources,
    share_of_current,
    source_of,
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
    """Tᵢ, Qᵢ of every rotor, in its air, or of the effect that knows better, and what other effects add  [N, N·m]"""
    loads = _own_loads(state, vehicle, environment)
    for at, effect in enumerate(vehicle.structure.effects):
        if effect.more_loads is not None:
            more = effect.more_loads(state.effects[at], state, vehicle, environment)
            loads = tuple(
                RotorLoad(load.thrust + extra.thrust, load.torque + extra.torque)
                for load, extra in zip(loads, more, strict=True)
            )
    return loads


def _own_loads(state: State, vehicle: Vehicle, environment: Environment) -> tuple[RotorLoad, ...]:
    for at, effect in enumerate(vehicle.structure.effects):
        if effect.loads is not None:
            return effect.loads(state.effects[at], state, vehicle, environment)
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
    source: Source, duties: tuple[Duty, ...], speeds: tuple[RotorSpeed, ...], motors: tuple[DcMotor, ...]
) -> Scalar:
    """V = V₀ − R₀ Σ I_bus(V)  [V]

    The load grows with V in straight pieces, between the voltages at which some motor reaches a limit or begins to charge.
    So V lies between V₀ and V₀ − R₀ Σ I_bus(V₀); those voltages narrow that down to one piece, and Newton's step is exact.
    """
    motor_duties = tuple(zip(duties, speeds, motors, strict=True))

    def residual(voltage: Scalar) -> tuple[Scalar, Scalar]:
        demand: Scalar = 0.0
        slope: Scalar = 0.0
        for duty, speed, motor in motor_duties:
            load = bus_load(duty, voltage, speed, motor)
            demand, slope = demand + load.current, slope + load.slope
        return voltage - source.voltage + source.resistance * demand, 1.0 + source.resistance * slope

    other_end = source.voltage - residual(source.voltage)[0]
    low, high = minimum(source.voltage, other_end), maximum(source.voltage, other_end)
    for duty, speed, motor in motor_duties:
        for current in _bends(motor):
            corner = clamp(voltage_for_current(current, duty, speed, motor), low, high)
            below = residual(corner)[0] <= 0
            low, high = where(below, corner, low), where(below, high, corner)
    middle = 0.5 * (low + high)
    excess, slope = residual(middle)
    return middle - excess / slope


def _bends(motor: DcMotor) -> tuple[Scalar, ...]:
    """The currents at which a motor's load on the bus bends; one that may not charge has its lower limit at 0."""
    if is_zero(motor.current_min):
        return (0.0, motor.current_max)
    return (motor.current_min, 0.0, motor.current_max)


def actuated(state: State, command: Command, vehicle: Vehicle) -> Command:
    """The command as the motors receive it: the positions of the actuators where the vehicle has them"""
    if not vehicle.has("actuator"):
        return command[: len(vehicle.rotors)]
    return tuple(own.position for own in state.effects[vehicle.index("actuator")])


def supply_voltage(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> Scalar:
    """The bus voltage under the motors' load; 0 without a battery or with it disconnected  [V]

    Motors with a lag take power, whatever the voltage; DC motors a current that grows with it.
    """
    if not vehicle.has("battery"):
        return 0.0
    battery = vehicle["battery"]
    if isinstance(battery, Ideal):
        voltage = battery.voltage
    else:
        source = parallel_sources(_sources(state, vehicle))
        if _on_dc_motors(vehicle):
            motors = tuple(rotor.motor for rotor in vehicle.rotors)
            voltage = bus_voltage(source, _duties(state, command, vehicle, environment), state.rotor_speed, motors)
        else:
            voltage = voltage_under_power(source, _drawn_power(state, vehicle, environment))
    return environment.battery_connected * voltage


def bus_current(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> Scalar:
    """I = Σ Iᵢ over the motors, positive while it discharges the battery; 0 without one  [A]"""
    if not vehicle.has("battery"):
        return 0.0
    voltage = supply_voltage(state, command, vehicle, environment)
    total: Scalar = 0.0
    if _on_dc_motors(vehicle):
        duties = _duties(state, command, vehicle, environment)
        for duty, speed, rotor in zip(duties, state.rotor_speed, vehicle.rotors, strict=True):
            total = total + bus_load(duty, voltage, speed, rotor.motor).current
    elif isinstance(vehicle["battery"], Ideal):
        total = safe_divide(_drawn_power(state, vehicle, environment), voltage)
    else:
        for source in _sources(state, vehicle):
            total = total + share_of_current(source, voltage)
    return environment.battery_connected * total


def motor_currents(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> tuple[Scalar, ...]:
    """Iᵢ, what each motor takes from the bus, positive while it discharges the battery  [A]"""
    voltage = supply_voltage(state, command, vehicle, environment)
    if _on_dc_motors(vehicle):
        motors = zip(_duties(state, command, vehicle, environment), state.rotor_speed, vehicle.rotors, strict=True)
        drawn = [bus_load(duty, voltage, speed, rotor.motor).current for duty, speed, rotor in motors]
    else:
        drawn = [safe_divide(power, voltage) for power in _drawn_powers(state, vehicle, environment)]
    return tuple(environment.battery_connected * current for current in drawn)


def _on_dc_motors(vehicle: Vehicle) -> bool:
    return any(isinstance(rotor.motor, DcMotor) for rotor in vehicle.rotors)


def _drawn_power(state: State, vehicle: Vehicle, environment: Environment) -> Scalar:
    """Σ over the motors with a lag."""
    total: Scalar = 0.0
    for each in _drawn_powers(state, vehicle, environment):
        total = total + each
    return total


def _drawn_powers(state: State, vehicle: Vehicle, environment: Environment) -> list[Scalar]:
    """Of every motor with a lag; one that has failed takes nothing while its rotor runs down."""
    loads = rotor_loads(state, vehicle, environment)
    drawn = [
        drawn_power(speed, load.torque, rotor.motor)
        for speed, load, rotor in zip(state.rotor_speed, loads, vehicle.rotors, strict=True)
    ]
    if environment.motor_power:
        powers = _powers(environment, len(drawn))
        drawn = [where(power > 0.0, each, 0.0) for power, each in zip(powers, drawn, strict=True)]
    return drawn


def lag_motors(state: State, vehicle: Vehicle, environment: Environment) -> tuple[Lag, ...]:
    """The motors with the speeds that the bus voltage leaves them; as they are without a battery, and DC motors always"""
    motors = tuple(rotor.motor for rotor in vehicle.rotors)
    if not vehicle.has("battery") or _on_dc_motors(vehicle):
        return motors
    voltage = supply_voltage(state, (), vehicle, environment)
    rated = rated_voltages(vehicle)
    return tuple(slowed(motor, voltage / full) for motor, full in zip(motors, rated, strict=True))


def rated_voltages(vehicle: Vehicle) -> tuple[Scalar, ...]:
    """V_full of every motor with a lag: its own, or where that is 0 the full battery's  [V]"""
    full = full_voltage(vehicle)
    own = (rotor.motor.full_voltage for rotor in vehicle.rotors if isinstance(rotor.motor, Lag))
    return tuple(where(volts <= 0.0, full, volts) for volts in own)


def full_voltage(vehicle: Vehicle) -> Scalar:
    """V of the bus with all batteries full and nothing to drive; 0 without a battery  [V]"""
    if not vehicle.has("battery"):
        return 0.0
    if isinstance(vehicle["battery"], Ideal):
        return vehicle["battery"].voltage
    full = zip(_full_batteries(vehicle), vehicle["battery"], strict=True)
    return parallel_sources(tuple(source_of(own, battery) for own, battery in full)).voltage


def _sources(state: State, vehicle: Vehicle) -> tuple[Source, ...]:
    own = state.effects[vehicle.index("battery")]
    return tuple(source_of(each, battery) for each, battery in zip(own, vehicle["battery"], strict=True))


def delivered(commanded: tuple[Ratio, ...], environment: Environment) -> tuple[Scalar, ...]:
    """powerᵢ commandedᵢ: the speed or duty that each motor delivers; a healthy one delivers all that is commanded"""
    if not environment.motor_power:
        return commanded
    return tuple(power * each for power, each in zip(_powers(environment, len(commanded)), commanded, strict=True))


def compensated(wanted: tuple[Ratio, ...], environment: Environment) -> tuple[Scalar, ...]:
    """wantedᵢ / powerᵢ, the inverse of `delivered`; 0 for a failed motor, which delivers nothing"""
    if not environment.motor_power:
        return wanted
    return tuple(
        safe_divide(each, power) for power, each in zip(_powers(environment, len(wanted)), wanted, strict=True)
    )


def _powers(environment: Environment, motors: int) -> tuple[Scalar, ...]:
    if len(environment.motor_power) != motors:
        raise ValueError(
            f"motor_power has {len(environment.motor_power)} numbers; expected one for each of {motors} motors, or none"
        )
    return environment.motor_power


def _duties(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> tuple[Scalar, ...]:
    held = tuple(
        effective_duty(duty, rotor.motor)
        for duty, rotor in zip(actuated(state, command, vehicle), vehicle.rotors, strict=True)
    )
    return delivered(held, environment)


# What a command is -------------------------------------------------------------------------------------------------


def _normalized(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> tuple[Scalar, ...]:
    motors = lag_motors(state, vehicle, environment)
    targets = tuple(
        speed_from_command(u, motor) for u, motor in zip(actuated(state, command, vehicle), motors, strict=True)
    )
    return _lag_rates(targets, state, vehicle, environment)


def _normalized_steady(state: State, vehicle: Vehicle, environment: Environment) -> Command:
    return _normalized_holding(state.rotor_speed, state, vehicle, environment)


def _normalized_for(
    state: State, accelerations: tuple[Scalar, ...], vehicle: Vehicle, environment: Environment
) -> Command:
    return _normalized_holding(_led(state, accelerations, vehicle), state, vehicle, environment)


def _normalized_holding(
    targets: tuple[Scalar, ...], state: State, vehicle: Vehicle, environment: Environment
) -> Command:
    """The command for these speeds at the bus voltage of the state, the battery being connected."""
    motors = lag_motors(state, vehicle, environment._replace(battery_connected=1.0))
    return tuple(
        command_from_speed(target, motor)
        for target, motor in zip(compensated(targets, environment), motors, strict=True)
    )


def _led(state: State, accelerations: tuple[Scalar, ...], vehicle: Vehicle) -> tuple[Scalar, ...]:
    """The speeds that must be commanded for the motors to turn with these accelerations."""
    return tuple(
        lag_target(speed, acceleration, rotor.motor)
        for speed, acceleration, rotor in zip(state.rotor_speed, accelerations, vehicle.rotors, strict=True)
    )


def _speed(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> tuple[Scalar, ...]:
    motors = lag_motors(state, vehicle, environment)
    targets = tuple(
        saturate_speed(target, motor) for target, motor in zip(actuated(state, command, vehicle), motors, strict=True)
    )
    return _lag_rates(targets, state, vehicle, environment)


def _speed_steady(state: State, vehicle: Vehicle, environment: Environment) -> Command:
    return compensated(state.rotor_speed, environment)


def _speed_for(state: State, accelerations: tuple[Scalar, ...], vehicle: Vehicle, environment: Environment) -> Command:
    return compensated(_led(state, accelerations, vehicle), environment)


def _lag_rates(
    targets: tuple[Scalar, ...], state: State, vehicle: Vehicle, environment: Environment
) -> tuple[Scalar, ...]:
    return tuple(
        lag_rate(speed, target, rotor.motor)
        for target, speed, rotor in zip(delivered(targets, environment), state.rotor_speed, vehicle.rotors, strict=True)
    )


def _duty(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> tuple[Scalar, ...]:
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
    return _duty_for(state, tuple(0.0 for _ in vehicle.rotors), vehicle, environment)


def _duty_for(state: State, accelerations: tuple[Scalar, ...], vehicle: Vehicle, environment: Environment) -> Command:
    """dᵢ = Uᵢ / V with Uᵢ = R I + K Ω; V is that of the bus under P = Σ Uᵢ Iᵢ / η.

    To the motor J Ω̇ is a load like the air's.
    """
    battery = vehicle["battery"]
    source = Source(battery.voltage, 0.0) if isinstance(battery, Ideal) else parallel_sources(_sources(state, vehicle))
    loads = rotor_loads(state, vehicle, environment)
    power: Scalar = 0.0
    at_one_volt = []
    for speed, acceleration, load, rotor in zip(state.rotor_speed, accelerations, loads, vehicle.rotors, strict=True):
        torque = load.torque + rotor.inertia * acceleration
        volts = steady_duty(speed, torque, 1.0, rotor.motor)
        at_one_volt.append(volts)
        power = power + volts * steady_current(speed, torque, rotor.motor) / rotor.motor.efficiency
    voltage = voltage_under_power(source, power)
    return compensated(tuple(volts / voltage for volts in at_one_volt), environment)


def _no_rotors(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> tuple[Scalar, ...]:
    return ()


def _wrench_steady(state: State, vehicle: Vehicle, environment: Environment) -> Command:
    return (vehicle.mass * vehicle["gravity"].acceleration, 0.0, 0.0, 0.0)


def _wrench_for(state: State, accelerations: tuple[Scalar, ...], vehicle: Vehicle, environment: Environment) -> Command:
    return _wrench_steady(state, vehicle, environment)


NORMALIZED = Actuation("normalized", _normalized, _normalized_steady, _normalized_for)
SPEED = Actuation("speed", _speed, _speed_steady, _speed_for)
DUTY = Actuation("duty", _duty, _duty_steady, _duty_for)
WRENCH = Actuation("wrench", _no_rotors, _wrench_steady, _wrench_for)


# What the rotors and their supply do -------------------------------------------------------------------------------


def _rotor_wrenches(own: object, state: State, command: Command, vehicle: Vehicle, environment: Environment) -> Wrench:
    total = Wrench()
    for load, rotor in zip(rotor_loads(state, vehicle, environment), vehicle.rotors, strict=True):
        total = add_wrenches(total, rotor_wrench(load, rotor))
    return total


def _rotor_momentum(own: object, state: State, command: Command, vehicle: Vehicle, environment: Environment) -> Wrench:
    accelerations = vehicle.structure.actuation.rotor_acceleration(state, command, vehicle, environment)
    tau_B = ZERO
    for speed, acceleration, rotor in zip(state.rotor_speed, accelerations, vehicle.rotors, strict=True):
        tau_B = tau_B + rotor_momentum_torque(state.omega_B, speed, acceleration, rotor)
    return Wrench(tau_B=tau_B)


def _commanded(own: object, state: State, command: Command, vehicle: Vehicle, environment: Environment) -> Wrench:
    thrust, *tau_B = command
    return Wrench(f_B=Vec3(0.0, 0.0, thrust), tau_B=Vec3(*tau_B))


def _full_batteries(vehicle: Vehicle) -> tuple[BatteryState, ...]:
    return tuple(BatteryState(1.0, 0.0) for _ in vehicle["battery"])


def _battery_rates(
    own: tuple[BatteryState, ...], state: State, command: Command, vehicle: Vehicle, environment: Environment
) -> tuple[BatteryState, ...]:
    batteries: tuple[Thevenin, ...] = vehicle["battery"]
    voltage = supply_voltage(state, command, vehicle, environment)
    return tuple(
        battery_rate(each, environment.battery_connected * share_of_current(source, voltage), battery)
        for each, source, battery in zip(own, _sources(state, vehicle), batteries, strict=True)
    )


def _actuators_at_zero(vehicle: Vehicle) -> tuple[ActuatorState, ...]:
    return tuple(ActuatorState(0.0, 0.0) for _ in vehicle.rotors)


def _actuator_rates(
    own: tuple[ActuatorState, ...], state: State, command: Command, vehicle: Vehicle, environment: Environment
) -> tuple[ActuatorState, ...]:
    actuator: SecondOrder = vehicle["actuator"]
    told = command[: len(own)]
    return tuple(second_order_rate(each, target, actuator) for each, target in zip(own, told, strict=True))


def _actuators_there(
    own: Tree, state: State, command: Command, vehicle: Vehicle, environment: Environment
) -> tuple[ActuatorState, ...]:
    return tuple(ActuatorState(target, 0.0) for target in command[: len(own)])


ROTORS = Effect("rotors", wrench=_rotor_wrenches, role=Role.THRUST)
ROTOR_MOMENTUM = Effect("rotor_momentum", wrench=_rotor_momentum, role=Role.MOMENTUM)
COMMANDED_WRENCH = Effect("commanded_wrench", wrench=_commanded, role=Role.THRUST)
IDEAL_BATTERY = Effect("battery", role=Role.SUPPLY)
THEVENIN_BATTERY = Effect(
    "battery",
    initial=_full_batteries,
    derivative=_battery_rates,
    role=Role.SUPPLY,
    state_about="the batteries' own states",
)
SECOND_ORDER_ACTUATOR = Effect(
    "actuator",
    initial=_actuators_at_zero,
    derivative=_actuator_rates,
    settled=_actuators_there,
    role=Role.ACTUATOR,
    state_about="the actuators' own states",
)
