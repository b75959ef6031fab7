"""Links to what is no page lead to the repository: on the site there is no ../src."""

import posixpath
import re
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(\]\()((?!\w+:|#)[^)\s]+)(\))")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """`](../src/…)` as seen from docs/ becomes the file in the repository; a link to a page or picture is left alone"""

    def outside(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page.file.src_uri), found[2]))
        within = files.get_file_from_path(target.partition("#")[0].removeprefix("docs/"))
        a_page = within and within.inclusion.is_included()
        if a_page or not (REPOSITORY / target.partition("#")[0]).exists():  # then the build says that it leads nowhere
            return found[0]
        return f"{found[1]}{config.repo_url}/blob/main/{target}{found[3]}"

    return LINK.sub(outside, markdown)
