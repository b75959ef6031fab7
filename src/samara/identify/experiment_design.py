"""Plan the flight that is most informative about a vehicle's parameters.

Every manoeuvre of the family (`samara.identify.manoeuvres`) is simulated in one batch; those that leave the flight volume or
exceed its limits of tilt, speed or thrust are excluded. The information matrix of a flight
(`samara.identify.fisher_information`) is the sum of those of its manoeuvres: manoeuvres are added and exchanged while the
standard errors approach their targets, Σ ln(1 + (σ/aim)²). An error far above its target counts by its logarithm, as in a
D-optimal design; one far below hardly counts.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.control.default_gains import default_gains
from samara.core.atomic_files import atomic_write
from samara.core.coerce import sanitise_name
from samara.core.toml import toml_value
from samara.core.types import Array
from samara.identify.fisher_information import (
    SimulatedFlights,
    experiment_parameters,
    information_matrices,
    shortfall,
    standard_errors,
    target_errors,
)
from samara.identify.manoeuvres import (
    FlightVolume,
    Manoeuvre,
    identification_controller,
    manoeuvre_family,
    manoeuvre_trajectory,
    require_room,
)
from samara.physics.quantities import speed, tilt_deg
from samara.physics.types import State, Vehicle
from samara.plan.trajectory import Trajectory, hover, sequence
from samara.record.streams import StreamBlock, concatenate_blocks
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Rates
from samara.sim.setup import Variation
from samara.sim.simulation import Simulation
from samara.vehicles.limits import thrust_limits
from samara.wind.sources import Constant

RATES = Rates(log=250.0)
WAYPOINT_PERIOD = 0.1  # [s]
END_NAMES = ("take off", "land")
CLIMB_SPEED, DESCENT_SPEED = 1.0, 0.4  # [m/s]: of take-off and landing
SETTLING_TIME = 5.0  # ω T of the position loop
MIN_IMPROVEMENT = 1e-9  # smallest improvement of the shortfall for which manoeuvres are exchanged
MAX_DURATION_RATIO = 3.0  # duration of the longest flight of a batch over that of the shortest

Progress = Callable[[str], None]


class Candidate(NamedTuple):
    """A simulated manoeuvre: its duration [s], its information, and the reason why it is unsafe, "" if it is safe."""

    manoeuvre: Manoeuvre
    duration: float
    information: Array
    unsafe: str


class FlightPlan(NamedTuple):
    """A flight for identification: its manoeuvres in order, the flight volume, and the expected accuracy.

    `errors` are the expected standard errors by parameter: relative, in arms for the centre of mass. They hold for gusts of
    0.4 m/s, noise of 1 % of the weight, and an unknown steady wind; use them to compare plans, not as a guarantee.
    `shortfall` is the distance from the targets, and `single_shortfall` that of the best manoeuvre repeated for the same time.
    """

    vehicle: Vehicle
    manoeuvres: tuple[Manoeuvre, ...]
    room: FlightVolume
    duration: float
    shortfall: float
    single_shortfall: float
    errors: dict[str, float]
    candidates: tuple[Candidate, ...]

    @property
    def trajectory(self) -> Trajectory:
        """From hover at home to hover at home."""
        return manoeuvre_trajectory(self.manoeuvres, self.room.home_W)


def plan_flight(
    vehicle: Vehicle,
    duration: float = 120.0,
    room: FlightVolume | None = None,
    progress: Progress = lambda sentence: None,
) -> FlightPlan:
    """Plan the most informative flight of `duration` [s] within a flight volume.

    Args:
        vehicle: the best available model of the vehicle.
        duration: total time of the manoeuvres [s], 20 to 3600.
        room: the flight volume and its limits.
        progress: called with a sentence at each stage.

    Raises:
        ValueError: no manoeuvre is safe in this flight volume.
    """
    (plan,) = plan_flights([vehicle], duration, [room or FlightVolume()], progress)
    if isinstance(plan, ValueError):
        raise plan
    return plan


def plan_flights(
    vehicles: Sequence[Vehicle],
    duration: float,
    rooms: Sequence[FlightVolume],
    progress: Progress = lambda sentence: None,
) -> list[FlightPlan | ValueError]:
    """Plan a flight for each vehicle, or return the reason why none is safe; all vehicles are simulated together."""
    for vehicle, room in zip(vehicles, rooms, strict=True):
        require_room(room)
        if not vehicle.rotors:
            raise ValueError(f"{vehicle.name} has no rotors; expected a vehicle whose rotors are to be identified")
    if not 20.0 <= duration <= 3600.0:
        raise ValueError(f"duration is {duration!r} s; expected 20 to 3600")
    families = [manoeuvre_family(vehicle, room) for vehicle, room in zip(vehicles, rooms, strict=True)]
    progress(f"flying {sum(map(len, families))} manoeuvres")
    candidates = assess_manoeuvres(vehicles, families, rooms)
    safe = [
        [candidate for candidate in vehicle_candidates if not candidate.unsafe and candidate.duration <= duration]
        for vehicle_candidates in candidates
    ]
    counts = [np.zeros(0, dtype=int) for _ in vehicles]
    unsafe = [vehicle_candidates[0].unsafe for vehicle_candidates in candidates]
    open_plans = [i for i, safe_candidates in enumerate(safe) if safe_candidates]
    while open_plans:
        progress("choosing")
        for i in open_plans:
            counts[i] = choose_counts(safe[i], duration, target_errors(experiment_parameters(vehicles[i])))
        orders = {
            i: [candidate for candidate, n in zip(safe[i], counts[i], strict=True) for _ in range(int(n))]
            for i in open_plans
        }
        progress("flying the plan" if len(open_plans) == 1 else f"flying {len(open_plans)} plans")
        trajectories = [
            manoeuvre_trajectory([candidate.manoeuvre for candidate in orders[i]], rooms[i].home_W) for i in open_plans
        ]
        flights = simulate_tasks([vehicles[i] for i in open_plans], trajectories, [rooms[i] for i in open_plans])
        unsafe_plans = []
        for k, i in enumerate(open_plans):
            violation = _first_violation(vehicles[i], flights, k, rooms[i])
            if violation is not None:
                ends = np.cumsum(
                    [candidate.duration for candidate in orders[i]]
                )  # a safe manoeuvre may be unsafe after others
                culprit = orders[i][min(int(np.searchsorted(ends, violation.time)), len(ends) - 1)]
                safe[i], unsafe[i] = (
                    [candidate for candidate in safe[i] if candidate is not culprit],
                    violation.sentence,
                )
                unsafe_plans += [i] if safe[i] else []
        open_plans = unsafe_plans
    plans: list[FlightPlan | ValueError] = []
    for i, (vehicle, room) in enumerate(zip(vehicles, rooms, strict=True)):
        if safe[i]:
            plans.append(_plan(vehicle, room, safe[i], counts[i], candidates[i], duration))
        else:
            plans.append(ValueError(f"{vehicle.name}: no flight is safe in this room; {unsafe[i]}"))
    return plans


def _plan(
    vehicle: Vehicle,
    room: FlightVolume,
    safe: list[Candidate],
    counts: Array,
    candidates: list[Candidate],
    duration: float,
) -> FlightPlan:
    """Build the plan of one vehicle from the counts of its manoeuvres."""
    total_information = np.einsum("i,iab->ab", counts, np.stack([candidate.information for candidate in safe]))
    total_duration = float(counts @ np.array([candidate.duration for candidate in safe]))
    parameters = experiment_parameters(vehicle)
    aims = target_errors(parameters)
    errors = dict(
        zip((parameter.name for parameter in parameters), standard_errors(total_information).tolist(), strict=True)
    )
    single = min(float(shortfall(candidate.information * (duration / candidate.duration), aims)) for candidate in safe)
    manoeuvres = tuple(
        candidate.manoeuvre for candidate, count in zip(safe, counts, strict=True) for _ in range(int(count))
    )
    return FlightPlan(
        vehicle,
        manoeuvres,
        room,
        total_duration,
        float(shortfall(total_information, aims)),
        single,
        errors,
        tuple(candidates),
    )


def assess_manoeuvres(
    vehicles: Sequence[Vehicle], manoeuvres: Sequence[Sequence[Manoeuvre]], rooms: Sequence[FlightVolume]
) -> list[list[Candidate]]:
    """Simulate every manoeuvre with its vehicle in batches; return its information and whether it stays within the limits."""
    vehicle_index = [i for i, vehicle_manoeuvres in enumerate(manoeuvres) for _ in vehicle_manoeuvres]
    tasks = [
        manoeuvre_trajectory([manoeuvre], rooms[i].home_W)
        for i, vehicle_manoeuvres in enumerate(manoeuvres)
        for manoeuvre in vehicle_manoeuvres
    ]
    candidates: list[Candidate | None] = [None] * len(tasks)
    all_manoeuvres = [manoeuvre for vehicle_manoeuvres in manoeuvres for manoeuvre in vehicle_manoeuvres]
    for batch in _group_by_duration([task.duration for task in tasks]):
        batch_flights = simulate_tasks(
            [vehicles[vehicle_index[k]] for k in batch],
            [tasks[k] for k in batch],
            [rooms[vehicle_index[k]] for k in batch],
        )
        for i in sorted({vehicle_index[k] for k in batch}):
            lanes = [lane for lane, k in enumerate(batch) if vehicle_index[k] == i]
            flights = SimulatedFlights(
                batch_flights.time,
                batch_flights.states[..., lanes],
                batch_flights.commands[..., lanes],
                batch_flights.durations[lanes],
            )
            matrices = information_matrices(vehicles[i], flights, experiment_parameters(vehicles[i]))
            for column, lane in enumerate(lanes):
                violation = _first_violation(vehicles[i], flights, column, rooms[i])
                candidates[batch[lane]] = Candidate(
                    all_manoeuvres[batch[lane]],
                    float(flights.durations[column]),
                    matrices[column],
                    violation.sentence if violation else "",
                )
    return [
        [candidate for candidate, i in zip(candidates, vehicle_index, strict=True) if candidate and i == k]
        for k in range(len(vehicles))
    ]


def _group_by_duration(durations: Sequence[float]) -> list[list[int]]:
    """Group flights of similar duration: every flight of a batch is simulated for as long as the longest."""
    groups: list[list[int]] = []
    for k in sorted(range(len(durations)), key=lambda k: durations[k]):
        if not groups or durations[k] > MAX_DURATION_RATIO * durations[groups[-1][0]]:
            groups.append([])
        groups[-1].append(k)
    return groups


def simulate_tasks(
    vehicles: Sequence[Vehicle], tasks: Sequence[Trajectory], rooms: Sequence[FlightVolume]
) -> SimulatedFlights:
    """Simulate tasks in one batch, each from hover at home, after the vehicle has settled in the wind."""
    slowest = min(
        float(default_gains(vehicle).position) for vehicle in {id(vehicle): vehicle for vehicle in vehicles}.values()
    )
    settling = round(SETTLING_TIME / slowest, 1) if any(room.wind for room in rooms) else 0.0
    drones = tuple(
        Drone(
            str(i),
            vehicle,
            sequence(hover(room.home_W, duration=settling), task) if settling else task,
            room.home_W,
            airborne=True,
            controller=identification_controller(room),
        )
        for i, (vehicle, task, room) in enumerate(zip(vehicles, tasks, rooms, strict=True))
    )
    durations = np.array([vehicle.duration for vehicle in tasks])
    winds = tuple(Constant(room.wind_W) for room in rooms)
    blocks: list[StreamBlock] = []
    scenario = Scenario("manoeuvres", drones, float(math.ceil(durations.max() + settling)), rates=RATES, wind=winds[0])
    simulation = Simulation(scenario, lambda vehicle, lines: blocks.extend(vehicle), variation=Variation(winds))
    simulation.run()
    streams = concatenate_blocks([vehicle for vehicle in blocks if vehicle.topics[0].endswith(("/state", "/command"))])
    time = streams["/0/state"][0] * 1e-6
    rows = np.flatnonzero(time >= settling - 1e-9)
    states, commands = (
        np.stack([streams[f"/{i}/{name}"][1][rows].T for i in range(len(tasks))], axis=-1)
        for name in ("state", "command")
    )
    return SimulatedFlights(time[rows] - settling, states, commands, durations)


class LimitViolation(NamedTuple):
    """A violated limit as a sentence, and the time of the first violation [s]."""

    sentence: str
    time: float


def _first_violation(vehicle: Vehicle, flown: SimulatedFlights, lane: int, room: FlightVolume) -> LimitViolation | None:
    """Return the first limit that a flight violates, if any."""
    is_flying = flown.time < flown.durations[lane]
    rows, time = flown.states[:, is_flying, lane], flown.time[is_flying]
    state = State.from_numpy(rows, "wxyz", vehicle)
    x, y, z = state.p_W
    max_thrust = sum(limit.high for limit in thrust_limits(vehicle))
    thrust = sum(
        rotor.k_thrust * rotor_speed * rotor_speed
        for rotor, rotor_speed in zip(vehicle.rotors, state.rotor_speed, strict=True)
    )
    violations = []
    for template, values, limit in (
        ("it moves {:.3g} m sideways; expected at most {:g}", np.maximum(np.abs(x), np.abs(y)), room.reach),
        ("it climbs to {:.3g} m; expected at most {:g}", z, room.high),
        ("it sinks to {:.3g} m below the top; expected at most {:.3g}", room.high - z, room.high - room.low),
        ("it flies at {:.3g} m/s; expected at most {:g}", speed(state.v_W), room.speed),
        ("it tilts by {:.3g} degrees; expected at most {:.3g}", tilt_deg(state.q_WB), math.degrees(room.tilt)),
        ("it uses {:.2g} of its thrust; expected at most {:g}", thrust / max_thrust, room.thrust),
    ):
        is_violated = ~(values <= limit)
        if is_violated.any():
            violations.append(
                LimitViolation(template.format(float(np.max(values)), limit), float(time[int(np.argmax(is_violated))]))
            )
    return min(violations, key=lambda violation: violation.time, default=None)


def choose_counts(safe: Sequence[Candidate], duration: float, aims: Array) -> Array:
    """Choose the count of each manoeuvre: greedily by improvement per second, then by exchanges that reduce the shortfall."""
    matrices, times = (
        np.stack([candidate.information for candidate in safe]),
        np.array([candidate.duration for candidate in safe]),
    )
    counts = np.zeros(len(safe), dtype=int)

    def total_shortfall(counts: Array) -> float:
        return float(shortfall(np.einsum("i,iab->ab", counts, matrices), aims))

    def fill_up() -> None:
        while (is_fitting := times <= duration - counts @ times).any():
            current = np.einsum("i,iab->ab", counts, matrices)
            gain = np.where(
                is_fitting, (shortfall(current, aims) - shortfall(current + matrices, aims)) / times, -np.inf
            )
            counts[int(np.argmax(gain))] += 1

    fill_up()
    best, least = counts.copy(), total_shortfall(counts)
    is_improving = True
    while is_improving:
        is_improving = False
        for removed in np.flatnonzero(best):
            for added in range(len(safe)):
                counts = best.copy()
                counts[removed] -= 1
                if added == removed or times[added] > duration - counts @ times:
                    continue
                counts[added] += 1
                fill_up()
                value = total_shortfall(counts)
                if value < least - MIN_IMPROVEMENT:
                    best, least, is_improving = counts.copy(), value, True
                    break
            if is_improving:
                break
    return best


# Files ----------------------------------------------------------------------------------------------------------------


def write_plan(plan: FlightPlan, folder: str | Path, vehicle: str = "") -> tuple[Path, Path]:
    """Write `identify_<name>.toml`, a scenario with take-off and landing, and `identify_<name>.csv`, the flight as waypoints.

    `vehicle` is the vehicle of the scenario: a shipped name or a file in `folder`; default: the name of the plan's vehicle.
    """
    stem = sanitise_name(f"identify_{plan.vehicle.name}")
    paths = Path(folder) / f"{stem}.toml", Path(folder) / f"{stem}.csv"
    for path, text in zip(paths, (scenario_text(plan, vehicle, stem), waypoint_text(plan)), strict=True):
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return paths


def scenario_text(plan: FlightPlan, vehicle: str = "", name: str = "identify") -> str:
    """Return the flight as a scenario file: take-off, the manoeuvres, landing."""
    home = plan.room.home_W
    climb, descent = home.z / CLIMB_SPEED + 1.0, home.z / DESCENT_SPEED + 3.0
    lines = [
        f"# The most informative flight for {toml_value(plan.vehicle.name)}: {plan.duration:.0f} s of manoeuvres within",
        f"# x, y = ±{plan.room.reach:g} m and z = {plan.room.low:g} to {plan.room.high:g} m.",
        "schema = 1",
        f"name = {toml_value(name)}",
        f"description = {toml_value(f'{len(plan.manoeuvres)} manoeuvres to identify {plan.vehicle.name}')}",
        f"duration = {math.ceil(plan.duration + climb + descent + 3.0)}.0",
        "",
        "[rates]",
        "log = 250",
        "",
        "[[drones]]",
        'name = "drone"',
        f"vehicle = {toml_value(vehicle or plan.vehicle.name)}",
        f"controller = {{ {_controller_text(plan)} }}",
    ]
    take_off = Manoeuvre(END_NAMES[0], ({"type": "take_off", "height": home.z, "speed": CLIMB_SPEED},))
    landing = Manoeuvre(END_NAMES[1], ({"type": "land", "speed": DESCENT_SPEED},))
    for manoeuvre in (take_off, *plan.manoeuvres, landing):
        lines += ["", f"# {manoeuvre.name}"]
        for task in manoeuvre.tasks:
            lines += ["[[drones.tasks]]", *(f"{key} = {toml_value(value)}" for key, value in task.items())]
    limit = math.degrees(plan.room.tilt)
    lines += ["", "[expect]", f"max_tilt_deg = {limit:g}", ""]
    return "\n".join(lines)


def _controller_text(plan: FlightPlan) -> str:
    return f'type = "{identification_controller(plan.room).name}", tilt_deg = {math.degrees(plan.room.tilt):g}'


def waypoint_text(plan: FlightPlan) -> str:
    """Return the manoeuvres as waypoints, ten a second: x,y,z in m, yaw in degrees, time in s."""
    time = np.arange(0.0, plan.duration + WAYPOINT_PERIOD, WAYPOINT_PERIOD)
    references = plan.trajectory.evaluate(time)
    rows = zip(*references.p_W, np.degrees(references.yaw), time, strict=True)
    lines = [",".join(f"{number + 0.0:.4f}".rstrip("0").rstrip(".") for number in row) for row in rows]
    return "\n".join(["x,y,z,yaw,time", *lines, ""])
