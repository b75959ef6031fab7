"""Messages of one kind of several drones, filled in from columns that have a row for each drone."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from samara.link.ros2.node import Node, Speaker
from samara.record.ros2.messages import Form, Layout

STAMP = "header.stamp"


class Voice:
    """The topics of a node: each is made the first time it is asked for, and stays"""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.speakers: dict[str, Speaker] = {}

    def speaker(self, topic: str, kind: str, *, latched: bool = False) -> Speaker:
        """What says messages under this topic"""
        if topic not in self.speakers:
            self.speakers[topic] = self.node.speaker(topic, kind, latched=latched)
        return self.speakers[topic]

    @property
    def said(self) -> int:
        """How many messages"""
        return sum(own.said for own in self.speakers.values())

    @property
    def dropped(self) -> int:
        """Messages for which there was no room in time"""
        return sum(own.dropped for own in self.speakers.values())


class Says:
    """A message of each drone: its topic and its layout, with a stamp, which is first where it has one"""

    def __init__(self, voice: Voice, layouts: Sequence[tuple[str, Layout]], stamp: str = STAMP) -> None:
        self._speakers = [voice.speaker(topic, layout.kind) for topic, layout in layouts]
        self._layouts, self._stamp = [layout for _, layout in layouts], [stamp] if stamp else []
        self._forms: list[Form] = []

    def say(self, stamp: Sequence[int], columns: Mapping[str, Any], some: Sequence[int] | None = None) -> None:
        """The numbers of the drones by path, (drones,) or (drones, n); of some drones only where these are given"""
        if not self._forms:
            self._forms = [Form(layout, [*self._stamp, *columns]) for layout in self._layouts]
        own = [np.asarray(values) for values in columns.values()]
        if all(values.dtype == float for values in own):
            rows = np.column_stack(own).tolist()
        else:  # whole numbers stay whole
            parts = [values.reshape(len(values), -1).tolist() for values in own]
            rows = [[number for part in row for number in part] for row in zip(*parts, strict=True)]
        begin = list(stamp) if self._stamp else []
        for k in range(len(rows)) if some is None else some:
            self._speakers[k].say(self._forms[k].filled(begin + rows[k]))
