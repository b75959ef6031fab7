"""Fly and evaluate a batch of a campaign's rows, and return the results as columns."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from samara.campaigns.campaign import Campaign, CampaignError
from samara.campaigns.outcome import ERROR, INVALID, evaluate, margins, metric_columns
from samara.campaigns.samples import (
    RowRange,
    SampleRows,
    nominal_value,
    nominal_values,
    sample_rows,
    scenario_settings,
    varied_parameters,
)
from samara.core.types import Array
from samara.record.metrics import FLIGHT_METRICS
from samara.scenario.scenario import Scenario, ScenarioError
from samara.sim.batch_result import Flights
from samara.sim.fly_many import fly_many
from samara.sim.varied import varied_drone, varied_wind
from samara.vehicles.check import check_vehicle

Columns = dict[str, Any]
ProgressCallback = Callable[[int], None]


@dataclass(frozen=True)
class CampaignFlights:
    """A campaign with its scenario loaded, ready to fly any of its rows."""

    campaign: Campaign
    scenario: Scenario
    nominal: dict[str, float]

    @staticmethod
    def prepare(campaign: Campaign) -> "CampaignFlights":
        """Load the scenario of a campaign and check both; raise CampaignError or ScenarioError if one is invalid."""
        try:
            scenario = campaign.read_scenario()
        except ScenarioError as error:
            raise CampaignError(f"{campaign.origin}: scenario {error}") from None
        if len(scenario.drones) != 1:
            raise CampaignError(
                f"{campaign.origin}: scenario {campaign.scenario} has {len(scenario.drones)} drones; expected one"
            )
        medians = {factor.name: factor.distribution.quantile(np.array([0.5])) for factor in campaign.factors}
        _require_settings(campaign, scenario_settings(SampleRows(np.array([0]), np.array([0]), medians)))
        campaign_flights = CampaignFlights(campaign, scenario, nominal_values(campaign, scenario))
        _require_known_names(campaign_flights)
        _require_table(campaign_flights)
        return campaign_flights

    def rows(self, row_numbers: Array, block: RowRange) -> SampleRows:
        """Sample some rows of a block."""
        return sample_rows(self.campaign, row_numbers, block, self.nominal)

    def columns(self, row_numbers: Array, block: RowRange, **options: Any) -> Columns:
        """Sample and fly some rows, and return their columns."""
        return self.fly_columns(self.rows(row_numbers, block), **options)

    def fly_columns(self, rows: SampleRows, **options: Any) -> Columns:
        """Fly rows and return their columns; a row that cannot be flown gets its error."""
        return {"seed": rows.seeds, **rows.values, **self._evaluate(rows, options)}

    def _evaluate(self, rows: SampleRows, options: dict[str, Any]) -> Columns:
        if len(rows.row_numbers) == 1:
            return self._fly_single(rows, options)
        single = self._single_mask(rows)
        if not single.all():
            try:
                batch_columns = self._result_columns(
                    self.fly(rows if not single.any() else select_rows(rows, ~single), **options)
                )
            except (ValueError, FloatingPointError):  # the error does not name the row
                single[:] = True
        if not single.any():
            return batch_columns
        single_columns = [self._fly_single(select_rows(rows, slice(i, i + 1)), options) for i in np.flatnonzero(single)]
        parts = [*single_columns, batch_columns] if not single.all() else single_columns
        order = np.argsort(np.concatenate([np.flatnonzero(single), np.flatnonzero(~single)]))
        return {key: np.concatenate([part[key] for part in parts])[order] for key in single_columns[0]}

    def _fly_single(self, rows: SampleRows, options: dict[str, Any]) -> Columns:
        """Fly one row; if it cannot be flown, return its error."""
        try:
            self._require_vehicle(rows)
            return self._result_columns(self.fly(rows, **options))
        except (ValueError, FloatingPointError) as error:
            return _error_columns(str(error))

    def _single_mask(self, rows: SampleRows) -> Array:
        """Return a mask of the rows that must fly singly.

        These are all rows if settings of the file differ; else those in which a parameter of the vehicle changed its sign,
        since their vehicles may be invalid.
        """
        single = np.full(len(rows.row_numbers), bool(scenario_settings(rows)))
        for name, nominal in self.nominal.items():
            if nominal != 0.0:
                single |= rows.values[name] * nominal <= 0.0
        return single

    def _require_vehicle(self, rows: SampleRows) -> None:
        """Raise a VehicleError for a vehicle that no file could describe."""
        varied = {
            name: values for name, values in varied_parameters(rows, self.scenario).items() if name in self.nominal
        }
        check_vehicle(varied_drone(self.scenario.drones[0], varied, 0).vehicle)

    def fly(self, rows: SampleRows, **options: Any) -> Flights:
        """Fly rows; rows that differ in settings of the scenario's file must be passed one by one."""
        settings = scenario_settings(rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # warnings about lost flights: their rows report the loss
            scenario = self.scenario if not settings else _row_scenario(self.campaign, settings)
            return fly_many(scenario, seeds=rows.seeds, vary=varied_parameters(rows, scenario), **options)

    def result_columns(self, rows: SampleRows, flights: Flights) -> Columns:
        """Return the columns of rows that were flown together."""
        return {"seed": rows.seeds, **rows.values, **self._result_columns(flights)}

    def _result_columns(self, flights: Flights) -> Columns:
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


def _row_scenario(campaign: Campaign, settings: dict[str, Array]) -> Scenario:
    """Return the scenario of one row with its settings of the file."""
    return campaign.read_scenario({name: values[0].item() for name, values in settings.items()})


def _require_settings(campaign: Campaign, settings: dict[str, Array]) -> None:
    """Raise a CampaignError for settings that the scenario's file cannot have."""
    if settings:
        try:
            _row_scenario(campaign, settings)
        except ScenarioError as error:
            raise CampaignError(f"{campaign.origin}: vary: {error}") from None


def _require_known_names(campaign_flights: CampaignFlights) -> None:
    """Raise a CampaignError for an unknown name of wind, controller or vehicle."""
    campaign = campaign_flights.campaign
    medians = {factor.name: factor.distribution.quantile(np.array([0.5])) for factor in campaign.factors}
    medians |= {name: np.array([group.mean[j]]) for group in campaign.correlated for j, name in enumerate(group.names)}
    for name, value in medians.items():
        relative = any(factor.name == name and factor.relative for factor in campaign.factors)
        single = {name: value * campaign_flights.nominal[name] if relative else value}
        varied = varied_parameters(SampleRows(np.array([0]), np.array([0]), single), campaign_flights.scenario)
        try:
            varied_wind(campaign_flights.scenario.wind, varied, 0)
            varied_drone(campaign_flights.scenario.drones[0], varied, 0)
        except ValueError as error:
            raise CampaignError(f"{campaign.origin}: {error}") from None


def _require_table(campaign_flights: CampaignFlights) -> None:
    """Raise a CampaignError for a table with too few rows or an unknown column."""
    campaign = campaign_flights.campaign
    if campaign.samples:
        all_rows = RowRange(0, 0, campaign.flights)
        for name in campaign_flights.rows(np.array([campaign.flights - 1]), all_rows).values:
            nominal_value(name, campaign_flights.scenario, campaign.origin)


def _error_columns(message: str) -> Columns:
    """Return the columns of a row that could not be flown."""
    texts = {"outcome": INVALID, "reason": ERROR, "error": message}
    names = ("margin", *FLIGHT_METRICS, "final_x", "final_y", "final_z")
    return {
        **{name: np.full(1, text, dtype=object) for name, text in texts.items()},
        **{name: np.full(1, np.nan) for name in names},
    }


def select_rows(rows: SampleRows, selection: slice | Array) -> SampleRows:
    """Return the selected rows."""
    return SampleRows(
        rows.row_numbers[selection],
        rows.seeds[selection],
        {name: values[selection] for name, values in rows.values.items()},
    )


def row_scenario(
    campaign_flights: CampaignFlights, row: int, block: RowRange
) -> tuple[Scenario, dict[str, Any], dict[str, Any]]:
    """Return the scenario and the `vary` of one row for `samara.fly`, and its varied parameters by name."""
    rows = campaign_flights.rows(np.array([row]), block)
    settings = scenario_settings(rows)
    scenario = _row_scenario(campaign_flights.campaign, settings) if settings else campaign_flights.scenario
    vary = {name: values[0].tolist() for name, values in varied_parameters(rows, scenario).items()}
    factors = {name: values[0].item() for name, values in rows.values.items()}
    return replace(scenario, seed=int(rows.seeds[0])), vary, factors
