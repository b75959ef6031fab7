"""From flight logs to a vehicle: `identify(logs, start)`, with an error on every number and a word on what no flight told.

There are two products. The `physical` vehicle is from regression (`samara.identify.equation_error_fit`), good for
design and for other
conditions than those flown. The `predictor` is from prediction error (`samara.identify.prediction_error_fit`), best
at saying what comes
within half a second in flights like these.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Mat3, Vec3
from samara.core.quantity import Scalar
from samara.core.types import Array
from samara.identify.equation_error_fit import Residuals, regress
from samara.identify.fit_result import Fitted, Trim
from samara.identify.flight_log import FlightLog
from samara.identify.log_checks import Finding, usable
from samara.identify.parameters import parameters_of, ready
from samara.identify.prediction_error_fit import HORIZON, fit
from samara.identify.resampled_log import Samples, duration_of, period_of, samples_of
from samara.physics.types import Vehicle
from samara.vehicles.build import switch_on
from samara.vehicles.defaults import derived_surface
from samara.vehicles.limits import with_lag_motors
from samara.vehicles.writer import sources_still_true

PHYSICAL, PREDICTOR = "physical", "predictor"
DAMPED = 3.0  # W l²/v_h: what a predictor may take for damping
KNOWN = 0.95


class Widening(NamedTuple):
    """How many times wider than the residuals say a standard error is, for gusts move what they are compared with; and what
    averaging, filters and delays leave however long the flight: of the number, and of the scale of one that may be 0"""

    times: float
    of_number: float
    of_scale: float = 0.002


WIDENED = (
    ("k_thrust", Widening(1.6, 0.0012)),
    ("k_torque", Widening(1.1, 0.027)),
    ("inertia.zz", Widening(1.0, 0.025)),
    ("inertia", Widening(1.1, 0.0025)),
    ("centre_of_mass", Widening(1.8, 0.0, 0.07)),
    ("motor", Widening(1.45, 0.009)),
    ("drag.isotropic", Widening(1.8, 0.03)),
    ("drag", Widening(2.2, 0.018)),
    ("rotor_drag", Widening(1.35, 0.012)),
    ("airspeed_moment", Widening(1.6, 0.0135)),
    ("damping.yaw", Widening(0.65, 0.0, 0.005)),
    ("damping", Widening(1.7, 0.0, 0.014)),
)
"""By how a parameter's name begins; from 80 synthetic vehicles (seed 2), so that 95 % of the 95 % intervals hold the truth."""
WITHOUT_VELOCITY = (
    ("k_thrust", Widening(0.0, 0.015)),
    ("k_torque", Widening(0.0, 0.09)),
    ("inertia.zz", Widening(0.0, 0.10)),
    ("inertia", Widening(0.0, 0.06)),
    ("centre_of_mass", Widening(0.0, 0.0, 1.0)),
    ("motor", Widening(0.0, 0.10)),
    ("damping", Widening(0.0, 0.0, 0.5)),
    ("", Widening(0.0, 0.0, 0.0)),
)
"""What is left besides where an IMU flew alone, of which what moving air does is noise; from ten synthetic vehicles more"""
EXCITED = 0.2
"""A number is called excited where its standard error is below this part of it, or of twice its scale where it may be 0"""

Progress = Callable[[str, float], None]


class Estimate(NamedTuple):
    """A number: what it was at the start, its value, standard error and 95 % interval, whether the flights told it, and else
    the manoeuvre that would"""

    name: str
    unit: str
    start: float
    value: float
    error: float
    low: float
    high: float
    excited: bool
    manoeuvre: str


@dataclass(frozen=True)
class Product:
    """A vehicle that flies, what its numbers are known to, how they go together, and the trim of each flight by its name.

    `vehicle` is to be written and flown; `bare` is the same as candidates are flown, without its rotors' own gains.
    """

    kind: str
    vehicle: Vehicle
    bare: Vehicle
    estimates: tuple[Estimate, ...]
    correlation: Array
    trims: Mapping[str, Trim]
    per_volt: float
    volts: float

    def estimate(self, name: str) -> Estimate:
        return next(own for own in self.estimates if own.name == name)


@dataclass(frozen=True)
class Identified:
    """All that came of a set of flights: both products (a predictor where it was asked for), the samples that were used, what
    was found wrong with each log, and what force and torque the physical vehicle leaves unexplained"""

    start: Vehicle
    physical: Product
    predictor: Product | None
    flights: tuple[Samples, ...]
    findings: Mapping[str, tuple[Finding, ...]]
    residuals: tuple[Residuals, ...]

    @property
    def products(self) -> tuple[Product, ...]:
        """The physical vehicle, and the predictor where there is one"""
        return (self.physical,) if self.predictor is None else (self.physical, self.predictor)

    @property
    def seconds(self) -> float:
        """In the air, all flights together"""
        return sum(duration_of(own) for own in self.flights)


def identify(
    logs: Sequence[FlightLog],
    start: Vehicle,
    *,
    outputs: str = "speed",
    predictor: bool = True,
    progress: Progress | None = None,
) -> Identified:
    """The vehicle that flew these logs, beginning with what is known of it: mass and geometry are the start's

    `outputs` says what a motor's output is linear in, "speed" or "thrust". A log that cannot be used is a ValueError.
    """
    if not logs:
        raise ValueError("no flight logs; expected at least one")
    tell = progress or (lambda stage, share: None)
    checked, findings = [], {}
    for k, log in enumerate(logs):
        tell("checking the logs", k / len(logs))
        whole, found = usable(log)
        checked.append(whole)
        findings[log.name] = tuple(found)
    period = max(period_of(own) for own in checked)
    start = with_lag_motors(start)
    flights = [samples_of(own, start, outputs, period) for own in checked]
    return identified(flights, start, findings, predictor=predictor, progress=progress)


def identified(
    flights: Sequence[Samples],
    start: Vehicle,
    findings: Mapping[str, tuple[Finding, ...]] | None = None,
    *,
    predictor: bool = True,
    progress: Progress | None = None,
) -> Identified:
    """The same from samples"""
    tell = progress or (lambda stage, share: None)
    bare = ready(start)
    told = regress(flights, bare, lambda share: tell("forces and torques", share))
    own = _about(flights)
    words = f"identified by regression from {own}"
    physical = _product(PHYSICAL, told.fitted, start, bare, flights, words)
    best = None
    if predictor and all({"velocity", "attitude", "rate"} <= each.knows for each in flights):
        parameters = parameters_of(bare, DAMPED)
        in_wind = [Trim((1.0,) * len(bare.rotors), 0.0, each.wind_W) for each in told.fitted.trims]
        found = fit(flights, bare, parameters, in_wind, progress=lambda share: tell("prediction error", share))
        words = f"effective value for prediction over {HORIZON:g} s, fitted to {own}"
        best = _product(PREDICTOR, found, start, bare, flights, words)
    return Identified(start, physical, best, tuple(flights), dict(findings or {}), told.residuals)


def _product(kind: str, told: Fitted, start: Vehicle, bare: Vehicle, flights: Sequence[Samples], words: str) -> Product:
    estimates = _estimates(told, bare, flights)
    vehicle = dressed(told.vehicle, start, told.trims, estimates, words)
    trims = {own.name: trim for own, trim in zip(flights, told.trims, strict=True)}
    return Product(
        kind, vehicle, told.vehicle, estimates, _correlation(told.covariance), trims, told.per_volt, told.volts
    )


def _about(flights: Sequence[Samples]) -> str:
    seconds = sum(duration_of(own) for own in flights)
    named = flights[0].name if len(flights) == 1 else f"{len(flights)} flights, {flights[0].name} …"
    return f"{seconds:.0f} s of flight ({named})"


def _estimates(told: Fitted, start: Vehicle, flights: Sequence[Samples]) -> tuple[Estimate, ...]:
    """Values with intervals: of the logarithm of what is positive, widened by what no length of flight takes away"""
    far = student(0.5 + 0.5 * KNOWN, max(told.independent - 1.0, 3.0))
    alone = not any("velocity" in own.knows for own in flights)
    measured = any(own.rotor_speed is not None for own in flights)
    found = []
    for own, variance in zip(told.parameters, np.diag(told.covariance), strict=True):
        value = own.get(told.vehicle)
        times, of_number, of_scale = next(each for begin, each in WIDENED if own.name.startswith(begin))
        if alone and not (own.name.startswith("motor") and measured):
            more = next(each for begin, each in WITHOUT_VELOCITY if own.name.startswith(begin))
            of_number, of_scale = math.hypot(of_number, more.of_number), math.hypot(of_scale, more.of_scale)
        sigma = float(np.sqrt(variance)) * own.scale
        if own.name in told.held:
            error = sigma * (value if own.positive else 1.0)
        else:
            least = of_number if own.positive else max(of_number * abs(value), of_scale * own.scale)
            sigma = float(np.hypot(times * sigma, least))
            error = sigma * (value if own.positive else 1.0)
        low, high = (value * np.exp(s * far * sigma) if own.positive else value + s * far * sigma for s in (-1.0, 1.0))
        found.append(
            Estimate(
                own.name,
                own.unit,
                own.get(start),
                value,
                error,
                float(low),
                float(high),
                own.name not in told.held and bool(sigma < EXCITED * (1.0 if own.positive else 2.0 * own.scale)),
                own.manoeuvre,
            )
        )
    return tuple(found)


def student(share: float, freedom: float) -> float:
    """The quantile of Student's t, by its expansion about the normal one in 1/ν to the fourth order (Abramowitz, Stegun
    26.7.5)"""
    z = NormalDist().inv_cdf(share)
    z2, nu = z * z, freedom
    terms = (
        (z2 + 1.0) / 4.0,
        ((5.0 * z2 + 16.0) * z2 + 3.0) / 96.0,
        (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) / 384.0,
        ((((79.0 * z2 + 776.0) * z2 + 1482.0) * z2 - 1920.0) * z2 - 945.0) / 92160.0,
    )
    return z * (1.0 + sum(own / nu ** (k + 1) for k, own in enumerate(terms)))


def _correlation(covariance: Array) -> Array:
    size = np.sqrt(np.diag(covariance))
    matrix = covariance / np.outer(size, size)
    return np.asarray(0.5 * (matrix + matrix.T))


def dressed(bare: Vehicle, start: Vehicle, trims: Sequence[Trim], estimates: Sequence[Estimate], words: str) -> Vehicle:
    """The start vehicle with the numbers that were found, the mean gain of each rotor in its kF and kM, and where each is from

    What the start had on and candidates had not (contact, battery) is on again; an effect that was off is switched on where a
    number of it was told.
    """
    told = {own.name: own for own in estimates}
    gains = np.exp(np.mean([np.log(own.gains) for own in trims], axis=0))
    rotors = tuple(
        own._replace(
            r_B=Vec3(*(float(x) for x in found.r_B)),
            k_thrust=float(found.k_thrust * gain),
            k_torque=float(found.k_torque * gain),
            motor=own.motor._replace(rise=float(found.motor.rise), fall=float(found.motor.fall)),
        )
        for own, found, gain in zip(start.rotors, bare.rotors, gains, strict=True)
    )
    vehicle = _standing(replace(start, rotors=rotors, inertia_B=_of_a_body(bare.inertia_B)))
    if bare["drag"].linear != (0.0, 0.0, 0.0):
        vehicle = _with(vehicle, "drag", axes="body", **_positive(bare["drag"]))
    if bare["rotor_drag"].axial > 0.0:
        vehicle = _with(
            vehicle, "rotor_drag", coefficient=bare["rotor_drag"].coefficient, axial=bare["rotor_drag"].axial
        )
    if told["airspeed_moment.roll"].excited or told["airspeed_moment.pitch"].excited or start.has("airspeed_moment"):
        vehicle = _with(vehicle, "airspeed_moment", **bare["airspeed_moment"]._asdict())
    if any(own > 0.0 for own in bare["damping"].linear) and (
        start.has("damping") or told["damping.tilt"].excited or told["damping.yaw"].excited
    ):
        vehicle = _with(vehicle, "damping", linear=Vec3(*(max(own, 0.0) for own in bare["damping"].linear)))
    sources = sources_still_true(start) | _sources(told, words, len(rotors))
    structure = replace(vehicle.structure, sources=tuple(sources.items()), replaced=())
    return replace(vehicle, structure=structure)


def _standing(vehicle: Vehicle) -> Vehicle:
    """With feet as stiff as its own mass and inertia ask for"""
    if not vehicle.has("contact"):
        return vehicle
    own = vehicle["contact"]
    surface = derived_surface(vehicle.mass, vehicle.inertia_B, own.points_B, own.surface.friction)
    return vehicle.with_effect(vehicle.structure.effects[vehicle.index("contact")], own._replace(surface=surface))


def _of_a_body(inertia: Mat3) -> Mat3:
    """With the nearest Jzz that a body can have: none of its principal moments is larger than the other two together"""
    for _ in range(200):
        first, second, third = np.linalg.eigvalsh(np.array(inertia.rows, dtype=float))
        if third <= 0.995 * (first + second):
            break
        flat = inertia.zz >= max(inertia.xx, inertia.yy)  # then it is Jzz that is too large
        inertia = inertia._replace(zz=float(inertia.zz * (0.98 if flat else 1.02)))
    return inertia


def _positive(drag: Scalar) -> dict[str, Scalar]:
    linear = Vec3(*(max(float(own), 0.0) for own in drag.linear))
    return {"linear": linear, "quadratic": drag.quadratic, "isotropic": drag.isotropic}


def _with(vehicle: Vehicle, effect: str, **numbers: Scalar) -> Vehicle:
    return switch_on(vehicle.without_effect(effect) if vehicle.has(effect) else vehicle, effect, **numbers)


PLACES = (
    ("k_thrust", "rotors[{i}].k_thrust"),
    ("k_torque", "rotors[{i}].k_torque"),
    ("inertia.", "body.inertia"),
    ("centre_of_mass.", "rotors[{i}].position"),
    ("motor.rise", "rotors[{i}].motor.rise"),
    ("motor.fall", "rotors[{i}].motor.fall"),
    ("drag.linear.", "drag.linear"),
    ("drag.isotropic", "drag.isotropic"),
    ("rotor_drag.axial", "rotor_drag.axial"),
    ("airspeed_moment.roll", "airspeed_moment.roll"),
    ("airspeed_moment.pitch", "airspeed_moment.pitch"),
    ("damping.", "damping.linear"),
)
"""Where the numbers of an estimate stand in a vehicle file, by the beginning of its name"""


def _sources(told: Mapping[str, Estimate], words: str, rotors: int) -> dict[str, str]:
    """A sentence for every line of the file that estimates are in"""
    found = {}
    for begin, place in PLACES:
        parts = [own for name, own in told.items() if name.startswith(begin)]
        text = f"{words}: {'; '.join(_shown(own) for own in parts)}"
        if begin in ("k_thrust", "k_torque"):
            text += "; times this rotor's gain"
        for i in range(rotors if "{i}" in place and parts else bool(parts)):
            found[place.format(i=i)] = text
    return found


def _shown(own: Estimate) -> str:
    name = own.name.rpartition(".")[2]
    if not own.excited:
        return f"{name} not excited, {own.value:.3g} ± {own.error:.1g}"
    return f"{name} {own.value:.4g} ± {own.error:.2g}, 95 % {own.low:.4g} to {own.high:.4g}"
