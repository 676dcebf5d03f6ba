"""The store of reports: late, repeated, out of order, too many."""

import pytest

from cotenant.engine.state.reports import NodeReports
from cotenant.model.arrays import ReportColumn
from cotenant.model.cluster.report import NodeReport
from cotenant.model.errors import InvalidInput, Transient

NOW = 1_000_000.0


def report(node: str = "n", at_s: float = NOW, cpu_used: float = 1.0) -> NodeReport:
    return NodeReport(node, 4.0, cpu_used, 100.0, 50.0, 12.0, 0.1, 0.5, 0.9, at_s)


def test_fresh_until_the_ttl() -> None:
    reports = NodeReports()
    assert reports.accept(report(), NOW)
    assert reports.fresh("n", NOW + 120) is not None
    assert reports.fresh("n", NOW + 120.1) is None
    assert reports.fresh("other", NOW) is None


def test_out_of_order_and_repeated() -> None:
    reports = NodeReports()
    assert reports.accept(report(cpu_used=2.0), NOW)
    assert not reports.accept(report(at_s=NOW - 10), NOW)
    assert reports.accept(report(cpu_used=3.0), NOW)
    assert [node_report.cpu_used for node_report in reports] == [3.0]


@pytest.mark.parametrize("off_s", [-121.0, 5.1, 121.0, 1e9])
def test_a_report_with_a_wrong_clock_is_refused(off_s: float) -> None:
    with pytest.raises(InvalidInput, match="clock"):
        NodeReports().accept(report(at_s=NOW + off_s), NOW)


def test_a_fast_clock_does_not_extend_a_reports_lifetime() -> None:
    reports = NodeReports()
    reports.accept(report(at_s=NOW + 5), NOW)
    assert reports.fresh("n", NOW + 120) is not None
    assert reports.fresh("n", NOW + 121) is None
    assert reports.accept(report(at_s=NOW + 35), NOW + 30)


def test_a_full_store_drops_the_expired_first() -> None:
    reports = NodeReports(max_nodes=2)
    reports.accept(report("a"), NOW)
    reports.accept(report("b"), NOW)
    with pytest.raises(Transient):
        reports.accept(report("c"), NOW + 60)
    assert reports.accept(report("c", at_s=NOW + 200), NOW + 200)
    assert [node_report.node for node_report in reports] == ["c"]


def test_reports_of_removed_nodes_are_dropped() -> None:
    reports = NodeReports()
    reports.accept(report("a"), NOW)
    reports.forget("a")
    reports.forget("a")
    assert len(reports) == 0


def test_a_row_of_the_arrays() -> None:
    row = report(cpu_used=3.0).row()
    assert row[ReportColumn.CPU_USED] == 0.75
    assert row[ReportColumn.MEMORY_USED] == 0.5
    assert row[ReportColumn.REPORTED_AT] == NOW
    assert len(row) == len(ReportColumn)
