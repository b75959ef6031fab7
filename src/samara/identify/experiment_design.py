"""The flight that would tell most about a vehicle's numbers: the one that leaves least missing to what is aimed at.

Every manoeuvre of the family (`samara.identify.manoeuvres`) is flown in simulation, all side by side; those that leave the room
or lean, hurry or pull too much are left out. What each of the others tells is its information matrix
(`samara.identify.fisher_information`), and what a flight tells is their sum: manoeuvres are added and exchanged while
the standard
errors that it leaves come closer to their aims, Σ ln(1 + (σ/aim)²). Far above its aim an error counts by its logarithm, as in a
D-optimal design; far below it counts no more.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.control.default_gains import gains_for
from samara.core.atomic_files import atomic_write
from samara.core.coerce import as_name
from samara.core.toml import toml_value
from samara.core.types import Array
from samara.identify.fisher_information import Flown, aims_of, information, parameters_of, shortfall, standard_errors
from samara.identify.manoeuvres import Manoeuvre, Room, controller_for, family, require_room, trajectory
from samara.physics.quantities import speed, tilt_deg
from samara.physics.types import State, Vehicle
from samara.plan.trajectory import Trajectory, hover, sequence
from samara.record.streams import Block, tables
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Rates
from samara.sim.setup import Variation
from samara.sim.simulation import Simulation
from samara.vehicles.limits import thrust_limits
from samara.wind.sources import Constant

RATES = Rates(log=250.0)
WAYPOINT_PERIOD = 0.1  # [s]
ENDS = ("take off", "land")
CLIMBING, SINKING = 1.0, 0.4  # [m/s]: of take-off and landing
SETTLED = 5.0  # ω T of the position loop
GAIN = 1e-9  # of what is missing: what an exchange must bring
LONGER = 3.0  # of the shortest of those that are flown together

Progress = Callable[[str], None]


class Candidate(NamedTuple):
    """A manoeuvre that was flown: how long it lasts [s], what it tells, and why it is not safe, "" where it is"""

    manoeuvre: Manoeuvre
    duration: float
    information: Array
    unsafe: str


class FlightPlan(NamedTuple):
    """A flight for identification: its manoeuvres in their order, the room it was made for, and what it would tell.

    `errors` are the standard errors to expect, by parameter: relative ones, of a centre of mass in arms. They hold for gusts of
    0.4 m/s, a noise of 1 % of the weight, and a steady wind that nobody knows; they compare plans, and promise nothing.
    `shortfall` is what is missing to the aims, and `single` that of the best manoeuvre flown over and over for as long.
    """

    vehicle: Vehicle
    manoeuvres: tuple[Manoeuvre, ...]
    room: Room
    duration: float
    shortfall: float
    single: float
    errors: dict[str, float]
    candidates: tuple[Candidate, ...]

    @property
    def trajectory(self) -> Trajectory:
        """From hover at home to hover at home"""
        return trajectory(self.manoeuvres, self.room.home_W)


def plan_flight(
    vehicle: Vehicle, duration: float = 120.0, room: Room | None = None, progress: Progress = lambda sentence: None
) -> FlightPlan:
    """The manoeuvres that together tell most about a vehicle in so many seconds, all within a room"""
    (plan,) = plan_flights([vehicle], duration, [room or Room()], progress)
    if isinstance(plan, ValueError):
        raise plan
    return plan


def plan_flights(
    vehicles: Sequence[Vehicle], duration: float, rooms: Sequence[Room], progress: Progress = lambda sentence: None
) -> list[FlightPlan | ValueError]:
    """A plan for each vehicle in its room, or why there is none: their flights are simulated together"""
    for vehicle, room in zip(vehicles, rooms, strict=True):
        require_room(room)
        if not vehicle.rotors:
            raise ValueError(f"{vehicle.name} has no rotors; expected a vehicle whose rotors are to be identified")
    if not 20.0 <= duration <= 3600.0:
        raise ValueError(f"duration is {duration!r} s; expected 20 to 3600")
    wanted = [family(vehicle, room) for vehicle, room in zip(vehicles, rooms, strict=True)]
    progress(f"flying {sum(map(len, wanted))} manoeuvres")
    candidates = assess(vehicles, wanted, rooms)
    safe = [[own for own in each if not own.unsafe and own.duration <= duration] for each in candidates]
    counts = [np.zeros(0, dtype=int) for _ in vehicles]
    unsafe = [each[0].unsafe for each in candidates]
    left = [i for i, own in enumerate(safe) if own]
    while left:
        progress("choosing")
        for i in left:
            counts[i] = chosen(safe[i], duration, aims_of(parameters_of(vehicles[i])))
        orders = {i: [own for own, n in zip(safe[i], counts[i], strict=True) for _ in range(int(n))] for i in left}
        progress("flying the plan" if len(left) == 1 else f"flying {len(left)} plans")
        ways = [trajectory([own.manoeuvre for own in orders[i]], rooms[i].home_W) for i in left]
        flown = flown_in([vehicles[i] for i in left], ways, [rooms[i] for i in left])
        again = []
        for lane, i in enumerate(left):
            passed = _passed(vehicles[i], flown, lane, rooms[i])
            if passed is not None:
                ends = np.cumsum([own.duration for own in orders[i]])  # safe alone is not safe after those before it
                during = orders[i][min(int(np.searchsorted(ends, passed.time)), len(ends) - 1)]
                safe[i], unsafe[i] = [own for own in safe[i] if own is not during], passed.sentence
                again += [i] if safe[i] else []
        left = again
    plans: list[FlightPlan | ValueError] = []
    for i, (vehicle, room) in enumerate(zip(vehicles, rooms, strict=True)):
        if safe[i]:
            plans.append(_plan(vehicle, room, safe[i], counts[i], candidates[i], duration))
        else:
            plans.append(ValueError(f"{vehicle.name}: no flight is safe in this room; {unsafe[i]}"))
    return plans


def _plan(
    vehicle: Vehicle, room: Room, safe: list[Candidate], counts: Array, candidates: list[Candidate], duration: float
) -> FlightPlan:
    whole = np.einsum("i,iab->ab", counts, np.stack([own.information for own in safe]))
    lasting = float(counts @ np.array([own.duration for own in safe]))
    parameters = parameters_of(vehicle)
    aims = aims_of(parameters)
    errors = dict(zip((own.name for own in parameters), standard_errors(whole).tolist(), strict=True))
    single = min(float(shortfall(own.information * (duration / own.duration), aims)) for own in safe)
    way = tuple(own.manoeuvre for own, count in zip(safe, counts, strict=True) for _ in range(int(count)))
    return FlightPlan(vehicle, way, room, lasting, float(shortfall(whole, aims)), single, errors, tuple(candidates))


def assess(
    vehicles: Sequence[Vehicle], manoeuvres: Sequence[Sequence[Manoeuvre]], rooms: Sequence[Room]
) -> list[list[Candidate]]:
    """Every manoeuvre flown by its vehicle, all side by side: what it tells, and whether it keeps within the room"""
    who = [i for i, own in enumerate(manoeuvres) for _ in own]
    tasks = [trajectory([own], rooms[i].home_W) for i, each in enumerate(manoeuvres) for own in each]
    found: list[Candidate | None] = [None] * len(tasks)
    every = [own for each in manoeuvres for own in each]
    for some in _as_long([own.duration for own in tasks]):
        flown = flown_in([vehicles[who[k]] for k in some], [tasks[k] for k in some], [rooms[who[k]] for k in some])
        for i in sorted({who[k] for k in some}):
            lanes = [lane for lane, k in enumerate(some) if who[k] == i]
            own = Flown(flown.time, flown.states[..., lanes], flown.commands[..., lanes], flown.durations[lanes])
            told = information(vehicles[i], own, parameters_of(vehicles[i]))
            for at, lane in enumerate(lanes):
                passed = _passed(vehicles[i], own, at, rooms[i])
                found[some[lane]] = Candidate(
                    every[some[lane]], float(own.durations[at]), told[at], passed.sentence if passed else ""
                )
    return [[own for own, i in zip(found, who, strict=True) if own and i == at] for at in range(len(vehicles))]


def _as_long(durations: Sequence[float]) -> list[list[int]]:
    """Which are flown together: none lasts much longer than another, since all are flown as long as the longest"""
    some: list[list[int]] = []
    for k in sorted(range(len(durations)), key=lambda k: durations[k]):
        if not some or durations[k] > LONGER * durations[some[-1][0]]:
            some.append([])
        some[-1].append(k)
    return some


def flown_in(vehicles: Sequence[Vehicle], tasks: Sequence[Trajectory], rooms: Sequence[Room]) -> Flown:
    """Tasks flown side by side, each from hover at home, when it has got used to the wind there"""
    slowest = min(float(gains_for(own).position) for own in {id(own): own for own in vehicles}.values())
    before = round(SETTLED / slowest, 1) if any(room.wind for room in rooms) else 0.0
    drones = tuple(
        Drone(
            str(i),
            vehicle,
            sequence(hover(room.home_W, duration=before), task) if before else task,
            room.home_W,
            airborne=True,
            controller=controller_for(room),
        )
        for i, (vehicle, task, room) in enumerate(zip(vehicles, tasks, rooms, strict=True))
    )
    lasting = np.array([own.duration for own in tasks])
    winds = tuple(Constant(room.wind_W) for room in rooms)
    blocks: list[Block] = []
    scenario = Scenario("manoeuvres", drones, float(math.ceil(lasting.max() + before)), rates=RATES, wind=winds[0])
    simulation = Simulation(scenario, lambda own, lines: blocks.extend(own), variation=Variation(winds))
    simulation.run()
    found = tables([own for own in blocks if own.topics[0].endswith(("/state", "/command"))])
    time = found["/0/state"][0] * 1e-6
    kept = np.flatnonzero(time >= before - 1e-9)
    states, commands = (
        np.stack([found[f"/{i}/{name}"][1][kept].T for i in range(len(tasks))], axis=-1)
        for name in ("state", "command")
    )
    return Flown(time[kept] - before, states, commands, lasting)


class Passed(NamedTuple):
    """A limit that is passed, in a sentence, and when first  [s]"""

    sentence: str
    time: float


def _passed(vehicle: Vehicle, flown: Flown, lane: int, room: Room) -> Passed | None:
    """The first limit that a flight passes, if any"""
    during = flown.time < flown.durations[lane]
    rows, time = flown.states[:, during, lane], flown.time[during]
    state = State.from_numpy(rows, "wxyz", vehicle)
    x, y, z = state.p_W
    most = sum(limit.high for limit in thrust_limits(vehicle))
    lift = sum(rotor.k_thrust * own * own for rotor, own in zip(vehicle.rotors, state.rotor_speed, strict=True))
    found = []
    for words, values, limit in (
        ("it goes {:.3g} m aside; expected at most {:g}", np.maximum(np.abs(x), np.abs(y)), room.reach),
        ("it climbs to {:.3g} m; expected at most {:g}", z, room.high),
        ("it sinks to {:.3g} m below the top; expected at most {:.3g}", room.high - z, room.high - room.low),
        ("it flies at {:.3g} m/s; expected at most {:g}", speed(state.v_W), room.speed),
        ("it leans {:.3g} degrees; expected at most {:.3g}", tilt_deg(state.q_WB), math.degrees(room.tilt)),
        ("it pulls with {:.2g} of its thrust; expected at most {:g}", lift / most, room.thrust),
    ):
        beyond = ~(values <= limit)
        if beyond.any():
            found.append(Passed(words.format(float(np.max(values)), limit), float(time[int(np.argmax(beyond))])))
    return min(found, key=lambda own: own.time, default=None)


def chosen(safe: Sequence[Candidate], duration: float, aims: Array) -> Array:
    """How often each is flown: what brings most for each second first, then exchanges, while less is missing to the aims"""
    matrices, times = np.stack([own.information for own in safe]), np.array([own.duration for own in safe])
    counts = np.zeros(len(safe), dtype=int)

    def missing(counts: Array) -> float:
        return float(shortfall(np.einsum("i,iab->ab", counts, matrices), aims))

    def fill() -> None:
        while (fits := times <= duration - counts @ times).any():
            now = np.einsum("i,iab->ab", counts, matrices)
            gain = np.where(fits, (shortfall(now, aims) - shortfall(now + matrices, aims)) / times, -np.inf)
            counts[int(np.argmax(gain))] += 1

    fill()
    best, least = counts.copy(), missing(counts)
    improving = True
    while improving:
        improving = False
        for out in np.flatnonzero(best):
            for into in range(len(safe)):
                counts = best.copy()
                counts[out] -= 1
                if into == out or times[into] > duration - counts @ times:
                    continue
                counts[into] += 1
                fill()
                own = missing(counts)
                if own < least - GAIN:
                    best, least, improving = counts.copy(), own, True
                    break
            if improving:
                break
    return best


# Files ----------------------------------------------------------------------------------------------------------------


def write_plan(plan: FlightPlan, folder: str | Path, vehicle: str = "") -> tuple[Path, Path]:
    """`identify_<name>.toml`, a scenario with take-off and landing, and `identify_<name>.csv`, the same flight as waypoints

    `vehicle` is what the scenario calls it: a shipped name, or a file beside it; its name without one.
    """
    stem = as_name(f"identify_{plan.vehicle.name}")
    paths = Path(folder) / f"{stem}.toml", Path(folder) / f"{stem}.csv"
    for path, text in zip(paths, (scenario_text(plan, vehicle, stem), waypoint_text(plan)), strict=True):
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return paths


def scenario_text(plan: FlightPlan, vehicle: str = "", name: str = "identify") -> str:
    """The flight as a scenario file: take-off, the manoeuvres, landing"""
    home = plan.room.home_W
    climb, sink = home.z / CLIMBING + 1.0, home.z / SINKING + 3.0
    lines = [
        f"# The flight that tells most about {toml_value(plan.vehicle.name)}: {plan.duration:.0f} s of manoeuvres within",
        f"# x, y = ±{plan.room.reach:g} m and z = {plan.room.low:g} to {plan.room.high:g} m.",
        "schema = 1",
        f"name = {toml_value(name)}",
        f"description = {toml_value(f'{len(plan.manoeuvres)} manoeuvres to identify {plan.vehicle.name}')}",
        f"duration = {math.ceil(plan.duration + climb + sink + 3.0)}.0",
        "",
        "[rates]",
        "log = 250",
        "",
        "[[drones]]",
        'name = "drone"',
        f"vehicle = {toml_value(vehicle or plan.vehicle.name)}",
        f"controller = {{ {_controller_text(plan)} }}",
    ]
    takes_off = Manoeuvre(ENDS[0], ({"kind": "take_off", "height": home.z, "speed": CLIMBING},))
    lands = Manoeuvre(ENDS[1], ({"kind": "land", "speed": SINKING},))
    for own in (takes_off, *plan.manoeuvres, lands):
        lines += ["", f"# {own.name}"]
        for task in own.tasks:
            lines += ["[[drones.tasks]]", *(f"{key} = {toml_value(value)}" for key, value in task.items())]
    limit = math.degrees(plan.room.tilt)
    lines += ["", "[expect]", f"max_tilt_deg = {limit:g}", ""]
    return "\n".join(lines)


def _controller_text(plan: FlightPlan) -> str:
    return f'kind = "{controller_for(plan.room).name}", tilt_deg = {math.degrees(plan.room.tilt):g}'


def waypoint_text(plan: FlightPlan) -> str:
    """The manoeuvres as waypoints, ten a second: x,y,z in m, yaw in degrees, time in s"""
    time = np.arange(0.0, plan.duration + WAYPOINT_PERIOD, WAYPOINT_PERIOD)
    asked = plan.trajectory.at(time)
    rows = zip(*asked.p_W, np.degrees(asked.yaw), time, strict=True)
    lines = [",".join(f"{own + 0.0:.4f}".rstrip("0").rstrip(".") for own in row) for row in rows]
    return "\n".join(["x,y,z,yaw,time", *lines, ""])
