"""Identify a vehicle from flight logs: every parameter with its error, or the manoeuvre that would excite it.

There are two results. The `physical` vehicle is fitted by regression (`samara.identify.equation_error_fit`); it suits design
and conditions other than those flown. The `predictor` is fitted to the prediction error
(`samara.identify.prediction_error_fit`); it is best at predicting half a second ahead in similar flights.
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
from samara.identify.equation_error_fit import Residuals, fit_by_regression
from samara.identify.fit_result import Fit, FlightTrim
from samara.identify.flight_log import FlightLog
from samara.identify.log_checks import Finding
from samara.identify.motor_calibration import MotorCalibration, calibrate_motors, steepen_speeds
from samara.identify.parameters import FreeParameter, identifiable_parameters, prepare_vehicle
from samara.identify.prediction_error_fit import HORIZON, fit_by_prediction_error
from samara.identify.resampled_log import ResampledLog, usable_duration
from samara.identify.usable_flights import usable_flights
from samara.physics.types import Vehicle
from samara.vehicles.build import switch_on
from samara.vehicles.defaults import derived_surface
from samara.vehicles.limits import replace_dc_motors
from samara.vehicles.writer import valid_sources, valid_spreads

PHYSICAL, PREDICTOR = "physical", "predictor"
PREDICTOR_DAMPING_SCALE = 3.0  # W l²/v_h: prior scale of the damping of a predictor
PHYSICAL_ONLY = (
    "thrust_curve.linear",
)  # half a second of gusts, which the controller answers, would flatten the curve
CONFIDENCE = 0.95


class Widening(NamedTuple):
    """Corrections of a standard error.

    `factor` multiplies the residual-based error, because gusts are correlated with the regressors. `relative` (relative) and
    `scaled` (in scales, for parameters that may be 0) are the errors that averaging, filters and delays leave after any
    length of flight.
    """

    factor: float
    relative: float
    scaled: float = 0.002


ERROR_WIDENING = (
    ("k_thrust", Widening(1.6, 0.0012)),
    ("k_torque", Widening(1.1, 0.027)),
    ("thrust_curve", Widening(1.4, 0.0, 0.08)),
    ("inertia.zz", Widening(1.0, 0.035)),
    ("inertia", Widening(1.1, 0.014)),
    ("centre_of_mass", Widening(1.4, 0.0, 0.05)),
    ("motor", Widening(1.6, 0.011)),
    ("drag.isotropic", Widening(1.8, 0.2)),
    ("drag", Widening(2.2, 0.085)),
    ("rotor_drag", Widening(1.5, 0.05)),
    ("airspeed_moment", Widening(1.6, 0.0135)),
    ("damping.yaw", Widening(0.9, 0.0, 0.005)),
    ("damping", Widening(2.1, 0.0, 0.018)),
)
"""By prefix of the name; from 64 synthetic vehicles that have what the model lacks (`studies.synthetic.add_model_error`,
seed 11), so that 85 to 99 % of the 95 % intervals contain the truth."""
COMMANDED_SPEED_SIGMA = 0.1
"""Relative error of rotor speeds that a log without measured ones infers from commands, if the start states no spread."""
SPEED_POWERS = (
    ("k_thrust", 2.0),
    ("k_torque", 2.0),
    ("rotor_drag.axial", 1.0),
    ("inertia.xx", 0.25),
    ("inertia.yy", 0.25),
)
"""Parameters that flights determine relative to a power of the rotor speed; J follows what the thrust curve leaves of it."""
COMMANDED_CURVE_ERROR = 0.15
"""Error of the thrust curve without measured rotor speeds: it contains that of the start's idle speed."""
IMU_ONLY_WIDENING = (
    ("k_thrust", Widening(0.0, 0.015)),
    ("k_torque", Widening(0.0, 0.09)),
    ("inertia.zz", Widening(0.0, 0.10)),
    ("inertia", Widening(0.0, 0.06)),
    ("centre_of_mass", Widening(0.0, 0.0, 1.0)),
    ("motor", Widening(0.0, 0.10)),
    ("damping", Widening(0.0, 0.0, 0.5)),
    ("", Widening(0.0, 0.0, 0.0)),
)
"""Additional errors without a velocity in the logs (IMU only), when aerodynamic forces act as noise; from ten more vehicles."""
MAX_EXCITED_ERROR = 0.2
"""A parameter is excited if its standard error is below this fraction of it, or of twice its scale if it may be 0."""

MAX_SLOPE_ERROR, MAX_RANGE_STEPS = 0.15, 5
"""Relative error of the slope of the thrust above which, without measured rotor speeds, the start's speed range is wrong and is
corrected; the thrust curve has the rest."""
Progress = Callable[[str, float], None]


class ParameterEstimate(NamedTuple):
    """A parameter: start value, value, standard error, 95 % interval, whether it was excited, and the manoeuvre that would
    excite it."""

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
class IdentifiedVehicle:
    """An identified vehicle: its parameters with errors and correlations, and the trim of each flight by name.

    `vehicle` is complete, ready to save and simulate. `bare` is the model used during the fit, without the gains of its rotors.
    `calibration` is that of the motors if the rotor speeds were measured; the commanded speeds of flights need it.
    """

    model_type: str
    vehicle: Vehicle
    bare: Vehicle
    estimates: tuple[ParameterEstimate, ...]
    correlation: Array
    trims: Mapping[str, FlightTrim]
    per_volt: float
    volts: float
    calibration: MotorCalibration | None = None

    def estimate(self, name: str) -> ParameterEstimate:
        """Return the estimate of the parameter `name`."""
        return next(estimate for estimate in self.estimates if estimate.name == name)


@dataclass(frozen=True)
class Identification:
    """The result of an identification: both vehicles (the predictor is optional), the resampled logs, the findings of each log,
    and the force and torque that the physical vehicle leaves unexplained."""

    start: Vehicle
    physical: IdentifiedVehicle
    predictor: IdentifiedVehicle | None
    flights: tuple[ResampledLog, ...]
    findings: Mapping[str, tuple[Finding, ...]]
    residuals: tuple[Residuals, ...]

    @property
    def vehicles(self) -> tuple[IdentifiedVehicle, ...]:
        """The physical vehicle, then the predictor if it was fitted."""
        return (self.physical,) if self.predictor is None else (self.physical, self.predictor)

    @property
    def seconds(self) -> float:
        """Total airborne time of all flights  [s]."""
        return sum(usable_duration(flight) for flight in self.flights)


def identify(
    logs: Sequence[FlightLog],
    start: Vehicle,
    *,
    outputs: str = "speed",
    predictor: bool = True,
    progress: Progress | None = None,
) -> Identification:
    """Identify the vehicle that flew these logs; mass and geometry are those of `start`.

    Args:
        logs: flight logs of one vehicle.
        start: the best available model of the vehicle; the fit starts from its parameters.
        outputs: the quantity that a motor output is linear in, "speed" or "thrust".
        predictor: fit the predictor as well.
        progress: called with the name of the current stage and its completed fraction.

    Raises:
        ValueError: no log can be used; the findings name those that are left out.
    """
    if not logs:
        raise ValueError("no flight logs; expected at least one")
    report = progress or (lambda stage, fraction: None)
    start = replace_dc_motors(start)
    flights, findings = usable_flights(logs, start, outputs, lambda fraction: report("checking the logs", fraction))
    return identify_resampled(flights, start, findings, predictor=predictor, progress=progress)


def identify_resampled(
    flights: Sequence[ResampledLog],
    start: Vehicle,
    findings: Mapping[str, tuple[Finding, ...]] | None = None,
    *,
    predictor: bool = True,
    progress: Progress | None = None,
) -> Identification:
    """Identify the vehicle from resampled logs; see `identify`."""
    report = progress or (lambda stage, fraction: None)
    logged_flights, user_start = flights, start
    calibration = calibrate_motors(flights, start)
    is_measured = calibration is not None
    for steps_left in reversed(range(MAX_RANGE_STEPS)):
        flights, start = logged_flights, user_start
        if calibration is not None:
            flights = [calibration.calibrate_flight(flight) for flight in logged_flights]
            start = calibration.calibrate_vehicle(user_start)
        bare = centre_thrust_curve(prepare_vehicle(start), start, flights)
        regression = fit_by_regression(flights, bare, lambda fraction: report("forces and torques", fraction))
        curves = [vehicle["thrust_curve"] for vehicle in (bare, regression.fitted.vehicle)]
        slope = (2.0 - curves[1].linear) / (2.0 - curves[0].linear)
        if is_measured or abs(slope - 1.0) < MAX_SLOPE_ERROR or not steps_left:
            break
        steeper = steepen_speeds(start, curves[0].speed, slope)
        calibration = calibration.then(steeper) if calibration else steeper
    flight_summary = _describe_flights(flights)
    source = f"identified by regression from {flight_summary}"
    if calibration is not None:
        how = "rotor speeds" if is_measured else "the slope of the thrust"
        start = add_motor_sources(start, f"identified from {how} in {flight_summary}")
    physical = replace(_product(PHYSICAL, regression.fitted, start, bare, flights, source), calibration=calibration)
    predictor_product = None
    can_predict = all(
        {"velocity", "attitude", "rate"} <= flight.available_signals and flight.command_period < math.inf
        for flight in flights
    )
    if predictor and can_predict:
        parameters = tuple(
            parameter
            for parameter in identifiable_parameters(bare, PREDICTOR_DAMPING_SCALE)
            if parameter.name not in PHYSICAL_ONLY
        )
        prediction_fit = fit_by_prediction_error(
            flights, bare, parameters, progress=lambda fraction: report("prediction error", fraction)
        )
        source = f"effective value for prediction over {HORIZON:g} s, fitted to {flight_summary}"
        predictor_product = _product(PREDICTOR, prediction_fit, start, bare, flights, source)
        predictor_product = replace(predictor_product, calibration=calibration)
    return Identification(
        user_start, physical, predictor_product, tuple(logged_flights), dict(findings or {}), regression.residuals
    )


def _product(
    kind: str, fitted: Fit, start: Vehicle, bare: Vehicle, flights: Sequence[ResampledLog], source: str
) -> IdentifiedVehicle:
    estimates = _estimates(fitted, bare, flights)
    vehicle = complete_vehicle(fitted.vehicle, start, fitted.trims, estimates, source, is_predictor=kind == PREDICTOR)
    trims = {flight.name: trim for flight, trim in zip(flights, fitted.trims, strict=True)}
    return IdentifiedVehicle(
        kind, vehicle, fitted.vehicle, estimates, _correlation(fitted.covariance), trims, fitted.per_volt, fitted.volts
    )


def _describe_flights(flights: Sequence[ResampledLog]) -> str:
    """Describe the flights for the sources in a vehicle file."""
    seconds = sum(usable_duration(flight) for flight in flights)
    names = flights[0].name if len(flights) == 1 else f"{len(flights)} flights, {flights[0].name} …"
    return f"{seconds:.0f} s of flight ({names})"


def _estimates(fitted: Fit, start: Vehicle, flights: Sequence[ResampledLog]) -> tuple[ParameterEstimate, ...]:
    """Return values with intervals: of the logarithm for positive parameters, widened by the errors in `ERROR_WIDENING`."""
    quantile = student_quantile(0.5 + 0.5 * CONFIDENCE, max(fitted.independent_intervals - 1.0, 3.0))
    is_imu_only = not any("velocity" in flight.available_signals for flight in flights)
    has_rotor_speed = any(flight.rotor_speed is not None for flight in flights)
    estimates = []
    for parameter, deviation in zip(fitted.parameters, _deviations(fitted.covariance), strict=True):
        value = parameter.get(fitted.vehicle)
        times, of_number, of_scale = next(
            widening for prefix, widening in ERROR_WIDENING if parameter.name.startswith(prefix)
        )
        if is_imu_only and not (parameter.name.startswith("motor") and has_rotor_speed):
            extra = next(widening for prefix, widening in IMU_ONLY_WIDENING if parameter.name.startswith(prefix))
            of_number, of_scale = math.hypot(of_number, extra.relative), math.hypot(of_scale, extra.scaled)
        sigma = float(deviation) * parameter.scale
        if parameter.name not in fitted.fixed:
            floor = of_number if parameter.positive else max(of_number * abs(value), of_scale * parameter.scale)
            sigma = float(np.hypot(times * sigma, floor))
        excited_sigma = sigma
        if not has_rotor_speed:
            sigma = math.hypot(sigma, _commanded_speed_error(parameter, value, start))
        error = sigma * (value if parameter.positive else 1.0)
        low, high = (
            value * np.exp(s * quantile * sigma) if parameter.positive else value + s * quantile * sigma
            for s in (-1.0, 1.0)
        )
        estimates.append(
            ParameterEstimate(
                parameter.name,
                parameter.unit,
                parameter.get(start),
                value,
                error,
                float(low),
                float(high),
                parameter.name not in fitted.fixed
                and bool(excited_sigma < MAX_EXCITED_ERROR * (1.0 if parameter.positive else 2.0 * parameter.scale)),
                parameter.manoeuvre,
            )
        )
    return tuple(estimates)


def _commanded_speed_error(parameter: FreeParameter, value: float, start: Vehicle) -> float:
    """Return the error, relative for a positive parameter, that the unmeasured rotor speeds leave."""
    if parameter.name == "thrust_curve.linear":
        return COMMANDED_CURVE_ERROR
    spreads = valid_spreads(start)
    speed_error = spreads.get("motor.speed_max", COMMANDED_SPEED_SIGMA)
    power = dict(SPEED_POWERS).get(parameter.name, 0.0)
    return power * speed_error * (1.0 if parameter.positive else abs(value))


def student_quantile(probability: float, degrees_of_freedom: float) -> float:
    """Quantile of Student's t, by its expansion about the normal quantile in 1/ν to the fourth order (Abramowitz, Stegun
    26.7.5)."""
    z = NormalDist().inv_cdf(probability)
    z2, nu = z * z, degrees_of_freedom
    terms = (
        (z2 + 1.0) / 4.0,
        ((5.0 * z2 + 16.0) * z2 + 3.0) / 96.0,
        (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) / 384.0,
        ((((79.0 * z2 + 776.0) * z2 + 1482.0) * z2 - 1920.0) * z2 - 945.0) / 92160.0,
    )
    return z * (1.0 + sum(term / nu ** (k + 1) for k, term in enumerate(terms)))


def _deviations(covariance: Array) -> Array:
    """√Σᵢᵢ; infinite where rounding made a variance negative, because the flights do not determine the parameter."""
    variances = np.diag(covariance)
    return np.where(variances > 0.0, np.sqrt(np.abs(variances)), math.inf)


def _correlation(covariance: Array) -> Array:
    sigma = _deviations(covariance)
    matrix = covariance / np.outer(sigma, sigma)
    return np.clip(0.5 * (matrix + matrix.T), -1.0, 1.0)


def add_motor_sources(vehicle: Vehicle, source: str) -> Vehicle:
    """Return the vehicle with the source of the speed range of its motors."""
    keys = ("speed_min", "speed_max")
    sources = {f"rotors[{i}].motor.{key}": source for i in range(len(vehicle.rotors)) for key in keys}
    structure = replace(vehicle.structure, sources=tuple((valid_sources(vehicle) | sources).items()))
    return replace(vehicle, structure=structure)


def centre_thrust_curve(bare: Vehicle, start: Vehicle, flights: Sequence[ResampledLog]) -> Vehicle:
    """Return the prepared vehicle with Ω₀ of a thrust curve that the start lacks at the mean speed of the flights."""
    if start.has("thrust_curve"):
        return bare
    speeds = [flight.commanded if flight.rotor_speed is None else flight.rotor_speed for flight in flights]
    mean_square = [np.mean(rows[:, flight.usable] ** 2) for rows, flight in zip(speeds, flights, strict=True)]
    return bare.replace({"thrust_curve.speed": float(np.sqrt(np.mean(mean_square)))})


def complete_vehicle(
    bare: Vehicle,
    start: Vehicle,
    trims: Sequence[FlightTrim],
    estimates: Sequence[ParameterEstimate],
    source: str,
    *,
    is_predictor: bool = False,
) -> Vehicle:
    """Return the start vehicle with the fitted parameters, the mean gain of each rotor in its kF and kM, and their sources.

    Effects of the start vehicle that the fit excludes (contact, battery) stay on. An effect that was off is switched on if one
    of its parameters was excited, and in a predictor always.
    """
    by_name = {estimate.name: estimate for estimate in estimates}
    gains = np.exp(np.mean([np.log(trim.gains) for trim in trims], axis=0))
    rotors = tuple(
        rotor._replace(
            r_B=Vec3(*(float(x) for x in fitted_rotor.r_B)),
            k_thrust=float(fitted_rotor.k_thrust * gain),
            k_torque=float(fitted_rotor.k_torque * gain),
            motor=rotor.motor._replace(
                time_constant_up=float(fitted_rotor.motor.time_constant_up),
                time_constant_down=float(fitted_rotor.motor.time_constant_down),
            ),
        )
        for rotor, fitted_rotor, gain in zip(start.rotors, bare.rotors, gains, strict=True)
    )
    inertia_B = _physical_inertia(bare.inertia_B)
    vehicle = _update_contact_surface(replace(start, rotors=rotors, inertia_B=inertia_B))
    if bare["drag"].linear != (0.0, 0.0, 0.0):
        vehicle = _enable_effect(vehicle, "drag", frame="body", **_drag_options(bare["drag"]))
    if bare["thrust_curve"].linear != 0.0:
        curve = {name: float(value) for name, value in bare["thrust_curve"]._asdict().items()}
        vehicle = _enable_effect(vehicle, "thrust_curve", **curve)
    if bare["rotor_drag"].axial != 0.0:
        vehicle = _enable_effect(
            vehicle, "rotor_drag", coefficient=bare["rotor_drag"].coefficient, axial=bare["rotor_drag"].axial
        )

    def is_on(effect: str) -> bool:
        is_excited = any(estimate.excited for name, estimate in by_name.items() if name.startswith(f"{effect}."))
        return is_predictor or start.has(effect) or is_excited

    if is_on("airspeed_moment"):
        vehicle = _enable_effect(vehicle, "airspeed_moment", **bare["airspeed_moment"]._asdict())
    if is_on("damping") and any(coefficient > 0.0 for coefficient in bare["damping"].linear):
        vehicle = _enable_effect(
            vehicle, "damping", linear=Vec3(*(max(coefficient, 0.0) for coefficient in bare["damping"].linear))
        )
    sources = valid_sources(start) | _sources(by_name, source, len(rotors))
    if inertia_B != bare.inertia_B:
        limit = f"zz set to {inertia_B.zz:.4g}: no moment of inertia exceeds the sum of the others"
        sources["body.inertia"] = f"{sources.get('body.inertia', source)}; {limit}"
    structure = replace(vehicle.structure, sources=tuple(sources.items()), replaced_parameters=())
    return replace(vehicle, structure=structure)


def _update_contact_surface(vehicle: Vehicle) -> Vehicle:
    """Return the vehicle with foot stiffness derived from its mass and inertia."""
    if not vehicle.has("contact"):
        return vehicle
    contact = vehicle["contact"]
    surface = derived_surface(vehicle.mass, vehicle.inertia_B, contact.points_B, contact.surface.friction)
    return vehicle.with_effect(vehicle.structure.effects[vehicle.index("contact")], contact._replace(surface=surface))


def _physical_inertia(inertia: Mat3) -> Mat3:
    """Adjust Jzz until the inertia is physical: no principal moment exceeds the sum of the other two."""
    for _ in range(200):
        first, second, third = np.linalg.eigvalsh(np.array(inertia.rows, dtype=float))
        if third <= 0.995 * (first + second):
            break
        is_flat = inertia.zz >= max(inertia.xx, inertia.yy)  # then Jzz is too large
        inertia = inertia._replace(zz=float(inertia.zz * (0.98 if is_flat else 1.02)))
    return inertia


def _drag_options(drag: Scalar) -> dict[str, Scalar]:
    linear = Vec3(*(max(float(coefficient), 0.0) for coefficient in drag.linear))
    return {"linear": linear, "quadratic": drag.quadratic, "isotropic": drag.isotropic}


def _enable_effect(vehicle: Vehicle, effect: str, **options: Scalar) -> Vehicle:
    return switch_on(vehicle.without_effect(effect) if vehicle.has(effect) else vehicle, effect, **options)


FILE_KEYS = (
    ("k_thrust", "rotors[{i}].k_thrust"),
    ("k_torque", "rotors[{i}].k_torque"),
    ("thrust_curve.linear", "thrust_curve.linear"),
    ("inertia.", "body.inertia"),
    ("centre_of_mass.", "rotors[{i}].position"),
    ("motor.time_constant_up", "rotors[{i}].motor.time_constant_up"),
    ("motor.time_constant_down", "rotors[{i}].motor.time_constant_down"),
    ("drag.linear.", "drag.linear"),
    ("drag.isotropic", "drag.isotropic"),
    ("rotor_drag.axial", "rotor_drag.axial"),
    ("airspeed_moment.roll", "airspeed_moment.roll"),
    ("airspeed_moment.pitch", "airspeed_moment.pitch"),
    ("damping.", "damping.linear"),
)
"""Keys of a vehicle file that contain an estimate, by the prefix of its name."""


def _sources(estimates: Mapping[str, ParameterEstimate], source: str, rotors: int) -> dict[str, str]:
    """Return the source text for every key of the file that contains estimates."""
    sources = {}
    for prefix, key in FILE_KEYS:
        parts = [estimate for name, estimate in estimates.items() if name.startswith(prefix)]
        if all(
            not part.excited and math.isclose(part.value, part.start, rel_tol=1e-6, abs_tol=1e-12) for part in parts
        ):
            continue  # the value did not change, so neither did its source
        text = f"{source}: {'; '.join(_format_estimate(estimate) for estimate in parts)}"
        if prefix in ("k_thrust", "k_torque"):
            text += "; times this rotor's gain"
        for i in range(rotors if "{i}" in key else 1):
            sources[key.format(i=i)] = text
    return sources


def _format_estimate(estimate: ParameterEstimate) -> str:
    name = estimate.name.rpartition(".")[2]
    if not estimate.excited:
        return f"{name} not excited, {estimate.value:.3g} ± {estimate.error:.1g}"
    return f"{name} {estimate.value:.4g} ± {estimate.error:.2g}, 95 % {estimate.low:.4g} to {estimate.high:.4g}"
