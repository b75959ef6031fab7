"""Metrics of a flight, defined once for summaries, reports, expectations, campaigns, races and training.

FlightMetrics       accumulated tick by tick during a flight, compiled or in Python, without a recording
RecordedMetrics     computed from the streams of a recording, in one piece or many
METRICS             their names, labels, units and whether lower values are worse
summary, report     tables of metrics
"""

from samara.record.metrics.flight import FlightMetrics
from samara.record.metrics.recorded import RecordedMetrics, tracking_rows
from samara.record.metrics.registry import FLIGHT_METRICS, METRICS, Metric
from samara.record.metrics.summary import MetricValue, Summary, report_tables, report_values, summary, summary_table

__all__ = [
    "FLIGHT_METRICS",
    "METRICS",
    "FlightMetrics",
    "Metric",
    "MetricValue",
    "RecordedMetrics",
    "Summary",
    "report_tables",
    "report_values",
    "summary",
    "summary_table",
    "tracking_rows",
]
