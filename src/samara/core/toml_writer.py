"""Values as TOML writes them."""

import json
from collections.abc import Mapping
from datetime import date, time
from typing import Any


def toml_value(value: Any) -> str:
    """Write a text, number, flag, date, list or table so that `tomllib` reads the same value back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):  # TOML's strings are JSON's, but DEL is escaped and letters beyond U+FFFF are not
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml_value(str(key))} = {toml_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml_value, value))}]"
    return repr(value) if isinstance(value, int) else repr(float(value))
