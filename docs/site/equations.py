"""Convert LaTeX to MathML when the site is built: pages show equations without scripts and without the network."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

FENCE = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
LABEL = re.compile(r"\{\\scriptsize\\mathtt\{(.*?)\}\}")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Convert every ```math fence to a table: function name, left side, right side."""
    return FENCE.sub(lambda match: _table(match[1]), markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Convert every inline $…$."""
    return INLINE.sub(lambda match: convert(html.unescape(match[1])), content)


def _table(block: str) -> str:
    lines = re.sub(r"\\(begin|end)\{aligned\}", "", block).strip().split("\\\\\n")
    return f'<div class="equations"><table class="sides">{"".join(map(_row, lines))}</table></div>\n'


def _row(line: str) -> str:
    name, _, equation = line.rpartition("&&")
    left, _, right = equation.replace("pmatrix", "matrix").partition(
        "&="
    )  # site.css draws the brackets, which a font may lack
    label = LABEL.search(name)
    cells = f"<code>{label[1].replace(chr(92), '')}</code>" if label else "", convert(left), convert(f"= {right}")
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
