"""A page about a flight: its figures, plots and charts."""

from samara.core.lazy_import import lazily as _lazily

__getattr__, __dir__ = _lazily(
    __name__, __path__, dict.fromkeys(("Flown", "report_files", "write_report"), "samara.view.report.report")
)
