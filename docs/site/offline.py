"""Check that the finished site loads nothing from other servers, so that it can be read offline."""

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

EXTERNAL_RESOURCE = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=.?https?:[^>]*>|<link\b[^>]*\bhref=.?https?:[^>]*>"
)


def on_post_build(config: Any) -> None:
    """Fail the build on a script, style sheet, font or picture with an external address."""
    for page in sorted(Path(config.site_dir).rglob("*.html")):
        if match := EXTERNAL_RESOURCE.search(page.read_text(encoding="utf-8")):
            raise PluginError(f"{page} loads an external resource: {match[0][:200]}")
