"""A campaign: a scenario, varied parameters, the flight count, limits of metrics, and the flights to record.

    schema = 1
    name = "gusty"
    scenario = "figure8"                      # a shipped one, or a file beside this one
    flights = 10000
    seed = 7
    sampler = "sobol"                         # independent, latin, sobol, halton, grid

    [vary]
    mass = { normal = [1.0, 0.05], relative = true }
    "wind.speed" = { uniform = [0, 8] }
    "start_W.x" = { choice = [-1, 0, 1] }

Names are those of `samara.fly_many`, and `scenario.…` for any numeric setting of the scenario's file, as for `--set`.
"""

import hashlib
import inspect
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from os.path import relpath
from pathlib import Path
from typing import Any, NamedTuple

from samara.campaigns.distributions import (
    DISTRIBUTIONS,
    DiscreteUniform,
    Distribution,
    GridAxis,
    MultivariateNormal,
    distribution,
)
from samara.campaigns.samplers import GRID, SAMPLERS
from samara.core.budget import collect_named_files, read_bytes, read_text, resolve_sibling_path
from samara.core.coerce import is_number
from samara.core.quantity import Scalar
from samara.core.sanitise import MAX_QUOTED_LENGTH, quote_value
from samara.core.toml import TomlFile, TomlTable, is_toml_path, parse_document, toml_value
from samara.record.metrics import FLIGHT_METRICS
from samara.scenario.file import load_scenario
from samara.scenario.scenario import Scenario

SCHEMA = 1
MAX_FLIGHTS = 10**9
TABLE_SUFFIXES = (".csv", ".parquet")


class CampaignError(ValueError):
    """An invalid campaign; the message is one sentence."""


def label(name: str) -> str:
    """Return a name from a file for a message: unchanged if it is short and printable, else quoted."""
    return name if name.isprintable() and len(name) <= MAX_QUOTED_LENGTH else quote_value(name)


class VariedParameter(NamedTuple):
    """A varied parameter: its name, its distribution, and whether it multiplies the vehicle's value."""

    name: str
    distribution: Distribution
    relative: bool = False


class RecordedFlights(NamedTuple):
    """The flights to record: counts of the worst flights and of failures, and every n-th flight."""

    worst: int = 3
    failures: int = 3
    every: int = 0


DEFAULT_RECORDED_FLIGHTS = RecordedFlights()


class StoppingRule(NamedTuple):
    """The stopping rule: end when the confidence interval of the success rate is ± `half_width` or narrower."""

    half_width: float
    confidence: float = 0.95


@dataclass(frozen=True)
class Campaign:
    """The definition of a campaign; `origin` names it in errors, `folder` is the folder of its files.

    `controller` is a function that replaces the scenario's controller; no file can state it.
    """

    name: str
    scenario: str
    flights: int
    seed: int = 1
    sampler: str = "independent"
    settings: tuple[tuple[str, Scalar], ...] = ()
    factors: tuple[VariedParameter, ...] = ()
    correlated: tuple[MultivariateNormal, ...] = ()
    samples: str = ""
    degraded: tuple[tuple[str, float], ...] = ()
    record: RecordedFlights = DEFAULT_RECORDED_FLIGHTS
    stop: StoppingRule | None = None
    rank_by: str = "max_error"
    origin: str = "campaign"
    folder: str = ""
    controller: Callable[..., Any] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the varied parameters in the order of their columns; those of a sample table come after them."""
        return (*(group.name for group in self.factors), *(name for group in self.correlated for name in group.names))

    @property
    def file(self) -> str | Path:
        """The scenario: its name, or the path of its file in the campaign's folder."""
        try:
            return (
                resolve_sibling_path(Path(self.folder), self.scenario) if is_toml_path(self.scenario) else self.scenario
            )
        except ValueError as error:
            raise CampaignError(f"{self.origin}: scenario = {quote_value(self.scenario)}: {error}") from None

    def read_scenario(self, row_settings: Mapping[str, float] | None = None) -> Scenario:
        """Read the scenario with the campaign's settings, which are as untrusted as its file, and with a row's parameters.

        Raises ScenarioError or CampaignError.
        """
        if not row_settings:
            return self._read_once[0]
        return self._load({**dict(self.settings), **row_settings})

    def _load(self, settings: Mapping[str, object]) -> Scenario:
        objects = None if self.controller is None else {"drones.controller": self.controller}
        return load_scenario(self.file, settings, folder=Path(self.folder), objects=objects)

    def named_files(self) -> dict[str, Path]:
        """Every file that the campaign, its scenario and its vehicles name, by its path below the campaign's folder."""
        paths = [*self._read_once[1], *([self.samples_path()] if self.samples else [])]
        return {Path(relpath(path, self.folder or ".")).as_posix(): path for path in paths if path.is_file()}

    @cached_property
    def _read_once(self) -> tuple[Scenario, list[Path]]:
        """The scenario as all rows share it, and the paths of the files that it names."""
        with collect_named_files() as paths:
            scenario = self._load(dict(self.settings))
        return scenario, paths

    def samples_path(self) -> Path:
        """Return the path of the sample table, in the campaign's folder."""
        try:
            return resolve_sibling_path(Path(self.folder), self.samples)
        except ValueError as error:
            raise CampaignError(f"{self.origin}: samples.file = {quote_value(self.samples)}: {error}") from None

    def fingerprint(self) -> str:
        """Return a hash of everything that determines the rows: the campaign, and the files that it and its scenario name."""
        fields = [
            *(self.scenario, self.seed, self.sampler, self.settings, self.factors, self.correlated),
            *(self.degraded, self.rank_by, self.flights if self.sampler in ("latin", GRID) else 0),
        ]
        if self.controller is not None:
            fields.append(function_source(self.controller))
        text = json.dumps([[type(value).__name__, value] for value in fields], default=str)
        digest = hashlib.sha256(text.encode())
        for name, path in sorted(self.named_files().items()):
            digest.update(name.encode() + b"\0" + hashlib.sha256(read_bytes(path)).digest())
        return digest.hexdigest()


def function_source(function: Callable[..., Any]) -> str:
    """Return the file of a function as text, or its source in a notebook; its name if there is none."""
    definition = function if hasattr(function, "__code__") else type(function)
    try:
        file = inspect.getsourcefile(definition)
        if file is not None and Path(file).is_file():
            return f"{getattr(definition, '__qualname__', '')}\n{read_text(Path(file))}"
        return inspect.getsource(definition)
    except (OSError, TypeError):
        return str(getattr(definition, "__qualname__", definition))


def load_campaign(path: str | Path) -> Campaign:
    """Load a campaign from its file; raise CampaignError if it is invalid."""
    return parse_campaign(read_campaign(path), str(path), campaign_folder(path))


def campaign_folder(path: str | Path) -> Path:
    """Return the folder of a campaign's file, which holds the files it names."""
    return Path(path).resolve().parent


def read_campaign(path: str | Path) -> str:
    """Return the text of a campaign's file; raise CampaignError if it cannot be read."""
    try:
        return read_text(Path(path))
    except OSError as error:
        raise CampaignError(
            f"{path}: cannot be read ({error.strerror or error}); expected a campaign's TOML file"
        ) from None


def parse_campaign(text: str, origin: str, folder: Path) -> Campaign:
    """Parse a campaign from the text of its file; the files it names are in `folder`."""
    document = parse_document(text, origin, CampaignError)
    if "scenario" not in document and not {"drones", "body"}.isdisjoint(document):
        found = "vehicle" if "body" in document else "scenario"
        raise CampaignError(f"{origin} is a {found}, not a campaign; expected a file with scenario = and flights =")
    file = TomlTable(document, TomlFile(origin, CampaignError))
    file.schema(SCHEMA)
    vary = file.optional_table("vary")
    factors = tuple(_varied_parameter(vary, name) for name in list(vary.entries)) if vary else ()
    correlated = tuple(_parse_correlated(table) for table in file.tables("correlated"))
    settings = file.optional_table("settings")
    samples = file.optional_table("samples")
    degraded = file.optional_table("degraded")
    record, stop = file.optional_table("record"), file.optional_table("stop")
    sampler = file.text("sampler", "independent", SAMPLERS)
    campaign = Campaign(
        name=file.text("name", Path(origin).stem),
        scenario=file.text("scenario"),
        flights=_flights(file, sampler, factors),
        seed=file.integer("seed", 1, low=0, high=2**63 - 1),
        sampler=sampler,
        settings=tuple(sorted(_flatten(settings.entries))) if settings else (),
        factors=factors,
        correlated=correlated,
        samples=_samples(samples) if samples else "",
        degraded=_parse_degraded(degraded) if degraded else (),
        record=_recorded_flights(record) if record else DEFAULT_RECORDED_FLIGHTS,
        stop=_stop(stop) if stop else None,
        rank_by=file.text("rank_by", "max_error", FLIGHT_METRICS),
        origin=origin,
        folder=str(folder),
    )
    file.finish()
    return require_valid(campaign)


def require_valid(campaign: Campaign) -> Campaign:
    """Return the campaign; raise CampaignError if a name is varied twice or a grid has other distributions."""
    names = campaign.names
    for name in names:
        if names.count(name) > 1:
            raise CampaignError(f"{campaign.origin}: {label(name)} is varied {names.count(name)} times; expected once")
    if campaign.sampler == GRID:
        invalid = [factor.name for factor in campaign.factors if not isinstance(factor.distribution, GridAxis)]
        invalid += [name for group in campaign.correlated for name in group.names]
        if invalid or not campaign.factors:
            raise CampaignError(
                f"{campaign.origin}: sampler 'grid' with {', '.join(map(label, invalid[:9])) or 'nothing'}; "
                "expected grids alone"
            )
    return campaign


def _flights(file: TomlTable, sampler: str, factors: tuple[VariedParameter, ...]) -> int:
    if sampler != GRID:
        if "flights" not in file:
            raise file.missing_error("flights", "the flight count")
        return file.integer("flights", 0, low=1, high=MAX_FLIGHTS)
    count = math.prod(
        len(factor.distribution.values) for factor in factors if isinstance(factor.distribution, GridAxis)
    )
    if "flights" in file and file.integer("flights", 0, low=1, high=MAX_FLIGHTS) != count:
        raise CampaignError(
            f"{file.file.origin}: flights is not {count}, the number of points of its grid; leave it out"
        )
    return count


def _varied_parameter(vary: TomlTable, name: str) -> VariedParameter:
    table = vary.table(name)
    relative = table.flag("relative", False)
    matches = [distribution_name for distribution_name in DISTRIBUTIONS if distribution_name in table]
    if len(matches) != 1:
        raise table.make_error(f" has {len(matches)} distributions: expected one of {', '.join(DISTRIBUTIONS)}", "")
    (distribution_name,) = matches
    numbers = table.numbers(distribution_name)
    table.finish()
    try:
        return VariedParameter(name, distribution(distribution_name, numbers), relative)
    except ValueError as error:
        raise CampaignError(f"{vary.file.origin}: vary.{label(name)}: {error}") from None


def _parse_correlated(table: TomlTable) -> MultivariateNormal:
    names = table.take("names", "a list of names")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise table.error("names", names, "a list of names")
    mean = table.numbers("mean")
    rows = table.take("covariance", "a list of rows")
    if not isinstance(rows, list) or not all(isinstance(row, list) and all(map(is_number, row)) for row in rows):
        raise table.error("covariance", rows, "a list of rows of finite numbers")
    table.finish()
    with table.error_context("covariance"):
        return MultivariateNormal.create(tuple(names), mean, tuple(tuple(float(x) for x in row) for row in rows))


def _samples(table: TomlTable) -> str:
    name = table.text("file")
    table.finish()
    if not name.endswith(TABLE_SUFFIXES):
        raise table.error("file", name, f"a file that ends in {' or '.join(TABLE_SUFFIXES)}")
    return name


def _parse_degraded(table: TomlTable) -> tuple[tuple[str, float], ...]:
    limits = tuple((name, table.number(name)) for name in list(table.entries))
    for name, value in limits:
        if name not in FLIGHT_METRICS:
            raise table.error(name, value, f"one of {', '.join(FLIGHT_METRICS)}")
    return limits


def _recorded_flights(table: TomlTable) -> RecordedFlights:
    recorded = RecordedFlights(
        *(
            table.integer(name, default, low=0, high=10_000)
            for name, default in DEFAULT_RECORDED_FLIGHTS._asdict().items()
        )
    )
    table.finish()
    return recorded


def _stop(table: TomlTable) -> StoppingRule:
    half_width = table.number("half_width", above=0.0, upto=0.5)
    stop = StoppingRule(half_width, table.number("confidence", 0.95, above=0.5, upto=0.999999))
    table.finish()
    return stop


def _flatten(entries: Mapping[str, Scalar], path: str = "") -> list[tuple[str, Scalar]]:
    """Return the values of nested tables by their dotted names, as for `--set`."""
    settings: list[tuple[str, Scalar]] = []
    for key, value in entries.items():
        settings += _flatten(value, f"{path}{key}.") if isinstance(value, dict) else [(f"{path}{key}", value)]
    return settings


def campaign_toml(campaign: Campaign) -> str:
    """Return the text of a campaign's file, which `parse_campaign` reads back as the same campaign."""
    names = ("name", "scenario", "flights", "seed", "sampler", "rank_by")
    entries = {name: getattr(campaign, name) for name in names if name != "flights" or campaign.sampler != GRID}
    lines = [f"schema = {SCHEMA}", *_toml_entries(entries)]
    if campaign.settings:
        lines += ["", "[settings]", *_toml_entries({toml_value(name): value for name, value in campaign.settings})]
    if campaign.factors:
        lines += ["", "[vary]"]
    distribution_names = {
        distribution_type: distribution_name for distribution_name, distribution_type in DISTRIBUTIONS.items()
    }
    for factor in campaign.factors:
        numbers = (
            factor.distribution.values
            if isinstance(factor.distribution, (DiscreteUniform, GridAxis))
            else factor.distribution
        )
        relative = ", relative = true" if factor.relative else ""
        text = f"{distribution_names[type(factor.distribution)]} = {toml_value(list(numbers))}{relative}"
        lines.append(f"{toml_value(factor.name)} = {{ {text} }}")
    for group in campaign.correlated:
        entries = {"names": list(group.names), "mean": list(group.mean), "covariance": group.covariance}
        lines += ["", "[[correlated]]", *_toml_entries(entries)]
    if campaign.samples:
        lines += ["", "[samples]", f"file = {toml_value(campaign.samples)}"]
    if campaign.degraded:
        lines += ["", "[degraded]", *_toml_entries(dict(campaign.degraded))]
    lines += ["", "[record]", *_toml_entries(campaign.record._asdict())]
    if campaign.stop:
        lines += ["", "[stop]", *_toml_entries(campaign.stop._asdict())]
    return "\n".join(lines) + "\n"


def _toml_entries(entries: Mapping[str, Scalar]) -> list[str]:
    return [f"{name} = {toml_value(value)}" for name, value in entries.items()]
