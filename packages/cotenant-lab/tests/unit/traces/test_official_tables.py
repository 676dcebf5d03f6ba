"""The official tables without a real sample at hand, as published: without a header, in their column order."""

from pathlib import Path

import pytest

from cotenant_lab.traces import import_trace, read_table

ROWS = {
    "machine_meta": ["m_1,0,219,17,96,100,USING", "m_1,148984,219,,96,100,USING"],
    "machine_usage": ["m_1932,386640,41,92,,,43.04,33.08,5", "m_1932,386670,43,92,2.31,1,43.05,33.08,-1"],
    "container_meta": ["c_1,m_2556,0,app_5052,started,400,400,1.56", "c_1,m_2556,287942,app_5052,started,400,400,1.56"],
    "container_usage": ["c_1,m_2556,386640,5,23,1.6,0.1,0.2,4.1,3.9,7", "c_1,m_2556,386650,105,23,,,,4.1,3.9,101"],
    "batch_task": [
        "M1,1.0,j_1,1,Terminated,419011,419023,100.0,0.3",
        "task_LTg0MTU,2,j_1,10,Terminated,419000,419000,100.0,0.3",
    ],
    "batch_instance": [
        "ins_7490,task_LTg0MTU,j_217,10,Terminated,673795,673797,m_2637,1,1,13,16,0.02,0.02",
        "ins_8150,M1,j_217,1,Failed,158478,158520,,1,2,,,,",
    ],
}
BAD = {
    "machine_meta": ("m_2,5,219,17,0,100,USING", "below the allowed range", "cpu_num"),
    "machine_usage": ("m_2,5,140,92,,,43.04,33.08,5", "above the allowed range", "cpu_util_percent"),
    "container_meta": ("c_2,m_1,-4,app_1,started,400,400,1.56", "negative", "time_stamp"),
    "container_usage": ("c_2,,5,5,23,1.6,0.1,0.2,4.1,3.9,7", "missing value", "machine_id"),
    "batch_task": ("M2,1,j_1,1,Terminated,419011,419010,100.0,0.3", "ends before it starts", "end_time"),
    "batch_instance": ("ins_9,M1,j_2,1,Waiting,0,0,,1,1,,,,", "never started", "start_time"),
}


@pytest.mark.parametrize("table", ROWS)
def test_official_rows_are_kept_and_a_bad_one_named(tmp_path: Path, table: str) -> None:
    row, kind, column = BAD[table]
    path = tmp_path / f"{table}.csv"
    path.write_text("\n".join([*ROWS[table], row]) + "\n")
    frame, report = read_table("alibaba2018", table, path)
    assert frame.height == 2
    assert [(bad.kind, bad.column, bad.lines) for bad in report.bad] == [(kind, column, (3,))]
    for at, line in enumerate(ROWS[table]):
        for cell, value in zip(line.split(","), frame.row(at), strict=True):
            if cell in ("", "-1", "101"):
                assert value is None
            else:
                assert str(value) == cell or float(cell) == value


def test_a_folder_of_the_whole_official_trace_is_converted_table_by_table(tmp_path: Path) -> None:
    for table, rows in ROWS.items():
        (tmp_path / f"{table}.csv").write_text("\n".join(rows) + "\n")
    report = import_trace("alibaba2018", tmp_path, tmp_path / "parquet")
    assert [table.table for table in report.tables] == sorted(ROWS)
    assert {path.name for path in (tmp_path / "parquet").iterdir()} == {f"{table}.parquet" for table in ROWS}


def test_tab_separated_jobs_as_published(tmp_path: Path) -> None:
    path = tmp_path / "FB-2009_samples_24_times_1hr_0.tsv"
    path.write_text(
        "job0\t49\t49\t740773\t2339561\t627471\njob1\t101\t52\t736346\t1700537\t432269\njob2\t90\t1\t1\t1\t1\n"
    )
    frame, report = read_table("swim", "jobs", path)
    assert frame.row(1) == ("job1", 101, 52, 736346, 1700537, 432269)
    assert [(bad.kind, bad.lines) for bad in report.bad] == [("time goes backwards", (3,))]
