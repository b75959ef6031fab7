"""A campaign: a scenario, what differs from flight to flight, how many there are, what is judged and what is kept.

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

Names are those of `samara.fly_many`, and `scenario.…` for any number of the scenario's file, as `--set` has it.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from os.path import relpath
from pathlib import Path
from typing import NamedTuple

from samara.campaigns.distributions import KINDS, Choice, Correlated, Distribution, Grid, distribution
from samara.campaigns.samplers import GRID, SAMPLERS
from samara.core.budget import collect_named_files, path_beside, read_bytes, read_text
from samara.core.coerce import is_number
from samara.core.quantity import Scalar
from samara.core.sanitise import LINE, shown
from samara.core.toml import File, Table, document, is_file, toml_value
from samara.record.metrics import FLIGHT_METRICS
from samara.scenario.file import load_scenario
from samara.scenario.scenario import Scenario

SCHEMA = 1
MOST_FLIGHTS = 10**9
ENDINGS = (".csv", ".parquet")


class CampaignError(ValueError):
    """One sentence about what is wrong with a campaign."""


def label(name: str) -> str:
    """Return a name from a file for a message: unchanged if it is short and printable, else quoted."""
    return name if name.isprintable() and len(name) <= LINE else shown(name)


class Factor(NamedTuple):
    """A varied parameter: its name, its distribution, and whether it multiplies the vehicle's value"""

    name: str
    how: Distribution
    relative: bool = False


class Kept(NamedTuple):
    """How many of the worst flights and of the failures are recorded, and every n-th flight"""

    worst: int = 3
    failures: int = 3
    every: int = 0


KEPT = Kept()


class Stop(NamedTuple):
    """End early when the success rate is known to ± so much"""

    half_width: float
    confidence: float = 0.95


@dataclass(frozen=True)
class Campaign:
    """All that decides what its rows are and how they are judged; `origin` is what errors call it, `folder` where its files
    are."""

    name: str
    scenario: str
    flights: int
    seed: int = 1
    sampler: str = "independent"
    settings: tuple[tuple[str, Scalar], ...] = ()
    factors: tuple[Factor, ...] = ()
    correlated: tuple[Correlated, ...] = ()
    table: str = ""
    degraded: tuple[tuple[str, float], ...] = ()
    kept: Kept = KEPT
    stop: Stop | None = None
    worst_by: str = "worst_error"
    origin: str = "campaign"
    folder: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The factors in the order of their columns; those of a table come after them"""
        return (*(own.name for own in self.factors), *(name for own in self.correlated for name in own.names))

    @property
    def file(self) -> str | Path:
        """The scenario: its name, or the file beside the campaign's"""
        try:
            return path_beside(Path(self.folder), self.scenario) if is_file(self.scenario) else self.scenario
        except ValueError as error:
            raise CampaignError(f"{self.origin}: scenario = {shown(self.scenario)}: {error}") from None

    def read_scenario(self, numbers: Mapping[str, float] | None = None) -> Scenario:
        """Read the scenario with the campaign's settings, which are as untrusted as its file, and with a row's parameters.

        Raises ScenarioError or CampaignError.
        """
        if not numbers:
            return self._read_once[0]
        return load_scenario(self.file, {**dict(self.settings), **numbers}, folder=Path(self.folder))

    def named_files(self) -> dict[str, Path]:
        """Every file that the campaign, its scenario and its vehicles name, by its path below the campaign's folder."""
        paths = [*self._read_once[1], *([self.table_path()] if self.table else [])]
        return {Path(relpath(path, self.folder or ".")).as_posix(): path for path in paths if path.is_file()}

    @cached_property
    def _read_once(self) -> tuple[Scenario, list[Path]]:
        """The scenario as all rows share it, and the paths of the files that it names."""
        with collect_named_files() as paths:
            scenario = load_scenario(self.file, dict(self.settings), folder=Path(self.folder))
        return scenario, paths

    def table_path(self) -> Path:
        """The table of cases, beside the campaign's file"""
        try:
            return path_beside(Path(self.folder), self.table)
        except ValueError as error:
            raise CampaignError(f"{self.origin}: table.file = {shown(self.table)}: {error}") from None

    def fingerprint(self) -> str:
        """A hash of all that decides the rows: of the campaign, the scenario's text, and the vehicles and tables it names"""
        said = [
            *(self.scenario, self.seed, self.sampler, self.settings, self.factors, self.correlated),
            *(self.degraded, self.worst_by, self.flights if self.sampler in ("latin", GRID) else 0),
        ]
        text = json.dumps([[type(own).__name__, own] for own in said], default=str)
        digest = hashlib.sha256(text.encode())
        for name, path in sorted(self.named_files().items()):
            digest.update(name.encode() + b"\0" + hashlib.sha256(read_bytes(path)).digest())
        return digest.hexdigest()


def load_campaign(path: str | Path) -> Campaign:
    """A campaign from its file, or a `CampaignError`"""
    return parse_campaign(read_campaign(path), str(path), folder_of(path))


def folder_of(path: str | Path) -> Path:
    """The folder in which a campaign's file may name others"""
    return Path(path).resolve().parent


def read_campaign(path: str | Path) -> str:
    """The text of a campaign's file, or a `CampaignError`"""
    try:
        return read_text(Path(path))
    except (OSError, UnicodeDecodeError) as error:
        raise CampaignError(f"{path}: cannot be read ({error}); expected a campaign's TOML file") from None


def parse_campaign(text: str, origin: str, folder: Path) -> Campaign:
    """A campaign from the text of its file; the files it names are in `folder`"""
    file = Table(document(text, origin, CampaignError), File(origin, CampaignError))
    file.schema(SCHEMA)
    vary = file.optional_table("vary")
    factors = tuple(_factor(vary, name) for name in list(vary.entries)) if vary else ()
    together = tuple(_correlated(own) for own in file.tables("correlated"))
    settings = file.optional_table("settings")
    listed = file.optional_table("table")
    judged = file.optional_table("degraded")
    keep, stop = file.optional_table("keep"), file.optional_table("stop")
    sampler = file.text("sampler", "independent", SAMPLERS)
    own = Campaign(
        name=file.text("name", Path(origin).stem),
        scenario=file.text("scenario"),
        flights=_flights(file, sampler, factors),
        seed=file.whole("seed", 1, low=0, high=2**63 - 1),
        sampler=sampler,
        settings=tuple(sorted(_flat(settings.entries))) if settings else (),
        factors=factors,
        correlated=together,
        table=_table(listed) if listed else "",
        degraded=_degraded(judged) if judged else (),
        kept=_kept(keep) if keep else KEPT,
        stop=_stop(stop) if stop else None,
        worst_by=file.text("worst_by", "worst_error", FLIGHT_METRICS),
        origin=origin,
        folder=str(folder),
    )
    file.finish()
    return checked(own)


def checked(own: Campaign) -> Campaign:
    """The campaign; CampaignError where names come twice or a grid has what is none"""
    names = own.names
    for name in names:
        if names.count(name) > 1:
            raise CampaignError(f"{own.origin}: {label(name)} is varied {names.count(name)} times; expected once")
    if own.sampler == GRID:
        other = [factor.name for factor in own.factors if not isinstance(factor.how, Grid)]
        other += [name for each in own.correlated for name in each.names]
        if other or not own.factors:
            raise CampaignError(
                f"{own.origin}: sampler 'grid' with {', '.join(map(label, other[:9])) or 'nothing'}; expected grids alone"
            )
    return own


def _flights(file: Table, sampler: str, factors: tuple[Factor, ...]) -> int:
    if sampler != GRID:
        if "flights" not in file:
            raise file.missing("flights", "how many flights there are")
        return file.whole("flights", 0, low=1, high=MOST_FLIGHTS)
    count = math.prod(len(factor.how.values) for factor in factors if isinstance(factor.how, Grid))
    if "flights" in file and file.whole("flights", 0, low=1, high=MOST_FLIGHTS) != count:
        raise CampaignError(
            f"{file.file.origin}: flights is not {count}, the number of points of its grid; leave it out"
        )
    return count


def _factor(vary: Table, name: str) -> Factor:
    table = vary.table(name)
    relative = table.flag("relative", False)
    kinds = [kind for kind in KINDS if kind in table]
    if len(kinds) != 1:
        raise table.wrong(f" has {len(kinds)} distributions: expected one of {', '.join(KINDS)}", "")
    (kind,) = kinds
    numbers = table.numbers(kind)
    table.finish()
    try:
        return Factor(name, distribution(kind, numbers), relative)
    except ValueError as error:
        raise CampaignError(f"{vary.file.origin}: vary.{label(name)}: {error}") from None


def _correlated(table: Table) -> Correlated:
    names = table.take("names", "a list of names")
    if not isinstance(names, list) or not names or not all(isinstance(own, str) for own in names):
        raise table.error("names", names, "a list of names")
    mean = table.numbers("mean")
    rows = table.take("covariance", "a list of rows")
    if not isinstance(rows, list) or not all(isinstance(row, list) and all(map(is_number, row)) for row in rows):
        raise table.error("covariance", rows, "a list of rows of finite numbers")
    table.finish()
    with table.at("covariance"):
        return Correlated.of(tuple(names), mean, tuple(tuple(float(x) for x in row) for row in rows))


def _table(table: Table) -> str:
    name = table.text("file")
    table.finish()
    if not name.endswith(ENDINGS):
        raise table.error("file", name, f"a file that ends in {' or '.join(ENDINGS)}")
    return name


def _degraded(table: Table) -> tuple[tuple[str, float], ...]:
    limits = tuple((name, table.number(name)) for name in list(table.entries))
    for name, value in limits:
        if name not in FLIGHT_METRICS:
            raise table.error(name, value, f"one of {', '.join(FLIGHT_METRICS)}")
    return limits


def _kept(table: Table) -> Kept:
    kept = Kept(*(table.whole(name, default, low=0, high=10_000) for name, default in KEPT._asdict().items()))
    table.finish()
    return kept


def _stop(table: Table) -> Stop:
    half_width = table.number("half_width", above=0.0, upto=0.5)
    stop = Stop(half_width, table.number("confidence", 0.95, above=0.5, upto=0.999999))
    table.finish()
    return stop


def _flat(entries: Mapping[str, Scalar], path: str = "") -> list[tuple[str, Scalar]]:
    """Values of nested tables by their dotted names, as `--set` has them"""
    settings: list[tuple[str, Scalar]] = []
    for key, value in entries.items():
        settings += _flat(value, f"{path}{key}.") if isinstance(value, dict) else [(f"{path}{key}", value)]
    return settings


def campaign_toml(campaign: Campaign) -> str:
    """The text of a campaign's file: `parse_campaign` reads the same campaign back"""
    names = ("name", "scenario", "flights", "seed", "sampler", "worst_by")
    entries = {name: getattr(campaign, name) for name in names if name != "flights" or campaign.sampler != GRID}
    lines = [f"schema = {SCHEMA}", *_toml_entries(entries)]
    if campaign.settings:
        lines += ["", "[settings]", *_toml_entries({toml_value(name): value for name, value in campaign.settings})]
    if campaign.factors:
        lines += ["", "[vary]"]
    kinds = {record: kind for kind, record in KINDS.items()}
    for factor in campaign.factors:
        numbers = factor.how.values if isinstance(factor.how, (Choice, Grid)) else factor.how
        relative = ", relative = true" if factor.relative else ""
        text = f"{kinds[type(factor.how)]} = {toml_value(list(numbers))}{relative}"
        lines.append(f"{toml_value(factor.name)} = {{ {text} }}")
    for group in campaign.correlated:
        entries = {"names": list(group.names), "mean": list(group.mean), "covariance": group.covariance}
        lines += ["", "[[correlated]]", *_toml_entries(entries)]
    if campaign.table:
        lines += ["", "[table]", f"file = {toml_value(campaign.table)}"]
    if campaign.degraded:
        lines += ["", "[degraded]", *_toml_entries(dict(campaign.degraded))]
    lines += ["", "[keep]", *_toml_entries(campaign.kept._asdict())]
    if campaign.stop:
        lines += ["", "[stop]", *_toml_entries(campaign.stop._asdict())]
    return "\n".join(lines) + "\n"


def _toml_entries(entries: Mapping[str, Scalar]) -> list[str]:
    return [f"{name} = {toml_value(value)}" for name, value in entries.items()]
