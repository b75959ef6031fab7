"""Readers for flight logs of all supported formats: `read_log(path)` detects the format of a file."""

from typing import TYPE_CHECKING

from samara.core.lazy_import import lazy_exports

if TYPE_CHECKING:
    from samara.identify.readers.registry import FORMATS, format_table, read_log, read_logs
else:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "FORMATS",
    "format_table",
    "read_log",
    "read_logs",
]
