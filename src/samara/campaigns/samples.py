"""The rows of a campaign: what each flight's numbers are. A row is decided by its number, in whatever batch it is asked for."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from samara.campaigns.campaign import Campaign, CampaignError, label
from samara.campaigns.samplers import GRID, grid_indices, points, seeds_of
from samara.control.registry import as_tuned
from samara.core.budget import read_bytes
from samara.core.lazy_import import MissingExtraError
from samara.core.quantity import Scalar
from samara.core.sanitise import printable
from samara.core.tree import flatten
from samara.core.types import Array
from samara.scenario.scenario import Scenario
from samara.sim.varied import CONTROLLER, NUMBERS, PLACES, WIND
from samara.vehicles.parameters import parameter

SETTING = "scenario."  # before the name of a number of the scenario's file
AXES = "xyz"


class Block(NamedTuple):
    """Rows that were asked for at once: from which number on, and how many"""

    number: int
    first: int
    length: int


class Rows(NamedTuple):
    """Some rows: their numbers, the seeds of their flights, and the value of each factor"""

    numbers: Array
    seeds: Array
    values: dict[str, Array]


def rows_of(campaign: Campaign, numbers: Array, block: Block, nominal: dict[str, float]) -> Rows:
    """What flies in some rows of a block; `nominal` are the numbers that relative factors multiply"""
    columns = campaign.names
    if campaign.sampler == GRID:
        axes = [own.how.values for own in campaign.factors]  # type: ignore[union-attr]
        at = grid_indices(numbers, [len(own) for own in axes])
        found = {own.name: np.array(axes[j])[at[:, j]] for j, own in enumerate(campaign.factors)}
    else:
        u = points(
            campaign.sampler,
            campaign.seed,
            numbers,
            len(columns),
            block=block.number,
            first=block.first,
            total=block.length,
        )
        found = _at_points(campaign, u)
    found = _times_nominal(campaign, found, nominal)
    if campaign.table:
        found |= _from_table(campaign, numbers, found)
    return Rows(numbers, seeds_of(campaign.seed, numbers), found)


def values_at(campaign: Campaign, u: Array, nominal: dict[str, float]) -> dict[str, Array]:
    """The factors at points (n, k) of the unit cube, by name"""
    return _times_nominal(campaign, _at_points(campaign, u), nominal)


def _at_points(campaign: Campaign, u: Array) -> dict[str, Array]:
    found = {own.name: own.how.quantile(u[:, j]) for j, own in enumerate(campaign.factors)}
    at_column = len(campaign.factors)
    for together in campaign.correlated:
        k = len(together.names)
        values = together.quantiles(u[:, at_column : at_column + k])
        found |= {name: values[:, j] for j, name in enumerate(together.names)}
        at_column += k
    return found


def _times_nominal(campaign: Campaign, found: dict[str, Array], nominal: dict[str, float]) -> dict[str, Array]:
    relative = {own.name for own in campaign.factors if own.relative}
    return {name: own * nominal[name] if name in relative else own for name, own in found.items()}


def nominal_values(campaign: Campaign, scenario: Scenario) -> dict[str, float]:
    """What the vehicle has in the place of each factor that is its number; a sentence about a name that leads nowhere"""
    known: dict[str, float] = {}
    for name in campaign.names:
        value = nominal_value(name, scenario, campaign.origin)
        if value is not None:
            known[name] = value
    for own in campaign.factors:
        if own.relative and own.name not in known:
            raise CampaignError(
                f"{campaign.origin}: vary.{label(own.name)} is relative; expected so of a number of the vehicle alone"
            )
    return known


def nominal_value(name: str, scenario: Scenario, origin: str) -> float | None:
    """The vehicle's number of that name; None where the vehicle has no such number"""
    head, _, axis = name.rpartition(".")
    if name.startswith((WIND, SETTING, CONTROLLER)) or name in NUMBERS or (head in PLACES and axis in AXES):
        if name.startswith(CONTROLLER) and as_tuned(scenario.drones[0].controller) is None:
            raise CampaignError(f"{origin}: vary.{label(name)}: the controller is code; expected one that has a name")
        return None
    if name in PLACES:
        raise CampaignError(f"{origin}: vary.{label(name)}: expected {name}.x, {name}.y or {name}.z")
    try:
        numbers = flatten(parameter(scenario.drones[0].vehicle, name.removeprefix("vehicle.")))
    except (ValueError, KeyError) as error:
        raise CampaignError(f"{origin}: vary.{label(name)}: {error.args[0]}") from None
    if len(set(numbers)) != 1:
        raise CampaignError(f"{origin}: vary.{label(name)}: is {len(numbers)} numbers; expected the path of one")
    return float(numbers[0])


def as_varied(rows: Rows, scenario: Scenario) -> dict[str, Array]:
    """What `samara.fly_many` takes: components of places put together, numbers of the file left out"""
    varied: dict[str, Array] = {}
    for name, values in rows.values.items():
        head, _, axis = name.rpartition(".")
        if head in PLACES and axis in AXES:
            before = scenario.drones[0].start_W if head == "start_W" else (0.0, 0.0, 0.0)
            place = varied.setdefault(head, np.tile(np.array([float(x) for x in before]), (len(rows.numbers), 1)))
            place[:, AXES.index(axis)] = values
        elif not name.startswith(SETTING):
            varied[name] = values
    return varied


def settings_of(rows: Rows) -> dict[str, Array]:
    """The numbers of the scenario's file that differ, by their names there"""
    return {name.removeprefix(SETTING): own for name, own in rows.values.items() if name.startswith(SETTING)}


def _from_table(campaign: Campaign, numbers: Array, taken: dict[str, Array]) -> dict[str, Array]:
    try:
        data = read_bytes(campaign.table_path())
    except OSError as error:
        raise CampaignError(
            f"{campaign.origin}: {label(campaign.table)} cannot be read ({error}); expected columns of numbers"
        ) from None
    columns = _read(data, campaign.table, campaign.origin)
    found = {}
    for name, values in columns.items():
        if name in taken:
            raise CampaignError(
                f"{campaign.origin}: {label(name)} is varied and in {label(campaign.table)} too; expected once"
            )
        if int(numbers.max()) >= len(values):
            raise CampaignError(
                f"{campaign.origin}: {label(campaign.table)} has {len(values)} rows; expected at least {int(numbers.max()) + 1}"
            )
        found[name] = values[numbers]
    return found


@lru_cache(maxsize=2)
def _read(data: bytes, name: str, origin: str) -> dict[str, Array]:
    """The columns of a CSV or Parquet file, all finite numbers"""
    pa, csv, parquet = arrow()
    try:
        file = pa.BufferReader(data)
        if name.endswith(".parquet"):
            table = parquet.read_table(file, use_threads=False, pre_buffer=False)
        else:
            table = csv.read_csv(file)
        columns = {key: np.asarray(table[key].to_numpy(), dtype=float) for key in table.column_names}
    except (OSError, ValueError, TypeError, KeyError, pa.ArrowException) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise CampaignError(
            f"{origin}: {label(name)} cannot be read ({printable(why)[:200]}); expected columns of numbers"
        ) from None
    for key, values in columns.items():
        if not np.isfinite(values).all():
            raise CampaignError(f"{origin}: {label(name)}: column {label(key)} is not all finite numbers")
    return columns


def arrow() -> tuple[Scalar, Scalar, Scalar]:
    """pyarrow, its CSV and its Parquet"""
    try:
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.csv  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("campaigns need pyarrow: pip install 'samara[sweep]'") from None
    return pyarrow, pyarrow.csv, pyarrow.parquet
