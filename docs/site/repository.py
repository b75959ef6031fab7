"""Take the repository address of the site from pyproject.toml, where it is set once."""

import tomllib
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def on_config(config: Any) -> Any:
    """Set `repo_url` and `repo_name`."""
    config.repo_url = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["urls"]["Repository"]
    config.repo_name = "/".join(config.repo_url.split("/")[-2:])
    return config
