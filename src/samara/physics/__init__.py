"""Physics of a multirotor: pure functions of scalars, one module per phenomenon, and `derivative`, their sum."""

from typing import TYPE_CHECKING

from samara.core.lazy_import import lazy_exports
from samara.physics.air.atmosphere import air_density, air_pressure
from samara.physics.air.drag import Damping, Drag
from samara.physics.effect import Actuation, Effect, Role, Wrench
from samara.physics.ground.contact import Contact, Ground, Surface
from samara.physics.ground.impact import Material
from samara.physics.ground.solids import Box, Capsule, Sphere
from samara.physics.motion.gravity import Gravity
from samara.physics.multirotor import derivative, state_at_rest, step, wrench, wrench_breakdown
from samara.physics.rotors.actuator import Lag, SecondOrder
from samara.physics.rotors.battery import Ideal, Thevenin
from samara.physics.rotors.blade_element import RotorAir, RotorDrag
from samara.physics.rotors.flapping import Flapping
from samara.physics.rotors.motor import DcMotor
from samara.physics.rotors.rotor import Rotor, RotorLoad
from samara.physics.rotors.tilt import Servo
from samara.physics.types import CALM, Command, Environment, Reference, State, Structure, Vehicle

if TYPE_CHECKING:
    from samara.physics.air.downwash import Downwash, DownwashReceiver, Jet, downwash_wrench
    from samara.physics.air.ground_effect import GROUND_EFFECT, GroundEffect, max_rotor_distance
    from samara.physics.air.propwash import ring_strength
    from samara.physics.air.turbulence import VON_KARMAN, dryden_longitudinal_spectrum, von_karman_longitudinal_spectrum
    from samara.physics.frames import (
        Geodetic,
        altitude_from_ned,
        attitude_enu_flu_from_ned_frd,
        attitude_ned_frd_from_enu_flu,
        enu_from_geodetic,
        enu_from_ned,
        euler_enu_from_ned,
        euler_ned_from_enu,
        flu_from_frd,
        frd_from_flu,
        geodetic_from_enu,
        ned_from_enu,
        state_enu_flu_from_ned_frd,
        state_ned_frd_from_enu_flu,
        wind_enu_from_direction,
        wind_ned_from_direction,
        wrench_enu_flu_from_ned_frd,
        wrench_ned_frd_from_enu_flu,
        yaw_enu_from_ned,
        yaw_from_quat,
        yaw_ned_from_enu,
    )
    from samara.physics.rotors.inflow import hover_induced, induced_ratio, induced_velocity
    from samara.physics.rotors.rotor import inflow_factor, inflow_factor_signed
    from samara.physics.rotors.rotor_air_effects import DYNAMIC_AIR, FLAPPING
else:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "CALM",
    "DYNAMIC_AIR",
    "FLAPPING",
    "GROUND_EFFECT",
    "VON_KARMAN",
    "Actuation",
    "Box",
    "Capsule",
    "Command",
    "Contact",
    "Damping",
    "DcMotor",
    "Downwash",
    "DownwashReceiver",
    "Drag",
    "Effect",
    "Environment",
    "Flapping",
    "Geodetic",
    "Gravity",
    "Ground",
    "GroundEffect",
    "Ideal",
    "Jet",
    "Lag",
    "Material",
    "Reference",
    "Role",
    "Rotor",
    "RotorAir",
    "RotorDrag",
    "RotorLoad",
    "SecondOrder",
    "Servo",
    "Sphere",
    "State",
    "Structure",
    "Surface",
    "Thevenin",
    "Vehicle",
    "Wrench",
    "air_density",
    "air_pressure",
    "altitude_from_ned",
    "attitude_enu_flu_from_ned_frd",
    "attitude_ned_frd_from_enu_flu",
    "derivative",
    "downwash_wrench",
    "dryden_longitudinal_spectrum",
    "enu_from_geodetic",
    "enu_from_ned",
    "euler_enu_from_ned",
    "euler_ned_from_enu",
    "flu_from_frd",
    "frd_from_flu",
    "geodetic_from_enu",
    "hover_induced",
    "induced_ratio",
    "induced_velocity",
    "inflow_factor",
    "inflow_factor_signed",
    "max_rotor_distance",
    "ned_from_enu",
    "ring_strength",
    "state_at_rest",
    "state_enu_flu_from_ned_frd",
    "state_ned_frd_from_enu_flu",
    "step",
    "von_karman_longitudinal_spectrum",
    "wind_enu_from_direction",
    "wind_ned_from_direction",
    "wrench",
    "wrench_breakdown",
    "wrench_enu_flu_from_ned_frd",
    "wrench_ned_frd_from_enu_flu",
    "yaw_enu_from_ned",
    "yaw_from_quat",
    "yaw_ned_from_enu",
]
