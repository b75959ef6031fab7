"""Changes of a campaign by arguments of `samara.sweep`, or by options of `samara sweep`.

A campaign's folder holds copies of all files that its flights need. Vehicles, policies and sensors from elsewhere are copied
there; a controller function is not, and repeating its flights takes the same function again.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from samara.campaigns.campaign import Campaign, CampaignError
from samara.control.controller_type import plain_option
from samara.control.policy_file import DESCRIPTION_FILE, WEIGHTS_FILE, Policy, load_policy
from samara.control.registry import ControllerSpec
from samara.core.budget import read_bytes
from samara.core.toml import TomlFile, TomlTable, is_toml_path
from samara.physics.types import Vehicle
from samara.scenario.changes import (
    Changes,
    number_settings,
    resolve_controller,
    resolve_vehicle,
    sensor_entries,
    wind_tables,
)
from samara.scenario.file import document_tables, read_seed
from samara.vehicles.writer import vehicle_toml
from samara.world.track import Track

POLICY_FILE = "drones.controller.file"
COPIES = "changes"  # folder of the copies within the folder of a campaign


@contextmanager
def changed_campaign(
    campaign: Campaign, changes: Changes, settings: Mapping[str, object] | None = None
) -> Iterator[Campaign]:
    """Yield a campaign with changes, in a temporary folder if it needs copies of files from elsewhere.

    Args:
        campaign: the campaign.
        changes: changes of its scenario, for all flights; the seed is that of the campaign.
        settings: changes of the scenario by key; as untrusted as the campaign's own.

    Raises:
        ValueError: a change is invalid, or a campaign cannot state it.
    """
    changed = _ChangedSettings(campaign, {**dict(campaign.settings), **(settings or {})})
    controller = changed.apply(changes)
    new = replace(
        campaign,
        settings=tuple(sorted(changed.settings.items())),
        seed=_seed(campaign, changes),
        controller=controller,
    )
    if not changed.copies:
        yield new
        return
    with TemporaryDirectory(prefix="samara-campaign-") as folder:
        present = replace(campaign, settings=tuple(sorted(changed.settings_without_copies().items())))
        files = {name: read_bytes(path) for name, path in present.named_files().items()} | changed.copies
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        yield replace(new, folder=folder)


def _seed(campaign: Campaign, changes: Changes) -> int:
    table = TomlTable(number_settings(changes), TomlFile(campaign.origin, CampaignError))
    return campaign.seed if changes.seed is None else read_seed(table)


@dataclass
class _ChangedSettings:
    """The settings of a campaign with changes, and the files that they name which are not in its folder."""

    campaign: Campaign
    settings: dict[str, Any]
    copies: dict[str, bytes] = field(default_factory=dict)

    def apply(self, changes: Changes) -> Any:
        """Apply the changes; return the controller if it is a function, which no setting can state."""
        if changes.vehicle is not None:
            self._remove("vehicle")
            self.settings["drones.vehicle"] = self._vehicle(changes.vehicle)
        function = None
        if changes.controller is not None:
            self._remove("controller")
            function = self._controller(resolve_controller(changes.controller))
        if changes.wind is not None:
            if hasattr(changes.wind, "sample"):
                raise CampaignError(
                    f"wind = {type(changes.wind).__name__}: a campaign cannot state it; "
                    "expected a speed, a model such as 'dryden:6', or a [wind] table"
                )
            present = document_tables(self.campaign.file, self.settings, "wind")
            self._remove("wind", "")
            self.settings["wind"] = wind_tables(changes.wind, present)
        if changes.sensors is not None:
            self._remove("sensors")
            self.settings["drones.sensors"] = [
                self._sensor(entry, k) for k, entry in enumerate(sensor_entries(changes.sensors))
            ]
        self.settings |= number_settings(changes._replace(seed=None))
        return function

    def settings_without_copies(self) -> dict[str, Any]:
        """Return the settings that name no copy."""
        settings = {name: value for name, value in self.settings.items() if f"{COPIES}/" not in str(value)}
        if POLICY_FILE in self.settings and POLICY_FILE not in settings:
            del settings["drones.controller"]
        return settings

    def _remove(self, key: str, parent: str = r"drones(\[\d+\])?\.") -> None:
        """Remove the settings of a key, such as `drones.controller.horizon`."""
        pattern = re.compile(rf"{parent}{key}([.\[].*)?")
        self.settings = {name: value for name, value in self.settings.items() if not pattern.fullmatch(name)}

    def _vehicle(self, choice: str | Path | Vehicle) -> str:
        vehicle = resolve_vehicle(choice)
        if not isinstance(choice, Vehicle):
            if not is_toml_path(choice):
                return str(choice)
            if (inside := self._path_inside(choice)) is not None:
                return inside
        return self._copy("vehicle.toml", vehicle_toml(vehicle).encode())

    def _controller(self, controller: Any) -> Any:
        """State a controller in the settings; return it if it is a function."""
        if isinstance(controller, str):
            self.settings["drones.controller"] = controller
        elif isinstance(controller, Path):
            self.settings["drones.controller"] = "policy"
            self.settings[POLICY_FILE] = self._policy(load_policy(controller), controller)
        elif isinstance(controller, ControllerSpec):
            self.settings["drones.controller"] = controller.name
            for key, value in controller.options:
                if isinstance(value, Track):
                    raise CampaignError(f"controller option {key}: a campaign cannot state a track; expected its file")
                is_policy = isinstance(value, Policy)
                self.settings[f"drones.controller.{key}"] = self._policy(value) if is_policy else plain_option(value)
        else:
            return controller
        return None

    def _policy(self, policy: Policy, folder: Path | None = None) -> str:
        if folder is not None and (inside := self._path_inside(folder)) is not None:
            return inside
        files = dict(policy.files)
        for name in (DESCRIPTION_FILE, WEIGHTS_FILE):
            self._copy(f"policy/{name}", files[name])
        return f"{COPIES}/policy"

    def _sensor(self, entry: object, k: int) -> object:
        if isinstance(entry, Mapping):
            return {**entry, "part": self._sensor(entry.get("part", ""), k)}
        if not isinstance(entry, str):
            raise CampaignError(
                f"sensors = {type(entry).__name__}: a campaign cannot state it; expected names, files or tables"
            )
        if not is_toml_path(entry):
            return entry
        inside = self._path_inside(entry)
        return inside if inside is not None else self._copy(f"sensor{k}.toml", read_bytes(Path(entry)))

    def _path_inside(self, path: str | Path) -> str | None:
        """Return a path relative to the campaign's folder; None if it is not in it or below it."""
        try:
            return Path(path).resolve().relative_to(Path(self.campaign.folder).resolve()).as_posix()
        except ValueError:
            return None

    def _copy(self, name: str, content: bytes) -> str:
        self.copies[f"{COPIES}/{name}"] = content
        return f"{COPIES}/{name}"
