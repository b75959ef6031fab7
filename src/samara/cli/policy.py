"""`samara policy`: test a policy before it flies for real, and adapt it to the vehicle that flew."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samara.cli.console import check_mark, command_text, console, say, table
from samara.cli.options import (
    PolicyFolder,
    PolicyVehicle,
    Require,
    Seed,
    SteadyWind,
    argument,
    option,
    out_option,
    vehicle_option,
)
from samara.cli.sweep import check_requirement

if TYPE_CHECKING:
    from samara.campaigns.policy_check import PolicyCheckResult
    from samara.physics.types import Vehicle

app = typer.Typer(help="Check policies before they fly, and adapt them to the vehicle that flew.", no_args_is_help=True)


@app.command("check")
def check(
    policy: PolicyFolder,
    vehicle: PolicyVehicle = None,
    scenario: Annotated[str | None, option("--scenario", "Scenario to fly; default: come to rest and hover.")] = None,
    wind: SteadyWind = None,
    flights: Annotated[int, option("--flights", "Number of perturbed flights.", min=2, max=1_000_000)] = 1000,
    spread: Annotated[float, option("--spread", "Factor on the usual ranges of perturbations.", min=0.0)] = 1.0,
    position_tolerance: Annotated[
        float | None,
        option(
            "--position-tolerance",
            "Maximum distance to the goal at the end of a success [m]; default: the scenario's, or 0.3.",
        ),
    ] = None,
    seed: Seed = 1,
    out: Annotated[
        Path | None,
        out_option("Folder for the report (check.md) and the worst flight (worst.mcap); default: print only."),
    ] = None,
    record: Annotated[bool, option("--record/--no-record", "Record the worst flight, with --out.")] = True,
    require: Require = None,
) -> None:
    """Fly a policy in many perturbed worlds (mass, inertia, thrust, lag, wind, noise, start), with other integrator
    steps, at another rate, with delay, and as exported C in single precision; report its success rate, the perturbations
    that make it fail, and the conditions in which not to trust it."""
    from samara.campaigns.confidence import parse_requirement
    from samara.campaigns.policy_check import check_policy, fly_world
    from samara.control.policy_file import load_policy
    from samara.core.atomic_files import require_writable, write_text
    from samara.scenario.changes import trained_vehicle

    requirement = parse_requirement(require) if require else None
    loaded = load_policy(policy)
    name = vehicle or trained_vehicle(loaded, policy)
    if out is not None:
        require_writable(out)
    with console().status("") as status:

        def show_trial(trial: str) -> None:
            status.update(f"flying: {trial.replace('_', ' ')}")

        checked = check_policy(
            loaded,
            name,
            flights=flights,
            seed=seed,
            spread=spread,
            scenario=scenario,
            position_tolerance=position_tolerance,
            wind=wind,
            progress=show_trial,
        )
    title = f"{loaded} on {checked.scenario.drones[0].vehicle.name}, {checked.scenario.name}"
    _print_results(checked, title)
    if out is not None:
        write_text(out / "check.md", policy_check_markdown(checked, title))
        say(f"report {out / 'check.md'}")
    if out is not None and record:
        recording = out / "worst.mcap"
        fly_world(checked, checked.worst, out=recording, overwrite=True)
        say(f"worst  {recording}: {command_text('view', recording)}")
    if requirement is not None:
        passed = {trial.name: trial.passed for trial in checked.trials[1:]} | {"success": checked.trials[0].passed}
        counts = {name: int(outcomes.sum()) for name, outcomes in passed.items()}
        raise typer.Exit(check_requirement(requirement, counts, len(passed.get(requirement.subject, ()))))


@app.command("adapt")
def adapt(
    policy: PolicyFolder,
    logs: Annotated[list[Path] | None, argument("Flight logs to identify the vehicle from.", "LOG")] = None,
    vehicle: Annotated[str | None, vehicle_option("the trained one, with logs")] = None,
    out: Annotated[Path, out_option("Folder for the adapted policy.")] = Path("adapted"),
    updates: Annotated[int, option("--updates", "Number of gradient updates.", min=1)] = 60,
    seed: Seed = 0,
) -> None:
    """Continue the training of a policy on another vehicle, or on the one that flew the logs, within seconds; report the
    hover error before and after."""
    from samara import save_vehicle
    from samara import vehicle as load
    from samara.control.policy_file import load_policy
    from samara.core.atomic_files import require_writable
    from samara.core.coerce import file_stem
    from samara.learn.fine_tune import adapt as fine_tune
    from samara.scenario.changes import trained_vehicle

    loaded = load_policy(policy)
    if vehicle is None and not logs:
        raise ValueError("neither --vehicle nor a flight log; expected a vehicle to adapt the policy to")
    require_writable(out)
    target = load(vehicle or trained_vehicle(loaded, policy))
    if logs:
        target = _refit(target, logs)
        out.mkdir(parents=True, exist_ok=True)
        file = out / f"{file_stem(target.name)}.toml"
        save_vehicle(target, file)
        say(f"vehicle {file}")
    with console().status("training"):
        adapted = fine_tune(loaded, target, out, updates=updates, seed=seed)
    before, trimmed, after = (
        f"{1e3 * error:.1f} mm" for error in (adapted.error_before, adapted.error_trimmed, adapted.error_after)
    )
    duration = f"{adapted.training.seconds:.1f} s ({adapted.training.compile_seconds:.1f} s to compile)"
    say(
        f"hover error on {target.name}: {before} before, {trimmed} with its trim, {after} after {duration}\npolicy {out}"
    )


def _refit(start: "Vehicle", logs: list[Path]) -> "Vehicle":
    """Identify the vehicle that flew the logs, with the mass and geometry of `start`."""
    from dataclasses import replace

    from samara.identify.identification import identify
    from samara.identify.readers.registry import read_logs
    from samara.vehicles.limits import replace_dc_motors

    with console().status("identifying"):
        identified = identify(read_logs(logs), replace_dc_motors(start), predictor=False).physical.vehicle
    return replace(identified, structure=replace(identified.structure, name=f"{start.name}_refit"))


# Results --------------------------------------------------------------------------------------------------------------

TRIALS = ("trial", "", "success", "95 % interval", "changed")
FACTORS = ("factor", "range", "failures at minimum", "middle", "maximum", "trusted range")
Rows = list[tuple[str, ...]]


def _tables(checked: "PolicyCheckResult") -> tuple[tuple[tuple[str, ...], Rows], ...]:
    """Return headings and rows of the trials, and of the factors that differ between worlds."""
    trials: Rows = []
    for k, trial in enumerate(checked.trials):
        low, high = trial.interval
        count = f"{int(trial.passed.sum())} of {len(trial.passed)}"
        changed = str(trial.changed) if k else ""
        trials.append((trial.name.replace("_", " "), trial.description, count, f"{low:.2%} to {high:.2%}", changed))
    factors: Rows = []
    for effect in checked.dependences:
        factor = effect.factor
        span = f"{factor.low:.3g} to {factor.high:.3g} {factor.unit}"
        trusted = f"{effect.trusted_range[0]:.3g} to {effect.trusted_range[1]:.3g}" if effect.trusted_range else "none"
        cells = (
            (*(f"{rate:.1%}" for rate in effect.rates), trusted)
            if effect.is_significant
            else ("", "", "", "no effect observed")
        )
        factors.append((factor.name, span, *cells))
    return (TRIALS, trials), (FACTORS, factors)


def _describe_worst_world(checked: "PolicyCheckResult") -> str:
    k = checked.worst
    values = zip(checked.worlds.perturbations, checked.worlds.values[k], strict=True)
    listed = ", ".join(f"{factor.name} {value:.3g} {factor.unit}" for factor, value in values)
    return f"worst world {k} (margin {checked.trials[0].margin[k]:.2f}): {listed}"


def _print_results(checked: "PolicyCheckResult", title: str) -> None:
    say(title)
    for headings, rows in _tables(checked):
        console().print(table(headings, rows))
    say(_describe_worst_world(checked))
    for sentence in checked.concerns:
        console().print(check_mark(False, sentence))
    if not checked.concerns:
        console().print(check_mark(True, "no reason for distrust in these worlds"))


def policy_check_markdown(checked: "PolicyCheckResult", title: str) -> str:
    """Format the results of a check as Markdown."""
    parts = [f"# {title}", ""]
    for headings, rows in _tables(checked):
        parts += [f"| {' | '.join(row)} |" for row in (headings, ("---",) * len(headings), *rows)] + [""]
    parts += [_describe_worst_world(checked), "", "Not to be trusted:", ""]
    parts += [f"- {sentence}" for sentence in checked.concerns] or ["- no reason for distrust in these worlds"]
    return "\n".join(parts) + "\n"
