"""A batch of a campaign's rows: flown, evaluated, and returned as columns."""

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
    """A campaign with its scenario read, ready to fly any of its rows."""

    campaign: Campaign
    scenario: Scenario
    nominal: dict[str, float]

    @staticmethod
    def of(campaign: Campaign) -> "Flying":
        """CampaignError or ScenarioError about what is wrong with it, before anything is flown"""
        try:
            scenario = campaign.read_scenario()
        except ScenarioError as error:
            raise CampaignError(f"{campaign.origin}: scenario {error}") from None
        if len(scenario.drones) != 1:
            raise CampaignError(
                f"{campaign.origin}: scenario {campaign.scenario} has {len(scenario.drones)} drones; expected one"
            )
        middle = {own.name: own.how.quantile(np.array([0.5])) for own in campaign.factors}
        _require_settings(campaign, settings_of(Rows(np.array([0]), np.array([0]), middle)))
        own = Flying(campaign, scenario, nominal_values(campaign, scenario))
        _require_places(own)
        _require_table(own)
        return own

    def rows(self, numbers: Array, block: Block) -> Rows:
        """What flies in these rows"""
        return rows_of(self.campaign, numbers, block, self.nominal)

    def columns(self, numbers: Array, block: Block, **how: Any) -> Columns:
        """The columns of a batch, drawn and flown"""
        return self.told(self.rows(numbers, block), **how)

    def told(self, rows: Rows, **how: Any) -> Columns:
        """The columns of some rows; one that cannot be flown is a row with its error"""
        return {"seed": rows.seeds, **rows.values, **self._evaluate(rows, how)}

    def _evaluate(self, rows: Rows, how: dict[str, Any]) -> Columns:
        if len(rows.numbers) == 1:
            return self._alone(rows, how)
        alone = self._odd(rows)
        if not alone.all():
            try:
                together = self._told(self.fly(rows if not alone.any() else some_rows(rows, ~alone), **how))
            except (ValueError, FloatingPointError):  # of one of them, and it is not said of which
                alone[:] = True
        if not alone.any():
            return together
        each = [self._alone(some_rows(rows, slice(i, i + 1)), how) for i in np.flatnonzero(alone)]
        told = [*each, together] if not alone.all() else each
        places = np.argsort(np.concatenate([np.flatnonzero(alone), np.flatnonzero(~alone)]))
        return {key: np.concatenate([own[key] for own in told])[places] for key in each[0]}

    def _alone(self, rows: Rows, how: dict[str, Any]) -> Columns:
        """One row; where it cannot be flown, with its error"""
        try:
            self._require_vehicle(rows)
            return self._told(self.fly(rows, **how))
        except (ValueError, FloatingPointError) as error:
            return _broken(str(error))

    def _odd(self, rows: Rows) -> Array:
        """Which have to fly alone: where numbers of the file differ all, else those that may be none that fly, since a number
        of the vehicle has not the sign that it had"""
        odd = np.full(len(rows.numbers), bool(settings_of(rows)))
        for name, own in self.nominal.items():
            if own != 0.0:
                odd |= rows.values[name] * own <= 0.0
        return odd

    def _require_vehicle(self, rows: Rows) -> None:
        """VehicleError about a vehicle that no file could have"""
        varied = {name: own for name, own in as_varied(rows, self.scenario).items() if name in self.nominal}
        check_vehicle(varied_drone(self.scenario.drones[0], varied, 0).vehicle)

    def fly(self, rows: Rows, **how: Any) -> Flights:
        """The flights themselves; those that differ in numbers of the file have to come one by one"""
        settings = settings_of(rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # about flights that are lost: their rows say so
            scenario = self.scenario if not settings else _scenario(self.campaign, settings)
            return fly_many(scenario, seeds=rows.seeds, vary=as_varied(rows, scenario), **how)

    def evaluated(self, rows: Rows, flights: Flights) -> Columns:
        """The columns of rows that were flown together"""
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
                f"final_{axis}": np.asarray(own, dtype=float)
                for axis, own in zip("xyz", flights.final.p_W, strict=True)
            },
        }


def _scenario(campaign: Campaign, settings: dict[str, Array]) -> Scenario:
    """The scenario of one row whose numbers of the file are its own"""
    return campaign.read_scenario({name: values[0].item() for name, values in settings.items()})


def _require_settings(campaign: Campaign, settings: dict[str, Array]) -> None:
    """CampaignError about numbers that the scenario's file cannot have"""
    if settings:
        try:
            _scenario(campaign, settings)
        except ScenarioError as error:
            raise CampaignError(f"{campaign.origin}: vary: {error}") from None


def _require_places(flying: Flying) -> None:
    """CampaignError about a name of the wind, the controller or the vehicle that leads nowhere"""
    campaign = flying.campaign
    middle = {own.name: own.how.quantile(np.array([0.5])) for own in campaign.factors}
    middle |= {name: np.array([own.mean[j]]) for own in campaign.correlated for j, name in enumerate(own.names)}
    for name, value in middle.items():
        relative = any(own.name == name and own.relative for own in campaign.factors)
        alone = {name: value * flying.nominal[name] if relative else value}
        varied = as_varied(Rows(np.array([0]), np.array([0]), alone), flying.scenario)
        try:
            varied_wind(flying.scenario.wind, varied, 0)
            varied_drone(flying.scenario.drones[0], varied, 0)
        except ValueError as error:
            raise CampaignError(f"{campaign.origin}: {error}") from None


def _require_table(flying: Flying) -> None:
    """CampaignError about a table with too few rows, or with a column that leads nowhere"""
    campaign = flying.campaign
    if campaign.table:
        whole = Block(0, 0, campaign.flights)
        for name in flying.rows(np.array([campaign.flights - 1]), whole).values:
            nominal_value(name, flying.scenario, campaign.origin)


def _broken(sentence: str) -> Columns:
    """A row that could not be flown"""
    words = {"outcome": INVALID, "reason": ERROR, "error": sentence}
    names = ("margin", *FLIGHT_METRICS, "final_x", "final_y", "final_z")
    return {
        **{name: np.full(1, own, dtype=object) for name, own in words.items()},
        **{name: np.full(1, np.nan) for name in names},
    }


def some_rows(rows: Rows, which: slice | Array) -> Rows:
    """Those rows of some"""
    return Rows(rows.numbers[which], rows.seeds[which], {name: own[which] for name, own in rows.values.items()})


def at_row(flying: Flying, number: int, block: Block) -> tuple[Scenario, dict[str, Any], dict[str, Any]]:
    """Return the scenario and the `vary` of one row as `samara.fly` takes them, and its factors by name"""
    rows = flying.rows(np.array([number]), block)
    settings = settings_of(rows)
    scenario = _scenario(flying.campaign, settings) if settings else flying.scenario
    vary = {name: values[0].tolist() for name, values in as_varied(rows, scenario).items()}
    factors = {name: values[0].item() for name, values in rows.values.items()}
    return replace(scenario, seed=int(rows.seeds[0])), vary, factors
