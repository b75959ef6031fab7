"""The policies that flew in a recording: which they were, and whether their folders still hold them."""

from pathlib import Path

from samara.control.policy_file import ABOUT, PolicyError, load_policy
from samara.core.atomic_files import parsed
from samara.core.budget import path_beside
from samara.core.sanitise import shown
from samara.record.run import Run


def flown_policies(run: Run) -> dict[str, dict[str, str]]:
    """By drone: task, vehicle, folder and SHA-256 of the policy that flew it"""
    found = {}
    drones = parsed(run.metadata.get("drones", "[]"))
    for drone in drones if isinstance(drones, list) else []:
        chosen = drone.get("controller_options", {}) if isinstance(drone, dict) else {}
        own = chosen.get("file") if isinstance(chosen, dict) else None
        if isinstance(own, dict) and all(isinstance(own.get(key), str) for key in ("folder", "sha256")):
            found[str(drone.get("name"))] = own
    return found


def changed_policies(run: Run, beside: Path) -> list[str]:
    """Report each policy folder that holds another policy now; a recording names only those below its own folder, `beside`."""
    sentences = []
    by_folder = {own["folder"]: own["sha256"] for own in flown_policies(run).values()}
    for folder, digest in by_folder.items():
        try:
            path = path_beside(beside, folder)
        except ValueError:
            continue
        if not (path / ABOUT).is_file():
            continue
        try:
            now = load_policy(path).digest
        except PolicyError as error:
            sentences.append(f"the policy of {shown(folder)} has changed since: {error}")
            continue
        if now != digest:
            sentences.append(
                f"the policy of {shown(folder)} has changed since: {digest[:8]} flew, and {now[:8]} is there now; what is "
                "replayed are the commands of the first"
            )
    return sentences
