"""Mean wind that grows with height: the boundary layer as a wind source."""

from collections.abc import Sequence
from dataclasses import dataclass

from samara.core.algebra import Vec3
from samara.core.coerce import Exponent, Height
from samara.core.quantity import Scalar, Tree
from samara.physics.air.atmosphere import log_law, power_law
from samara.physics.frames import wind_enu_from_direction
from samara.wind.sources import DeterministicSource
from samara.wind.validation import require_numbers, require_vector


@dataclass(frozen=True)
class BoundaryLayer(DeterministicSource):
    """w(h) = w₀ W(h), h the height above ground and w₀ the wind at h₀, at which W = 1

    `sample`, the wind of a whole fleet, is the wind at the reference height h₀.
    """

    wind_W: Vec3
    reference_height: Height = 10.0

    def __post_init__(self) -> None:
        require_vector(self, "wind_W")
        require_numbers(self, "reference_height", positive=True)

    def profile(self, z: Scalar) -> Scalar:
        """W at a height z in world axes [m]"""
        raise NotImplementedError

    def sample(self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], wind_state: Tree) -> tuple[Vec3, Tree]:
        """w₀"""
        return self.wind_W, wind_state

    def sample_at(
        self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], wind_state: Tree, p_W: Vec3, v_W: Vec3
    ) -> tuple[Vec3, Tree]:
        """w₀ W(h)"""
        return self.wind_W * self.profile(p_W.z), wind_state


@dataclass(frozen=True)
class PowerLaw(BoundaryLayer):
    """w(h) = w₀ (h/h₀)^α, h = z − ground: α is 1/7 over open land, 0.1 over water, 0.3 and more over a town

    `sample`, the wind of a whole fleet, is the wind at the reference height h₀.
    """

    exponent: Exponent = 1.0 / 7.0
    ground: Height = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_numbers(self, "exponent", negative=False)
        require_numbers(self, "ground")

    @staticmethod
    def from_direction(
        speed: Scalar,
        direction_from: Scalar,
        *,
        reference_height: Height = 10.0,
        exponent: Exponent = 1.0 / 7.0,
        ground: Height = 0.0,
    ) -> "PowerLaw":
        """Create from the speed [m/s] at the reference height and the direction it comes from, clockwise from north [rad]."""
        return PowerLaw(wind_enu_from_direction(speed, direction_from), reference_height, exponent, ground)

    def profile(self, z: Scalar) -> Scalar:
        """(h/h₀)^α"""
        return power_law(z - self.ground, reference_height=self.reference_height, exponent=self.exponent)


@dataclass(frozen=True)
class LogLaw(BoundaryLayer):
    """w(h) = w₀ ln(h/z₀) / ln(h₀/z₀), h = z − ground, and calm below the roughness length z₀

    `sample`, the wind of a whole fleet, is the wind at the reference height h₀.
    """

    roughness: Height = 0.03
    ground: Height = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_numbers(self, "roughness", positive=True)
        require_numbers(self, "ground")
        if (
            isinstance(self.reference_height, (int, float))
            and isinstance(self.roughness, (int, float))
            and self.reference_height <= self.roughness
        ):
            raise ValueError(
                f"LogLaw.reference_height is {self.reference_height}; expected more than the roughness length {self.roughness}"
            )

    @staticmethod
    def from_direction(
        speed: Scalar,
        direction_from: Scalar,
        *,
        reference_height: Height = 10.0,
        roughness: Height = 0.03,
        ground: Height = 0.0,
    ) -> "LogLaw":
        """Create from the speed [m/s] at the reference height and the direction it comes from, clockwise from north [rad]."""
        return LogLaw(wind_enu_from_direction(speed, direction_from), reference_height, roughness, ground)

    def profile(self, z: Scalar) -> Scalar:
        """ln(h/z₀) / ln(h₀/z₀)"""
        return log_law(z - self.ground, reference_height=self.reference_height, roughness=self.roughness)
