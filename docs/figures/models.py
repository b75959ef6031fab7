"""Generate docs/explanation/models.md: equations as the code computes them, validity, sources, comparison with data.

`make gallery` writes it. Equations come from the functions, costs are counted; the table `MODELS` adds the other texts. A new
model is one entry of it.
"""

import inspect
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from tools.latex import Equation, equation
from tools.symbols import LETTERS, letter

from samara import Vec3, Vehicle, hover, switch_on, vehicle
from samara.compiler.trace.folding_tape import trace_program
from samara.core.atomic_files import write_text
from samara.physics import effect, multirotor
from samara.physics.air import (
    atmosphere,
    coaxial,
    downwash,
    drag,
    ground_effect,
    propwash,
    turbulence,
)
from samara.physics.effect import Effect
from samara.physics.ground import contact, impact, solids
from samara.physics.motion import body, gravity
from samara.physics.multirotor import derivative
from samara.physics.rotors import (
    actuator,
    airspeed_moment,
    battery,
    blade_element,
    flapping,
    imbalance,
    inflow,
    motor,
    propulsion,
    rotor,
    rotor_air_effects,
    thrust_curve,
    tilt,
)
from samara.physics.structure import arms, slung_load
from samara.physics.types import Command, State, initial_effects
from samara.vehicles.effects import OPTIONS

Function = Callable[..., Any]
MIN_MODELS_OF_A_COMMON_LETTER = 3  # models that use a letter before it moves to the head of the page


@dataclass(frozen=True)
class Line:
    """A function whose equation is printed; see `tools.latex.equation` for `call_letters` and `fixed`."""

    function: Function
    call_letters: dict[str, tuple[str, ...]] = field(default_factory=dict)
    fixed: dict[str, Any] = field(default_factory=dict)
    only: tuple[str, ...] = ()


@dataclass(frozen=True)
class Model:
    """One entry of the page.

    `described` are functions that iterate or loop; the first line of their docstring is printed instead of an equation.
    `effects` are the effects that switch the model on, each with parameters for an iris; None uses those of the iris.
    """

    title: str
    files: tuple[ModuleType, ...]
    lines: tuple[Function | Line, ...]
    valid: str
    source: str
    against: str
    described: tuple[Function, ...] = ()
    effects: tuple[tuple[Effect, Any], ...] = ()
    summary: str = ""  # default: the first paragraph of the first file


_LISTED_MODELS = (
    Model(
        "Rigid body",
        (body, effect, multirotor),
        (
            body.translational_acceleration,
            body.attitude_rate,
            body.angular_acceleration,
            body.body_velocity_rate,
            Line(body.euler_rates, fixed={"_GIMBAL_LOCK": 0.0}),
            body.kinetic_energy,
            body.angular_momentum,
            Line(effect.wrench_in_body_axes, only=("f_{B}'",)),
        ),
        "Any attitude and rate; Euler rates within |pitch| < 90°. The body does not bend.",
        "Newton's and Euler's laws; Hakoniwa for body velocities and Euler angles.",
        "Jacobi's elliptic functions for 10 s to 1e-8 (`test_tumbling_follows_jacobi_s_elliptic_functions`); "
        "real flights ([validation](../evidence/validation.md), `test_half_a_second_of_a_real_flight`).",
        described=(multirotor.derivative,),
        effects=((propulsion.COMMANDED_WRENCH, ()),),
    ),
    Model(
        "Gravity",
        (gravity,),
        (gravity.weight, gravity.gravity_acceleration, gravity.potential_energy),
        "Uniform within some kilometres, or falling off at any height.",
        "U.S. Standard Atmosphere (1976) for the radius.",
        "Its table, to the last digit (`test_gravity_falls_off_as_the_standard_atmosphere_tabulates_it`).",
        effects=((gravity.UNIFORM, None), (gravity.SPHERICAL, None)),
    ),
    Model(
        "Rotor",
        (rotor, propulsion),
        (
            rotor.rotor_load,
            rotor.rotor_wrench,
            rotor.rotor_angular_momentum,
            Line(rotor.rotor_momentum_torque, {"rotor_angular_momentum": ("h_B", r"\dot{h}_B")}),
            rotor.density_ratio,
            rotor.air_velocity,
            rotor.axial_speed,
            rotor.inflow_factor,
            rotor.inflow_factor_signed,
        ),
        "Still air, or nearly. The inflow factors are the NED simulator's; [a rotor in moving "
        "air](#a-rotor-in-moving-air) replaces them.",
        "The Crazyflie engine and NED simulator documents.",
        "The Crazyflie firmware's mixing (`test_the_crazyflie_firmware_allocates_what_our_rotors_produce`), "
        "angular momentum in free space (`test_spinning_up_in_free_space_conserves_angular_momentum`).",
        described=(propulsion.rotor_loads,),
        effects=((propulsion.ROTORS, None), (propulsion.ROTOR_MOMENTUM, None)),
    ),
    Model(
        "Motor and speed controller",
        (motor,),
        (
            motor.effective_duty,
            motor.motor_current,
            motor.limited_current,
            motor.motor_torque,
            motor.dc_motor_rate,
            motor.bus_load,
            motor.steady_current,
            motor.steady_duty,
        ),
        "DC motors, and brushless ones seen from their controller. No inductance, no heat.",
        "The NED simulator and Hakoniwa.",
        "Power balance to 1e-13 (`test_the_power_of_the_battery_is_rotor_power_plus_heat`). No bench data.",
    ),
    Model(
        "Actuator",
        (actuator,),
        (
            actuator.speed_from_command,
            actuator.saturate_speed,
            actuator.time_constant,
            actuator.lag_rate,
            actuator.lag_step,
            Line(actuator.scale_speed_range, only=(r"\Omega_{\mathrm{min}}", r"\Omega_{\mathrm{max}}")),
            actuator.input_power,
            actuator.second_order_rate,
        ),
        "A closed speed loop; on a battery its range scales with V/V_full. The power that speeds a rotor up "
        "is left out.",
        "The Crazyflie engine (lag) and NED simulator (second order) documents.",
        "Step responses, also through the rate limit "
        "(`test_the_rate_limit_turns_the_step_response_into_oscillation_line_oscillation`).",
        effects=((propulsion.SECOND_ORDER_ACTUATOR, actuator.SecondOrder(40.0, 0.7, 10.0)),),
    ),
    Model(
        "Battery",
        (battery, propulsion),
        (
            battery.open_circuit_voltage,
            battery.battery_source,
            battery.parallel_sources,
            battery.branch_current,
            battery.battery_rate,
        ),
        "Within the table, at one temperature. Two batteries are printed; any number may share the bus.",
        "Thévenin's equivalent with one R ∥ C.",
        "Kirchhoff's law (`test_the_bus_voltage_satisfies_kirchhoff_whatever_the_motors_do`), the NED "
        "simulator's cases (`test_ned_simulator_thevenin_case`). No discharge curves.",
        described=(propulsion.bus_voltage, battery.voltage_under_power),
        effects=((propulsion.THEVENIN_BATTERY, None), (propulsion.IDEAL_BATTERY, battery.Ideal(14.8))),
    ),
    Model(
        "Drag of the airframe",
        (drag,),
        (drag.drag_force, drag.damping_torque),
        "Linear indoors, quadratic beyond; no lift, no moment.",
        "The Crazyflie engine, NED simulator and Hakoniwa.",
        "Terminal velocity and ballistic flight "
        "(`test_terminal_velocity_with_both_is_the_root_of_the_quadratic`, `test_ballistic_flight_in_wind`).",
        effects=((drag.WORLD_AXES, None), (drag.BODY_AXES, None), (drag.ANGULAR, None)),
    ),
    Model(
        "Ground contact",
        (contact,),
        (
            contact.inversion_weight,
            contact.lower_end,
            contact.contact_point,
            contact.normal_force,
            contact.friction_force,
            Line(contact.grip_rate, fixed={"_FORGOTTEN": 0.0}),
        ),
        "A plane and a few stiff points, each the lower end of an edge along body z. The step must resolve them.",
        "Springs, dampers and Coulomb's friction with a spring that sticks.",
        "v²/2μg of a sliding block to 1e-8 m (`test_a_sliding_block_stops_after_v_squared_over_two_mu_g`), no "
        "creep on a slope (`test_a_vehicle_on_a_slope_of_10_degrees_does_not_creep`).",
        effects=((contact.COMPLIANT, None),),
    ),
    Model(
        "Impacts",
        (impact,),
        (
            impact.contact_velocity,
            impact.velocity_change,
            impact.angular_velocity_change,
            Line(impact.compliance, {"angular_velocity_change": (r"\Delta\omega_n",)}),
            Line(impact.velocity_after_bounce),
            Line(
                impact.collision_impulse,
                {"contact_velocity": ("v_c1", "v_c2"), "compliance": (r"\kappa_1", r"\kappa_2")},
            ),
            Line(impact.wall_impulse, {"compliance": (r"\kappa",)}),
            Line(
                impact.wall_impact_impulse,
                {
                    "contact_velocity": ("v_c", "v_c'"),
                    "wall_impulse": ("p_n",),
                    "_across": ("v_t",),
                    "compliance": (r"\kappa_t",),
                },
            ),
        ),
        "Rigid bodies that touch at one point. $\\Delta\\omega_n$ is the change by a unit impulse "
        "along the normal, $v_t$ the slip left after it.",
        "Newton's restitution and Coulomb's friction; frictionless as in Hakoniwa.",
        "20 000 random impacts never add energy and keep momentum "
        "(`test_ten_thousand_impacts_of_a_wall_never_add_energy`, "
        "`test_ten_thousand_impacts_between_bodies_never_add_energy_and_keep_momentum`).",
        described=(impact.impact_impulse,),
    ),
    Model(
        "Solids",
        (solids,),
        (
            Line(solids.plane_distance, only=("d",)),
            Line(solids.sphere_distance, only=("d",)),
            Line(solids.capsule_distance, only=("d",)),
            solids.nearest_disc_point,
        ),
        "Distance to the surface, negative inside; the normal is its gradient.",
        "Elementary geometry.",
        "A search over the solid (`test_distances_by_searching_the_solid`), no tunnelling at 20 m/s "
        "(`test_nothing_tunnels_at_twenty_metres_per_second`).",
        described=(solids.box_distance,),
    ),
    Model(
        "Standard atmosphere",
        (atmosphere,),
        (
            atmosphere.air_temperature,
            atmosphere.air_pressure,
            atmosphere.air_density,
            atmosphere.pressure_altitude,
            Line(atmosphere.density_at_height, {"air_density": (r"\rho(h + z)", r"\rho(h)")}),
        ),
        "Geopotential altitude from −1 to 20 km, dry air.",
        "U.S. Standard Atmosphere (1976).",
        "Its table, to the last digit (`test_the_standard_atmosphere_is_the_published_one`).",
    ),
    Model(
        "Inflow through all flow states",
        (inflow,),
        (
            inflow.hover_induced,
            Line(inflow._johnson, only=(r"\nu_{J}",)),
            Line(inflow.induced_velocity, {"induced_ratio": (r"\nu",)}, fixed={"_SLOWEST": -math.inf}),
            Line(inflow.mass_flow_speed, fixed={"_SLOWEST": -math.inf}),
            inflow.wake_skew,
        ),
        "Climb, hover, level flight, vortex ring (the mean), windmill brake.",
        "H. Glauert (1935); W. Johnson, NASA TM-81182 (1980); D. A. Peters, N. HaQuang (1988).",
        "The closed roots of climb and windmill (`test_climb_follows_the_root_of_its_quadratic`, "
        "`test_the_windmill_brake_follows_the_other_root`); in the ring up to 45 % below Leishman's quartic "
        "(`test_the_vortex_ring_is_near_johnsons_cubic_and_below_leishmans_quartic`).",
        described=(inflow.induced_ratio,),
    ),
    Model(
        "A rotor in moving air",
        (blade_element, rotor_air_effects),
        (
            blade_element.hub_flow,
            blade_element.blade_coefficients,
            blade_element.limited_cross_flow,
            blade_element.air_load,
            blade_element.in_plane_force,
            Line(blade_element.momentum_inflow, {"induced_velocity": (r"v\left(T\right)",)}),
            Line(blade_element.inflow_rate, {"hover_induced": ("v_h",), "mass_flow_speed": ("V_m",)}),
            Line(
                blade_element.gradient_rate,
                {
                    "hover_induced": ("v_h",),
                    "mass_flow_speed": ("V_m",),
                    "wake_skew": (r"\chi'",),
                    "inflow_gradient": ("g_B",),
                },
            ),
            Line(blade_element.inflow_gradient, {"disc_axes": ("e",)}),
            blade_element.axial_flow,
            blade_element.rotor_drag_force,
            blade_element.climb_loss,
        ),
        "Advance ratio up to about 0.3, held beyond 0.5; below stall; $\\theta$ below 0.5 rad. $\\chi'$ is "
        "the tangent of half the wake's skew.",
        "J. G. Leishman, *Principles of Helicopter Aerodynamics* (2006); D. M. Pitt, D. A. Peters, Vertica 5 (1981).",
        "The sum over blade elements (`test_thrust_torque_and_drag_are_the_sum_over_the_blade_elements`); level flow within "
        "4 % of Agilicious' model (`test_thrust_in_level_flow_of_a_racing_propeller_as_published`).",
        described=(
            blade_element.balanced_inflow,
            blade_element.disc_axes,
            blade_element.translating_flow,
            blade_element.translational_gain,
        ),
        effects=(
            (rotor_air_effects.ROTOR_DRAG, blade_element.RotorDrag(1e-5, 1e-5)),
            (rotor_air_effects.TRANSLATIONAL_LIFT, blade_element.RotorAir(0.1)),
            (rotor_air_effects.DYNAMIC_AIR, blade_element.RotorAir(0.1)),
            (rotor_air_effects.DYNAMIC_AIR_3, blade_element.RotorAir(0.1)),
            (rotor_air_effects.MOMENTUM_AIR, blade_element.RotorAir(0.1)),
        ),
    ),
    Model(
        "Flapping",
        (flapping, rotor_air_effects),
        (
            flapping.hub_stiffness,
            flapping.lock_number,
            flapping._flap_damping,
            flapping.coning,
            Line(flapping.disc_tilt, {"hub_stiffness": ("K",), "_flap_damping": (r"\Gamma",), "coning": ("a_0",)}),
            flapping.flapping_force,
            flapping.hub_moment,
        ),
        "First harmonic, first order in the advance ratio, settled within a turn.",
        "A. R. S. Bramwell, *Helicopter Dynamics* (2001).",
        "The blade's differential equation (`test_a_blade_that_is_left_to_flap_settles_on_this_lean`). It "
        "explains a third of a Crazyflie's [moment](../evidence/validation.md#the-missing-moment).",
        effects=((rotor_air_effects.FLAPPING, flapping.Flapping(2.0, 2e-5, 0.0, 1.0)),),
    ),
    Model(
        "Rotors that tilt",
        (tilt,),
        (tilt.tilted_axis, tilt.servo_target, tilt.servo_command, tilt.servo_rate, tilt.tilting_torque),
        "Hinges across the rotor's axis, through its hub; a strong servo. The inertia of motor and mount is left out.",
        "Conservation of angular momentum; a servo as a rate-limited lag.",
        "None; a tricopter's trim and angular momentum in a vacuum (`test_tilt.py`).",
        effects=((tilt.TILT, ()),),
    ),
    Model(
        "Moment of airspeed",
        (airspeed_moment, rotor_air_effects),
        (
            airspeed_moment.wake_speed,
            Line(airspeed_moment.airspeed_moment, {"hover_induced": ("v_h",), "wake_speed": ("W",)}),
        ),
        "Empirical: airspeeds up to the induced velocity in hover, outside the vortex ring; coefficients "
        "belong to an airframe.",
        "Its form is ours: the tangent of the wake's skew, times thrust and arm.",
        "Seven flights of a Crazyflie ([validation](../evidence/validation.md#the-missing-moment)); "
        "limits (`test_with_equal_coefficients_it_turns_with_the_axes`, `test_it_falls_with_climb`).",
        effects=((rotor_air_effects.AIRSPEED_MOMENT, airspeed_moment.AirspeedMoment(0.13, 0.13)),),
    ),
    Model(
        "Rotors of Gazebo",
        (airspeed_moment, rotor_air_effects),
        (airspeed_moment.rolling_moment, airspeed_moment.thrust_fade_loss),
        "For aircraft that come from Gazebo; no law of nature. gz-sim's moment has one sign for all rotors, "
        "Gazebo Classic's that of the spin.",
        "P. Martin, E. Salaün, ICRA 2010; gz-sim's `MulticopterMotorModel`, PX4's `gazebo_motor_model`.",
        "The published equations in decimal arithmetic (`test_ten_operating_points_are_those_of_gazebo`).",
        effects=(
            (rotor_air_effects.ROLLING_MOMENT, airspeed_moment.RollingMoment(1e-6)),
            (rotor_air_effects.ROLLING_BY_SPIN, airspeed_moment.RollingMoment(1e-6)),
            (rotor_air_effects.THRUST_FADE, airspeed_moment.ThrustFade(25.0)),
        ),
        summary="What Gazebo's motor models have besides kF Ω², kM Ω² and rotor drag: a rolling moment, and thrust that "
        "fades with climb.",
    ),
    Model(
        "Thrust curve",
        (thrust_curve,),
        (thrust_curve.curve_load, thrust_curve.thrust_gain),
        "Near the speeds and voltages of the fit. Controllers use $k_F$ alone.",
        "Polynomials of thrust stands; an empirical voltage correction.",
        "A published polynomial of a brushless Crazyflie (`test_a_thrust_stands_polynomial_is_met_at_every_speed`).",
        effects=(
            (thrust_curve.THRUST_CURVE, thrust_curve.ThrustCurve(0.2, 468.0)),
            (thrust_curve.THRUST_SCALE, thrust_curve.ThrustScale(0.09, 16.0)),
        ),
    ),
    Model(
        "Ground and ceiling effect",
        (ground_effect,),
        (
            ground_effect.height_above_plane,
            ground_effect.image_inflow,
            ground_effect.fountain_inflow,
            ground_effect.thrust_ratio,
            ground_effect.cheeseman_bennett,
            ground_effect.ceiling_ratio,
        ),
        "Hover and slow flight; held below half a radius.",
        "I. C. Cheeseman, W. E. Bennett (1955); P. Sanchez-Cuevas, G. Heredia, A. Ollero (2017); Y. H. Hsiao, "
        "P. Chirarattananon (2019).",
        "A Crazyflie over the floor (Shi and others, 2021): 0.54 g RMSE, 1.50 g without "
        "(`test_a_real_crazyflie_over_the_floor`). The ceiling: momentum theory only.",
        effects=(
            (ground_effect.GROUND_EFFECT, ground_effect.GroundEffect()),
            (ground_effect.CEILING_EFFECT, ground_effect.Ceiling(Vec3(0.0, 0.0, 3.0))),
        ),
    ),
    Model(
        "Downwash",
        (downwash,),
        (downwash.jet_width, downwash.jet_flux, downwash.flux_velocity, downwash.disc_force, downwash.body_force),
        "Hover or slow flight, at least one rotor radius apart along the jet.",
        "H. Reichardt's hypothesis; S. B. Pope, *Turbulent Flows* (2000).",
        "Two Crazyflies (Shi and others, 2021): 0.71 g RMSE with nothing fitted, 0.46 g fitted, 3.69 g "
        "without (`test_two_real_crazyflies_above_each_other`).",
        described=(downwash.rotor_jet, downwash.downwash_wrench),
        effects=((downwash.DOWNWASH, downwash.Downwash()),),
    ),
    Model(
        "Propwash",
        (propwash,),
        (
            Line(propwash.wake_flow, fixed={"_SLOWEST": -math.inf}),
            propwash.download,
            propwash.ring_strength,
            Line(
                propwash.gust_deviation, {"hover_induced": ("v_h",), "ring_strength": ("b",)}, {"_SLOWEST": -math.inf}
            ),
            Line(propwash.gust_time, {"hover_induced": ("v_h",)}, {"_SLOWEST": -math.inf}),
        ),
        "Climb to windmill; surfaces right below a rotor. Gusts: strength and time only.",
        "Momentum theory's vortex tube; J. Stack, F. X. Caradonna, Ö. Savaş (2004); J. G. Leishman (2006).",
        "Measured peak-to-peak thrust of 95 % sets the strength "
        "(`test_the_usual_strength_is_the_peak_to_peak_thrust_that_was_measured`).",
        effects=((propwash.PROPWASH, propwash.Propwash(0.01, 0.05)),),
    ),
    Model(
        "Coaxial rotors",
        (coaxial,),
        (coaxial.wake_radius,),
        "Hover, climb, slow flight; discs more than half a radius apart. The suction of the lower rotor on "
        "the upper one is left out. Four pairs take 1900 instructions.",
        "Momentum theory; J. G. Leishman, S. Ananthan (2006): 1.28 of the induced power of two rotors apart, "
        "here 1.31.",
        "An X8 takes 29 % more power (measured 20 to 28 %), its lower rotors give 32 % less thrust (25 to 35 "
        "%) (`test_an_x8_loses_what_was_measured`).",
        described=(coaxial.overlap_fraction, coaxial.incident_wake, coaxial.wake_loss),
        effects=((coaxial.COAXIAL, coaxial.Coaxial(0.1)),),
    ),
    Model(
        "Arms that bend",
        (arms,),
        (
            arms.modal_mass,
            arms.coupling_mass,
            arms.coupling_moment,
            arms.bending_spring,
            arms.twisting_spring,
            arms.bending_frequency,
            arms.tip_displacement,
            arms.tip_rotation,
            Line(arms.arm_reaction, {"tip_place": ("w_B", r"\dot{w}_B")}),
        ),
        "One bending mode in each direction and one twist per arm, small deflections; the step must resolve them.",
        "Static shape of a cantilever with a tip load (assumed modes).",
        "The exact cantilever (`test_the_first_frequency_is_the_exact_beams`), masses on springs "
        "(`test_masses_on_springs_in_the_world_fly_the_same_way`). No measured arm.",
        described=(arms.arm_modes, arms.added_inertia, arms.coupled_motion),
        effects=((arms.ARMS, arms.Arms(0.05, 0.02, 1e-5, 10.0, 10.0, 5.0)),),
    ),
    Model(
        "Rotors that shake",
        (imbalance,),
        (Line(imbalance.unbalance_force, {"disc_axes": ("e",)}), imbalance.ripple_force),
        "Steps of at most 1.3 rad of a turn.",
        "A rotating mass; two blades that pass their arm.",
        "The common centre of mass stays (`test_the_common_mass_centre_stays`); the accelerometer's line "
        "(`test_a_rigid_body_hears_the_rotor_at_its_speed`).",
        effects=((imbalance.IMBALANCE, imbalance.Imbalance((1e-6, 1e-6, 1e-6, 1e-6), 0.02)),),
    ),
    Model(
        "Slung load",
        (slung_load,),
        (
            slung_load.cable_rate,
            slung_load.cable_tension,
            slung_load.load_drag,
            slung_load.load_position,
            slung_load.hanging_cable,
            Line(slung_load.attachment_wrench, only=(r"\tau_{B}",)),
        ),
        "A point mass on a massless cable, outside the rotors' wake.",
        "Hooke's law; drag of a blunt body.",
        "A pendulum (`test_below_a_very_heavy_body_the_load_is_a_pendulum`), a rigid cable "
        "(`test_a_stiff_cable_is_a_rigid_one_within_its_stretch`). No flights.",
        effects=((slung_load.SLUNG_LOAD, slung_load.SlungLoad(0.2, 1.0, 500.0, 5.0)),),
    ),
    Model(
        "Pushes from outside",
        (downwash,),
        (),
        "Forces that the world computes once per step and holds, such as downwash.",
        "Forces add.",
        "A sum: nothing to measure.",
        described=(downwash.sum_wrenches,),
        effects=((downwash.EXTERNAL_WRENCH, ()),),
        summary="External forces: forces and torques from the world, constant through one step of a vehicle.",
    ),
    Model(
        "Turbulence",
        (turbulence,),
        (
            turbulence.turbulence_lengths,
            turbulence.turbulence_deviations,
            turbulence.dryden_longitudinal_spectrum,
            turbulence.dryden_transverse_spectrum,
            turbulence.von_karman_longitudinal_spectrum,
            turbulence.von_karman_transverse_spectrum,
            turbulence.transverse_gust,
        ),
        "From 3 m to some kilometres over flat land; each drone has its own gusts.",
        "MIL-HDBK-1797; H. L. Dryden; T. von Kármán.",
        "Discrete filters within 0.01 dB (Dryden) and 0.14 dB (von Kármán) over three decades "
        "(`test_the_spectrum_of_the_discrete_filter_is_the_formula`). No measured wind.",
        described=(turbulence.transverse_step, turbulence.flown_distance),
    ),
    Model(
        "Boundary layer",
        (atmosphere,),
        (atmosphere.power_law, atmosphere.log_law),
        "The mean wind over flat land, to about 100 m.",
        "The power law (exponent 1/7) and the logarithmic law of the wall.",
        "Closed forms only (`test_boundary_layers`).",
        summary="The mean wind near the ground: it grows with height, by a power law or by the logarithm.",
    ),
)


def _derived_models() -> Iterator[Model]:
    """Create an entry for every optional effect that has none above, from the docstring of its module.

    The docstring starts with a sentence and has paragraphs that start with "Valid:", "Source:" and "Against data:".
    """
    listed = {id(known_effect) for model in _LISTED_MODELS for known_effect, _ in model.effects}
    for name, option in OPTIONS.items():
        effects = [option_effect for option_effect in option.models.values() if id(option_effect) not in listed]
        if effects and option.record.__module__.startswith("samara.physics."):
            parameters = switch_on(vehicle("iris"), name, **({} if option.has_completion else option.example))[name]
            file = sys.modules[option.record.__module__]
            functions = [
                member
                for member in vars(file).values()
                if inspect.isfunction(member) and member.__module__ == file.__name__
            ]
            lines = tuple(member for member in functions if not member.__name__.startswith("_"))
            valid, source, against = (_paragraph(file, key) for key in ("Valid", "Source", "Against data"))
            title, cost_effects = (
                name.replace("_", " ").capitalize(),
                tuple((option_effect, parameters) for option_effect in effects),
            )
            yield Model(title, (file,), lines, valid, source, against, effects=cost_effects)


def _paragraph(file: ModuleType, key: str) -> str:
    """Return a paragraph of a module's docstring without its keyword."""
    for paragraph in (inspect.getdoc(file) or "").split("\n\n"):
        if paragraph.startswith(f"{key}:"):
            return " ".join(paragraph.removeprefix(f"{key}:").split())
    raise ValueError(f"{file.__name__}: no paragraph '{key}:' in the docstring; expected one")


MODELS = (*_LISTED_MODELS, *_derived_models())
"""Every entry of the page."""

BLADE_SECTION = """## Blade element momentum theory

From the shape of a blade to CT, CP and CH: [`propeller/bem.py`](../../src/samara/propeller/bem.py).
[A rotor's air](rotor.md#from-the-shape-of-a-blade) has its equations and its errors for 79 measured propellers
(`test_every_measured_propeller_with_a_known_blade`).
"""

HEAD = r"""# Models

Look up the equations of every model as the code computes them, where they hold, their sources, and how they compare with
data. [`docs/figures/models.py`](../figures/models.py) generates this page from the functions of
[`samara.physics`](../../src/samara/physics), and a test compares every printed line with its function at random points.

- **Guards are left out**: $a/b$ stands for `safe_divide`, $\sqrt{x}$ for `safe_sqrt`, $n/|n|$ for `direction`, which are zero
  with finite slopes at $b=0$, $x \le 0$ and $n=0$, and thresholds near zero.
- **Subscripts** name frames: $W$ world (east, north, up), $B$ body (forward, left, up); $i$ stands for $x, y, z$. $R_{WB}$
  turns body axes into world axes, $\circ$ multiplies axis by axis, $\otimes$ is Hamilton's product. $\xi$ is a part of the
  lines below it.
- A function that another line calls with arguments of the same names appears there as its letter.
- **Cost** is the number of instructions that an effect adds to the derivative of an iris, which has BASE with its own effects
  and without its inflow factor.

LETTERS
"""


def model_lines(model: Model) -> list[Line]:
    """Return the lines of a model, with plain functions converted to lines."""
    return [line if isinstance(line, Line) else Line(line) for line in model.lines]


def known_functions() -> frozenset[Function]:
    """Return the functions with a line on the page."""
    return frozenset(line.function for model in MODELS for line in model_lines(model))


def line_equation(line: Line) -> Equation:
    """Return the equation of a line, as the page prints it."""
    return equation(
        line.function, known_functions=known_functions(), call_letters=line.call_letters, only=line.only, **line.fixed
    )


# Costs -------------------------------------------------------------------------------------------------------------


@cache
def instructions(model: Vehicle) -> int:
    """Count the instructions of a vehicle's derivative."""
    state, command = _hovering()
    state = state._replace(effects=initial_effects(model))
    return len(trace_program(lambda s, u: (derivative(s, u, model),), state, command).instructions)


@cache
def _hovering() -> tuple[State, Command]:
    return hover(vehicle("iris"))


@cache
def iris() -> Vehicle:
    """Return the iris without its inflow factor, which rotors in moving air replace."""
    model = vehicle("iris")
    return replace(model, structure=replace(model.structure, inflow=None))


def cost(added_effect: Effect, parameters: Any, base: Vehicle) -> int:
    """Count the instructions that an effect adds to a vehicle without it."""
    effect_parameters = base[added_effect.name] if parameters is None else parameters
    bare = base.without_effect(added_effect.name) if base.has(added_effect.name) else base
    return instructions(bare.with_effect(added_effect, effect_parameters)) - instructions(bare)


def costs(model: Model) -> Iterator[str]:
    """Yield `effect` +instructions for each effect of a model."""
    for model_effect, parameters in model.effects:
        base = iris()
        if model_effect is rotor_air_effects.FLAPPING:
            base = base.with_effect(rotor_air_effects.DYNAMIC_AIR, blade_element.RotorAir(0.1))
        yield f"`{effect_constant(model_effect, model)}` {cost(model_effect, parameters, base):+d}"


def effect_constant(model_effect: Effect, model: Model) -> str:
    """Return the name of an effect's constant in the files of its model, such as `drag.WORLD_AXES`."""
    for file in (*model.files, propulsion):
        for name, value in vars(file).items():
            if value is model_effect:
                return f"{_stem(file)}.{name}"
    raise ValueError(f"the effect {model_effect.name!r} is in no file of the model {model.title!r}")


def _stem(file: ModuleType) -> str:
    return file.__name__.rpartition(".")[2]


# The page ----------------------------------------------------------------------------------------------------------


def page() -> str:
    """Return the text of docs/explanation/models.md."""
    meanings = {model.title: letter_meanings([line_equation(line) for line in model_lines(model)]) for model in MODELS}
    count = Counter(item for by_letter in meanings.values() for item in by_letter.items())
    common = {item for item, models in count.items() if models >= MIN_MODELS_OF_A_COMMON_LETTER}
    head = HEAD.replace("BASE", str(instructions(iris())))
    head = head.replace("LETTERS", f"Letters used throughout: {_letter_list(sorted(common))}.")
    sections = [section(model, dict(meanings[model.title].items() - common)) for model in MODELS]
    sections.insert(1 + [model.title for model in MODELS].index("Flapping"), BLADE_SECTION)
    return "\n".join((head, *sections))


def section(model: Model, own_letters: dict[str, str]) -> str:
    """Return the section of one model: summary, equations, its own letters, validity, source and cost."""
    paths = [file.__name__.replace(".", "/").removeprefix("samara/") + ".py" for file in model.files]
    links = [f"[`{path}`](../../src/samara/{path})" for path in paths]
    paragraph = model.summary or (inspect.getdoc(model.files[0]) or "").partition("\n\n")[0].replace("\n", " ")
    sentence = _without_title(paragraph.partition(". ")[0].removesuffix("."), model.title)
    parts = [f"## {model.title}", f"{sentence}. {', '.join(links)}"]
    equations = [line_equation(line) for line in model_lines(model)]
    if equations:
        parts.append("```math\n\\begin{aligned}\n" + "\\\\\n".join(_rows(equations)) + "\n\\end{aligned}\n```")
    parts.append("\n".join(f"- `{function.__name__}`: {_docstring(function)}" for function in model.described))
    parts.append(_letter_list(sorted(own_letters.items())))
    facts = [f"- **Valid**: {model.valid}", f"- **Source**: {model.source}", f"- **Against data**: {model.against}"]
    if model.effects:
        facts.append(f"- **Cost**: {', '.join(costs(model))}")
    parts.append("\n".join(facts))
    return "\n\n".join(text for text in parts if text) + "\n"


def _without_title(sentence: str, title: str) -> str:
    """Return a sentence without the title of its section before a colon, such as "Downwash: "."""
    start, _, remainder = sentence.partition(": ")
    is_title = bool(remainder) and start.lower().removeprefix("a ").removeprefix("the ") == title.lower()
    return remainder[0].upper() + remainder[1:] if is_title else sentence


def _docstring(function: Function) -> str:
    return (inspect.getdoc(function) or "").partition("\n")[0]


def _rows(equations: list[Equation]) -> Iterator[str]:
    for row_equation in equations:
        name = r"{\scriptsize\mathtt{" + row_equation.function.__name__.replace("_", r"\_") + "}}"
        for left, right in row_equation.rows:
            row = re.sub(r" ([-+&=<>]) ", r"\1", f"{name}&&{left}&={right}").replace(", ", ",")
            yield re.sub(r" (\\times|\\cdot|\\circ|\\otimes) ", r"\1 ", row)
            name = ""


def letter_meanings(equations: list[Equation]) -> dict[str, str]:
    """Return the letters with their names and units in the code, and the constants with their values."""
    meanings: dict[str, str] = {}
    for letter_equation in equations:
        for name, meaning in letter_equation.printed_meanings.items():
            unit = "" if meaning.unit in ("", "1") else f"[{meaning.unit.replace('^2', '²').replace('^3', '³')}]"
            code = meaning.name.rpartition(".")[2].partition("[")[0]
            is_obvious = code not in LETTERS and "_" in code and name == letter(code)
            meanings.setdefault(name, unit if is_obvious else f"`{code}` {unit}".strip())
        meanings |= {
            name: f"= {value:.9g}"
            for name, value in letter_equation.constants.items()
            if name in letter_equation.letters
        }
    return {name: meaning for name, meaning in meanings.items() if meaning}


def _letter_list(meanings: Iterable[tuple[str, str]]) -> str:
    """Return the letters with their meanings; those of one meaning share it."""
    names: dict[str, list[str]] = {}
    for name, meaning in meanings:
        names.setdefault(meaning, []).append(f"${name}$")
    return "; ".join(f"{', '.join(group)} {meaning}" for meaning, group in names.items())


if __name__ == "__main__":
    write_text(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/explanation/models.md"), page())
