"""Named tuples are shown with their fields, as dataclasses are."""

from typing import Any

import griffe


class NamedTuples(griffe.Extension):
    """A named tuple's fields as the parameters of its constructor"""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        if not any(str(base).endswith("NamedTuple") for base in cls.bases) or "__init__" in cls.members:
            return
        fields = [own for own in cls.members.values() if own.is_attribute and own.annotation is not None]
        made = griffe.Function("__init__", parameters=griffe.Parameters(*map(_parameter, fields)))
        cls.set_member("__init__", made)


def _parameter(field: Any) -> griffe.Parameter:
    either_way = griffe.ParameterKind.positional_or_keyword
    return griffe.Parameter(field.name, annotation=field.annotation, kind=either_way, default=field.value)
