"""The finished site loads nothing from elsewhere: read on a train, it is the same site."""

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

LOADED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=.?https?:[^>]*>|<link\b[^>]*\bhref=.?https?:[^>]*>")


def on_post_build(config: Any) -> None:
    """A script, style sheet, font or picture with an address of its own ends the build"""
    for page in sorted(Path(config.site_dir).rglob("*.html")):
        if found := LOADED.search(page.read_text(encoding="utf-8")):
            raise PluginError(f"{page} loads something from elsewhere: {found[0][:200]}")
