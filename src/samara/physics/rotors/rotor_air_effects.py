"""Effects of moving air on the rotors of a vehicle: rotor_air, rotor_drag, translational_lift, flapping, airspeed_moment,
rolling_moment, thrust_fade. All are off unless the vehicle names them."""

from typing import TYPE_CHECKING, NamedTuple

from samara.core.algebra import ZERO, Vec3, cross, dot
from samara.core.ops import safe_divide
from samara.core.quantity import Scalar, Tree
from samara.physics.effect import Effect, Role, Wrench, add_wrenches
from samara.physics.rotors.airspeed_moment import AirspeedMoment, airspeed_moment, rolling_moment, thrust_fade_loss
from samara.physics.rotors.blade_element import (
    HarmonicInflow,
    HubFlow,
    RotorAir,
    UniformInflow,
    air_load,
    balanced_inflow,
    climb_loss,
    disc_axes,
    gradient_rate,
    hub_flow,
    in_plane_force,
    inflow_gradient,
    inflow_rate,
    rotor_drag_force,
    translational_gain,
)
from samara.physics.rotors.flapping import Flapping, disc_tilt, flapping_force, hub_moment
from samara.physics.rotors.inflow import hover_induced
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY, RotorLoad, density_ratio, rotor_load

if TYPE_CHECKING:
    from samara.physics.types import Command, Environment, State, Vehicle

_SECANT_OFFSET = 1e-4  # [m/s]: offset of the second point of the secant


class _RotorFlow(NamedTuple):
    """The flow at one rotor: velocity of its hub, induced velocity, and gain of the induced velocity towards the tip."""

    flow: HubFlow
    induced: Scalar
    gradient_B: Vec3


def _hub_flows(state: "State", vehicle: "Vehicle", environment: "Environment") -> tuple[HubFlow, ...]:
    winds = environment.hub_wind_W or (environment.wind_W,) * len(vehicle.rotors)
    return tuple(
        hub_flow(state.q_WB, state.v_W, state.omega_B, wind_W, rotor)
        for wind_W, rotor in zip(winds, vehicle.rotors, strict=True)
    )


def _induced_velocities(
    inflow_states: Tree, state: "State", vehicle: "Vehicle", environment: "Environment"
) -> tuple[Scalar, ...]:
    if inflow_states:
        return tuple(inflow_state.induced for inflow_state in inflow_states)
    air: RotorAir = vehicle["rotor_air"]
    return tuple(
        balanced_inflow(speed, flow, rotor, air, environment.air_density)
        for speed, flow, rotor in zip(
            state.rotor_speed, _hub_flows(state, vehicle, environment), vehicle.rotors, strict=True
        )
    )


def _loads(
    inflow_states: Tree, state: "State", vehicle: "Vehicle", environment: "Environment"
) -> tuple[RotorLoad, ...]:
    """Thrust and torque of every rotor in its local flow; they act on the motor and the body."""
    air: RotorAir = vehicle["rotor_air"]
    flows, inflows = (
        _hub_flows(state, vehicle, environment),
        _induced_velocities(inflow_states, state, vehicle, environment),
    )
    return tuple(
        air_load(speed, induced, flow, rotor, air, environment.air_density)
        for speed, induced, flow, rotor in zip(state.rotor_speed, inflows, flows, vehicle.rotors, strict=True)
    )


def _wrench(
    inflow_states: Tree, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    """The in-plane forces of the rotors; thrust and torque belong to the effect `rotors`."""
    if vehicle.structure.inflow is not None:
        raise ValueError(f"vehicle {vehicle.name!r} has an inflow model and rotor_air: expected one of them")
    air: RotorAir = vehicle["rotor_air"]
    total = Wrench()
    flows, inflows = (
        _hub_flows(state, vehicle, environment),
        _induced_velocities(inflow_states, state, vehicle, environment),
    )
    for speed, induced, flow, rotor in zip(state.rotor_speed, inflows, flows, vehicle.rotors, strict=True):
        f_B = in_plane_force(speed, induced, flow, rotor, air, environment.air_density)
        total = add_wrenches(total, Wrench(f_B, cross(rotor.r_B, f_B)))
    return total


def _hover_inflow(vehicle: "Vehicle") -> tuple[Scalar, ...]:
    """v_h of every rotor under an equal part of the weight: a vehicle that starts in hover starts settled  [m/s]"""
    gravity = vehicle["gravity"].acceleration if vehicle.has("gravity") else 0.0
    rotor_weight = vehicle.mass * gravity / len(vehicle.rotors)
    return tuple(hover_induced(rotor_weight, SEA_LEVEL_DENSITY, rotor.radius) for rotor in vehicle.rotors)


def _initial_uniform_inflow(vehicle: "Vehicle") -> tuple[UniformInflow, ...]:
    return tuple(UniformInflow(v) for v in _hover_inflow(vehicle))


def _initial_harmonic_inflow(vehicle: "Vehicle") -> tuple[HarmonicInflow, ...]:
    return tuple(HarmonicInflow(v, 0.0, 0.0) for v in _hover_inflow(vehicle))


def _uniform_rates(
    inflow_states: Tree, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> tuple[UniformInflow, ...]:
    air: RotorAir = vehicle["rotor_air"]
    return tuple(
        UniformInflow(inflow_rate(speed, inflow_state.induced, flow, rotor, air, environment.air_density))
        for inflow_state, speed, flow, rotor in zip(
            inflow_states, state.rotor_speed, _hub_flows(state, vehicle, environment), vehicle.rotors, strict=True
        )
    )


def _harmonic_rates(
    inflow_states: Tree, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> tuple[HarmonicInflow, ...]:
    air: RotorAir = vehicle["rotor_air"]
    rates = []
    for inflow_state, speed, flow, rotor in zip(
        inflow_states, state.rotor_speed, _hub_flows(state, vehicle, environment), vehicle.rotors, strict=True
    ):
        rate_B = gradient_rate(speed, inflow_state, state.omega_B, flow, rotor, air, environment.air_density)
        first_B, second_B = disc_axes(rotor.axis_B)
        uniform = inflow_rate(speed, inflow_state.induced, flow, rotor, air, environment.air_density)
        rates.append(HarmonicInflow(uniform, dot(rate_B, first_B), dot(rate_B, second_B)))
    return tuple(rates)


def _steady_uniform_inflow(
    effect_state: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> tuple[UniformInflow, ...]:
    """Momentum theory's inflow plus one secant step, which removes the remaining 1e-9 m/s of its iteration."""
    estimates = tuple(UniformInflow(v) for v in _induced_velocities((), state, vehicle, environment))
    offset_estimates = tuple(UniformInflow(estimate.induced + _SECANT_OFFSET) for estimate in estimates)
    rates = _uniform_rates(estimates, state, command, vehicle, environment)
    offset_rates = _uniform_rates(offset_estimates, state, command, vehicle, environment)
    return tuple(
        UniformInflow(estimate.induced + _SECANT_OFFSET * safe_divide(rate.induced, rate.induced - offset_rate.induced))
        for estimate, rate, offset_rate in zip(estimates, rates, offset_rates, strict=True)
    )


def _steady_harmonic_inflow(
    inflow_states: Tree, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> tuple[HarmonicInflow, ...]:
    """The rate of the gradient is linear, ġ = b − k g, so two rates give its steady state: g = b/k."""
    uniform = _steady_uniform_inflow(inflow_states, state, command, vehicle, environment)
    flat_states = tuple(HarmonicInflow(inflow_state.induced, 0.0, 0.0) for inflow_state in uniform)
    sloped_states = tuple(inflow_state._replace(first=1.0, second=1.0) for inflow_state in flat_states)
    rates = _harmonic_rates(flat_states, state, command, vehicle, environment)
    sloped_rates = _harmonic_rates(sloped_states, state, command, vehicle, environment)
    return tuple(
        inflow_state._replace(
            first=safe_divide(rate.first, rate.first - sloped_rate.first),
            second=safe_divide(rate.second, rate.second - sloped_rate.second),
        )
        for inflow_state, rate, sloped_rate in zip(flat_states, rates, sloped_rates, strict=True)
    )


def _rotor_drag(
    effect_state: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    total, ratio = Wrench(), density_ratio(environment.air_density)
    for speed, flow, rotor in zip(
        state.rotor_speed, _hub_flows(state, vehicle, environment), vehicle.rotors, strict=True
    ):
        f_B = rotor_drag_force(speed, flow, vehicle["rotor_drag"]) * ratio
        total = add_wrenches(total, Wrench(f_B, cross(rotor.r_B, f_B)))
    return total


def _climb_losses(
    effect_state: object, state: "State", vehicle: "Vehicle", environment: "Environment"
) -> tuple[RotorLoad, ...]:
    """The axial part of rotor_drag changes the thrust of the rotors; their torque is unchanged."""
    ratio, flows = density_ratio(environment.air_density), _hub_flows(state, vehicle, environment)
    return tuple(
        RotorLoad(climb_loss(speed, flow, vehicle["rotor_drag"]) * ratio, 0.0)
        for speed, flow in zip(state.rotor_speed, flows, strict=True)
    )


def _translational_gains(
    effect_state: object, state: "State", vehicle: "Vehicle", environment: "Environment"
) -> tuple[RotorLoad, ...]:
    """The thrust that motion through the air adds to that of hover; the torque is unchanged."""
    flows = _hub_flows(state, vehicle, environment)
    return tuple(
        RotorLoad(translational_gain(speed, flow, rotor, vehicle["translational_lift"], environment.air_density), 0.0)
        for speed, flow, rotor in zip(state.rotor_speed, flows, vehicle.rotors, strict=True)
    )


def _airspeed_moment(
    effect_state: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    moment: AirspeedMoment = vehicle["airspeed_moment"]
    tau_B = ZERO
    for load, flow, rotor in zip(
        rotor_loads(state, vehicle, environment), _hub_flows(state, vehicle, environment), vehicle.rotors, strict=True
    ):
        tau_B = tau_B + airspeed_moment(load.thrust, flow, rotor, environment.air_density, moment=moment)
    return Wrench(tau_B=tau_B)


def _rolling_moment(
    effect_state: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    tau_B = ZERO
    for speed, flow in zip(state.rotor_speed, _hub_flows(state, vehicle, environment), strict=True):
        tau_B = tau_B + rolling_moment(speed, flow, vehicle["rolling_moment"])
    return Wrench(tau_B=tau_B * density_ratio(environment.air_density))


def _rolling_by_spin(
    effect_state: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    tau_B = ZERO
    for speed, flow, rotor in zip(
        state.rotor_speed, _hub_flows(state, vehicle, environment), vehicle.rotors, strict=True
    ):
        tau_B = tau_B + rolling_moment(speed, flow, vehicle["rolling_moment"]) * rotor.spin
    return Wrench(tau_B=tau_B * density_ratio(environment.air_density))


def _fade_losses(
    effect_state: object, state: "State", vehicle: "Vehicle", environment: "Environment"
) -> tuple[RotorLoad, ...]:
    """The loss is a part of the thrust kF Ω² without airspeed; the torque is unchanged."""
    ratio, flows = density_ratio(environment.air_density), _hub_flows(state, vehicle, environment)
    return tuple(
        RotorLoad(thrust_fade_loss(rotor_load(speed, rotor, ratio).thrust, flow, vehicle["thrust_fade"]), 0.0)
        for speed, flow, rotor in zip(state.rotor_speed, flows, vehicle.rotors, strict=True)
    )


def _rotor_flows(state: "State", vehicle: "Vehicle", environment: "Environment") -> tuple[_RotorFlow, ...]:
    """Return every rotor's flow, with the inflow states of rotor_air if it has any, else by the balance."""
    inflow_states = state.effects[vehicle.index("rotor_air")]
    flows, inflows = (
        _hub_flows(state, vehicle, environment),
        _induced_velocities(inflow_states, state, vehicle, environment),
    )
    harmonic = bool(inflow_states) and isinstance(inflow_states[0], HarmonicInflow)
    gradients_B = tuple(
        inflow_gradient(inflow_states[i], rotor) if harmonic else ZERO for i, rotor in enumerate(vehicle.rotors)
    )
    return tuple(_RotorFlow(*fields) for fields in zip(flows, inflows, gradients_B, strict=True))


def _flapping(
    effect_state: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    air: RotorAir = vehicle["rotor_air"]
    blades: Flapping = vehicle["flapping"]
    density = environment.air_density
    total = Wrench()
    for speed, rotor_flow, rotor in zip(
        state.rotor_speed, _rotor_flows(state, vehicle, environment), vehicle.rotors, strict=True
    ):
        tilt_B = disc_tilt(
            speed,
            rotor_flow.induced,
            rotor_flow.gradient_B,
            state.omega_B,
            rotor_flow.flow,
            rotor,
            air,
            density,
            blades=blades,
        )
        f_B = flapping_force(speed, rotor_flow.induced, tilt_B, rotor_flow.flow, rotor, air, density)
        tau_B = cross(rotor.r_B, f_B) + hub_moment(speed, tilt_B, rotor, blades=blades)
        total = add_wrenches(total, Wrench(f_B, tau_B))
    return total


_READS_HUB_WIND = ("hub_wind_W",)
MOMENTUM_AIR = Effect(
    "rotor_air", wrench=_wrench, loads=_loads, role=Role.ROTOR_AIR, reads=_READS_HUB_WIND, planned=False
)
DYNAMIC_AIR = Effect(
    "rotor_air",
    initial=_initial_uniform_inflow,
    derivative=_uniform_rates,
    wrench=_wrench,
    steady_state=_steady_uniform_inflow,
    loads=_loads,
    role=Role.ROTOR_AIR,
    reads=_READS_HUB_WIND,
    planned=False,
)
DYNAMIC_AIR_3 = Effect(
    "rotor_air",
    initial=_initial_harmonic_inflow,
    derivative=_harmonic_rates,
    wrench=_wrench,
    steady_state=_steady_harmonic_inflow,
    loads=_loads,
    role=Role.ROTOR_AIR,
    reads=_READS_HUB_WIND,
    planned=False,
)
ROTOR_DRAG = Effect(
    "rotor_drag",
    wrench=_rotor_drag,
    additional_loads=_climb_losses,
    role=Role.ROTOR_AIR,
    reads=_READS_HUB_WIND,
    planned=False,
)
TRANSLATIONAL_LIFT = Effect(
    "translational_lift", additional_loads=_translational_gains, reads=_READS_HUB_WIND, planned=False
)
FLAPPING = Effect("flapping", wrench=_flapping, reads=_READS_HUB_WIND, planned=False)
AIRSPEED_MOMENT = Effect("airspeed_moment", wrench=_airspeed_moment, reads=_READS_HUB_WIND, planned=False)
ROLLING_MOMENT = Effect("rolling_moment", wrench=_rolling_moment, reads=_READS_HUB_WIND, planned=False)
ROLLING_BY_SPIN = Effect("rolling_moment", wrench=_rolling_by_spin, reads=_READS_HUB_WIND, planned=False)
THRUST_FADE = Effect("thrust_fade", additional_loads=_fade_losses, reads=_READS_HUB_WIND, planned=False)
