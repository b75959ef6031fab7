"""`samara policy`: a policy checked before it flies for real, and adapted to the vehicle that flew."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samara.cli.console import console, say, verdict

if TYPE_CHECKING:
    from samara.campaigns.confidence import Requirement
    from samara.campaigns.policy_check import Checked
    from samara.physics.types import Vehicle

NOT_SHOWN = 1  # exit status where a requirement is not held

app = typer.Typer(help="Check policies before they fly, and adapt them to the vehicle that flew.", no_args_is_help=True)
Folder = Annotated[Path, typer.Argument(help="The folder of a policy.")]
VehicleName = Annotated[
    str | None, typer.Option("--vehicle", help="A vehicle's name or .toml file, where it is not a shipped one.")
]


@app.command("check")
def check(
    policy: Folder,
    vehicle: VehicleName = None,
    scenario: Annotated[
        str | None, typer.Option("--scenario", help="What to fly; without it, to come to rest at 3 m and hover.")
    ] = None,
    worlds: Annotated[int, typer.Option("--worlds", min=2, max=1_000_000, help="How many.")] = 1000,
    spread: Annotated[float, typer.Option("--spread", min=0.0, help="Times the usual ranges of what differs.")] = 1.0,
    within: Annotated[
        float | None, typer.Option("--within", help="A success ends this near its goal [m]; 0.3 without a scenario.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the worlds.")] = 1,
    report: Annotated[Path | None, typer.Option("--report", help="A Markdown file for what is told here.")] = None,
    keep: Annotated[
        Path | None, typer.Option("--keep", help="An .mcap file for the flight in the worst world.")
    ] = None,
    require: Annotated[
        str | None,
        typer.Option("--require", help="Such as 'success > 0.95 @ 95%' or 'late > 0.9': exit status 1 unless shown."),
    ] = None,
) -> None:
    """Fly a policy in a thousand perturbed worlds (mass, inertia, thrust, lag, wind, noise, start), by other steps of the
    integrator, at another rate, late, and as the exported C in float; say how often it succeeds, where it fails, and what not
    to trust."""
    from samara.campaigns.confidence import parse_requirement
    from samara.campaigns.policy_check import check_policy, world
    from samara.control.policy_file import load_policy
    from samara.core.atomic_files import require_writable, write_text
    from samara.sim.fly import fly

    wanted = parse_requirement(require) if require else None
    own = load_policy(policy)
    craft = vehicle_of(own, policy, vehicle)
    for path in (report, keep):
        if path is not None:
            require_writable(path.parent)
    with console().status("") as status:
        checked = check_policy(
            own,
            craft,
            worlds=worlds,
            seed=seed,
            spread=spread,
            scenario=scenario,
            within=within,
            tell=lambda trial: status.update(f"flying: {trial.replace('_', ' ')}"),
        )
    title = f"{own} on {checked.scenario.drones[0].vehicle.name}, {checked.scenario.name}"
    _show(checked, title)
    if report is not None:
        write_text(report, markdown(checked, title))
        say(f"report {report}")
    if keep is not None:
        fly(world(checked, checked.worst), out=keep, overwrite=True)
        say(f"worst  {keep}: samara view {keep}")
    if wanted is not None:
        raise typer.Exit(_judged(wanted, checked))


@app.command("adapt")
def adapt(
    policy: Folder,
    logs: Annotated[
        list[Path] | None, typer.Argument(metavar="[LOG]...", help="Flight logs to find the vehicle from first.")
    ] = None,
    vehicle: Annotated[
        str | None, typer.Option("--vehicle", help="The vehicle to adapt to; with logs, what is known before.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the adapted policy.")] = Path("adapted"),
    updates: Annotated[int, typer.Option("--updates", min=1, help="How often the weights change.")] = 60,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Of everything that is drawn.")] = 0,
) -> None:
    """Let a policy learn on with another vehicle, one that is given or the one that flew some logs, in seconds; and say how far
    from its place it hovers before and after."""
    from samara import save_vehicle
    from samara import vehicle as load
    from samara.control.policy_file import load_policy
    from samara.core.atomic_files import require_writable
    from samara.core.coerce import file_stem
    from samara.learn.fine_tune import adapt as adapted_to

    own = load_policy(policy)
    if vehicle is None and not logs:
        raise ValueError("neither --vehicle nor a flight log; expected what to adapt the policy to")
    require_writable(out)
    craft = load(vehicle_of(own, policy, vehicle))
    if logs:
        craft = _refit(craft, logs)
        out.mkdir(parents=True, exist_ok=True)
        target = out / f"{file_stem(craft.name)}.toml"
        save_vehicle(craft, target)
        say(f"vehicle {target}")
    with console().status("learning on"):
        found = adapted_to(own, craft, out, updates=updates, seed=seed)
    say(
        f"hover error on {craft.name}: {1e3 * found.before:.1f} mm before, {1e3 * found.trimmed:.1f} mm with its trim, "
        f"{1e3 * found.after:.1f} mm after {found.training.seconds:.1f} s ({found.training.compile_seconds:.1f} s to compile)"
    )
    say(f"policy {out}")


def _refit(start: "Vehicle", logs: list[Path]) -> "Vehicle":
    """The vehicle that flew the logs, with the mass and the shape of the start"""
    from dataclasses import replace

    from samara.identify.identification import identify
    from samara.identify.readers.registry import read_logs
    from samara.vehicles.limits import with_lag_motors

    with console().status("identifying"):
        found = identify(read_logs(logs), with_lag_motors(start), predictor=False).physical.vehicle
    return replace(found, structure=replace(found.structure, name=f"{start.name}_refit"))


def vehicle_of(policy: Any, folder: Path, vehicle: str | None) -> str:
    """The name or file that was given, else what the policy was trained on, if that is shipped: a stranger's names no files"""
    from samara.core.sanitise import shown
    from samara.vehicles.loader import vehicle_names

    if vehicle is not None:
        return vehicle
    if not policy.vehicle:
        raise ValueError(f"{folder}: flies any vehicle; expected --vehicle, for one of which it is meant")
    if policy.vehicle not in vehicle_names():
        raise ValueError(
            f"{folder}: was trained on {shown(policy.vehicle)}, which does not come with Samara; expected --vehicle with its "
            ".toml file"
        )
    return str(policy.vehicle)


# What is told ---------------------------------------------------------------------------------------------------------

TRIALS = ("trial", "", "success", "95 % interval", "changed")
FACTORS = ("factor", "range", "fail at the least", "middle", "most", "trusted")


def _trial_rows(checked: "Checked") -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for k, own in enumerate(checked.trials):
        low, high = own.interval
        counted = f"{int(own.passed.sum())} of {len(own.passed)}"
        changed = str(own.changed) if k else ""
        rows.append((own.name.replace("_", " "), own.about, counted, f"{low:.2%} to {high:.2%}", changed))
    return rows


def _factor_rows(checked: "Checked") -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for own in checked.depends:
        factor = own.factor
        span = f"{factor.low:.3g} to {factor.high:.3g} {factor.unit}"
        if not own.matters:
            rows.append((factor.name, span, "", "", "", "no effect seen"))
            continue
        trusted = f"{own.trusted[0]:.3g} to {own.trusted[1]:.3g}" if own.trusted else "nowhere"
        rows.append((factor.name, span, *(f"{rate:.1%}" for rate in own.rates), trusted))
    return rows


def _worst(checked: "Checked") -> str:
    k = checked.worst
    values = zip(checked.worlds.perturbed, checked.worlds.values[k], strict=True)
    told = ", ".join(f"{own.name} {value:.3g} {own.unit}" for own, value in values)
    return f"worst world {k} (margin {checked.trials[0].margin[k]:.2f}): {told}"


def _show(checked: "Checked", title: str) -> None:
    from rich import box
    from rich.table import Table

    say(title)
    for heads, rows in ((TRIALS, _trial_rows(checked)), (FACTORS, _factor_rows(checked))):
        table = Table(box=box.SIMPLE_HEAD)
        for head in heads:
            table.add_column(head)
        for row in rows:
            table.add_row(*row)
        console().print(table)
    say(_worst(checked))
    distrust = checked.distrust
    for sentence in distrust:
        console().print(verdict(False, sentence))
    if not distrust:
        console().print(verdict(True, "nothing to distrust in the worlds that were flown"))


def markdown(checked: "Checked", title: str) -> str:
    """The same as a file"""
    parts = [f"# {title}", ""]
    for heads, rows in ((TRIALS, _trial_rows(checked)), (FACTORS, _factor_rows(checked))):
        parts += [f"| {' | '.join(row)} |" for row in (heads, ("---",) * len(heads), *rows)] + [""]
    parts += [_worst(checked), "", "Not to be trusted:", ""]
    parts += [f"- {own}" for own in checked.distrust] or ["- nothing in the worlds that were flown"]
    return "\n".join(parts) + "\n"


def _judged(wanted: "Requirement", checked: "Checked") -> int:
    from samara.campaigns.confidence import Verdict, judge

    subjects = {"success": checked.trials[0]} | {own.name: own for own in checked.trials[1:]}
    if wanted.subject not in subjects:
        raise ValueError(f"--require {wanted}: expected one of {', '.join(subjects)}")
    passed = subjects[wanted.subject].passed
    found = judge(wanted, int(passed.sum()), len(passed))
    say(f"{wanted}: {found.value}")
    return 0 if found is Verdict.HELD else NOT_SHOWN
