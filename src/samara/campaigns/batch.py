"""Fly and evaluate a batch of a campaign's rows, and return the results as columns."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from samara.campaigns.campaign import Campaign, CampaignError
from samara.campaigns.outcome import ERROR, INVALID, evaluate, margins, metric_columns
from samara.campaigns.samples import Block, Rows, as_varied, nominal_value, nominal_values, rows_of, settings_of
from samara.core.types import Array
from samara.record.metrics import FLIGHT_METRICS
from samara.scenario.scenario import Scenario, ScenarioError
from samara.sim.batch_result import Flights
from samara.sim.fly_many import fly_many
from samara.sim.varied import varied_drone, varied_wind
from samara.vehicles.check import check_vehicle

Columns = dict[str, Any]
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Flying:
    """A campaign with its scenario loaded, ready to fly any of its rows."""

    campaign: Campaign
    scenario: Scenario
    nominal: dict[str, float]

    @staticmethod
    def of(campaign: Campaign) -> "Flying":
        """Load the scenario of a campaign and check both; CampaignError or ScenarioError before any flight."""
        try:
            scenario = campaign.read_scenario()
        except ScenarioError as error:
            raise CampaignError(f"{campaign.origin}: scenario {error}") from None
        if len(scenario.drones) != 1:
            raise CampaignError(
                f"{campaign.origin}: scenario {campaign.scenario} has {len(scenario.drones)} drones; expected one"
            )
        medians = {factor.name: factor.how.quantile(np.array([0.5])) for factor in campaign.factors}
        _require_settings(campaign, settings_of(Rows(np.array([0]), np.array([0]), medians)))
        campaign_flights = Flying(campaign, scenario, nominal_values(campaign, scenario))
        _require_known_names(campaign_flights)
        _require_table(campaign_flights)
        return campaign_flights

    def rows(self, row_numbers: Array, block: Block) -> Rows:
        """Sample some rows of a block."""
        return rows_of(self.campaign, row_numbers, block, self.nominal)

    def columns(self, row_numbers: Array, block: Block, **options: Any) -> Columns:
        """Sample and fly some rows, and return their columns."""
        return self.told(self.rows(row_numbers, block), **options)

    def told(self, rows: Rows, **options: Any) -> Columns:
        """Fly rows and return their columns; a row that cannot be flown gets its error."""
        return {"seed": rows.seeds, **rows.values, **self._evaluate(rows, options)}

    def _evaluate(self, rows: Rows, options: dict[str, Any]) -> Columns:
        if len(rows.numbers) == 1:
            return self._alone(rows, options)
        single = self._odd(rows)
        if not single.all():
            try:
                batch_columns = self._told(self.fly(rows if not single.any() else some_rows(rows, ~single), **options))
            except (ValueError, FloatingPointError):  # the error does not name the row
                single[:] = True
        if not single.any():
            return batch_columns
        single_columns = [self._alone(some_rows(rows, slice(i, i + 1)), options) for i in np.flatnonzero(single)]
        parts = [*single_columns, batch_columns] if not single.all() else single_columns
        order = np.argsort(np.concatenate([np.flatnonzero(single), np.flatnonzero(~single)]))
        return {key: np.concatenate([part[key] for part in parts])[order] for key in single_columns[0]}

    def _alone(self, rows: Rows, options: dict[str, Any]) -> Columns:
        """Fly one row; if it cannot be flown, return its error."""
        try:
            self._require_vehicle(rows)
            return self._told(self.fly(rows, **options))
        except (ValueError, FloatingPointError) as error:
            return _broken(str(error))

    def _odd(self, rows: Rows) -> Array:
        """Return a mask of the rows that must fly singly.

        These are all rows if settings of the file differ; else those in which a parameter of the vehicle changed its sign,
        since their vehicles may be invalid.
        """
        single = np.full(len(rows.numbers), bool(settings_of(rows)))
        for name, nominal in self.nominal.items():
            if nominal != 0.0:
                single |= rows.values[name] * nominal <= 0.0
        return single

    def _require_vehicle(self, rows: Rows) -> None:
        """Raise a VehicleError for a vehicle that no file could describe."""
        varied = {name: values for name, values in as_varied(rows, self.scenario).items() if name in self.nominal}
        check_vehicle(varied_drone(self.scenario.drones[0], varied, 0).vehicle)

    def fly(self, rows: Rows, **options: Any) -> Flights:
        """Fly rows; rows that differ in settings of the file must come one by one."""
        settings = settings_of(rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # about lost flights: their rows report it
            scenario = self.scenario if not settings else _scenario(self.campaign, settings)
            return fly_many(scenario, seeds=rows.seeds, vary=as_varied(rows, scenario), **options)

    def evaluated(self, rows: Rows, flights: Flights) -> Columns:
        """Return the columns of rows that were flown together."""
        return {"seed": rows.seeds, **rows.values, **self._told(flights)}

    def _told(self, flights: Flights) -> Columns:
        outcome, reason = evaluate(flights, self.campaign.degraded)
        return {
            "outcome": outcome,
            "reason": reason,
            "error": np.full(len(flights), "", dtype=object),
            "margin": margins(flights, self.scenario.expect),
            **metric_columns(flights),
            **{
                f"final_{axis}": np.asarray(component, dtype=float)
                for axis, component in zip("xyz", flights.final.p_W, strict=True)
            },
        }


def _scenario(campaign: Campaign, settings: dict[str, Array]) -> Scenario:
    """Return the scenario of one row with its settings of the file."""
    return campaign.read_scenario({name: values[0].item() for name, values in settings.items()})


def _require_settings(campaign: Campaign, settings: dict[str, Array]) -> None:
    """Raise a CampaignError for settings that the scenario's file cannot have."""
    if settings:
        try:
            _scenario(campaign, settings)
        except ScenarioError as error:
            raise CampaignError(f"{campaign.origin}: vary: {error}") from None


def _require_known_names(campaign_flights: Flying) -> None:
    """Raise a CampaignError for an unknown name of wind, controller or vehicle."""
    campaign = campaign_flights.campaign
    medians = {factor.name: factor.how.quantile(np.array([0.5])) for factor in campaign.factors}
    medians |= {name: np.array([group.mean[j]]) for group in campaign.correlated for j, name in enumerate(group.names)}
    for name, value in medians.items():
        relative = any(factor.name == name and factor.relative for factor in campaign.factors)
        single = {name: value * campaign_flights.nominal[name] if relative else value}
        varied = as_varied(Rows(np.array([0]), np.array([0]), single), campaign_flights.scenario)
        try:
            varied_wind(campaign_flights.scenario.wind, varied, 0)
            varied_drone(campaign_flights.scenario.drones[0], varied, 0)
        except ValueError as error:
            raise CampaignError(f"{campaign.origin}: {error}") from None


def _require_table(campaign_flights: Flying) -> None:
    """Raise a CampaignError for a table with too few rows or an unknown column."""
    campaign = campaign_flights.campaign
    if campaign.table:
        all_rows = Block(0, 0, campaign.flights)
        for name in campaign_flights.rows(np.array([campaign.flights - 1]), all_rows).values:
            nominal_value(name, campaign_flights.scenario, campaign.origin)


def _broken(message: str) -> Columns:
    """Return the columns of a row that could not be flown."""
    texts = {"outcome": INVALID, "reason": ERROR, "error": message}
    names = ("margin", *FLIGHT_METRICS, "final_x", "final_y", "final_z")
    return {
        **{name: np.full(1, text, dtype=object) for name, text in texts.items()},
        **{name: np.full(1, np.nan) for name in names},
    }


def some_rows(rows: Rows, selection: slice | Array) -> Rows:
    """Return the selected rows."""
    return Rows(
        rows.numbers[selection],
        rows.seeds[selection],
        {name: values[selection] for name, values in rows.values.items()},
    )


def at_row(campaign_flights: Flying, row: int, block: Block) -> tuple[Scenario, dict[str, Any], dict[str, Any]]:
    """Return the scenario and the `vary` of one row for `samara.fly`, and its varied parameters by name."""
    rows = campaign_flights.rows(np.array([row]), block)
    settings = settings_of(rows)
    scenario = _scenario(campaign_flights.campaign, settings) if settings else campaign_flights.scenario
    vary = {name: values[0].tolist() for name, values in as_varied(rows, scenario).items()}
    factors = {name: values[0].item() for name, values in rows.values.items()}
    return replace(scenario, seed=int(rows.seeds[0])), vary, factors
