"""Physics of a multirotor: pure functions of scalars, one module per phenomenon, and `derivative`, their sum."""

from samara.core.lazy_import import lazy_attributes as _lazily
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

__all__ = [
    "CALM",
    "Actuation",
    "Box",
    "Capsule",
    "Command",
    "Contact",
    "Damping",
    "DcMotor",
    "Drag",
    "Effect",
    "Environment",
    "Flapping",
    "Gravity",
    "Ground",
    "Ideal",
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
    "derivative",
    "state_at_rest",
    "step",
    "wrench",
    "wrench_breakdown",
]  # fmt: skip

__getattr__, __dir__ = _lazily(__name__, __path__)
