"""Keep the finished site from calling other servers, so that it can be read offline."""

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

EXTERNAL_RESOURCE = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=.?https?:[^>]*>|<link\b[^>]*\bhref=.?https?:[^>]*>"
)
REPOSITORY_FACTS = ' data-md-component="source"'
"""The attribute by which the theme's script finds the link to the repository, to ask GitHub for its stars and releases."""


def on_post_page(output: str, **_: Any) -> str:
    """Leave the link to the repository without the numbers that would be fetched from GitHub."""
    return output.replace(REPOSITORY_FACTS, "")


def on_post_build(config: Any) -> None:
    """Fail the build on a script, style sheet, font or picture with an external address."""
    for page in sorted(Path(config.site_dir).rglob("*.html")):
        if match := EXTERNAL_RESOURCE.search(page.read_text(encoding="utf-8")):
            raise PluginError(f"{page} loads an external resource: {match[0][:200]}")
