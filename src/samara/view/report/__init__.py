"""HTML reports on flights, campaigns and identifications."""

from samara.core.lazy_import import lazily as _lazily

__getattr__, __dir__ = _lazily(
    __name__, __path__, dict.fromkeys(("Flown", "report_files", "write_report"), "samara.view.report.report")
)
