"""Which button of a group is in force: it is shown filled. viser draws all buttons alike; a rule of style tells one apart."""

from collections.abc import Mapping
from typing import Any

import viser

from samara.view.web.gauges import FILLED


class Pressed:
    """The buttons in force, of any number of groups."""

    def __init__(self, gui: viser.GuiApi) -> None:
        self._html = gui.add_html("")
        self._groups: dict[str, tuple[Any, tuple[str, ...]]] = {}

    def add(self, name: str, group: Any) -> None:
        """A group whose state is shown under this name"""
        self._groups[name] = group, tuple(group.options)

    def show(self, states: Mapping[str, str | None]) -> None:
        """The option in force of each group; None where there is none"""
        rules = []
        for name, option in states.items():
            group, options = self._groups[name]
            if option in options:
                rules.append(_rule(group._impl.uuid, options.index(option)))
        content = f"<style>{''.join(rules)}</style>"
        if content != self._html.content:
            self._html.content = content


def _rule(uuid: str, index: int) -> str:
    """The k-th button behind the label of a group"""
    return f'div:has(> div > p > label[for="{uuid}"]) > div button:nth-child({index + 1}) {{{FILLED}}}'
