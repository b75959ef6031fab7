"""Flight logs of every kind, read into one form: `read_log(path)` finds out by itself which kind a file is."""

from samara.core.lazy_import import lazily as _lazily

__getattr__, __dir__ = _lazily(
    __name__,
    __path__,
    dict.fromkeys(("FORMATS", "format_table", "read_log", "read_logs"), "samara.identify.readers.registry"),
)
