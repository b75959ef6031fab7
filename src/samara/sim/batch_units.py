"""A scenario of one drone as units: what each stage of its flight computes, as a pure function of that drone's numbers.

    touchdown · wind · sensors · estimator · autopilot · measures, then the physics

in the order of `samara.sim.simulation`, at the same instants and with the same draws. What Python has to do in a flight
(events, an autopilot at the end of a link, solids to collide with) has no place here, and a scenario with it is refused.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from samara.backends.flight_program import Draws, Physics, Program, Unit
from samara.backends.parameters import parameter, with_parameters
from samara.backends.rolled import rk4_in_kernel, rk4_rolled
from samara.control.named import as_tuned, controller_named, own_rate
from samara.control.tuning import Tuned
from samara.core.algebra import UP, ZERO, Vec3, norm
from samara.core.ops import logical_and, where
from samara.core.quantity import Scalar
from samara.estimate.fusion import Estimate, Fusion, Sample
from samara.estimate.simple import TRUTH
from samara.physics.multirotor import at_rest, derivative
from samara.physics.quiet import all_idle
from samara.physics.reference import Reference
from samara.physics.surroundings import empty_command, environment_of
from samara.physics.types import Environment, State, Vehicle
from samara.scenario.landing import touchdown
from samara.scenario.scenario import Scenario, ScenarioError
from samara.scenario.timeline import MICROSECONDS, microseconds, sampling
from samara.sensors.sensor import Sensor
from samara.sim.measures import START, Measures, measured, touched
from samara.sim.touching import Touching, seen
from samara.sim.vary import WIND, wind_number, wind_with
from samara.vehicles.effective import at_density
from samara.vehicles.ground import ground_clearance
from samara.vehicles.limits import LARGEST_COMMAND, within_limits
from samara.wind.sources import is_traced, wind_at

HARDEST_PULL = 100.0  # [m/s²]: what may pull a drone to the ground before the next look


class Air(NamedTuple):
    """The air at the drone: wind [m/s] and density [kg/m³]."""

    wind_W: Vec3
    density: Scalar


class Status(NamedTuple):
    """What became of it, each 1 or 0."""

    landed: Scalar = 0.0
    crashed: Scalar = 0.0


def require_batchable(scenario: Scenario) -> None:
    """A ScenarioError about the first thing in a scenario that only Python can do"""
    drone = scenario.drones[0]
    world, ground = scenario.world, scenario.environment.ground
    reasons = {
        f"{len(scenario.drones)} drones": len(scenario.drones) > 1,
        "events": bool(scenario.events),
        "an autopilot over a link": drone.autopilot is not None,
        "a battery failsafe": drone.battery_failsafe is not None,
        "a drone that is not armed": not drone.armed,
        "a motor map": bool(drone.motor_map),
        "solids or terrain": bool(world.solids) or world.terrain is not None,
        "ground that is not level": ground.normal_W != UP,
        f"the integrator {scenario.integrator}": scenario.integrator != "rk4",
        "wind at the hubs": scenario.wind_at_hubs,
        "gusts of the propellers' own wake": drone.vehicle.has("propwash"),
        "a controller made for another vehicle": drone.model is not None,
        "a controller in Python": not isinstance(as_tuned(drone.controller), Tuned),
        "a wind in Python": not is_traced(scenario.wind),
        "the firmware of a Crazyflie": own_rate(drone.controller) is not None,
        "a controller that looks ahead": getattr(as_tuned(drone.controller), "name", "") == "ilqr",
        "a sensor in Python": not all(sensor.traced for sensor in drone.sensors),
    }
    for what, there in reasons.items():
        if there:
            raise ScenarioError(f"{scenario.name}: {what}: expected a flight of arithmetic alone for jax and pallas")


def flight_program(scenario: Scenario, vary: Sequence[str] = ()) -> Program:
    """The units of a scenario's flight and the shapes of their slots; numbers of vehicle and wind in `vary` are inputs"""
    require_batchable(scenario)
    drone, periods = scenario.drones[0], scenario.rates.periods()
    winds = tuple(name for name in vary if name.startswith(WIND))
    numbers = tuple(name for name in vary if name not in winds)
    own = _Units(drone.vehicle, environment_of(drone.vehicle, scenario.environment), numbers)
    slots: dict[str, Any] = {
        "state": at_rest(drone.vehicle),
        "command": empty_command(drone.vehicle),
        "air": Air(ZERO, scenario.environment.air_density),
        "status": Status(),
        "touching": Touching(),
        "measures": START,
        "varied": own.varied,
        "varied wind": tuple(wind_number(scenario.wind, name) for name in winds),
        "goal": ZERO,
        "reference": Reference(ZERO),
        "asked": Reference(ZERO),
    }
    units = [own.touchdown(), *_wind(scenario, winds, slots)]
    units += _sensing(drone.sensors, own, periods, slots)
    known = "state"
    if isinstance(drone.estimator, Fusion):
        known = "estimate"
        units += _fusing(drone.estimator, own, slots)
    elif drone.estimator != TRUTH:
        known = "estimate"
        units += _estimating(drone.estimator, slots)
    units += [own.autopilot(drone.controller, periods["autopilot"] / MICROSECONDS, known, slots), own.measures()]
    tick = math.gcd(*(periods[unit.axis] for unit in units)) / MICROSECONDS
    return Program(
        tuple(units),
        own.physics(periods["physics"] / MICROSECONDS, tick),
        slots,
        periods,
        microseconds(scenario.duration, "duration"),
        {"reference": "autopilot", "asked": "log"},
        last=("touchdown", "measures"),
    )


class _Units:
    """What touches the vehicle: its numbers are folded in, but for those that vary."""

    def __init__(self, vehicle: Vehicle, environment: Environment, vary: tuple[str, ...]) -> None:
        self.vehicle, self.environment, self.vary = vehicle, environment, vary
        self.varied = tuple(parameter(vehicle, path) for path in vary)

    def with_numbers(self, varied: Any) -> Vehicle:
        return with_parameters(self.vehicle, self.vary, varied)

    def around(self, air: Air) -> Environment:
        """The environment in this air, with the same wind at all hubs"""
        hub_wind_W = tuple(air.wind_W for _ in self.environment.hub_wind_W)
        return self.environment._replace(wind_W=air.wind_W, air_density=air.density, hub_wind_W=hub_wind_W)

    # On the ground and off it ----------------------------------------------------------------------------------------

    def touchdown(self) -> Unit:
        """Who stands, and who has hit the ground too hard since the last time or lies on it"""

        def update(state: State, varied: Any, last: Touching, status: Status, so_far: Measures) -> Any:
            hardest = last.impact_speed
            now = touchdown(
                state.v_W,
                state.q_WB,
                state.omega_B,
                clearance=ground_clearance(state, self.with_numbers(varied), self.environment),
                impact_speed=hardest,
                landed=status.landed,
                crashed=status.crashed,
            )
            return last._replace(impact_speed=0.0), Status(now.landed, now.crashed), touched(so_far, hardest)

        reads = ("state", "varied", "touching", "status", "measures")
        return Unit("touchdown", "scenario", update, reads, reads[2:])

    def physics(self, dt: float, ahead: float) -> Physics:
        """The step; and a quiet one while no flight can come to the ground within `ahead` seconds"""
        reads, writes = ("state", "command", "air", "varied", "touching"), ("state", "touching")
        resting = {effect.name for effect in self.vehicle.structure.effects if effect.idle is not None}

        def step(state: State, command: Any, air: Air, varied: Any, touching: Touching) -> Any:
            after = self._advanced(rk4_rolled if resting else rk4_in_kernel, state, command, air, varied, dt)
            if not self.vehicle.has("contact"):
                return after, touching
            return after, seen(touching, after, self.with_numbers(varied), self.environment)

        full = Unit("physics", "physics", step, reads, writes)
        if not resting:
            return Physics(full)
        alone = _Units(self.vehicle.without_effect(*resting), self.environment, self.vary)
        stays = [effect.name in resting for effect in self.vehicle.structure.effects]

        def quiet(state: State, command: Any, air: Air, varied: Any, touching: Touching) -> Any:
            moving = tuple(own for own, rests in zip(state.effects, stays, strict=True) if not rests)
            after = alone._advanced(rk4_in_kernel, state._replace(effects=moving), command, air, varied, dt)
            moved = iter(after.effects)
            effects = tuple(own if rests else next(moved) for own, rests in zip(state.effects, stays, strict=True))
            return after._replace(effects=effects), Touching(0.0, norm(after.v_W), touching.impact_speed)

        def busy(state: State, command: Any, air: Air, varied: Any, touching: Touching) -> Any:
            """Whether an effect would not be idle, were the drone as low as it can come before the next look"""
            room = (norm(state.v_W) + HARDEST_PULL * ahead) * ahead
            lower = state._replace(p_W=state.p_W - self.environment.ground.normal_W * room)
            return where(all_idle(lower, self.with_numbers(varied), self.around(air)), 0.0, 1.0) > 0.5

        return Physics(full, Unit("quiet physics", "physics", quiet, reads, writes), busy)

    def _advanced(self, integrate: Any, state: State, command: Any, air: Air, varied: Any, dt: float) -> State:
        vehicle, around = self.with_numbers(varied), self.around(air)
        after: State = integrate(lambda x: derivative(x, command, vehicle, around), state, dt)
        return after

    # In command ------------------------------------------------------------------------------------------------------

    def autopilot(self, controller: Any, period: float, known: str, slots: dict[str, Any]) -> Unit:
        """The command of a controller by name, brought into its range as in a flight"""
        tuned = as_tuned(controller)
        density = self.environment.air_density  # at home, for which controllers are tuned
        named = controller_named(tuned.name, at_density(self.vehicle, density), (), period=period, **tuned.chosen)
        slots["controller"] = named.memory

        def update(state: State, reference: Reference, goal: Vec3, varied: Any, memory: Any) -> Any:
            wanted = reference._replace(p_W=reference.p_W + goal)
            command, memory = named.call(state, wanted, at_density(self.with_numbers(varied), density), memory)
            finite = [where(logical_and(u > -LARGEST_COMMAND, u < LARGEST_COMMAND), u, 0.0) for u in command]
            return within_limits(finite, self.vehicle), memory

        return Unit(
            "autopilot",
            "autopilot",
            update,
            (known, "reference", "goal", "varied", "controller"),
            ("command", "controller"),
        )

    # In words --------------------------------------------------------------------------------------------------------

    def measures(self) -> Unit:
        """What a recording would tell of it"""

        def update(
            state: State, command: Any, asked: Reference, goal: Vec3, varied: Any, air: Air, so_far: Measures
        ) -> Any:
            wanted = asked._replace(p_W=asked.p_W + goal)
            return (measured(so_far, state, command, wanted, self.with_numbers(varied), self.around(air)),)

        reads = ("state", "command", "asked", "goal", "varied", "air", "measures")
        return Unit("measures", "log", update, reads, ("measures",))


# In the air ----------------------------------------------------------------------------------------------------------


def _wind(scenario: Scenario, names: tuple[str, ...], slots: dict[str, Any]) -> list[Unit]:
    source = scenario.wind
    slots["gusts"] = source.initial()

    def update(time: Scalar, dt: Scalar, state: State, varied: Any, memory: Any, normals: Any = ()) -> Any:
        blowing = wind_with(source, dict(zip(names, varied, strict=True)))
        wind_W, memory = wind_at(blowing, time, dt, normals, memory, state.p_W, state.v_W)
        return Air(wind_W, scenario.environment_at(state.p_W.z).air_density), memory

    drawn = Draws("wind", source.normals_needed) if source.normals_needed else None
    reads = ("time", "dt", "state", "varied wind", "gusts")
    return [Unit("wind", "wind", update, reads, ("air", "gusts"), drawn, first_dt=math.inf)]


# What is known of it -------------------------------------------------------------------------------------------------


def _sensing(sensors: Sequence[Sensor], own: _Units, periods: dict[str, int], slots: dict[str, Any]) -> list[Unit]:
    """Each sensor samples at its own rate; what it says is heard when its delay has passed"""
    units = []
    for sensor in sensors:
        every, late = sampling(sensor, periods["sensor"])
        axis, name = f"sensor {sensor.name}", sensor.name
        periods[axis] = every * periods["sensor"]
        reading = sensor.reading or tuple(0.0 for _ in sensor.fields)
        slots[f"{name} memory"] = (
            () if sensor.initial is None else sensor.initial(own.vehicle, (0.0,) * sensor.start_normals)
        )
        slots[f"{name} coming"] = (reading,) * (late // every + 1)
        slots[f"{name} said"], slots[f"{name} fresh"] = reading, 0.0
        units += [_sample(sensor, own, axis, every * periods["sensor"]), _hear(sensor, axis, late * periods["sensor"])]
    return units


def _sample(sensor: Sensor, own: _Units, axis: str, period_us: int) -> Unit:
    name, dt = sensor.name, period_us / MICROSECONDS

    def update(state: State, command: Any, air: Air, varied: Any, memory: Any, coming: Any, normals: Any = ()) -> Any:
        given = (state, command, own.with_numbers(varied), own.around(air), normals)
        if sensor.initial is None:
            reading = sensor.measure(*given)
        else:
            reading, memory = sensor.measure(*given, memory, dt)
        return memory, (*coming[1:], reading)

    reads = ("state", "command", "air", "varied", f"{name} memory", f"{name} coming")
    drawn = Draws(f"sensor {name}", sensor.normals_needed, "sensor") if sensor.normals_needed else None
    return Unit(f"{name} samples", axis, update, reads, (f"{name} memory", f"{name} coming"), drawn)


def _hear(sensor: Sensor, axis: str, late_us: int) -> Unit:
    name, valid = sensor.name, "valid" in sensor.fields

    def update(coming: Any) -> Any:
        said = coming[0]
        return said, where(said.valid > 0.5, 1.0, 0.0) if valid else 1.0

    return Unit(
        f"{name} is heard", axis, update, (f"{name} coming",), (f"{name} said", f"{name} fresh"), after_us=late_us
    )


def _fusing(fusion: Fusion, own: _Units, slots: dict[str, Any]) -> list[Unit]:
    """Predicted by the driver's reading, corrected by each of the others that is fresh"""
    still = State(*Estimate()[:4])
    slots["filter"] = fusion.initial(still, (0.0,) * fusion.start_normals)
    slots["estimate"] = slots["state"]
    driver = fusion.driver.name

    def predict(said: Any, fresh: Scalar, memory: Any, dt: Scalar) -> Any:
        return 0.0, fusion.predict(Sample(said, fresh), memory, dt)

    units = [
        Unit(
            "prediction",
            "estimator",
            predict,
            (f"{driver} said", f"{driver} fresh", "filter", "dt"),
            (f"{driver} fresh", "filter"),
            first_dt=0.0,
        )
    ]
    for aid in fusion.aids:

        def correct(said: Any, fresh: Scalar, memory: Any, aid: Sensor = aid) -> Any:
            return 0.0, fusion.correct(aid, Sample(said, fresh), memory)

        reads = (f"{aid.name} said", f"{aid.name} fresh", "filter")
        units.append(
            Unit(
                f"correction by {aid.name}",
                "estimator",
                correct,
                reads,
                (f"{aid.name} fresh", "filter"),
                needed=lambda said, fresh, memory: fresh > 0.5,
            )
        )

    def listen(memory: Any, state: State) -> Any:
        told = fusion.estimate(memory)
        return (state._replace(p_W=told.p_W, v_W=told.v_W, q_WB=told.q_WB, omega_B=told.omega_B),)

    return [*units, Unit("estimate", "estimator", listen, ("filter", "state"), ("estimate",))]


def _estimating(estimator: Any, slots: dict[str, Any]) -> list[Unit]:
    """The truth and noise"""
    slots["estimate"], slots["estimator"] = slots["state"], estimator.initial(slots["state"])

    def update(state: State, memory: Any, dt: Scalar, normals: Any = ()) -> Any:
        return estimator.update(state, normals, memory, dt)

    drawn = Draws("estimator", estimator.normals_needed) if estimator.normals_needed else None
    reads = ("state", "estimator", "dt")
    return [Unit("estimator", "estimator", update, reads, ("estimate", "estimator"), drawn, first_dt=0.0)]
