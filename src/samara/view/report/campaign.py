"""Report on a campaign: varied parameters, failure rates with confidence intervals, causes of failures, notable flights.

write_campaign_page("out/gusty", "out/gusty/report.html")
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.campaigns.batch import CampaignFlights
from samara.campaigns.campaign import Campaign, VariedParameter
from samara.campaigns.confidence import (
    Interval,
    clopper_pearson,
    confidence_sequence,
    format_percent,
    quantile_interval,
)
from samara.campaigns.distributions import DiscreteUniform, GridAxis, LogUniform, Normal, Uniform
from samara.campaigns.failure_curve import FailureCurve, failure_curve
from samara.campaigns.outcome import DEGRADED, ERROR, FAIL, INVALID, OUTCOMES, PASS
from samara.campaigns.rerun import flown_paths, stored_campaign
from samara.campaigns.samplers import INDEPENDENT
from samara.campaigns.sensitivity import first_order_index
from samara.campaigns.store import Store, open_store, worst_rows
from samara.core.atomic_files import write_text
from samara.core.confined_folder import ConfinedFolder
from samara.core.types import Array
from samara.record.flight_streams import parameter_unit
from samara.record.metrics import FLIGHT_METRICS, METRICS
from samara.view.plot import campaign as draw
from samara.view.report.page import Html, badge, element, faint_paragraph, figure, list_items, page, table

UNITS = {name: METRICS[name].unit for name in FLIGHT_METRICS if METRICS[name].unit}
PAGE_NAME = "report.html"
WORST_COUNT = 10
MAX_TRAJECTORIES = 60  # trajectories in the fan
MAX_MAP_FACTORS = 4  # factors in the map of pairs: those that failures depend on most
SIGNIFICANCE_LEVEL = 0.01  # significance level: largest probability of an effect by chance
REPLAY_COMMAND = "samara sweep replay {folder} --row {row} --view"


class CampaignRows(NamedTuple):
    """The rows of a campaign as arrays: row indices, outcomes, reasons, factors, and the metrics that differ between rows."""

    row: Array
    outcome: Array
    reason: Array
    factors: dict[str, Array]
    metrics: dict[str, Array]

    @property
    def flown_mask(self) -> Array:
        """Mask of rows that were flown: a row that could not be flown carries no information about the vehicle."""
        return np.asarray(self.reason != ERROR)

    @property
    def failed_mask(self) -> Array:
        """Mask of rows that failed."""
        return np.asarray(np.isin(self.outcome, (FAIL, INVALID)))


def write_campaign_page(folder: str | Path, path: str | Path | None = None, *, fly: bool = True) -> Path:
    """Write the report as one self-contained HTML file and return its path.

    Args:
        folder: folder of the campaign.
        path: HTML file to write; default: report.html in the folder.
        fly: whether to simulate some rows again for their trajectories.
    """
    text = campaign_page(folder, fly=fly)
    if path is None:
        ConfinedFolder(Path(folder)).write_text(PAGE_NAME, text)
    else:
        write_text(path, text)
    return Path(path or Path(folder) / PAGE_NAME)


def campaign_page(folder: str | Path, *, fly: bool = True) -> str:
    """Return the HTML text of the report."""
    store = open_store(folder)
    campaign = stored_campaign(store)
    rows = _read_rows(store)
    curves = _curves(rows)
    sequential = campaign.stop is not None
    return page(
        f"{campaign.name} – Samara",
        element("h1", campaign.name),
        faint_paragraph(_subtitle(campaign, store, rows)),
        _badges(rows, sequential),
        element("h2", "Outcomes"),
        _bar(rows),
        _rates(rows, sequential),
        _interval_note(campaign, sequential),
        element("h2", "Varied parameters"),
        _factor_table(campaign, rows, curves),
        _failure_section(rows, curves, _factor_units(campaign, rows)),
        element("h2", "Performance"),
        _distributions(campaign, rows),
        _fan(campaign, store, rows) if fly else None,
        element("h2", f"The {WORST_COUNT} worst flights"),
        _worst_flights(campaign, store, rows),
        _unflown_rows(store, rows),
        element("h2", "Origin"),
        _origin(store),
        element("details", element("summary", "Campaign file"), element("pre", store.text)),
        element("h2", "Continue"),
        element("pre", _follow_up_commands(store)),
    )


def _read_rows(store: Store) -> CampaignRows:
    rows = store.table()
    names = rows.column_names
    factors = names[names.index("seed") + 1 : names.index("outcome")]
    columns = {name: rows[name].to_numpy(zero_copy_only=False) for name in ("row", "outcome", "reason", *factors)}
    flown = columns["reason"] != ERROR
    metrics = {}
    for name in FLIGHT_METRICS:
        values = rows[name].to_numpy(zero_copy_only=False)
        finite = values[flown & np.isfinite(values)]
        if len(finite) and np.ptp(finite) > 0.0:
            metrics[name] = values
    outcome, reason = columns["outcome"].astype(str), columns["reason"].astype(str)
    return CampaignRows(
        columns["row"], outcome, reason, {name: columns[name].astype(float) for name in factors}, metrics
    )


def _curves(rows: CampaignRows) -> dict[str, FailureCurve]:
    """Fit a failure curve to each factor that differs, most significant first; empty if no flight or every flight failed."""
    failed, flown = rows.failed_mask, rows.flown_mask
    if not 0 < failed[flown].sum() < flown.sum():
        return {}
    curves = {
        name: failure_curve(x[flown], failed[flown]) for name, x in rows.factors.items() if np.ptp(x[flown]) > 0.0
    }
    return dict(sorted(curves.items(), key=lambda named_curve: named_curve[1].p_value))


# Outcomes ---------------------------------------------------------------------------------------------------------------


def _subtitle(campaign: Campaign, store: Store, rows: CampaignRows) -> str:
    flights = f"{len(rows.row):,}" if len(rows.row) == store.total else f"{len(rows.row):,} of {store.total:,}"
    return (
        f"{flights} flights of {campaign.scenario}, {_count(len(rows.factors), 'parameter')} varied, "
        f"sampler {campaign.sampler}, seed {campaign.seed}"
    )


def _count(number: int, noun: str) -> str:
    """Return "1 flight" or "2 flights"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _interval(count: int, n: int, sequential: bool) -> Interval:
    return confidence_sequence(count, n) if sequential else clopper_pearson(count, n)


def _badges(rows: CampaignRows, sequential: bool) -> Html:
    n = len(rows.row)
    successes = int(np.isin(rows.outcome, (PASS, DEGRADED)).sum())
    low, high = _interval(successes, n, sequential)
    invalid_count = n - int(rows.flown_mask.sum())
    text = f"{format_percent(successes / n)} succeed ({format_percent(low)} to {format_percent(high)})"
    return element(
        "p", badge(text, successes == n), badge(f"{invalid_count} could not be flown", False) if invalid_count else None
    )


def _bar(rows: CampaignRows) -> Html:
    """Draw a stripe as long as all flights, in the colours of the maps below."""
    parts = []
    for name in draw.DRAWING_ORDER:
        count = int((rows.outcome == name).sum())
        if count:
            style = f"flex: {count} 0 3px; background: {draw.OUTCOME_COLOURS[name]}; height: 18px"
            parts.append(element("span", style=style, title=f"{name}: {count}"))
    style = "display: flex; gap: 2px; border-radius: 6px; overflow: hidden; margin: 4px 0 12px"
    return element("div", parts, style=style)


def _rates(campaign_rows: CampaignRows, sequential: bool) -> Html:
    n = len(campaign_rows.row)
    rows = []
    for name in OUTCOMES:
        selected = campaign_rows.outcome == name
        rows.append([_outcome_label(name), *_rate_cells(int(selected.sum()), n, sequential)])
        reasons, counts = np.unique(campaign_rows.reason[selected], return_counts=True)
        for reason, count in sorted(zip(reasons, counts, strict=True), key=lambda reason_count: -reason_count[1]):
            if reason:
                rows.append(
                    [element("code", reason, style="padding-left: 17px"), *_rate_cells(int(count), n, sequential)]
                )
    return table(["", "flights", "fraction", "95 % interval"], rows)


def _outcome_label(name: str) -> Html:
    style = f"display: inline-block; width: 10px; height: 10px; border-radius: 3px; background: {draw.OUTCOME_COLOURS[name]}"
    return element("span", element("span", style=style), f" {name}", style="white-space: nowrap")


def _rate_cells(count: int, n: int, sequential: bool) -> list[str]:
    low, high = _interval(count, n, sequential)
    return [f"{count:,}", format_percent(count / n), f"{format_percent(low)} to {format_percent(high)}"]


def _interval_note(campaign: Campaign, sequential: bool) -> Html:
    text = "The interval of a fraction contains the true rate in at least 95 % of campaigns: "
    if sequential:
        text += (
            "a confidence sequence, which holds at every moment, so that the campaign may be stopped when it suffices."
        )
    else:
        text += "that of Clopper and Pearson, which holds for a number of flights fixed beforehand."
    if campaign.sampler != INDEPENDENT:
        text += (
            f" It assumes independent rows; {campaign.sampler} rows are spread more evenly, so it is usually too wide."
        )
    return faint_paragraph(text)


# Varied parameters ---------------------------------------------------------------------------------------------------------


def _factor_table(campaign: Campaign, campaign_rows: CampaignRows, curves: Mapping[str, FailureCurve]) -> Html:
    descriptions = {factor.name: _describe_distribution(factor) for factor in campaign.factors}
    descriptions |= {name: "normal, correlated" for factor in campaign.correlated for name in factor.names}
    flown = campaign_rows.flown_mask
    metric = campaign_rows.metrics.get(campaign.rank_by)
    rows = []
    for name, x in campaign_rows.factors.items():
        variance_fraction = first_order_index(x[flown], metric[flown]) if metric is not None else math.nan
        variance_text = "" if math.isnan(variance_fraction) else f"{100.0 * max(variance_fraction, 0.0):.0f} %"
        cells = (descriptions.get(name, f"from {campaign.samples}"), f"{x.min():.4g} to {x.max():.4g}", variance_text)
        rows.append([element("code", name), *cells, _describe_effect(curves[name]) if name in curves else ""])
    headings = ["", "distribution", "range flown", f"variance of {campaign.rank_by}", "effect on failures"]
    return table(headings, rows)


def _describe_distribution(factor: VariedParameter) -> str:
    suffix = " × nominal" if factor.relative else ""
    match factor.distribution:
        case Uniform(low, high):
            return f"uniform, {low:g} to {high:g}{suffix}"
        case LogUniform(low, high):
            return f"log-uniform, {low:g} to {high:g}{suffix}"
        case Normal(mean, sigma):
            return f"normal, {mean:g} ± {sigma:g}{suffix}"
        case DiscreteUniform(values) | GridAxis(values):
            return f"one of {', '.join(f'{x:g}' for x in values)}{suffix}"
    raise TypeError(type(factor.distribution).__name__)


def _describe_effect(curve: FailureCurve) -> str:
    """Describe the effect of one standard deviation, from the mean, on the odds of failure; or that none was observed."""
    if curve.p_value > SIGNIFICANCE_LEVEL or len(curve.beta) < 2:
        return "no effect observed"
    odds = math.exp(float(curve.beta[1]))
    text = f"odds × {odds:.2g} per standard deviation"
    return text if len(curve.beta) < 3 or abs(curve.beta[2]) < abs(curve.beta[1]) else f"{text}, non-linear"


def _factor_units(campaign: Campaign, rows: CampaignRows) -> dict[str, str]:
    """Return the axis label of each factor: its name, and its unit if it has one."""
    scenario = campaign.read_scenario()
    units = {name: parameter_unit(scenario, name) for name in rows.factors}
    return {name: name if unit == "1" else f"{name} [{unit}]" for name, unit in units.items()}


def _failure_section(
    rows: CampaignRows, curves: Mapping[str, FailureCurve], labels: Mapping[str, str]
) -> list[Html | None]:
    flown = rows.flown_mask
    factors = {name: x[flown] for name, x in rows.factors.items() if np.ptp(x[flown]) > 0.0} if flown.any() else {}
    if not curves:
        text = "No flight failed." if not rows.failed_mask[flown].any() else "Every flight failed."
        return [element("h2", "Causes of failures"), element("p", text)]
    curves = {labels[name]: curve for name, curve in curves.items()}
    factors = {labels[name]: values for name, values in factors.items()}
    ranked = {name: factors[name] for name in curves}
    parts: list[Html | None] = [
        element("h2", "Causes of failures"),
        element(
            "p",
            "Failure rate over each factor, the most significant factor first: in bins of equal size with 95 % "
            "intervals, and as a logistic curve with its band.",
        ),
        figure(draw.failure_rates(ranked, rows.failed_mask[flown], curves), "failure rate over each factor"),
    ]
    significant = [name for name, curve in curves.items() if curve.p_value <= SIGNIFICANCE_LEVEL]
    shown_factors = {
        name: ranked[name] for name in (significant if len(significant) > 1 else list(curves))[:MAX_MAP_FACTORS]
    }
    if len(shown_factors) > 1:
        parts += [
            element("p", "Outcomes over pairs of factors, one point per flight."),
            figure(draw.failure_map(shown_factors, rows.outcome[flown]), "outcomes over pairs of factors"),
        ]
    return parts


# Performance ----------------------------------------------------------------------------------------------------------------


def _distributions(campaign: Campaign, campaign_rows: CampaignRows) -> list[Html]:
    metrics = {
        name: values[np.isfinite(values) & campaign_rows.flown_mask] for name, values in campaign_rows.metrics.items()
    }
    if not metrics:
        return [element("p", "All flights have the same metrics.")]
    rows = []
    for name, values in metrics.items():
        unit = f" {UNITS[name]}" if name in UNITS else ""
        quantile = draw.bad_quantile(name)
        low, high = quantile_interval(values, quantile)
        middle, tail, worst = (
            np.quantile(values, 0.5),
            np.quantile(values, quantile),
            values.min() if quantile < 0.5 else values.max(),
        )
        formatted = [f"{value:.4g}{unit}" for value in (middle, tail, worst)]
        rows.append([name, *formatted[:2], f"{_format_bound(low)} to {_format_bound(high)}", formatted[2]])
    limits = dict(campaign.degraded)
    caption = (
        "Solid: median; dotted: 99 % of flights are better. The interval of a quantile contains the true quantile in at least "
        "95 % of campaigns; its ends are two of the flown values, so it assumes no distribution."
    )
    return [
        figure(draw.distributions(metrics, UNITS, limits), "distributions of the metrics"),
        faint_paragraph(caption + (" Dashed: limit beyond which a flight is degraded." if limits else "")),
        table(["", "median", "99 % are better", "its 95 % interval", "worst"], rows),
    ]


def _format_bound(x: float) -> str:
    return f"{x:.4g}" if math.isfinite(x) else "unknown"


def _fan(campaign: Campaign, store: Store, rows: CampaignRows) -> list[Html]:
    """Fly some rows again: a third of them the worst, the others evenly spread over the campaign."""
    if function := store.metadata.get("controller"):
        return [faint_paragraph(f"Flown by the function {function}, which is not in the folder: no trajectories.")]
    if campaign.fingerprint() != store.metadata["fingerprint"]:
        return [faint_paragraph("The scenario has changed since the campaign: no trajectories.")]
    worst = worst_rows(store, campaign, MAX_TRAJECTORIES // 3).tolist()
    other_rows = rows.row[rows.flown_mask & np.isin(rows.row, worst, invert=True)]
    other_rows = other_rows[:: max(1, math.ceil(len(other_rows) / (MAX_TRAJECTORIES - len(worst))))]
    outcomes = dict(zip(rows.row.tolist(), rows.outcome.tolist(), strict=True))
    try:
        flown = flown_paths(CampaignFlights.prepare(campaign), store, sorted([*worst, *other_rows.tolist()]))
    except (ValueError, FloatingPointError) as error:
        return [faint_paragraph(f"No trajectories: {error}")]
    if not flown:
        return []
    return [
        element("h2", "Flights"),
        element("p", f"The {len(worst)} worst and {len(flown) - len(worst)} others, evenly spread over the campaign."),
        figure(
            draw.trajectory_fan([(outcomes[trajectory.row], trajectory.time, trajectory.p_W) for trajectory in flown]),
            "a fan of trajectories",
        ),
    ]


# Notable flights ------------------------------------------------------------------------------------------------------------


def _worst_flights(campaign: Campaign, store: Store, campaign_rows: CampaignRows) -> list[Html]:
    worst = worst_rows(store, campaign, WORST_COUNT).tolist()
    rows = []
    for row in worst:
        k = int(np.searchsorted(campaign_rows.row, row))
        value = campaign_rows.metrics[campaign.rank_by][k] if campaign.rank_by in campaign_rows.metrics else math.nan
        values = [f"{x:.4g}" for x in (value, *(x[k] for x in campaign_rows.factors.values()))]
        rows.append(
            [str(row), _outcome_label(campaign_rows.outcome[k]), element("code", campaign_rows.reason[k]), *values]
        )
    unit = f" [{UNITS[campaign.rank_by]}]" if campaign.rank_by in UNITS else ""
    return [
        table(["row", "", "", f"{campaign.rank_by}{unit}", *campaign_rows.factors], rows),
        element("p", "To replay one of them bit for bit and show it:"),
        element("pre", "\n".join(REPLAY_COMMAND.format(folder=store.folder, row=row) for row in worst)),
    ]


def _unflown_rows(store: Store, campaign_rows: CampaignRows) -> list[Html] | None:
    """List rows that could not be flown, with their errors."""
    if campaign_rows.flown_mask.all():
        return None
    sentences = store.table(["error"])["error"].to_numpy(zero_copy_only=False)[~campaign_rows.flown_mask].astype(str)
    rows = zip(campaign_rows.row[~campaign_rows.flown_mask].tolist(), sentences, strict=True)
    items = list_items([f"row {row}: {sentence}" for row, sentence in rows], WORST_COUNT)
    return [element("h2", "Rows that could not be flown"), element("ul", items)]


def _origin(store: Store) -> Html:
    metadata = store.metadata
    rows = [
        ["Samara", metadata["samara"]],
        ["Python", f"{metadata['python']} on {metadata['machine']}"],
        *([name, version] for name, version in metadata["packages"].items()),
        ["fingerprint", element("code", metadata["fingerprint"])],
        ["rows", f"{store.folder}/rows, {_count(len(store.row_ranges()), 'Parquet file')}"],
    ]
    return table([], rows)


def _follow_up_commands(store: Store) -> str:
    query = f'samara sweep query {store.folder} "select outcome, reason, count(*) from rows group by all"'
    return f"{query}\nsamara sweep report {store.folder}"
