"""For any file content, each row is kept or counted once, or the file is refused in one line."""

import gzip
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant.model.errors import InvalidInput
from cotenant_lab.traces.catalogue import find_format, find_table
from cotenant_lab.traces.read import TableReader

TABLE = find_table(find_format("alibaba2018"), "batch_task")
CELLS = [
    "M1",
    "R2_1",
    "",
    "1",
    "2.0",
    "0",
    "-3",
    "nan",
    "inf",
    "1e99",
    " 7 ",
    "x",
    '"q,r"',
    '"',
    "100",
    "0.39",
    "Terminated",
]
GOOD = st.integers(1, 60).map(lambda n: f"M{n},2,j_1,1,Terminated,100,200,100,0.39")
WILD = st.lists(st.sampled_from(CELLS), min_size=0, max_size=11).map(",".join)
LINES = st.lists(st.one_of(GOOD, GOOD, GOOD, WILD), min_size=1, max_size=25)


@pytest.mark.slow
@settings(max_examples=examples(120), deadline=None)
@given(lines=LINES, block_bytes=st.sampled_from([1, 37, 1 << 20]), compress=st.booleans(), ended=st.booleans())
def test_every_row_is_kept_or_counted_once(lines: list[str], block_bytes: int, compress: bool, ended: bool) -> None:
    data = ("\n".join(lines) + ("\n" if ended else "")).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "batch_task.csv"
        path.write_bytes(gzip.compress(data) if compress else data)
        reader = TableReader(TABLE, path, block_bytes=block_bytes)
        refusal = ""
        try:
            kept = pl.concat(reader.frames())
            report = reader.report()
        except InvalidInput as refused:
            refusal = str(refused)
    if refusal:
        assert str(path) in refusal
        assert "\n" not in refusal
        return
    rows = len(lines) if ended or lines[-1] else len(lines) - 1  # an empty last line without an end is no line
    assert report.rows_read == rows
    assert report.rows_kept == kept.height
    assert report.rows_read == report.rows_kept + sum(bad.rows for bad in report.bad)
    assert not kept.select("job_name", "task_name").is_duplicated().any()
    assert kept["plan_cpu"].is_finite().all()
    assert (kept["end_time"] >= kept["start_time"]).all()
    assert all(1 <= line <= len(lines) for bad in report.bad for line in bad.lines)


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None)
@example(data=b"\r\x01")
@given(data=st.binary(max_size=200))
def test_any_bytes_are_refused_in_one_line(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "batch_task.csv"
        path.write_bytes(data)
        refusal = ""
        try:
            list(TableReader(TABLE, path).frames())
        except InvalidInput as refused:
            refusal = str(refused)
    assert str(path) in refusal
    assert "\n" not in refusal
