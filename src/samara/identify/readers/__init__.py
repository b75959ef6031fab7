"""Readers for flight logs of all supported formats: `read_log(path)` detects the format of a file."""

from samara.core.lazy_import import lazy_attributes as _lazily

__getattr__, __dir__ = _lazily(
    __name__,
    __path__,
    dict.fromkeys(("FORMATS", "format_table", "read_log", "read_logs"), "samara.identify.readers.registry"),
)
