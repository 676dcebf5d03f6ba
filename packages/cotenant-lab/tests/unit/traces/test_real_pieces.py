"""The published samples read with the row counts of their READMEs, and every dropped row is accounted for."""

import os
from pathlib import Path

import pytest

from cotenant_lab.traces import import_trace, read_table

TRACES = Path(os.environ.get("COTENANT_TRACES") or Path(__file__).parents[6] / "shared" / "traces")
needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason=f"no traces at {TRACES}; set COTENANT_TRACES")

OPENB_LISTS = {
    "cpu0": 7_064, "cpu050": 7_439, "cpu072": 7_608, "cpu100": 7_853, "cpu250": 9_420, "cpu300": 10_094,
    "default": 8_152,
    "gpushare20": 8_152, "gpushare40": 8_152, "gpushare80": 8_152, "gpuspec05": 8_152, "gpuspec10": 8_152,
    "gpuspec20": 8_152,
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
    ("alibaba2018-distributions", "histograms", "alibaba2018-full-distributions/histograms", 25_760, 25_760),
    ("alibaba2017", "batch_task", "alibaba2017-batch/batch_task", 53_719, 48_783),
    ("pai2020", "jobs", "alibaba-pai2020/pai_jobs", 66_665, 66_665),
    ("pai2020", "machines", "alibaba-pai2020/pai_machine_spec", 1_897, 1_897),
    ("azure-vm", "vms", "azure-vm/azure_vms", 66_659, 66_659),
    ("swim", "jobs", "swim-facebook/FB-2009_samples_24_times_1hr_0", 5_894, 5_894),
    ("swim", "jobs", "swim-facebook/FB-2010_samples_24_times_1hr_0", 24_442, 24_442),
    ("dlrm2025", "instances", "alibaba-dlrm2025/dlrm_instances", 17_067, 17_067),
    ("google2019", "usage", "google2019-usage/instance_usage_300s_days1-20", 5_760, 5_760),
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


@needs_traces
@pytest.mark.slow
@pytest.mark.parametrize(
    ("format_", "folder", "files"),
    [
        ("alibaba2018", "alibaba2018-machines", 3),
        ("alibaba2018-distributions", "alibaba2018-full-distributions", 1),
        ("openb", "openb-gpu2023", 20),
        ("tianchi", "alibaba2018-tianchi-containers", 4),
        ("pai2020", "alibaba-pai2020", 2),
        ("swim", "swim-facebook", 2),
    ],
)
def test_a_real_folder_converts_and_reads_back_without_a_further_fault(
    tmp_path: Path, format_: str, folder: str, files: int
) -> None:
    report = import_trace(format_, TRACES / folder, tmp_path / "out")
    assert len(report.tables) == files
    assert [path.name for path in report.skipped] == ["README.md"]
    for table in report.tables:
        path = tmp_path / "out" / table.source.name.replace(".csv.gz", ".parquet")
        frame, again = read_table(format_, table.table, path)
        assert (again.rows_read, again.bad) == (table.rows_kept, ())
        if table is report.tables[0]:
            assert frame.equals(read_table(format_, table.table, table.source)[0])
