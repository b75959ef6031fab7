"""Pictures, reports, films and web pages of vehicles and flights."""

from typing import TYPE_CHECKING

from samara.core.lazy_import import lazy_exports

if TYPE_CHECKING:
    from samara.view.cockpit.page import write_cockpit
    from samara.view.film.render import Film, render
    from samara.view.plot.plan import draw_plan
    from samara.view.plot.style import NOTEBOOK_STYLE, samara_style
    from samara.view.report.campaign import write_campaign_page
    from samara.view.report.report import ReportRun, report_files, write_report
    from samara.view.web.live import Live
else:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "NOTEBOOK_STYLE",
    "Film",
    "Live",
    "ReportRun",
    "draw_plan",
    "render",
    "report_files",
    "samara_style",
    "write_campaign_page",
    "write_cockpit",
    "write_report",
]
