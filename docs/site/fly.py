"""Build the cockpit page with the site; the front page links to it."""

from pathlib import Path
from typing import Any

import samara
from samara.view.cockpit.page import DEFAULT_VEHICLES, write_cockpit


def on_post_build(config: Any) -> None:
    """Write fly.html beside index.html."""
    write_cockpit([samara.vehicle(name) for name in DEFAULT_VEHICLES], Path(config.site_dir) / "fly.html")
