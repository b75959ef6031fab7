"""Show named tuples with their fields, like dataclasses."""

from typing import Any

import griffe


class NamedTuples(griffe.Extension):
    """Extension that documents the fields of a named tuple as parameters of its constructor."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        if not any(str(base).endswith("NamedTuple") for base in cls.bases) or "__init__" in cls.members:
            return
        fields = [member for member in cls.members.values() if member.is_attribute and member.annotation is not None]
        constructor = griffe.Function("__init__", parameters=griffe.Parameters(*map(_parameter, fields)))
        cls.set_member("__init__", constructor)


def _parameter(field: Any) -> griffe.Parameter:
    kind = griffe.ParameterKind.positional_or_keyword
    return griffe.Parameter(field.name, annotation=field.annotation, kind=kind, default=field.value)
