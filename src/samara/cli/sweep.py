"""`samara sweep`: campaigns of many flights: fly, query, replay, report, search for failures."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samara.cli.console import FAILED, command_text, console, say, table
from samara.cli.options import (
    CampaignFile,
    Require,
    ScenarioController,
    ScenarioDuration,
    ScenarioSensors,
    ScenarioVehicle,
    Seed,
    Settings,
    Wind,
    argument,
    controller_option,
    default_command,
    option,
    out_option,
    seed_option,
)
from samara.core.sanitise import escape_control_characters

if TYPE_CHECKING:
    from samara.campaigns.campaign import Campaign
    from samara.campaigns.confidence import Requirement
    from samara.campaigns.store import Store
    from samara.campaigns.sweep import SweepProgress

RUN = "run"

app = typer.Typer(
    cls=default_command(RUN),
    help="Fly a campaign of many flights: samara sweep campaign.toml (short for: samara sweep run campaign.toml).",
    no_args_is_help=True,
    subcommand_metavar="CAMPAIGN | COMMAND [ARGS]...",
)
Folder = Annotated[Path, argument("Folder of a campaign that was flown.")]


@app.command(RUN)
def run(
    campaign: CampaignFile,
    settings: Settings = None,
    vehicle: ScenarioVehicle = None,
    controller: ScenarioController = None,
    wind: Wind = None,
    sensors: ScenarioSensors = None,
    seed: Annotated[int | None, seed_option("the campaign's")] = None,
    duration: ScenarioDuration = None,
    out: Annotated[Path | None, out_option("Folder for the campaign; default: out/NAME.")] = None,
    additional_flights: Annotated[
        int, option("--additional-flights", "Number of flights to add to those requested before.")
    ] = 0,
    batch: Annotated[int | None, option("--batch", "Number of flights per batch; each batch is one file.")] = None,
    backend: Annotated[str, option("--backend", "Backend: auto, llvm, jax or pallas.")] = "auto",
    ray: Annotated[str | None, option("--ray", "Ray cluster: auto, or its address.")] = None,
    record: Annotated[
        bool, option("--record/--no-record", "Record the worst flights and the first failures completely.")
    ] = True,
    require: Require = None,
) -> None:
    """Fly a campaign. Resumes an interrupted campaign; no flight is flown twice.

    A campaign that --set, --vehicle, --controller, --wind, --sensors, --seed or --duration changes is another one: give it its
    own folder with --out.
    """
    from samara.campaigns.campaign import load_campaign
    from samara.campaigns.confidence import parse_requirement
    from samara.campaigns.outcome import DEGRADED, FAIL, INVALID, PASS
    from samara.campaigns.sweep import outcome_counts, sweep
    from samara.scenario.changes import load_function
    from samara.scenario.file.overrides import parse_override

    requirement = parse_requirement(require) if require else None
    loaded = load_campaign(campaign)
    function = load_function(controller) if controller and ".py:" in controller else None
    folder = out or Path("out") / campaign.stem
    with _progress() as show_progress:
        store = sweep(
            campaign,
            folder,
            vehicle=vehicle,
            controller=function or controller,
            wind=wind,
            sensors=sensors,
            seed=seed,
            duration=duration,
            settings=dict(map(parse_override, settings or [])),
            additional_flights=additional_flights,
            batch=batch,
            backend=backend,
            ray=ray,
            progress=show_progress,
        )
    counts = outcome_counts(store)
    _print_outcomes(counts)
    if counts[INVALID]:
        errors = (error.as_py() for error in store.table(["error"])["error"])
        say(f"the first invalid flight: {next(filter(None, errors), 'its state is not finite')}")
    _print_gpu_confirmation(store)
    if record:
        _record_selected_flights(store, replace(loaded, controller=function))
    say(f"rows   {folder}\npage   {command_text('sweep', 'report', folder)}")
    query = "select outcome, count(*) from rows group by 1"
    say(f"query  {command_text('sweep', 'query', folder, query)}")
    if requirement is not None:
        sums = {"success": counts[PASS] + counts[DEGRADED], "failure": counts[FAIL] + counts[INVALID]}
        raise typer.Exit(
            check_requirement(requirement, sums | counts, sum(counts.values()), sequential=loaded.stop is not None)
        )
    if counts[INVALID] == sum(counts.values()):
        raise typer.Exit(FAILED)


@app.command("query")
def query(
    folder: Folder,
    sql: Annotated[str, argument("DuckDB SQL; the table is called `rows`.")],
) -> None:
    """Query the rows of a campaign: samara sweep query out/ "select outcome, count(*) from rows group by 1"."""
    from samara.campaigns.store import query as query_rows

    names, rows = query_rows(folder, sql)
    texts = (
        (escape_control_characters(f"{cell:.6g}" if isinstance(cell, float) else str(cell)) for cell in row)
        for row in rows
    )
    console().print(table(names, texts))


@app.command("report")
def report(
    folder: Folder,
    out: Annotated[Path | None, out_option("File for the page (.html); default: report.html in the folder.")] = None,
    fly: Annotated[bool, option("--fly/--no-fly", "Fly some rows again to show their trajectories.")] = True,
) -> None:
    """Write a page on a campaign: rates with confidence intervals, causes of failures, trajectories and the worst flights."""
    from samara.view.report.campaign import write_campaign_page

    say(f"page   {write_campaign_page(folder, out, fly=fly)}")


@app.command("replay")
def replay(
    folder: Folder,
    row: Annotated[int, option("--row", "Row to replay, by its number.", min=0)],
    out: Annotated[Path | None, out_option("File for the recording (.mcap); default: in the folder.")] = None,
    view: Annotated[bool, option("--view", "Show the flight in the browser afterwards.")] = False,
    controller: Annotated[
        str | None, controller_option("the campaign's; a function that flew it is needed again")
    ] = None,
) -> None:
    """Replay one row bit for bit with a recording; exits with status 1 if it does not end as in the row."""
    from samara.campaigns.rerun import rerun_row

    rerun = rerun_row(folder, row, out, controller=controller)
    for name, value in rerun.values.items():
        say(f"{name} = {value:.6g}")
    say(f"{rerun.outcome} {rerun.reason}".strip())
    say(f"same   {'bit for bit' if rerun.same else 'NO: it ended differently from its row'}\nrun    {rerun.path}")
    if view:
        from samara.cli.view import view as show

        show([str(rerun.path)])
    if not rerun.same:
        raise typer.Exit(FAILED)


def check_requirement(
    requirement: "Requirement", counts: Mapping[str, int], total: int, *, sequential: bool = False
) -> int:
    """Print whether a requirement on one of the counts holds; return the exit status."""
    from samara.campaigns.confidence import Verdict, decide_requirement

    if requirement.subject not in counts:
        raise ValueError(f"--require {requirement}: expected one of {', '.join(counts)}")
    verdict = decide_requirement(requirement, counts[requirement.subject], total, sequential=sequential)
    say(f"{requirement}: {verdict.value}")
    return 0 if verdict is Verdict.HELD else FAILED


def _record_selected_flights(store: "Store", campaign: "Campaign") -> None:
    from samara.campaigns.rerun import record_flights

    with console().status("") as status:
        saved = record_flights(
            store, campaign, lambda index, total: status.update(f"recording flight {index + 1} of {total}")
        )
    if saved.paths:
        say(f"saved  {len(saved.paths)} flights in {saved.paths[0].parent}")
    if saved.different:
        say(f"saved  NOT THE SAME: rows {', '.join(map(str, saved.different))} ended differently when flown again")
    for row, sentence in saved.broken.items():
        say(f"row {row} was not saved: {sentence}")


def _print_outcomes(counts: dict[str, int]) -> None:
    from samara.campaigns.confidence import clopper_pearson, format_percent

    total, rows = sum(counts.values()), []
    for name, count in counts.items():
        interval = clopper_pearson(count, total)
        limits = " to ".join(map(format_percent, interval))
        rows.append((name, str(count), format_percent(count / total), limits))
    console().print(table(("outcome", "flights", "fraction", "95 % interval"), rows))


def _print_gpu_confirmation(store: "Store") -> None:
    """Print the result of flying a GPU's findings again with LLVM; print nothing for a campaign without a GPU."""
    from samara.campaigns.gpu_confirmation import MAX_CONFIRMATIONS, ConfirmationResult

    if store.metadata.get("confirmed") is None:
        return
    confirmed = ConfirmationResult(**store.metadata["confirmed"])
    say(
        f"again  {confirmed.flown_again} flown again on llvm ({confirmed.failures_again} of {confirmed.failures} failures, "
        f"and the worst): {confirmed.disagree} ended differently"
    )
    if confirmed.failures_again < confirmed.failures:
        say(
            f"       {confirmed.failures - confirmed.failures_again} failures were found by {store.metadata['backend']} alone: "
            f"at most {MAX_CONFIRMATIONS} per batch are flown again"
        )


@contextmanager
def _progress() -> "Iterator[Callable[[SweepProgress], None]]":
    """Show a line with flights per second, the success rate with its interval, and the remaining time."""
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    from samara.campaigns.confidence import confidence_sequence, format_percent
    from samara.campaigns.outcome import DEGRADED, PASS

    bars = Bars(BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn(), console=console())
    task, start_time, initial_count = bars.add_task("", total=None), time.monotonic(), -1
    try:

        def show_progress(state: "SweepProgress") -> None:
            nonlocal initial_count, start_time
            if initial_count < 0:  # errors of the campaign are reported before the bar appears
                initial_count, start_time = state.done, time.monotonic()
                bars.start()
            description = f"{state.done} of {state.total}"
            if state.done > initial_count:
                description += f", {(state.done - initial_count) / (time.monotonic() - start_time):.0f} flights/s"
            if state.done:
                successes = state.counts[PASS] + state.counts[DEGRADED]
                interval = confidence_sequence(successes, state.done)
                limits = " to ".join(map(format_percent, interval))
                description += f", {format_percent(successes / state.done)} succeed ({limits})"
            if state.nodes_lost:
                description += f", nodes lost: {state.nodes_lost}"
            bars.update(task, completed=state.done, total=state.total, description=description)

        yield show_progress
    finally:
        if initial_count >= 0:
            bars.stop()


@app.command("falsify")
def falsify(
    campaign: CampaignFile,
    flights: Annotated[int, option("--flights", "Maximum number of flights of the search.", min=1)] = 100,
    method: Annotated[str, option("--method", "Search method: evolution, cma or tpe.")] = "evolution",
    seed: Seed = 0,
    out: Annotated[Path | None, out_option("Folder for the campaign that is found; default: that of CAMPAIGN.")] = None,
) -> None:
    """Search a campaign for a failing flight, reduce it to the fewest changed factors, and write it as a campaign."""
    from samara.campaigns.campaign import load_campaign
    from samara.campaigns.search import find_weakness, save_case

    loaded = load_campaign(campaign)
    with console().status("searching"):
        weakest = find_weakness(loaded, flights=flights, method=method, seed=seed)
    if weakest.shrunk is None:
        say(f"no failure in {weakest.search.flights} flights; the smallest margin is {weakest.search.margin:.4g}")
        say(f"this proves nothing: {command_text('sweep', 'rare', campaign)} estimates the failure probability")
    else:
        minimality = "the fewest" if weakest.shrunk.is_minimal else "none of which can be reset alone"
        say(f"a failure after {weakest.search.flights} flights, with margin {weakest.shrunk.margin:.4g}")
        changed = ", ".join(weakest.changed) or "nothing: the nominal flight fails"
        say(f"changed factors: {changed} ({minimality}; reduced in {weakest.shrunk.flights} flights)")
    for name, value in weakest.case.items():
        say(f"{'*' if name in weakest.changed else ' '} {name} = {value:.6g}")
    file = save_case(loaded, weakest.case, f"{campaign.stem}_case", out)
    folder = Path("out") / file.stem
    say(f"case   {file}\nfly    {command_text('sweep', file)}")
    say(f"watch  {command_text('sweep', 'replay', folder, '--row', 0, '--view')}")


@app.command("rare")
def rare(
    campaign: CampaignFile,
    per_level: Annotated[int, option("--per-level", "Number of flights per level, a multiple of 10.")] = 6000,
    flights: Annotated[int, option("--flights", "Maximum number of flights of all levels.", min=1)] = 100_000,
    seed: Seed = 0,
    out: Annotated[Path | None, out_option("File for the estimate (.json); default: print only.")] = None,
) -> None:
    """Estimate the failure probability of a campaign by subset simulation, for failures too rare to count."""
    import json

    from samara.campaigns.campaign import load_campaign
    from samara.campaigns.search import failure_probability
    from samara.core.atomic_files import require_writable, write_text

    if out is not None:
        require_writable(out.parent)

    with console().status("flying"):
        estimate = failure_probability(load_campaign(campaign), seed=seed, per_level=per_level, flights=flights)
    low, high = estimate.interval
    if estimate.failure_reached:
        say(f"{estimate.probability:.3g} of flights fail ({low:.2g} to {high:.2g}, about 95 %)")
    else:
        say(
            f"no failure was reached; fewer than {estimate.probability:.3g} of flights fail, as far as these flights show"
        )
    say(f"from {estimate.flights} flights in {len(estimate.thresholds)} levels")
    if out is not None:
        entries = {"probability": estimate.probability, "low": low, "high": high, "flights": estimate.flights}
        entries |= {"failure_reached": estimate.failure_reached, "levels": len(estimate.thresholds)}
        write_text(out, json.dumps(entries, indent=1) + "\n")
        say(f"estimate {out}")
