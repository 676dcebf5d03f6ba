"""The published pieces read with the row counts of their READMEs, and every dropped row is accounted for."""

import os
from pathlib import Path

import pytest

from cotenant.lab.traces import read_table

TRACES = Path(os.environ.get("COTENANT_TRACES") or Path(__file__).parents[5] / "shared" / "traces")
needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason=f"no traces at {TRACES}; set COTENANT_TRACES")

OPENB_LISTS = {
    "cpu0": 7_064, "cpu050": 7_439, "cpu072": 7_608, "cpu100": 7_853, "cpu250": 9_420, "cpu300": 10_094, "default": 8_152,
    "gpushare20": 8_152, "gpushare40": 8_152, "gpushare80": 8_152, "gpuspec05": 8_152, "gpuspec10": 8_152, "gpuspec20": 8_152,
    "gpuspec33": 8_152, "multigpu20": 8_324, "multigpu40": 8_746, "multigpu50": 9_061,
}  # fmt: skip
PIECES = [
    ("alibaba2018", "batch_task", "alibaba2018-dag-jobs/batch_task", 37_355, 37_105),
    ("alibaba2018", "machine_meta", "alibaba2018-machines/machine_meta", 17_592, 17_592),
    ("alibaba2018", "machine_usage", "alibaba2018-machines/machine_usage_11_machines", 71_294, 71_294),
    ("alibaba2018", "cluster_usage", "alibaba2018-machines/cluster_mean_usage_300s_days1-5", 1_379, 1_379),
    ("openb", "nodes", "openb-gpu2023/openb_node_list_gpu_node", 1_213, 1_213),
    ("openb", "nodes", "openb-gpu2023/openb_node_list_all_node", 1_523, 1_523),
    ("openb", "results", "openb-gpu2023/published_results_fgd_atc23", 19_440, 19_440),
    ("tianchi", "apps", "alibaba2018-tianchi-containers/app_resources", 9_338, 9_338),
    ("tianchi", "containers", "alibaba2018-tianchi-containers/instance_deploy", 68_224, 68_224),
    ("tianchi", "machines", "alibaba2018-tianchi-containers/machine_resources", 6_000, 6_000),
    ("tianchi", "rules", "alibaba2018-tianchi-containers/app_interference", 33_416, 33_416),
    *(("openb", "pods", f"openb-gpu2023/openb_pod_list_{name}", rows, rows) for name, rows in OPENB_LISTS.items()),
]


@needs_traces
@pytest.mark.parametrize(("format_", "table", "piece", "read", "kept"), PIECES, ids=[piece[2] for piece in PIECES])
def test_rows_of_the_real_piece(format_: str, table: str, piece: str, read: int, kept: int) -> None:
    frame, report = read_table(format_, table, TRACES / f"{piece}.csv.gz")
    assert (report.rows_read, report.rows_kept, frame.height) == (read, kept, kept)
    assert read == kept + sum(bad.rows for bad in report.bad)


@needs_traces
def test_the_faults_of_the_published_batch_tasks_have_names() -> None:
    _, report = read_table("alibaba2018", "batch_task", TRACES / "alibaba2018-dag-jobs/batch_task.csv.gz")
    assert {(bad.kind, bad.rows) for bad in report.bad} == {
        ("never started", 125),
        ("missing value", 75),
        ("not finished", 50),
    }
    assert {(noted.kind, noted.rows) for noted in report.noted} == {("zero duration", 438)}
