"""What moving air does to the rotors of a vehicle, as effects: rotor_air, rotor_drag, flapping, airspeed_moment,
rolling_moment, thrust_fade. All are off unless named."""

from typing import TYPE_CHECKING, NamedTuple

from samara.core.algebra import ZERO, Vec3, cross, dot
from samara.core.ops import safe_divide
from samara.core.quantity import Scalar, Tree
from samara.physics.effect import Effect, Role, Wrench, add_wrenches
from samara.physics.rotors.airspeed_moment import AirspeedMoment, airspeed_moment, faded_thrust, rolling_moment
from samara.physics.rotors.blade_element import (
    HarmonicInflow,
    HubFlow,
    RotorAir,
    UniformInflow,
    air_load,
    balanced_inflow,
    climb_loss,
    disc_axes,
    drag_of_rotor,
    gradient_rate,
    hub_flow,
    in_plane_force,
    inflow_gradient,
    inflow_rate,
)
from samara.physics.rotors.flapping import Flapping, disc_tilt, flapping_force, hub_moment
from samara.physics.rotors.inflow import hover_induced
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY, RotorLoad, density_ratio, rotor_load

if TYPE_CHECKING:
    from samara.physics.types import Command, Environment, State, Vehicle

_BESIDE = 1e-4  # [m/s]: how far from a settled inflow its rate is asked for again


class _RotorFlow(NamedTuple):
    """One rotor as its effects see it: how its hub moves, what it induces, and what that gains towards the tip."""

    flow: HubFlow
    induced: Scalar
    gradient_B: Vec3


def _flows(state: "State", vehicle: "Vehicle", environment: "Environment") -> tuple[HubFlow, ...]:
    winds = environment.hub_wind_W or (environment.wind_W,) * len(vehicle.rotors)
    return tuple(
        hub_flow(state.q_WB, state.v_W, state.omega_B, wind_W, rotor)
        for wind_W, rotor in zip(winds, vehicle.rotors, strict=True)
    )


def _inflows(own: Tree, state: "State", vehicle: "Vehicle", environment: "Environment") -> tuple[Scalar, ...]:
    if own:
        return tuple(each.induced for each in own)
    air: RotorAir = vehicle["rotor_air"]
    return tuple(
        balanced_inflow(speed, flow, rotor, air, environment.air_density)
        for speed, flow, rotor in zip(
            state.rotor_speed, _flows(state, vehicle, environment), vehicle.rotors, strict=True
        )
    )


def _loads(own: Tree, state: "State", vehicle: "Vehicle", environment: "Environment") -> tuple[RotorLoad, ...]:
    """Thrust and torque of every rotor in the air that it meets: these are the rotors' own, which drive and motor feel."""
    air: RotorAir = vehicle["rotor_air"]
    flows, inflows = _flows(state, vehicle, environment), _inflows(own, state, vehicle, environment)
    return tuple(
        air_load(speed, induced, flow, rotor, air, environment.air_density)
        for speed, induced, flow, rotor in zip(state.rotor_speed, inflows, flows, vehicle.rotors, strict=True)
    )


def _wrench(own: Tree, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment") -> Wrench:
    """The in-plane forces of the rotors; their thrust and torque are with the rotors."""
    if vehicle.structure.inflow is not None:
        raise ValueError(f"vehicle {vehicle.name!r} has an inflow model and rotor_air: expected one of them")
    air: RotorAir = vehicle["rotor_air"]
    total = Wrench()
    flows, inflows = _flows(state, vehicle, environment), _inflows(own, state, vehicle, environment)
    for speed, induced, flow, rotor in zip(state.rotor_speed, inflows, flows, vehicle.rotors, strict=True):
        f_B = in_plane_force(speed, induced, flow, rotor, air, environment.air_density)
        total = add_wrenches(total, Wrench(f_B, cross(rotor.r_B, f_B)))
    return total


def _hover_inflow(vehicle: "Vehicle") -> tuple[Scalar, ...]:
    """v_h of every rotor under an equal part of the weight, if it has any: a vehicle that starts in hover starts settled."""
    gravity = vehicle["gravity"].acceleration if vehicle.has("gravity") else 0.0
    share = vehicle.mass * gravity / len(vehicle.rotors)
    return tuple(hover_induced(share, SEA_LEVEL_DENSITY, rotor.radius) for rotor in vehicle.rotors)


def _uniform_start(vehicle: "Vehicle") -> tuple[UniformInflow, ...]:
    return tuple(UniformInflow(v) for v in _hover_inflow(vehicle))


def _harmonic_start(vehicle: "Vehicle") -> tuple[HarmonicInflow, ...]:
    return tuple(HarmonicInflow(v, 0.0, 0.0) for v in _hover_inflow(vehicle))


def _uniform_rates(
    own: Tree, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> tuple[UniformInflow, ...]:
    air: RotorAir = vehicle["rotor_air"]
    return tuple(
        UniformInflow(inflow_rate(speed, each.induced, flow, rotor, air, environment.air_density))
        for each, speed, flow, rotor in zip(
            own, state.rotor_speed, _flows(state, vehicle, environment), vehicle.rotors, strict=True
        )
    )


def _harmonic_rates(
    own: Tree, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> tuple[HarmonicInflow, ...]:
    air: RotorAir = vehicle["rotor_air"]
    rates = []
    for each, speed, flow, rotor in zip(
        own, state.rotor_speed, _flows(state, vehicle, environment), vehicle.rotors, strict=True
    ):
        rate_B = gradient_rate(speed, each, state.omega_B, flow, rotor, air, environment.air_density)
        first_B, second_B = disc_axes(rotor.axis_B)
        uniform = inflow_rate(speed, each.induced, flow, rotor, air, environment.air_density)
        rates.append(HarmonicInflow(uniform, dot(rate_B, first_B), dot(rate_B, second_B)))
    return tuple(rates)


def _uniform_settled(
    own: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> tuple[UniformInflow, ...]:
    """Momentum theory's inflow, and from there one step of the secant: the balance leaves 1e-9 m/s, the secant nothing."""
    near = tuple(UniformInflow(v) for v in _inflows((), state, vehicle, environment))
    beside = tuple(UniformInflow(each.induced + _BESIDE) for each in near)
    rates = _uniform_rates(near, state, command, vehicle, environment)
    rates_beside = _uniform_rates(beside, state, command, vehicle, environment)
    return tuple(
        UniformInflow(each.induced + _BESIDE * safe_divide(rate.induced, rate.induced - other.induced))
        for each, rate, other in zip(near, rates, rates_beside, strict=True)
    )


def _harmonic_settled(
    own: Tree, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> tuple[HarmonicInflow, ...]:
    """The slope's rate is linear in it, ġ = b − k g, so two rates tell where it rests: g = b/k."""
    uniform = _uniform_settled(own, state, command, vehicle, environment)
    level = tuple(HarmonicInflow(each.induced, 0.0, 0.0) for each in uniform)
    leaning = tuple(each._replace(first=1.0, second=1.0) for each in level)
    rates = _harmonic_rates(level, state, command, vehicle, environment)
    rates_leaning = _harmonic_rates(leaning, state, command, vehicle, environment)
    return tuple(
        each._replace(
            first=safe_divide(rate.first, rate.first - other.first),
            second=safe_divide(rate.second, rate.second - other.second),
        )
        for each, rate, other in zip(level, rates, rates_leaning, strict=True)
    )


def _rotor_drag(
    own: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    total, ratio = Wrench(), density_ratio(environment.air_density)
    for speed, flow, rotor in zip(state.rotor_speed, _flows(state, vehicle, environment), vehicle.rotors, strict=True):
        f_B = drag_of_rotor(speed, flow, vehicle["rotor_drag"]) * ratio
        total = add_wrenches(total, Wrench(f_B, cross(rotor.r_B, f_B)))
    return total


def _climb_losses(own: object, state: "State", vehicle: "Vehicle", environment: "Environment") -> tuple[RotorLoad, ...]:
    """The axial part of rotor_drag is the rotors' own thrust; the torque that turns them stays as it is."""
    ratio, flows = density_ratio(environment.air_density), _flows(state, vehicle, environment)
    return tuple(
        RotorLoad(climb_loss(speed, flow, vehicle["rotor_drag"]) * ratio, 0.0)
        for speed, flow in zip(state.rotor_speed, flows, strict=True)
    )


def _airspeed_moment(
    own: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    moment: AirspeedMoment = vehicle["airspeed_moment"]
    tau_B = ZERO
    for load, flow, rotor in zip(
        rotor_loads(state, vehicle, environment), _flows(state, vehicle, environment), vehicle.rotors, strict=True
    ):
        tau_B = tau_B + airspeed_moment(load.thrust, flow, rotor, environment.air_density, moment=moment)
    return Wrench(tau_B=tau_B)


def _rolling_moment(
    own: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    tau_B = ZERO
    for speed, flow in zip(state.rotor_speed, _flows(state, vehicle, environment), strict=True):
        tau_B = tau_B + rolling_moment(speed, flow, vehicle["rolling_moment"])
    return Wrench(tau_B=tau_B * density_ratio(environment.air_density))


def _rolling_by_spin(
    own: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    tau_B = ZERO
    for speed, flow, rotor in zip(state.rotor_speed, _flows(state, vehicle, environment), vehicle.rotors, strict=True):
        tau_B = tau_B + rolling_moment(speed, flow, vehicle["rolling_moment"]) * rotor.spin
    return Wrench(tau_B=tau_B * density_ratio(environment.air_density))


def _fading(own: object, state: "State", vehicle: "Vehicle", environment: "Environment") -> tuple[RotorLoad, ...]:
    """What fades is the thrust of a rotor at rest; the torque that turns it stays as it is."""
    ratio, flows = density_ratio(environment.air_density), _flows(state, vehicle, environment)
    return tuple(
        RotorLoad(faded_thrust(rotor_load(speed, rotor, ratio).thrust, flow, vehicle["thrust_fade"]), 0.0)
        for speed, flow, rotor in zip(state.rotor_speed, flows, vehicle.rotors, strict=True)
    )


def _rotor_flows(state: "State", vehicle: "Vehicle", environment: "Environment") -> tuple[_RotorFlow, ...]:
    """Every rotor's flow, from the states of rotor_air where it has some, else from the balance."""
    own = state.effects[vehicle.index("rotor_air")]
    flows, inflows = _flows(state, vehicle, environment), _inflows(own, state, vehicle, environment)
    harmonic = bool(own) and isinstance(own[0], HarmonicInflow)
    slopes = tuple(inflow_gradient(own[i], rotor) if harmonic else ZERO for i, rotor in enumerate(vehicle.rotors))
    return tuple(_RotorFlow(*each) for each in zip(flows, inflows, slopes, strict=True))


def _flapping(
    own: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    air: RotorAir = vehicle["rotor_air"]
    blades: Flapping = vehicle["flapping"]
    density = environment.air_density
    total = Wrench()
    for speed, seen, rotor in zip(
        state.rotor_speed, _rotor_flows(state, vehicle, environment), vehicle.rotors, strict=True
    ):
        tilt_B = disc_tilt(
            speed, seen.induced, seen.gradient_B, state.omega_B, seen.flow, rotor, air, density, blades=blades
        )
        f_B = flapping_force(speed, seen.induced, tilt_B, seen.flow, rotor, air, density)
        tau_B = cross(rotor.r_B, f_B) + hub_moment(speed, tilt_B, rotor, blades=blades)
        total = add_wrenches(total, Wrench(f_B, tau_B))
    return total


_AT_HUBS = ("hub_wind_W",)
MOMENTUM_AIR = Effect("rotor_air", wrench=_wrench, loads=_loads, role=Role.ROTOR_AIR, reads=_AT_HUBS, planned=False)
DYNAMIC_AIR = Effect(
    "rotor_air",
    initial=_uniform_start,
    derivative=_uniform_rates,
    wrench=_wrench,
    settled=_uniform_settled,
    loads=_loads,
    role=Role.ROTOR_AIR,
    reads=_AT_HUBS,
    planned=False,
)
DYNAMIC_AIR_3 = Effect(
    "rotor_air",
    initial=_harmonic_start,
    derivative=_harmonic_rates,
    wrench=_wrench,
    settled=_harmonic_settled,
    loads=_loads,
    role=Role.ROTOR_AIR,
    reads=_AT_HUBS,
    planned=False,
)
ROTOR_DRAG = Effect(
    "rotor_drag",
    wrench=_rotor_drag,
    more_loads=_climb_losses,
    role=Role.ROTOR_AIR,
    reads=_AT_HUBS,
    planned=False,
)
FLAPPING = Effect("flapping", wrench=_flapping, reads=_AT_HUBS, planned=False)
AIRSPEED_MOMENT = Effect("airspeed_moment", wrench=_airspeed_moment, reads=_AT_HUBS, planned=False)
ROLLING_MOMENT = Effect("rolling_moment", wrench=_rolling_moment, reads=_AT_HUBS, planned=False)
ROLLING_BY_SPIN = Effect("rolling_moment", wrench=_rolling_by_spin, reads=_AT_HUBS, planned=False)
THRUST_FADE = Effect("thrust_fade", more_loads=_fading, reads=_AT_HUBS, planned=False)
