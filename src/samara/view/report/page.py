"""Elements of self-contained HTML pages: text is escaped, pictures are embedded, nothing is fetched.

element("p", "a < b & c")        # <p>a &lt; b &amp; c</p>
element("a", "here", href="#x")  # attributes are escaped too
"""

import base64
import io
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from samara.vehicles.shape import COLOURS, INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VOID_ELEMENTS = ("img", "br", "meta")


class Html(str):
    """Text that is already HTML; other text is escaped before it is inserted."""

    __slots__ = ()


def element(name: str, /, *children: object, **attributes: object) -> Html:
    """<name attribute="…">children</name>: children that are not Html are escaped, None is skipped, lists are joined.

    An attribute whose name is a Python keyword takes a trailing underscore (class_); underscores inside become dashes.
    """
    attribute_text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID_ELEMENTS:
        return Html(f"<{name}{attribute_text}>")
    return Html(f"<{name}{attribute_text}>{join_html(children)}</{name}>")


def join_html(children: Iterable[object]) -> Html:
    """Concatenate children; escape those that are not Html."""
    texts = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, Html):
            texts.append(str(child))
        elif isinstance(child, (list, tuple)):
            texts.append(str(join_html(child)))
        else:
            texts.append(escape(str(child)))
    return Html("".join(texts))


def table(headings: Sequence[object], rows: Iterable[Sequence[object]], class_: str | None = None) -> Html:
    """Create a table; the first cell of each row is its heading."""
    head = element("thead", element("tr", [element("th", cell) for cell in headings])) if headings else None
    body = [element("tr", element("th", first), [element("td", cell) for cell in cells]) for first, *cells in rows]
    return element("div", element("table", head, element("tbody", body), class_=class_), class_="wide")


def picture(figure: "Figure", alternative: str, dpi: float = 110.0) -> Html:
    """Embed a Matplotlib figure as PNG."""
    from samara.view.plot.style import samara_style

    data = io.BytesIO()
    with samara_style():
        figure.savefig(data, format="png", dpi=dpi)
    return image(data.getvalue(), alternative)


def figure(plot: "Figure", alternative: str) -> Html:
    """Embed a Matplotlib figure in a frame."""
    return element("figure", picture(plot, alternative))


def badge(text: str, good: bool) -> Html:
    """Create a short coloured verdict."""
    return element("span", text, class_=f"badge {'good' if good else 'bad'}")


def faint_paragraph(text: str) -> Html:
    """Create a paragraph in a faint colour."""
    return element("p", text, class_="faint")


def list_items(items: Sequence[object], limit: int) -> list[Html]:
    """Create at most `limit` list items, and one with the count of the others."""
    remainder = [element("li", f"and {len(items) - limit:,} more")] if len(items) > limit else []
    return [*(element("li", item) for item in items[:limit]), *remainder]


def image(data: bytes, alternative: str) -> Html:
    """Embed a PNG."""
    return element("img", src=f"data:image/png;base64,{base64.b64encode(data).decode()}", alt=alternative)


def page(title: str, *body: object, script: str = "", script_hash: str = "") -> str:
    """Create the complete document; the browser may run only `script`, identified by its hash, and fetch nothing."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element(
            "meta",
            http_equiv="Content-Security-Policy",
            content=f"{SECURITY_POLICY}; script-src '{script_hash}'" if script else SECURITY_POLICY,
        ),
        element("title", title),
        element("style", Html(style())),
    )
    program = element("script", Html(script)) if script else None
    return (
        "<!DOCTYPE html>\n" + element("html", head, element("body", element("main", *body), program), lang="en") + "\n"
    )


SECURITY_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""Content-Security-Policy: the browser fetches nothing, whatever the names in the page contain."""


@cache
def style() -> str:
    """Return the style sheet, with the colours of the plots."""
    text = (resources.files("samara.view.report") / "page.css").read_text(encoding="utf-8")
    for name, colour in (("INK", INK), ("BLUE", COLOURS[0]), ("SKY", COLOURS[5])):
        text = text.replace(name, colour)
    return f"\n{text}"
