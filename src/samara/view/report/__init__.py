"""HTML reports on flights, campaigns and identifications."""

from typing import TYPE_CHECKING

from samara.core.lazy_import import lazy_exports

if TYPE_CHECKING:
    from samara.view.report.report import ReportRun, report_files, write_report
else:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "ReportRun",
    "report_files",
    "write_report",
]
