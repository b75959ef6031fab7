"""`samara sweep`: campaigns of many flights; their rows asked, flown again, and told about on a page."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samara.cli import sweep_search
from samara.cli.console import console, say
from samara.cli.default_command import default_command
from samara.core.sanitise import printable

if TYPE_CHECKING:
    from samara.campaigns.campaign import Campaign
    from samara.campaigns.confidence import Requirement
    from samara.campaigns.store import Store
    from samara.campaigns.sweep import Progress

RUN = "run"
NOT_SHOWN = 1  # exit status where a requirement is not held


app = typer.Typer(
    cls=default_command(RUN),
    help="Fly a campaign of many flights: samara sweep campaign.toml (short for: samara sweep run campaign.toml).",
    no_args_is_help=True,
    subcommand_metavar="CAMPAIGN | COMMAND [ARGS]...",
)
Folder = Annotated[Path, typer.Argument(help="The folder of a campaign.")]


@app.command(RUN)
def run(
    campaign: Annotated[Path, typer.Argument(help="The campaign's TOML file.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Its folder; out/NAME by default.")] = None,
    add: Annotated[int, typer.Option("--add", help="So many flights more than were asked for before.")] = 0,
    batch: Annotated[int | None, typer.Option("--batch", help="Flights in a batch, each a file.")] = None,
    backend: Annotated[str, typer.Option("--backend", help="auto, llvm, jax or pallas.")] = "auto",
    ray: Annotated[str | None, typer.Option("--ray", help="A Ray cluster: auto, or its address.")] = None,
    keep: Annotated[
        bool, typer.Option(help="Record the worst flights and the first failures whole, as the file says.")
    ] = True,
    require: Annotated[
        str | None, typer.Option("--require", help="Such as 'success > 0.99 @ 95%': exit status 1 unless shown.")
    ] = None,
) -> None:
    """Fly a campaign. The same command goes on where it was stopped; nothing is flown twice."""
    from samara.campaigns.campaign import load_campaign
    from samara.campaigns.confidence import parse_requirement
    from samara.campaigns.sweep import counted, sweep

    wanted = parse_requirement(require) if require else None
    own = load_campaign(campaign)
    folder = out or Path("out") / campaign.stem
    with _progress() as tell:
        store = sweep(campaign, folder, add=add, batch=batch, backend=backend, ray=ray, progress=tell)
    counts = counted(store)
    _show(store, counts)
    _confirmed(store)
    if keep:
        _keep(store, own)
    say(f"rows   {folder}\npage   samara sweep report {folder}")
    say(f'query  samara sweep query {folder} "select outcome, count(*) from rows group by 1"')
    if wanted is not None:
        raise typer.Exit(_judged(wanted, counts, looked=own.stop is not None))


@app.command("query")
def query(
    folder: Folder,
    sql: Annotated[str, typer.Argument(help="DuckDB's SQL; the rows are the table `rows`.")],
) -> None:
    """Ask the rows of a campaign: samara sweep query out/ "select outcome, count(*) from rows group by 1"."""
    from rich.table import Table

    from samara.campaigns.store import query as answer

    names, rows = answer(folder, sql)
    table = Table(*names)
    for row in rows:
        table.add_row(*(printable(f"{own:.6g}" if isinstance(own, float) else str(own)) for own in row))
    console().print(table)


@app.command("report")
def report(
    folder: Folder,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The page; report.html in the folder by default.")
    ] = None,
    fly: Annotated[bool, typer.Option(help="Fly some rows again to show their trajectories.")] = True,
) -> None:
    """One page about a campaign: rates and how sure they are, where it fails, trajectories, and the worst flights."""
    from samara.view.report.campaign import write_campaign_page

    say(f"page   {write_campaign_page(folder, out, fly=fly)}")


@app.command("replay")
def replay(
    folder: Folder,
    row: Annotated[int, typer.Option("--row", help="Which row.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The recording to write, an .mcap file.")] = None,
    view: Annotated[bool, typer.Option("--view", help="Show it in the browser afterwards.")] = False,
) -> None:
    """Fly one row again, bit for bit, with a recording; and say whether it ended where its row says."""
    from samara.campaigns.replay import flown_again

    found = flown_again(folder, row, out)
    for name, value in found.values.items():
        say(f"{name} = {value:.6g}")
    say(f"{found.outcome} {found.reason}".strip())
    say(f"same   {'bit for bit' if found.same else 'NO: it ended elsewhere than its row says'}\nrun    {found.path}")
    if view:
        from samara.cli.view import view as show

        show([str(found.path)])
    if not found.same:
        raise typer.Exit(1)


def _judged(wanted: "Requirement", counts: dict[str, int], *, looked: bool) -> int:
    from samara.campaigns.confidence import Verdict, judge
    from samara.campaigns.outcome import DEGRADED, FAIL, INVALID, PASS

    subjects = {"success": (PASS, DEGRADED), "failure": (FAIL, INVALID)} | {name: (name,) for name in counts}
    if wanted.subject not in subjects:
        raise ValueError(f"--require {wanted}: expected one of {', '.join(subjects)}")
    verdict = judge(wanted, sum(counts[name] for name in subjects[wanted.subject]), sum(counts.values()), looked=looked)
    say(f"{wanted}: {verdict.value}")
    return 0 if verdict is Verdict.HELD else NOT_SHOWN


def _keep(store: "Store", campaign: "Campaign") -> None:
    from samara.campaigns.kept import keep_flights

    with console().status("") as status:
        kept = keep_flights(store, campaign, lambda done, of: status.update(f"recording flight {done + 1} of {of}"))
    if kept.paths:
        say(f"kept   {len(kept.paths)} flights in {kept.paths[0].parent}")
    if kept.different:
        say(f"kept   NOT THE SAME: rows {', '.join(map(str, kept.different))} ended elsewhere when flown again")
    for row, sentence in kept.broken.items():
        say(f"row {row} was not kept: {sentence}")


def _show(store: "Store", counts: dict[str, int]) -> None:
    from rich.table import Table

    from samara.campaigns.confidence import clopper_pearson

    total = sum(counts.values())
    table = Table("outcome", "flights", "share", "95 % interval")
    for name, count in counts.items():
        own = clopper_pearson(count, total)
        table.add_row(name, str(count), f"{count / total:.4%}", f"{own.low:.4%} to {own.high:.4%}")
    console().print(table)


def _confirmed(store: "Store") -> None:
    """What came of a GPU's findings when LLVM flew them again; nothing where there was no GPU"""
    from samara.campaigns.gpu_confirmation import MOST_AGAIN, Confirmed

    if store.about.get("confirmed") is None:
        return
    own = Confirmed(**store.about["confirmed"])
    say(
        f"again  {own.flown_again} flown again on llvm ({own.failures_again} of {own.failures} failures, and the worst): "
        f"{own.disagree} came out otherwise"
    )
    if own.failures_again < own.failures:
        say(
            f"       {own.failures - own.failures_again} failures were found by {store.about['backend']} alone: no more than "
            f"{MOST_AGAIN} of a batch are flown again"
        )


@contextmanager
def _progress() -> Iterator[Any]:
    """A line with flights a second, the rate of success and its interval, and the time left"""
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    from samara.campaigns.confidence import confidence_sequence
    from samara.campaigns.outcome import DEGRADED, PASS

    bars = Bars(BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn(), console=console())
    task, began, first = bars.add_task("", total=None), time.monotonic(), -1
    try:

        def tell(own: "Progress") -> None:
            nonlocal first, began
            if first < 0:  # what is wrong with the campaign is told before there is a bar
                first, began = own.done, time.monotonic()
                bars.start()
            words = f"{own.done} of {own.total}"
            if own.done > first:
                words += f", {(own.done - first) / (time.monotonic() - began):.0f} flights/s"
            if own.done:
                good = own.counts[PASS] + own.counts[DEGRADED]
                sure = confidence_sequence(good, own.done)
                words += f", {good / own.done:.2%} succeed ({sure.low:.2%} to {sure.high:.2%})"
            if own.nodes_lost:
                words += f", nodes lost: {own.nodes_lost}"
            bars.update(task, completed=own.done, total=own.total, description=words)

        yield tell
    finally:
        if first >= 0:
            bars.stop()


sweep_search.add_to(app)
