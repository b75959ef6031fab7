"""The page of a campaign: what was varied, how often it fails and how sure that is, where, and the flights to look at.

write_campaign_page("out/gusty", "out/gusty/report.html")
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.campaigns.batch import Flying
from samara.campaigns.campaign import Campaign, Factor
from samara.campaigns.confidence import Interval, clopper_pearson, confidence_sequence, quantile_interval
from samara.campaigns.distributions import Choice, Grid, LogUniform, Normal, Uniform
from samara.campaigns.failure_curve import FailureCurve, failure_curve
from samara.campaigns.outcome import DEGRADED, ERROR, FAIL, INVALID, OUTCOMES, PASS
from samara.campaigns.rerun import campaign_of, trajectories
from samara.campaigns.samplers import INDEPENDENT
from samara.campaigns.sensitivity import first_order
from samara.campaigns.store import Store, open_store, worst_rows
from samara.core.atomic_files import write_text
from samara.core.confined import ConfinedFolder
from samara.core.types import Array
from samara.record.metrics import FLIGHT_METRICS, METRICS
from samara.view.plot import campaign as draw
from samara.view.report.page import Html, badge, element, faint, figure, limited, page, table

UNITS = {name: METRICS[name].unit for name in FLIGHT_METRICS if METRICS[name].unit}
PAGE = "report.html"
WORST = 10
MOST_FLOWN = 60  # trajectories in the fan
MOST_FACTORS = 4  # in the map of pairs: those that failures depend on most
SEEN = 0.01  # an effect is one where chance alone would make it more seldom than this
REPLAY = "samara sweep replay {folder} --row {row} --view"


class Seen(NamedTuple):
    """The rows of a campaign as arrays: numbers, outcomes, reasons, factors and the metrics that differ at all"""

    row: Array
    outcome: Array
    reason: Array
    factors: dict[str, Array]
    metrics: dict[str, Array]

    @property
    def flown(self) -> Array:
        """Rows that are flights: a row that could not be flown says nothing about the vehicle"""
        return np.asarray(self.reason != ERROR)

    @property
    def failed(self) -> Array:
        return np.asarray(np.isin(self.outcome, (FAIL, INVALID)))


def write_campaign_page(folder: str | Path, path: str | Path | None = None, *, fly: bool = True) -> Path:
    """Write one HTML file that needs nothing else, report.html in the folder unless `path` is given; return its path.

    With `fly` some rows are simulated once more for their trajectories.
    """
    text = campaign_page(folder, fly=fly)
    if path is None:
        ConfinedFolder(Path(folder)).write_text(PAGE, text)
    else:
        write_text(path, text)
    return Path(path or Path(folder) / PAGE)


def campaign_page(folder: str | Path, *, fly: bool = True) -> str:
    """The text of the page"""
    store = open_store(folder)
    campaign = campaign_of(store)
    seen = _seen(store)
    curves = _curves(seen)
    looked = campaign.stop is not None
    return page(
        f"{campaign.name} – Samara",
        element("h1", campaign.name),
        faint(_subtitle(campaign, store, seen)),
        _badges(seen, looked),
        element("h2", "How often"),
        _bar(seen),
        _rates(seen, looked),
        _sureness(campaign, looked),
        element("h2", "What was varied"),
        _varied(campaign, seen, curves),
        _where(seen, curves),
        element("h2", "How well it flies"),
        _distributions(campaign, seen),
        _fan(campaign, store, seen) if fly else None,
        element("h2", f"The worst {WORST}"),
        _worst(campaign, store, seen),
        _broken(store, seen),
        element("h2", "Where this comes from"),
        _origin(store),
        element("details", element("summary", "the campaign's file"), element("pre", store.text)),
        element("h2", "Go on"),
        element("pre", _again(store)),
    )


def _seen(store: Store) -> Seen:
    whole = store.table()
    names = whole.column_names
    factors = names[names.index("seed") + 1 : names.index("outcome")]
    columns = {name: whole[name].to_numpy(zero_copy_only=False) for name in ("row", "outcome", "reason", *factors)}
    flown = columns["reason"] != ERROR
    metrics = {}
    for name in FLIGHT_METRICS:
        own = whole[name].to_numpy(zero_copy_only=False)
        finite = own[flown & np.isfinite(own)]
        if len(finite) and np.ptp(finite) > 0.0:
            metrics[name] = own
    outcome, reason = columns["outcome"].astype(str), columns["reason"].astype(str)
    return Seen(columns["row"], outcome, reason, {name: columns[name].astype(float) for name in factors}, metrics)


def _curves(seen: Seen) -> dict[str, FailureCurve]:
    """Of each factor that differs, where some flights failed and some did not; the most telling first"""
    failed, flown = seen.failed, seen.flown
    if not 0 < failed[flown].sum() < flown.sum():
        return {}
    found = {name: failure_curve(x[flown], failed[flown]) for name, x in seen.factors.items() if np.ptp(x[flown]) > 0.0}
    return dict(sorted(found.items(), key=lambda own: own[1].chance))


# How often --------------------------------------------------------------------------------------------------------------


def _subtitle(campaign: Campaign, store: Store, seen: Seen) -> str:
    flights = f"{len(seen.row):,}" if len(seen.row) == store.total else f"{len(seen.row):,} of {store.total:,}"
    return (
        f"{flights} flights of {campaign.scenario}, {len(seen.factors)} numbers varied, "
        f"sampler {campaign.sampler}, seed {campaign.seed}"
    )


def _interval(count: int, n: int, looked: bool) -> Interval:
    return confidence_sequence(count, n) if looked else clopper_pearson(count, n)


def _badges(seen: Seen, looked: bool) -> Html:
    n = len(seen.row)
    good = int(np.isin(seen.outcome, (PASS, DEGRADED)).sum())
    low, high = _interval(good, n, looked)
    broken = n - int(seen.flown.sum())
    words = f"{percent(good / n)} succeed ({percent(low)} to {percent(high)})"
    return element("p", badge(words, good == n), badge(f"{broken} could not be flown", False) if broken else None)


def _bar(seen: Seen) -> Html:
    """A stripe as long as all flights, in the colours of the maps below"""
    parts = []
    for name in draw.DRAWN:
        count = int((seen.outcome == name).sum())
        if count:
            style = f"flex: {count} 0 3px; background: {draw.COLOUR[name]}; height: 18px"
            parts.append(element("span", style=style, title=f"{name}: {count}"))
    style = "display: flex; gap: 2px; border-radius: 6px; overflow: hidden; margin: 4px 0 12px"
    return element("div", parts, style=style)


def _rates(seen: Seen, looked: bool) -> Html:
    n = len(seen.row)
    rows = []
    for name in OUTCOMES:
        own = seen.outcome == name
        rows.append([_dot(name), *_share(int(own.sum()), n, looked)])
        reasons, counts = np.unique(seen.reason[own], return_counts=True)
        for reason, count in sorted(zip(reasons, counts, strict=True), key=lambda each: -each[1]):
            if reason:
                rows.append([element("code", reason, style="padding-left: 17px"), *_share(int(count), n, looked)])
    return table(["", "flights", "share", "95 % interval"], rows)


def _dot(name: str) -> Html:
    style = f"display: inline-block; width: 10px; height: 10px; border-radius: 3px; background: {draw.COLOUR[name]}"
    return element("span", element("span", style=style), f" {name}", style="white-space: nowrap")


def _share(count: int, n: int, looked: bool) -> list[str]:
    low, high = _interval(count, n, looked)
    return [f"{count:,}", percent(count / n), f"{percent(low)} to {percent(high)}"]


def _sureness(campaign: Campaign, looked: bool) -> Html:
    method = (
        "a confidence sequence, which holds whenever the campaign is stopped" if looked else "Clopper and Pearson's"
    )
    words = f"Intervals are {method}."
    if campaign.sampler != INDEPENDENT:
        words += (
            f" They hold for rows drawn independently; rows of {campaign.sampler} lie more evenly, and as a rule the "
        )
        words += "interval is then too wide."
    return faint(words)


def percent(share: float) -> str:
    """As many digits as tell it from 0 and from 1"""
    if share in (0.0, 1.0):
        return f"{100.0 * share:.0f} %"
    digits = max(1, 1 - math.floor(math.log10(100.0 * min(share, 1.0 - share))))
    return f"{100.0 * share:.{min(digits, 9)}f} %"


# What, and where -----------------------------------------------------------------------------------------------------------


def _varied(campaign: Campaign, seen: Seen, curves: Mapping[str, FailureCurve]) -> Html:
    how = {own.name: _in_words(own) for own in campaign.factors}
    how |= {name: "normal, correlated" for own in campaign.correlated for name in own.names}
    flown = seen.flown
    metric = seen.metrics.get(campaign.worst_by)
    rows = []
    for name, x in seen.factors.items():
        explained = first_order(x[flown], metric[flown]) if metric is not None else math.nan
        part = "" if math.isnan(explained) else f"{100.0 * max(explained, 0.0):.0f} %"
        cells = (how.get(name, f"from {campaign.table}"), f"{x.min():.4g} to {x.max():.4g}", part)
        rows.append([element("code", name), *cells, _slope(curves[name]) if name in curves else ""])
    head = ["", "how", "flown", f"of the variance of {campaign.worst_by}", "failures"]
    return table(head, rows)


def _in_words(own: Factor) -> str:
    times = " × nominal" if own.relative else ""
    match own.how:
        case Uniform(low, high):
            return f"uniform, {low:g} to {high:g}{times}"
        case LogUniform(low, high):
            return f"log-uniform, {low:g} to {high:g}{times}"
        case Normal(mean, sigma):
            return f"normal, {mean:g} ± {sigma:g}{times}"
        case Choice(values) | Grid(values):
            return f"one of {', '.join(f'{x:g}' for x in values)}{times}"
    raise TypeError(type(own.how).__name__)


def _slope(curve: FailureCurve) -> str:
    """What one standard deviation more does to the odds of failure, from the middle on; or that nothing can be told"""
    if curve.chance > SEEN or len(curve.beta) < 2:
        return "no effect seen"
    odds = math.exp(float(curve.beta[1]))
    words = f"odds × {odds:.2g} for one deviation more"
    return words if len(curve.beta) < 3 or abs(curve.beta[2]) < abs(curve.beta[1]) else f"{words}, and not straight"


def _where(seen: Seen, curves: Mapping[str, FailureCurve]) -> list[Html | None]:
    flown = seen.flown
    factors = {name: x[flown] for name, x in seen.factors.items() if np.ptp(x[flown]) > 0.0} if flown.any() else {}
    if not curves:
        words = "No flight failed." if not seen.failed[flown].any() else "Every flight failed."
        return [element("h2", "Where it fails"), element("p", words)]
    ranked = {name: factors[name] for name in curves}
    parts: list[Html | None] = [
        element("h2", "Where it fails"),
        element(
            "p",
            "Flights that fail over each factor, the most telling factor first: in bins of as many flights, with 95 % "
            "intervals, and as a logistic curve with its band.",
        ),
        figure(draw.failure_rates(ranked, seen.failed[flown], curves), "failures over each factor"),
    ]
    telling = [name for name, own in curves.items() if own.chance <= SEEN]
    few = {name: ranked[name] for name in (telling if len(telling) > 1 else list(curves))[:MOST_FACTORS]}
    if len(few) > 1:
        parts += [
            element("p", "Pairs of factors, a point for each flight."),
            figure(draw.failure_map(few, seen.outcome[flown]), "outcomes over pairs of factors"),
        ]
    return parts


# How well -------------------------------------------------------------------------------------------------------------------


def _distributions(campaign: Campaign, seen: Seen) -> list[Html]:
    told = {name: own[np.isfinite(own) & seen.flown] for name, own in seen.metrics.items()}
    if not told:
        return [element("p", "All flights have the same metrics.")]
    rows = []
    for name, own in told.items():
        unit = f" {UNITS[name]}" if name in UNITS else ""
        bad = draw.bad_quantile(name)
        low, high = quantile_interval(own, bad)
        middle, late, worst = np.quantile(own, 0.5), np.quantile(own, bad), own.min() if bad < 0.5 else own.max()
        numbers = [f"{value:.4g}{unit}" for value in (middle, late, worst)]
        rows.append([name, *numbers[:2], f"{_end(low)} to {_end(high)}", numbers[2]])
    limits = dict(campaign.degraded)
    words = "Solid: the median; dotted: 99 of 100 flights are better."
    return [
        figure(draw.distributions(told, UNITS, limits), "distributions of the metrics"),
        faint(words + (" Dashed: beyond it a flight is degraded." if limits else "")),
        table(["", "median", "99 of 100 are better", "its 95 % interval", "worst"], rows),
    ]


def _end(x: float) -> str:
    return f"{x:.4g}" if math.isfinite(x) else "not known"


def _fan(campaign: Campaign, store: Store, seen: Seen) -> list[Html]:
    """Flown again: the worst third, and others evenly spread over the rows"""
    if campaign.fingerprint() != store.about["fingerprint"]:
        return [faint("The scenario was changed since it flew: no trajectories.")]
    worst = worst_rows(store, campaign, MOST_FLOWN // 3).tolist()
    others = seen.row[seen.flown & np.isin(seen.row, worst, invert=True)]
    others = others[:: max(1, math.ceil(len(others) / (MOST_FLOWN - len(worst))))]
    came = dict(zip(seen.row.tolist(), seen.outcome.tolist(), strict=True))
    try:
        flown = trajectories(Flying.of(campaign), store, sorted([*worst, *others.tolist()]))
    except (ValueError, FloatingPointError) as error:
        return [faint(f"No trajectories: {error}")]
    if not flown:
        return []
    return [
        element("h2", "Flights"),
        element("p", f"The {len(worst)} worst and {len(flown) - len(worst)} others, evenly spread over the campaign."),
        figure(draw.fan([(came[own.row], own.time, own.p_W) for own in flown]), "a fan of trajectories"),
    ]


# Which ----------------------------------------------------------------------------------------------------------------------


def _worst(campaign: Campaign, store: Store, seen: Seen) -> list[Html]:
    worst = worst_rows(store, campaign, WORST).tolist()
    rows = []
    for row in worst:
        k = int(np.searchsorted(seen.row, row))
        value = seen.metrics[campaign.worst_by][k] if campaign.worst_by in seen.metrics else math.nan
        numbers = [f"{x:.4g}" for x in (value, *(x[k] for x in seen.factors.values()))]
        rows.append([str(row), _dot(seen.outcome[k]), element("code", seen.reason[k]), *numbers])
    unit = f" [{UNITS[campaign.worst_by]}]" if campaign.worst_by in UNITS else ""
    return [
        table(["row", "", "", f"{campaign.worst_by}{unit}", *seen.factors], rows),
        element("p", "Each of them, flown again bit for bit and shown:"),
        element("pre", "\n".join(REPLAY.format(folder=store.folder, row=row) for row in worst)),
    ]


def _broken(store: Store, seen: Seen) -> list[Html] | None:
    """Rows that could not be flown, by what was said of them"""
    if seen.flown.all():
        return None
    sentences = store.table(["error"])["error"].to_numpy(zero_copy_only=False)[~seen.flown].astype(str)
    rows = zip(seen.row[~seen.flown].tolist(), sentences, strict=True)
    items = limited([f"row {row}: {sentence}" for row, sentence in rows], WORST)
    return [element("h2", "Rows that could not be flown"), element("ul", items)]


def _origin(store: Store) -> Html:
    about = store.about
    rows = [
        ["Samara", about["samara"]],
        ["Python", f"{about['python']} on {about['machine']}"],
        *([name, number] for name, number in about["packages"].items()),
        ["fingerprint", element("code", about["fingerprint"])],
        ["rows", f"{store.folder}/rows, {len(store.done())} Parquet files"],
    ]
    return table([], rows)


def _again(store: Store) -> str:
    query = f'samara sweep query {store.folder} "select outcome, reason, count(*) from rows group by all"'
    return f"{query}\nsamara sweep report {store.folder}"
