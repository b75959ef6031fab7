"""`samara sweep falsify` and `samara sweep rare`: a campaign searched for a flight that fails, and for how rarely one does."""

from pathlib import Path
from typing import Annotated

import typer

from samara.cli.console import console, say

CampaignFile = Annotated[Path, typer.Argument(help="The campaign's TOML file.")]
Seed = Annotated[int, typer.Option("--seed", help="Of the search; the flights have the campaign's.")]


def add_to(app: typer.Typer) -> None:
    """Both commands"""
    app.command("falsify")(falsify)
    app.command("rare")(rare)


def falsify(
    campaign: CampaignFile,
    budget: Annotated[int, typer.Option("--budget", min=1, help="Flights of the search.")] = 100,
    method: Annotated[str, typer.Option("--method", help="evolution, cma or tpe.")] = "evolution",
    seed: Seed = 0,
) -> None:
    """Search a campaign for a flight that fails, shrink it to the fewest changed factors, and write it as a campaign."""
    from samara.campaigns.campaign import load_campaign
    from samara.campaigns.search import save_case, weakness

    own = load_campaign(campaign)
    with console().status("searching"):
        found = weakness(own, budget=budget, method=method, seed=seed)
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
    file = save_case(own, found.case, f"{campaign.stem}_case")
    folder = Path("out") / file.stem
    say(f"case   {file}\nfly    samara sweep {file} && samara sweep replay {folder} --row 0 --view")


def rare(
    campaign: CampaignFile,
    per_level: Annotated[int, typer.Option("--per-level", help="Flights of each level, a multiple of 10.")] = 6000,
    budget: Annotated[int, typer.Option("--budget", min=1, help="Flights in all, at most.")] = 100_000,
    seed: Seed = 0,
) -> None:
    """How rarely flights of a campaign fail, by subset simulation: for failures that are too rare to be counted."""
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
