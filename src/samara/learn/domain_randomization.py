"""Domain randomization: random vehicles about any vehicle, in terms independent of its size, and unknown disturbances.

The terms and their ranges are those of two papers; their order is RAPTOR's (thrust to weight, then the mass through
the size, then the torque to inertia, which determines the inertia):

J. Eschmann, D. Albani, G. Loianno, "Learning to fly in seconds", IEEE Robotics and Automation Letters 9, 2024 (L2F).
J. Eschmann, D. Albani, G. Loianno, "RAPTOR: a foundation policy for quadrotor control", 2025.
"""

import math
from functools import lru_cache
from typing import NamedTuple

from samara.core.algebra import ZERO, Mat3, Vec3
from samara.core.ops import cos, exp, maximum, sin, sqrt
from samara.core.quantity import Scalar
from samara.learn.task import Draw, Tree, TrimmedDrone
from samara.physics.air.downwash import EXTERNAL_WRENCH
from samara.physics.effect import Wrench
from samara.physics.multirotor import steady_command
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.rotor import Rotor
from samara.physics.types import CALM, Environment, Vehicle
from samara.vehicles.trim import thrust_to_weight

Range = tuple[float, float]


class RandomParameters(NamedTuple):
    """The random parameters of one drone: factors to the values of the vehicle file, lags [s], and a steady disturbance."""

    mass: Scalar = 1.0
    thrust: Scalar = 1.0  # kF
    torque: Scalar = 1.0  # kM
    arm: Scalar = 1.0
    inertia: Scalar = 1.0
    drag: Scalar = 1.0  # of aerodynamic forces on the body, besides their growth with mass and inertia
    time_constant_up: Scalar = ()
    time_constant_down: Scalar = ()
    idle: Scalar = ()
    disturbance: Tree = ()
    wind_W: Tree = ()


class ParameterRanges(NamedTuple):
    """Range of each parameter, uniform in every episode; None keeps the value of the vehicle file.

    `mass` [kg] is uniform in its cube root, that is in size, and the arms follow the size up to a factor of
    e^(± `size_deviation`). `torque_to_inertia` [rad/s²] is the maximum thrust of one rotor, times its distance
    from the centre, over Jxx. `torque_to_thrust` [m] is kM/kF. `lag_rise`, `lag_fall` [s] and `idle`, a factor to the
    lowest speed, apply to motors with a lag. `drag` is a factor.
    `force` and `torque` are the standard deviations of a steady disturbance, relative to the weight and to weight times
    arm; `force_headroom` is that of a force relative to the thrust headroom, times three. `wind` [m/s] is the standard
    deviation along each axis.
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
    force_headroom: float = 0.0
    wind: float = 0.0

    def draw(self, draw: Draw, drone: TrimmedDrone) -> RandomParameters:
        """Draw the parameters of one drone."""
        nominal, rotor = drone.nominal, drone.nominal.rotors[0]
        weight, arm_length = nominal.mass * nominal["gravity"].acceleration, math.hypot(rotor.r_B.x, rotor.r_B.y)
        nominal_ratio = _thrust_to_weight(nominal)
        ratio = _draw_uniform(draw, self.thrust_to_weight, nominal_ratio)
        size = _draw_uniform(
            draw, self.mass and _cube_roots(self.mass), nominal.mass ** (1.0 / 3.0)
        ) / nominal.mass ** (1.0 / 3.0)
        arm = size * exp(draw.uniform(-self.size_deviation, self.size_deviation)) if self.size_deviation else size
        mass = size * size * size
        thrust = mass * (ratio / nominal_ratio)
        angular_acceleration = nominal_ratio * weight / len(nominal.rotors) * arm_length / nominal.inertia_B.xx
        inertia: Scalar = mass * arm * arm
        if self.torque_to_inertia is not None:
            inertia = (
                thrust * arm * angular_acceleration / _draw_uniform(draw, self.torque_to_inertia, angular_acceleration)
            )
        torque_ratio = rotor.k_torque / rotor.k_thrust
        return RandomParameters(
            mass,
            thrust,
            thrust * (_draw_uniform(draw, self.torque_to_thrust, torque_ratio) / torque_ratio),
            arm,
            inertia,
            _draw_uniform(draw, self.drag, 1.0),
            _draw_uniform(draw, self.lag_rise, ()),
            _draw_uniform(draw, self.lag_fall, ()),
            _draw_uniform(draw, self.idle, ()),
            self._draw_disturbance(draw, mass * weight, arm * arm_length, ratio),
            _draw_normals(draw, self.wind) if self.wind else (),
        )

    def _draw_disturbance(self, draw: Draw, weight: Scalar, arm_length: Scalar, ratio: Scalar) -> Tree:
        if not (self.force or self.torque or self.force_headroom):
            return ()
        force_sigma: Scalar = self.force
        if self.force_headroom:
            force_sigma = force_sigma + draw.uniform(0.0, self.force_headroom) * maximum(ratio - 1.0, 0.0) / 3.0
        force_W = _draw_normals(draw, force_sigma * weight)
        return force_W, _draw_normals(draw, self.torque * weight * arm_length) if self.torque else ZERO

    def apply(self, parameters: RandomParameters, drone: TrimmedDrone) -> tuple[TrimmedDrone, Environment]:
        """Return the drone with these parameters, and its environment."""
        return apply_parameters(parameters, drone)


class InertiaRandomization(NamedTuple):
    """Random mass and inertia, within these relative changes of the file's values; the rotors stay. A steady horizontal `wind`
    of up to this speed [m/s] has a random direction."""

    mass: float = 0.1
    inertia: float = 0.1
    wind: float = 0.0

    def draw(self, draw: Draw, drone: TrimmedDrone) -> RandomParameters:
        """Draw two factors, and a wind."""
        parameters = RandomParameters(
            mass=draw.uniform(1.0 - self.mass, 1.0 + self.mass),
            inertia=draw.uniform(1.0 - self.inertia, 1.0 + self.inertia),
        )
        if not self.wind:
            return parameters
        speed, angle = draw.uniform(0.0, self.wind), draw.uniform(0.0, 2.0 * math.pi)
        return parameters._replace(wind_W=Vec3(speed * cos(angle), speed * sin(angle), 0.0))

    def apply(self, parameters: RandomParameters, drone: TrimmedDrone) -> tuple[TrimmedDrone, Environment]:
        """Return the drone with these parameters, and its environment."""
        return apply_parameters(parameters, drone)


L2F = ParameterRanges(force=1.0 / 20.0, torque=1e-4 / math.hypot(0.028, 0.028))
"""The disturbances of L2F: standard deviations of 1/20 of the weight, and of the weight times 0.1 mm on its arms of 39.6 mm."""

RAPTOR = ParameterRanges(
    thrust_to_weight=(1.5, 5.0),
    mass=(0.02, 5.0),
    size_deviation=0.1,
    torque_to_inertia=(40.0, 1200.0),
    torque_to_thrust=(0.005, 0.05),
    lag_rise=(0.03, 0.1),
    lag_fall=(0.03, 0.3),
    force_headroom=0.3,
)
"""The quadrotors of RAPTOR, 20 g to 5 kg."""

FOUR_DECADES = RAPTOR._replace(mass=(0.001, 10.0), drag=(0.5, 2.0))
"""RAPTOR's from 1 g to 10 kg, with half to twice the drag."""


def apply_parameters(parameters: RandomParameters, drone: TrimmedDrone) -> tuple[TrimmedDrone, Environment]:
    """Return the drone with these parameters, and its environment; the trim assumes a thrust of kF Ω²."""
    vehicle = scale_vehicle(parameters, drone.vehicle)
    speed_factor = sqrt(parameters.mass / parameters.thrust)
    trim = drone.trim._replace(rotor_speed=tuple(speed * speed_factor for speed in drone.trim.rotor_speed))
    command = steady_command(trim, vehicle)
    environment = CALM._replace(wind_W=parameters.wind_W) if parameters.wind_W else CALM
    if parameters.disturbance:
        force_W, tau_B = parameters.disturbance
        vehicle, trim = vehicle.with_effect(EXTERNAL_WRENCH), trim._replace(effects=(*trim.effects, ()))
        environment = environment._replace(external_wrenches=(Wrench(f_W=force_W, tau_B=tau_B),))
    return drone._replace(vehicle=vehicle, trim=trim, command=command), environment


def scale_vehicle(parameters: RandomParameters, vehicle: Vehicle) -> Vehicle:
    """Scale every parameter of the vehicle by the random factors; aerodynamic damping keeps its time constant.

    The airspeed moment, like every effect relative to the rotors' thrust and arm, needs no change.
    """
    changes = {
        "mass": vehicle.mass * parameters.mass,
        "inertia_B": Mat3(*(x * parameters.inertia for x in vehicle.inertia_B)),
        "rotors": tuple(_rotor(rotor, parameters, vehicle) for rotor in vehicle.rotors),
    }
    factors = {"drag.linear": parameters.mass, "drag.quadratic": parameters.mass, "drag.isotropic": parameters.mass}
    for path, factor in {**factors, "damping.linear": parameters.inertia}.items():
        effect, field = path.split(".")
        if vehicle.has(effect):
            changes[path] = getattr(vehicle[effect], field) * (factor * parameters.drag)
    return vehicle.replace(changes)


def _rotor(rotor: Rotor, parameters: RandomParameters, vehicle: Vehicle) -> Rotor:
    motor = rotor.motor
    motor_values = (parameters.time_constant_up, parameters.time_constant_down, parameters.idle)
    if not all(isinstance(value, tuple) for value in motor_values):
        if not isinstance(motor, Lag):
            raise ValueError(
                f"vehicle {vehicle.name!r} has motors without a lag; expected no lag_rise, lag_fall and idle"
            )
        time_constant_up, time_constant_down, idle = (
            default if isinstance(value, tuple) else value
            for value, default in zip(
                motor_values, (motor.time_constant_up, motor.time_constant_down, 1.0), strict=True
            )
        )
        motor = motor._replace(
            time_constant_up=time_constant_up, time_constant_down=time_constant_down, speed_min=motor.speed_min * idle
        )
    return rotor._replace(
        r_B=rotor.r_B * parameters.arm,
        k_thrust=rotor.k_thrust * parameters.thrust,
        k_torque=rotor.k_torque * parameters.torque,
        inertia=rotor.inertia * (parameters.mass * parameters.arm * parameters.arm),
        radius=rotor.radius * parameters.arm,
        motor=motor,
    )


_thrust_to_weight = lru_cache(maxsize=16)(thrust_to_weight)


def _draw_uniform(draw: Draw, range_: Range | None, default: Scalar) -> Scalar:
    return default if range_ is None else draw.uniform(*range_)


def _cube_roots(range_: Range) -> Range:
    return range_[0] ** (1.0 / 3.0), range_[1] ** (1.0 / 3.0)


def _draw_normals(draw: Draw, sigma: Scalar) -> Vec3:
    return Vec3(*(draw.normal() * sigma for _ in range(3)))
