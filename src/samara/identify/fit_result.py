"""What a fit to flights comes to, by regression or by prediction error."""

from typing import NamedTuple

from samara.core.types import Array
from samara.identify.parameters import Parameter
from samara.identify.per_flight_offsets import Trim
from samara.physics.types import Vehicle


class Fitted(NamedTuple):
    """The vehicle without gains, the trim of each flight, the thrust that goes with a volt and the voltage that is for; for the
    parameters, in their order, how far they are from the start and the covariance of that, both in scales; how many stretches
    of time are independent of each other, and which parameters were held at the start's"""

    vehicle: Vehicle
    trims: tuple[Trim, ...]
    per_volt: float
    volts: float
    parameters: tuple[Parameter, ...]
    offset: Array
    covariance: Array
    independent: float
    held: tuple[str, ...] = ()
