"""Vehicles drawn at random about any vehicle, in terms that do not depend on its size, and pushes that it does not know of.

The terms and their ranges are those of two papers; their order is RAPTOR's (thrust to weight, then the mass by way of
the size, then the torque to inertia, which the inertia is made to fit):

J. Eschmann, D. Albani, G. Loianno, "Learning to fly in seconds", IEEE Robotics and Automation Letters 9, 2024 (L2F).
J. Eschmann, D. Albani, G. Loianno, "RAPTOR: a foundation policy for quadrotor control", 2025.
"""

import math
from functools import lru_cache
from typing import NamedTuple

from samara.core.algebra import ZERO, Mat3, Vec3
from samara.core.ops import cos, exp, maximum, sin, sqrt
from samara.core.quantity import Scalar
from samara.learn.task import Craft, Draw, Tree
from samara.physics.air.downwash import PUSHED
from samara.physics.effect import Wrench
from samara.physics.multirotor import steady_command
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.rotor import Rotor
from samara.physics.types import CALM, Environment, Vehicle
from samara.vehicles.trim import thrust_to_weight

Range = tuple[float, float]


class Drawn(NamedTuple):
    """What one drone has of its own: factors to the numbers of the vehicle's file, lags [s], and a steady push."""

    mass: Scalar = 1.0
    thrust: Scalar = 1.0  # kF
    torque: Scalar = 1.0  # kM
    arm: Scalar = 1.0
    inertia: Scalar = 1.0
    drag: Scalar = 1.0  # of what the air does to the body, beside its own growth with mass and inertia
    rise: Scalar = ()
    fall: Scalar = ()
    idle: Scalar = ()
    push: Tree = ()
    wind_W: Tree = ()


class Ranges(NamedTuple):
    """From the least to the most of each, drawn evenly for every episode; None is as in the vehicle's file

    `mass` [kg] is drawn by the cube root, evenly in size, and the arms follow the size but for a factor of
    e^(± `size_deviation`). `torque_to_inertia` [rad/s²] is the thrust of one rotor at its limit, times its distance
    from the centre, over Jxx. `torque_to_thrust` [m] is kM/kF. `lag_rise`, `lag_fall` [s] and `idle`, a factor to the
    slowest speed, are for motors with a lag. `drag` is a factor.
    `force` and `torque` are the standard deviations of a steady push, over the weight and over weight times arm;
    `force_spare` that of a force over the thrust that is to spare, times three. `wind` [m/s] is its standard deviation
    along each axis.
    """

    thrust_to_weight: Range | None = None
    mass: Range | None = None
    size_deviation: float = 0.0
    torque_to_inertia: Range | None = None
    torque_to_thrust: Range | None = None
    lag_rise: Range | None = None
    lag_fall: Range | None = None
    idle: Range | None = None
    drag: Range | None = None
    force: float = 0.0
    torque: float = 0.0
    force_spare: float = 0.0
    wind: float = 0.0

    def draw(self, draw: Draw, craft: Craft) -> Drawn:
        """The numbers of one drone"""
        own, rotor = craft.nominal, craft.nominal.rotors[0]
        weight, reach = own.mass * own["gravity"].acceleration, math.hypot(rotor.r_B.x, rotor.r_B.y)
        usual = _thrust_to_weight(own)
        ratio = _evenly(draw, self.thrust_to_weight, usual)
        size = _evenly(draw, self.mass and _cube_roots(self.mass), own.mass ** (1.0 / 3.0)) / own.mass ** (1.0 / 3.0)
        arm = size * exp(draw.uniform(-self.size_deviation, self.size_deviation)) if self.size_deviation else size
        mass = size * size * size
        thrust = mass * (ratio / usual)
        turn = usual * weight / len(own.rotors) * reach / own.inertia_B.xx
        inertia: Scalar = mass * arm * arm
        if self.torque_to_inertia is not None:
            inertia = thrust * arm * turn / _evenly(draw, self.torque_to_inertia, turn)
        lever = rotor.k_torque / rotor.k_thrust
        return Drawn(
            mass,
            thrust,
            thrust * (_evenly(draw, self.torque_to_thrust, lever) / lever),
            arm,
            inertia,
            _evenly(draw, self.drag, 1.0),
            _evenly(draw, self.lag_rise, ()),
            _evenly(draw, self.lag_fall, ()),
            _evenly(draw, self.idle, ()),
            self._push(draw, mass * weight, arm * reach, ratio),
            _normals(draw, self.wind) if self.wind else (),
        )

    def _push(self, draw: Draw, weight: Scalar, reach: Scalar, ratio: Scalar) -> Tree:
        if not (self.force or self.torque or self.force_spare):
            return ()
        spread: Scalar = self.force
        if self.force_spare:
            spread = spread + draw.uniform(0.0, self.force_spare) * maximum(ratio - 1.0, 0.0) / 3.0
        force_W = _normals(draw, spread * weight)
        return force_W, _normals(draw, self.torque * weight * reach) if self.torque else ZERO

    def apply(self, drawn: Drawn, craft: Craft) -> tuple[Craft, Environment]:
        """The craft of those numbers, and what surrounds it"""
        return applied(drawn, craft)


class Inertial(NamedTuple):
    """Mass and inertia that are not quite those of the file, by up to these shares; the rotors are. A steady `wind` of up to so
    much [m/s] comes from anywhere on the horizon."""

    mass: float = 0.1
    inertia: float = 0.1
    wind: float = 0.0

    def draw(self, draw: Draw, craft: Craft) -> Drawn:
        """Two factors, and a wind"""
        own = Drawn(
            mass=draw.uniform(1.0 - self.mass, 1.0 + self.mass),
            inertia=draw.uniform(1.0 - self.inertia, 1.0 + self.inertia),
        )
        if not self.wind:
            return own
        speed, angle = draw.uniform(0.0, self.wind), draw.uniform(0.0, 2.0 * math.pi)
        return own._replace(wind_W=Vec3(speed * cos(angle), speed * sin(angle), 0.0))

    def apply(self, drawn: Drawn, craft: Craft) -> tuple[Craft, Environment]:
        """The craft of those numbers, and the air about it"""
        return applied(drawn, craft)


L2F = Ranges(force=1.0 / 20.0, torque=1e-4 / math.hypot(0.028, 0.028))
"""The disturbances of L2F: standard deviations of 1/20 of the weight, and of the weight times 0.1 mm on its arms of 39.6 mm."""

RAPTOR = Ranges(
    thrust_to_weight=(1.5, 5.0),
    mass=(0.02, 5.0),
    size_deviation=0.1,
    torque_to_inertia=(40.0, 1200.0),
    torque_to_thrust=(0.005, 0.05),
    lag_rise=(0.03, 0.1),
    lag_fall=(0.03, 0.3),
    force_spare=0.3,
)
"""The quadrotors of RAPTOR, 20 g to 5 kg."""

FOUR_DECADES = RAPTOR._replace(mass=(0.001, 10.0), drag=(0.5, 2.0))
"""RAPTOR's from 1 g to 10 kg, with up to twice the drag or half of it."""


def applied(drawn: Drawn, craft: Craft) -> tuple[Craft, Environment]:
    """The craft of those numbers, and what surrounds it; its trim is that of rotors whose thrust is kF Ω²"""
    vehicle = grown(drawn, craft.vehicle)
    faster = sqrt(drawn.mass / drawn.thrust)
    trim = craft.trim._replace(rotor_speed=tuple(speed * faster for speed in craft.trim.rotor_speed))
    command = steady_command(trim, vehicle)
    environment = CALM._replace(wind_W=drawn.wind_W) if drawn.wind_W else CALM
    if drawn.push:
        force_W, tau_B = drawn.push
        vehicle, trim = vehicle.with_effect(PUSHED), trim._replace(effects=(*trim.effects, ()))
        environment = environment._replace(pushes=(Wrench(f_W=force_W, tau_B=tau_B),))
    return craft._replace(vehicle=vehicle, trim=trim, command=command), environment


def grown(drawn: Drawn, vehicle: Vehicle) -> Vehicle:
    """Every number of the vehicle as it follows from the drawn ones; what the air takes keeps its time constant

    The moment of airspeed, like all that is a share of the rotors' thrust and arm, follows by itself.
    """
    changes = {
        "mass": vehicle.mass * drawn.mass,
        "inertia_B": Mat3(*(x * drawn.inertia for x in vehicle.inertia_B)),
        "rotors": tuple(_rotor(rotor, drawn, vehicle) for rotor in vehicle.rotors),
    }
    factors = {"drag.linear": drawn.mass, "drag.quadratic": drawn.mass, "drag.isotropic": drawn.mass}
    for path, factor in {**factors, "damping.linear": drawn.inertia}.items():
        effect, field = path.split(".")
        if vehicle.has(effect):
            changes[path] = getattr(vehicle[effect], field) * (factor * drawn.drag)
    return vehicle.replace(changes)


def _rotor(rotor: Rotor, drawn: Drawn, vehicle: Vehicle) -> Rotor:
    motor = rotor.motor
    own = (drawn.rise, drawn.fall, drawn.idle)
    if not all(isinstance(each, tuple) for each in own):
        if not isinstance(motor, Lag):
            raise ValueError(
                f"vehicle {vehicle.name!r} has motors without a lag; expected no lag_rise, lag_fall and idle"
            )
        rise, fall, idle = (
            usual if isinstance(each, tuple) else each
            for each, usual in zip(own, (motor.rise, motor.fall, 1.0), strict=True)
        )
        motor = motor._replace(rise=rise, fall=fall, speed_min=motor.speed_min * idle)
    return rotor._replace(
        r_B=rotor.r_B * drawn.arm,
        k_thrust=rotor.k_thrust * drawn.thrust,
        k_torque=rotor.k_torque * drawn.torque,
        inertia=rotor.inertia * (drawn.mass * drawn.arm * drawn.arm),
        radius=rotor.radius * drawn.arm,
        motor=motor,
    )


_thrust_to_weight = lru_cache(maxsize=16)(thrust_to_weight)


def _evenly(draw: Draw, range_: Range | None, usual: Scalar) -> Scalar:
    return usual if range_ is None else draw.uniform(*range_)


def _cube_roots(range_: Range) -> Range:
    return range_[0] ** (1.0 / 3.0), range_[1] ** (1.0 / 3.0)


def _normals(draw: Draw, spread: Scalar) -> Vec3:
    return Vec3(*(draw.normal() * spread for _ in range(3)))
