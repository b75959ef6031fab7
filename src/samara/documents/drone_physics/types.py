"""Document 004's types, and what an argument of its functions means: record, unit, and its type's name in C."""

from typing import Annotated, Any, NamedTuple, NoReturn, TypeAlias

from samara.core.algebra import Quat, Vec3
from samara.core.quantity import Scalar


def _no_vector() -> NoReturn:
    raise TypeError("Euler angles are no vector: they cannot be added or scaled; turn vectors, or multiply quaternions")


class EulerType(NamedTuple):
    """Euler angles about x, y, z, or their rates: no vector, so `+` and `*` are errors."""

    phi: Scalar
    theta: Scalar
    psi: Scalar

    def __add__(self, other: Any) -> NoReturn:
        _no_vector()

    def __radd__(self, other: Any) -> NoReturn:
        _no_vector()

    def __mul__(self, other: Any) -> NoReturn:
        _no_vector()

    def __rmul__(self, other: Any) -> NoReturn:
        _no_vector()


VectorType = VelocityType = AccelerationType = ForceType = TorqueType = ImpulseType = InertiaDiagType = Vec3
AngularVelocityType = AngularAccelerationType = Vec3
EulerRateType = EulerAccelerationType = EulerType
QuaternionType = QuaternionVelocityType = Quat


class Kind(NamedTuple):
    """What an argument is: its type's name in C (dp_…_t, or double), its unit, and whether 0 and less make no sense."""

    name: str
    unit: str
    positive: bool = False


Vector: TypeAlias = Annotated[Vec3, Kind("vector", "")]
Position: TypeAlias = Annotated[Vec3, Kind("vector", "m")]
Velocity: TypeAlias = Annotated[Vec3, Kind("velocity", "m/s")]
Acceleration: TypeAlias = Annotated[Vec3, Kind("acceleration", "m/s^2")]
Force: TypeAlias = Annotated[Vec3, Kind("force", "N")]
Torque: TypeAlias = Annotated[Vec3, Kind("torque", "N m")]
Impulse: TypeAlias = Annotated[Vec3, Kind("impulse", "N s")]
InertiaDiag: TypeAlias = Annotated[Vec3, Kind("inertia_diag", "kg m^2", positive=True)]
AngularVelocity: TypeAlias = Annotated[Vec3, Kind("angular_velocity", "rad/s")]
AngularAcceleration: TypeAlias = Annotated[Vec3, Kind("angular_acceleration", "rad/s^2")]
Angles: TypeAlias = Annotated[EulerType, Kind("euler", "rad")]
EulerRate: TypeAlias = Annotated[EulerType, Kind("euler_rate", "rad/s")]
EulerAcceleration: TypeAlias = Annotated[EulerType, Kind("euler_acceleration", "rad/s^2")]
Quaternion: TypeAlias = Annotated[Quat, Kind("quaternion", "")]
QuaternionVelocity: TypeAlias = Annotated[Quat, Kind("quaternion_velocity", "1/s")]
DragVector: TypeAlias = Annotated[Vec3, Kind("vector", "N s/m")]
DragSquareVector: TypeAlias = Annotated[Vec3, Kind("vector", "N s^2/m^2")]

Number: TypeAlias = Annotated[Scalar, Kind("double", "")]
Truth: TypeAlias = Annotated[Scalar, Kind("int", "")]
Mass: TypeAlias = Annotated[Scalar, Kind("double", "kg", positive=True)]
Inertia: TypeAlias = Annotated[Scalar, Kind("double", "kg m^2", positive=True)]
RotorInertia: TypeAlias = Annotated[Scalar, Kind("double", "kg m^2")]
Length: TypeAlias = Annotated[Scalar, Kind("double", "m")]
Radius: TypeAlias = Annotated[Scalar, Kind("double", "m", positive=True)]
Time: TypeAlias = Annotated[Scalar, Kind("double", "s", positive=True)]
Thrust: TypeAlias = Annotated[Scalar, Kind("double", "N")]
TorqueZ: TypeAlias = Annotated[Scalar, Kind("double", "N m")]
Gravity: TypeAlias = Annotated[Scalar, Kind("double", "m/s^2")]
LinearDrag: TypeAlias = Annotated[Scalar, Kind("double", "N s/m")]
SquareDrag: TypeAlias = Annotated[Scalar, Kind("double", "N s^2/m^2")]
RotorSpeed: TypeAlias = Annotated[Scalar, Kind("double", "rad/s")]
RotorAcceleration: TypeAlias = Annotated[Scalar, Kind("double", "rad/s^2")]
ThrustCoefficient: TypeAlias = Annotated[Scalar, Kind("double", "N s^2/rad^2")]
TorqueCoefficient: TypeAlias = Annotated[Scalar, Kind("double", "N m s^2/rad^2")]
LinearThrust: TypeAlias = Annotated[Scalar, Kind("double", "N s/rad")]
LinearTorque: TypeAlias = Annotated[Scalar, Kind("double", "N m s/rad")]
Damping: TypeAlias = Annotated[Scalar, Kind("double", "N m s/rad")]
MotorConstant: TypeAlias = Annotated[Scalar, Kind("double", "N m/A")]
Resistance: TypeAlias = Annotated[Scalar, Kind("double", "ohm", positive=True)]
Voltage: TypeAlias = Annotated[Scalar, Kind("double", "V")]
Current: TypeAlias = Annotated[Scalar, Kind("double", "A")]
Pressure: TypeAlias = Annotated[Scalar, Kind("double", "atm")]
Celsius: TypeAlias = Annotated[Scalar, Kind("double", "degC")]
