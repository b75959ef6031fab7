"""The samples of a campaign: the values of each row. A row depends only on its number, not on the batch it is computed in."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from samara.campaigns.campaign import Campaign, CampaignError, label
from samara.campaigns.samplers import GRID, flight_seeds, grid_indices, points
from samara.control.registry import coerce_controller_spec
from samara.core.budget import read_bytes
from samara.core.extras import import_extra
from samara.core.quantity import Scalar
from samara.core.sanitise import escape_control_characters
from samara.core.tree import flatten
from samara.core.types import Array
from samara.scenario.scenario import Scenario
from samara.sim.varied import CONTROLLER_PREFIX, POSITION_PARAMETERS, SCALAR_START_PARAMETERS, WIND_PREFIX
from samara.vehicles.parameters import parameter

SETTING = "scenario."  # prefix of the name of a number in the scenario's file
AXES = "xyz"


class RowRange(NamedTuple):
    """Rows that were requested together: block index, first row and row count."""

    number: int
    first: int
    length: int


class SampleRows(NamedTuple):
    """Sampled rows: their numbers, the seeds of their flights, and the value of each varied parameter."""

    row_numbers: Array
    seeds: Array
    values: dict[str, Array]


def sample_rows(campaign: Campaign, row_numbers: Array, block: RowRange, nominal: dict[str, float]) -> SampleRows:
    """Sample some rows of a block; `nominal` are the values that relative parameters multiply."""
    columns = campaign.names
    if campaign.sampler == GRID:
        axes = [factor.distribution.values for factor in campaign.factors]  # type: ignore[union-attr]
        indices = grid_indices(row_numbers, [len(axis) for axis in axes])
        values = {factor.name: np.array(axes[j])[indices[:, j]] for j, factor in enumerate(campaign.factors)}
    else:
        unit_points = points(
            campaign.sampler,
            campaign.seed,
            row_numbers,
            len(columns),
            block=block.number,
            first=block.first,
            total=block.length,
        )
        values = _quantiles(campaign, unit_points)
    values = _scale_relative(campaign, values, nominal)
    if campaign.samples:
        values |= _table_values(campaign, row_numbers, values)
    return SampleRows(row_numbers, flight_seeds(campaign.seed, row_numbers), values)


def factor_values(campaign: Campaign, u: Array, nominal: dict[str, float]) -> dict[str, Array]:
    """Return the varied parameters at points (n, k) of the unit cube, by name."""
    return _scale_relative(campaign, _quantiles(campaign, u), nominal)


def _quantiles(campaign: Campaign, u: Array) -> dict[str, Array]:
    values = {factor.name: factor.distribution.quantile(u[:, j]) for j, factor in enumerate(campaign.factors)}
    column = len(campaign.factors)
    for group in campaign.correlated:
        k = len(group.names)
        group_values = group.quantiles(u[:, column : column + k])
        values |= {name: group_values[:, j] for j, name in enumerate(group.names)}
        column += k
    return values


def _scale_relative(campaign: Campaign, values: dict[str, Array], nominal: dict[str, float]) -> dict[str, Array]:
    relative = {factor.name for factor in campaign.factors if factor.relative}
    return {name: value * nominal[name] if name in relative else value for name, value in values.items()}


def nominal_values(campaign: Campaign, scenario: Scenario) -> dict[str, float]:
    """Return the vehicle's value of each varied parameter it has; raise CampaignError for an unknown name."""
    nominal: dict[str, float] = {}
    for name in campaign.names:
        value = nominal_value(name, scenario, campaign.origin)
        if value is not None:
            nominal[name] = value
    for factor in campaign.factors:
        if factor.relative and factor.name not in nominal:
            raise CampaignError(
                f"{campaign.origin}: vary.{label(factor.name)} is relative; expected a parameter of the vehicle"
            )
    return nominal


def nominal_value(name: str, scenario: Scenario, origin: str) -> float | None:
    """Return the vehicle's parameter of that name; None for a parameter of wind, scenario, controller or start."""
    head, _, axis = name.rpartition(".")
    if (
        name.startswith((WIND_PREFIX, SETTING, CONTROLLER_PREFIX))
        or name in SCALAR_START_PARAMETERS
        or (head in POSITION_PARAMETERS and axis in AXES)
    ):
        if name.startswith(CONTROLLER_PREFIX) and coerce_controller_spec(scenario.drones[0].controller) is None:
            raise CampaignError(f"{origin}: vary.{label(name)}: the controller is code; expected one that has a name")
        return None
    if name in POSITION_PARAMETERS:
        raise CampaignError(f"{origin}: vary.{label(name)}: expected {name}.x, {name}.y or {name}.z")
    try:
        numbers = flatten(parameter(scenario.drones[0].vehicle, name.removeprefix("vehicle.")))
    except (ValueError, KeyError) as error:
        raise CampaignError(f"{origin}: vary.{label(name)}: {error.args[0]}") from None
    if len(set(numbers)) != 1:
        raise CampaignError(f"{origin}: vary.{label(name)}: is {len(numbers)} numbers; expected the path of one")
    return float(numbers[0])


def varied_parameters(rows: SampleRows, scenario: Scenario) -> dict[str, Array]:
    """Return the rows as `samara.fly_many` takes them: vector components joined, settings of the scenario's file omitted."""
    varied: dict[str, Array] = {}
    for name, values in rows.values.items():
        head, _, axis = name.rpartition(".")
        if head in POSITION_PARAMETERS and axis in AXES:
            initial = scenario.drones[0].start_W if head == "start_W" else (0.0, 0.0, 0.0)
            vector = varied.setdefault(head, np.tile(np.array([float(x) for x in initial]), (len(rows.row_numbers), 1)))
            vector[:, AXES.index(axis)] = values
        elif not name.startswith(SETTING):
            varied[name] = values
    return varied


def scenario_settings(rows: SampleRows) -> dict[str, Array]:
    """Return the varied settings of the scenario's file, by their names there."""
    return {name.removeprefix(SETTING): values for name, values in rows.values.items() if name.startswith(SETTING)}


def _table_values(campaign: Campaign, row_numbers: Array, taken: dict[str, Array]) -> dict[str, Array]:
    try:
        data = read_bytes(campaign.samples_path())
    except OSError as error:
        raise CampaignError(
            f"{campaign.origin}: {label(campaign.samples)} cannot be read ({error}); expected columns of numbers"
        ) from None
    columns = _read_columns(data, campaign.samples, campaign.origin)
    selected = {}
    for name, values in columns.items():
        if name in taken:
            raise CampaignError(
                f"{campaign.origin}: {label(name)} is varied and in {label(campaign.samples)} too; expected once"
            )
        if int(row_numbers.max()) >= len(values):
            raise CampaignError(
                f"{campaign.origin}: {label(campaign.samples)} has {len(values)} rows; "
                f"expected at least {int(row_numbers.max()) + 1}"
            )
        selected[name] = values[row_numbers]
    return selected


@lru_cache(maxsize=2)
def _read_columns(data: bytes, name: str, origin: str) -> dict[str, Array]:
    """Return the columns of a CSV or Parquet file; all must be finite numbers."""
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
            f"{origin}: {label(name)} cannot be read ({escape_control_characters(why)[:200]}); expected columns of numbers"
        ) from None
    for key, values in columns.items():
        if not np.isfinite(values).all():
            raise CampaignError(f"{origin}: {label(name)}: column {label(key)} is not all finite numbers")
    return columns


def arrow() -> tuple[Scalar, Scalar, Scalar]:
    """Import pyarrow with its CSV and Parquet modules."""
    pyarrow, csv, parquet = (
        import_extra(module, "a campaign", "pyarrow", "sweep")
        for module in ("pyarrow", "pyarrow.csv", "pyarrow.parquet")
    )
    return pyarrow, csv, parquet
