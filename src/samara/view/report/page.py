"""A web page as one file: text is escaped where it is put in, pictures are inside, nothing is asked of any server.

element("p", "a < b & c")        # <p>a &lt; b &amp; c</p>
element("a", "here", href="#x")  # attributes are escaped too
"""

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from samara.vehicles.shape import COLOURS, INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EMPTY = ("img", "br", "meta")


class Html(str):
    """Text that is HTML already; any other text is escaped before it becomes part of a page."""

    __slots__ = ()


def element(name: str, /, *children: object, **attributes: object) -> Html:
    """<name attribute="…">children</name>; children that are not Html are escaped, None is left out, lists are joined

    An attribute whose name is a word of Python ends in an underscore: class_; one with a dash has an underscore for it.
    """
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in EMPTY:
        return Html(f"<{name}{told}>")
    return Html(f"<{name}{told}>{joined(children)}</{name}>")


def joined(children: Iterable[object]) -> Html:
    """All of them in a row, escaped where they are not Html"""
    parts = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, Html):
            parts.append(str(child))
        elif isinstance(child, (list, tuple)):
            parts.append(str(joined(child)))
        else:
            parts.append(escape(str(child)))
    return Html("".join(parts))


def table(headings: Sequence[object], rows: Iterable[Sequence[object]], class_: str | None = None) -> Html:
    """The first cell of each row names it"""
    head = element("thead", element("tr", [element("th", own) for own in headings])) if headings else None
    body = [element("tr", element("th", first), [element("td", own) for own in rest]) for first, *rest in rows]
    return element("div", element("table", head, element("tbody", body), class_=class_), class_="wide")


def picture(figure: "Figure", alternative: str, dpi: float = 110.0) -> Html:
    """A Matplotlib figure as a PNG inside the page"""
    from samara.view.plot.style import samara_style

    data = io.BytesIO()
    with samara_style():
        figure.savefig(data, format="png", dpi=dpi)
    return image(data.getvalue(), alternative)


def image(data: bytes, alternative: str) -> Html:
    """A PNG inside the page"""
    return element("img", src=f"data:image/png;base64,{base64.b64encode(data).decode()}", alt=alternative)


def page(title: str, *body: object, script: str = "", script_hash: str = "") -> str:
    """The whole document: style inside, nothing fetched; no script runs but the one given, known by its hash"""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element(
            "meta",
            http_equiv="Content-Security-Policy",
            content=f"{POLICY}; script-src '{script_hash}'" if script else POLICY,
        ),
        element("title", title),
        element("style", Html(STYLE)),
    )
    program = element("script", Html(script)) if script else None
    return (
        "<!DOCTYPE html>\n" + element("html", head, element("body", element("main", *body), program), lang="en") + "\n"
    )


POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""A browser fetches nothing and runs nothing that a name in the page says."""

STYLE = f"""
:root {{ color-scheme: light dark; --ink: {INK}; --faint: #66727d; --line: #d9dee3; --paper: #ffffff; --card: #f5f7f9;
  --good: #00734f; --bad: #b33c00; --blue: {COLOURS[0]}; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #e4e9ee; --faint: #9aa7b3; --line: #36424d; --paper: #161c22;
  --card: #1f272f; --good: #4fd1a5; --bad: #ff9a62; --blue: {COLOURS[5]}; }} }}
* {{ box-sizing: border-box; }}
body {{ margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }}
main {{ max-width: 1100px; margin: 0 auto; padding: 28px 20px 60px; }}
h1 {{ font-size: 26px; line-height: 1.2; margin: 0 0 4px; }}
h2 {{ font-size: 18px; margin: 34px 0 10px; padding-top: 10px; border-top: 1px solid var(--line); }}
h3 {{ font-size: 14px; margin: 0 0 6px; }}
p {{ margin: 6px 0; }}
.faint {{ color: var(--faint); }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ text-align: left; vertical-align: top; padding: 3px 14px 3px 0; border-bottom: 1px solid var(--line); }}
tbody th {{ font-weight: 400; color: var(--faint); white-space: nowrap; }}
thead th {{ font-weight: 600; }}
.cards {{ display: flex; flex-wrap: wrap; gap: 14px; align-items: stretch; }}
.card {{ background: var(--card); border-radius: 10px; padding: 14px 16px; flex: 1 1 380px; min-width: 0; }}
.card table {{ width: 100%; }}
.card th {{ white-space: normal; }}
.card td {{ text-align: right; padding-right: 0; overflow-wrap: anywhere; }}
.card .numbers td {{ white-space: nowrap; }}
@media (max-width: 560px) {{ .card .numbers td {{ white-space: normal; }} }}
.card svg {{ margin: 0 auto 8px; }}
img {{ display: block; max-width: 100%; height: auto; background: #ffffff; border-radius: 10px; margin: 0 auto; }}
figure {{ margin: 12px 0; background: var(--paper); border-radius: 10px; border: 1px solid var(--line); padding: 6px; }}
.pair {{ columns: 2 440px; column-gap: 12px; }}
.pair figure {{ margin: 0 0 12px; break-inside: avoid; }}
.chart {{ position: relative; }}
.chart + .chart {{ margin-top: 8px; }}
.chart-head {{ display: flex; flex-wrap: wrap; align-items: baseline; gap: 2px 10px; padding: 2px 12px 0 6px;
  font-size: 13px; }}
.chart-names {{ margin-left: auto; display: flex; flex-wrap: wrap; gap: 0 10px; }}
.chart button {{ font: inherit; font-size: 12px; color: var(--ink); background: none; border: 0; padding: 0 2px;
  cursor: pointer; }}
.chart-names button::before {{ content: ""; display: inline-block; width: 14px; height: 3px; margin-right: 5px;
  vertical-align: middle; background: var(--own); }}
.chart-names button[aria-pressed="false"] {{ opacity: 0.4; text-decoration: line-through; }}
.chart .chart-reset {{ color: var(--blue); text-decoration: underline; }}
.chart .chart-reset[hidden] {{ display: none; }}
canvas {{ display: block; width: 100%; height: 190px; cursor: crosshair; touch-action: pan-y; }}
canvas.chart-map {{ height: 380px; }}
.chart-note {{ position: absolute; top: 34px; right: 14px; pointer-events: none; background: var(--card); border-radius: 6px;
  padding: 0 8px; font-size: 12px; line-height: 1.45; opacity: 0.95; font-variant-numeric: tabular-nums; }}
.chart-note.left {{ right: auto; left: 66px; }}
.chart-note div {{ border-left: 3px solid transparent; padding-left: 6px; }}
.badge {{ display: inline-block; border-radius: 999px; padding: 1px 11px; font-size: 13px; font-weight: 600;
  border: 1px solid currentColor; margin: 0 6px 6px 0; }}
.good {{ color: var(--good); }}
.bad {{ color: var(--bad); }}
pre, code {{ font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; }}
pre {{ background: var(--card); border-radius: 10px; padding: 12px 14px; overflow-x: auto; margin: 8px 0; }}
ul {{ margin: 6px 0; padding-left: 20px; }}
svg {{ display: block; max-width: 100%; height: auto; }}
summary {{ cursor: pointer; color: var(--blue); margin: 8px 0; }}
a {{ color: var(--blue); }}
"""
