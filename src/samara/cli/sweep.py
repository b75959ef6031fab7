"""`samara sweep`: campaigns of many flights: fly them, query their rows, fly rows again, report, search for failures."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samara.cli.console import FAILED, console, say, table
from samara.cli.options import CampaignFile, Require, Seed, argument, default_command, option, out_option
from samara.core.sanitise import printable

if TYPE_CHECKING:
    from samara.campaigns.campaign import Campaign
    from samara.campaigns.confidence import Requirement
    from samara.campaigns.store import Store
    from samara.campaigns.sweep import Progress

RUN = "run"

app = typer.Typer(
    cls=default_command(RUN),
    help="Fly a campaign of many flights: samara sweep campaign.toml (short for: samara sweep run campaign.toml).",
    no_args_is_help=True,
    subcommand_metavar="CAMPAIGN | COMMAND [ARGS]...",
)
Folder = Annotated[Path, argument("The folder of a campaign.")]


@app.command(RUN)
def run(
    campaign: CampaignFile,
    out: Annotated[Path | None, out_option("The campaign's folder; out/NAME by default.")] = None,
    add: Annotated[int, option("--add", "Fly so many more flights than requested before.")] = 0,
    batch: Annotated[int | None, option("--batch", "Flights per batch, each a file.")] = None,
    backend: Annotated[str, option("--backend", "auto, llvm, jax or pallas.")] = "auto",
    ray: Annotated[str | None, option("--ray", "A Ray cluster: auto, or its address.")] = None,
    keep: Annotated[bool, typer.Option(help="Record the worst flights and first failures completely.")] = True,
    require: Require = None,
) -> None:
    """Fly a campaign. Resumes an interrupted campaign; nothing is flown twice."""
    from samara.campaigns.campaign import load_campaign
    from samara.campaigns.confidence import parse_requirement
    from samara.campaigns.outcome import DEGRADED, FAIL, INVALID, PASS
    from samara.campaigns.sweep import counted, sweep

    requirement = parse_requirement(require) if require else None
    loaded = load_campaign(campaign)
    folder = out or Path("out") / campaign.stem
    with _progress() as tell:
        store = sweep(campaign, folder, add=add, batch=batch, backend=backend, ray=ray, progress=tell)
    counts = counted(store)
    _show(counts)
    _confirmed(store)
    if keep:
        _keep(store, loaded)
    say(f"rows   {folder}\npage   samara sweep report {folder}")
    say(f'query  samara sweep query {folder} "select outcome, count(*) from rows group by 1"')
    if requirement is not None:
        sums = {"success": counts[PASS] + counts[DEGRADED], "failure": counts[FAIL] + counts[INVALID]}
        raise typer.Exit(evaluate(requirement, sums | counts, sum(counts.values()), looked=loaded.stop is not None))


@app.command("query")
def query(
    folder: Folder,
    sql: Annotated[str, argument("DuckDB's SQL; the rows are the table `rows`.")],
) -> None:
    """Ask the rows of a campaign: samara sweep query out/ "select outcome, count(*) from rows group by 1"."""
    from samara.campaigns.store import query as answer

    names, rows = answer(folder, sql)
    texts = ((printable(f"{cell:.6g}" if isinstance(cell, float) else str(cell)) for cell in row) for row in rows)
    console().print(table(names, texts))


@app.command("report")
def report(
    folder: Folder,
    out: Annotated[Path | None, out_option("The page; report.html in the folder by default.")] = None,
    fly: Annotated[bool, typer.Option(help="Fly some rows again to show their trajectories.")] = True,
) -> None:
    """One page about a campaign: rates and how sure they are, where it fails, trajectories, and the worst flights."""
    from samara.view.report.campaign import write_campaign_page

    say(f"page   {write_campaign_page(folder, out, fly=fly)}")


@app.command("replay")
def replay(
    folder: Folder,
    row: Annotated[int, option("--row", "Which row.")],
    out: Annotated[Path | None, out_option("The recording to write, an .mcap file.")] = None,
    view: Annotated[bool, option("--view", "Show it in the browser afterwards.")] = False,
) -> None:
    """Fly one row again, bit for bit, with a recording; report whether it ended where its row says."""
    from samara.campaigns.rerun import flown_again

    found = flown_again(folder, row, out)
    for name, value in found.values.items():
        say(f"{name} = {value:.6g}")
    say(f"{found.outcome} {found.reason}".strip())
    say(f"same   {'bit for bit' if found.same else 'NO: it ended elsewhere than its row says'}\nrun    {found.path}")
    if view:
        from samara.cli.view import view as show

        show([str(found.path)])
    if not found.same:
        raise typer.Exit(FAILED)


def evaluate(requirement: "Requirement", counts: Mapping[str, int], total: int, *, looked: bool = False) -> int:
    """Print whether a requirement on one of the counts holds; return the exit status."""
    from samara.campaigns.confidence import Verdict, judge

    if requirement.subject not in counts:
        raise ValueError(f"--require {requirement}: expected one of {', '.join(counts)}")
    verdict = judge(requirement, counts[requirement.subject], total, looked=looked)
    say(f"{requirement}: {verdict.value}")
    return 0 if verdict is Verdict.HELD else FAILED


def _keep(store: "Store", campaign: "Campaign") -> None:
    from samara.campaigns.rerun import keep_flights

    with console().status("") as status:
        kept = keep_flights(store, campaign, lambda done, of: status.update(f"recording flight {done + 1} of {of}"))
    if kept.paths:
        say(f"kept   {len(kept.paths)} flights in {kept.paths[0].parent}")
    if kept.different:
        say(f"kept   NOT THE SAME: rows {', '.join(map(str, kept.different))} ended elsewhere when flown again")
    for row, sentence in kept.broken.items():
        say(f"row {row} was not kept: {sentence}")


def _show(counts: dict[str, int]) -> None:
    from samara.campaigns.confidence import clopper_pearson

    total, rows = sum(counts.values()), []
    for name, count in counts.items():
        interval = clopper_pearson(count, total)
        rows.append((name, str(count), f"{count / total:.4%}", f"{interval.low:.4%} to {interval.high:.4%}"))
    console().print(table(("outcome", "flights", "share", "95 % interval"), rows))


def _confirmed(store: "Store") -> None:
    """What came of a GPU's findings when LLVM flew them again; nothing where there was no GPU"""
    from samara.campaigns.gpu_confirmation import MOST_AGAIN, Confirmed

    if store.about.get("confirmed") is None:
        return
    confirmed = Confirmed(**store.about["confirmed"])
    say(
        f"again  {confirmed.flown_again} flown again on llvm ({confirmed.failures_again} of {confirmed.failures} failures, "
        f"and the worst): {confirmed.disagree} came out otherwise"
    )
    if confirmed.failures_again < confirmed.failures:
        say(
            f"       {confirmed.failures - confirmed.failures_again} failures were found by {store.about['backend']} alone: "
            f"no more than {MOST_AGAIN} of a batch are flown again"
        )


@contextmanager
def _progress() -> "Iterator[Callable[[Progress], None]]":
    """Show a line with flights a second, the rate of success and its interval, and the time left."""
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    from samara.campaigns.confidence import confidence_sequence
    from samara.campaigns.outcome import DEGRADED, PASS

    bars = Bars(BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn(), console=console())
    task, began, first = bars.add_task("", total=None), time.monotonic(), -1
    try:

        def show(state: "Progress") -> None:
            nonlocal first, began
            if first < 0:  # errors of the campaign are reported before there is a bar
                first, began = state.done, time.monotonic()
                bars.start()
            words = f"{state.done} of {state.total}"
            if state.done > first:
                words += f", {(state.done - first) / (time.monotonic() - began):.0f} flights/s"
            if state.done:
                good = state.counts[PASS] + state.counts[DEGRADED]
                interval = confidence_sequence(good, state.done)
                words += f", {good / state.done:.2%} succeed ({interval.low:.2%} to {interval.high:.2%})"
            if state.nodes_lost:
                words += f", nodes lost: {state.nodes_lost}"
            bars.update(task, completed=state.done, total=state.total, description=words)

        yield show
    finally:
        if first >= 0:
            bars.stop()


@app.command("falsify")
def falsify(
    campaign: CampaignFile,
    budget: Annotated[int, option("--budget", "Flights of the search.", min=1)] = 100,
    method: Annotated[str, option("--method", "evolution, cma or tpe.")] = "evolution",
    seed: Seed = 0,
) -> None:
    """Search a campaign for a flight that fails, shrink it to the fewest changed factors, and write it as a campaign."""
    from samara.campaigns.campaign import load_campaign
    from samara.campaigns.search import save_case, weakness

    loaded = load_campaign(campaign)
    with console().status("searching"):
        found = weakness(loaded, budget=budget, method=method, seed=seed)
    if found.shrunk is None:
        say(f"no failure in {found.searched.flights} flights; the worst has the margin {found.searched.margin:.4g}")
        say("that proves nothing: samara sweep rare estimates how rare failures are")
    else:
        words = "the fewest" if found.shrunk.fewest else "none of which can be put back alone"
        say(f"a failure after {found.searched.flights} flights, its margin {found.shrunk.margin:.4g}")
        changed = ", ".join(found.changed) or "nothing: the nominal flight fails"
        say(f"it takes {changed} ({words}; {found.shrunk.flights} flights to know it)")
    for name, value in found.case.items():
        say(f"{'*' if name in found.changed else ' '} {name} = {value:.6g}")
    file = save_case(loaded, found.case, f"{campaign.stem}_case")
    folder = Path("out") / file.stem
    say(f"case   {file}\nfly    samara sweep {file} && samara sweep replay {folder} --row 0 --view")


@app.command("rare")
def rare(
    campaign: CampaignFile,
    per_level: Annotated[int, option("--per-level", "Flights of each level, a multiple of 10.")] = 6000,
    budget: Annotated[int, option("--budget", "Flights in all, at most.", min=1)] = 100_000,
    seed: Seed = 0,
) -> None:
    """Estimate how rarely flights of a campaign fail, by subset simulation: for failures too rare to be counted."""
    from samara.campaigns.campaign import load_campaign
    from samara.campaigns.search import rare_failures

    with console().status("flying"):
        found = rare_failures(load_campaign(campaign), seed=seed, per_level=per_level, budget=budget)
    low, high = found.interval
    if found.reached:
        say(f"{found.probability:.3g} of flights fail ({low:.2g} to {high:.2g}, about 95 %)")
    else:
        say(f"no failure was reached; fewer than {found.probability:.3g} of flights fail, as far as these tell")
    say(f"by {found.flights} flights in {len(found.thresholds)} levels")
