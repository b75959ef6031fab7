"""HTML reports on flights, campaigns and identifications."""

from samara.core.lazy_import import lazy_attributes as _lazily

__getattr__, __dir__ = _lazily(
    __name__, __path__, dict.fromkeys(("ReportRun", "report_files", "write_report"), "samara.view.report.report")
)
