"""Redirect links to files outside the site to the repository: the site has no ../src."""

import posixpath
import re
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(\]\()((?!\w+:|#)[^)\s]+)(\))")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Replace `](../src/…)` by the address in the repository; links to pages and pictures stay."""

    def replace_link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page.file.src_uri), match[2]))
        site_file = files.get_file_from_path(target.partition("#")[0].removeprefix("docs/"))
        is_page = site_file and site_file.inclusion.is_included()
        if is_page or not (REPOSITORY / target.partition("#")[0]).exists():  # the build reports a broken link
            return match[0]
        return f"{match[1]}{config.repo_url}/blob/main/{target}{match[3]}"

    return LINK.sub(replace_link, markdown)
