"""Traces as copies of clusters: what is written is read back, and the report counts what the trace has."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from cotenant.cli.main import main
from cotenant.drivers.kube.snapshot.archive import read_archive
from cotenant.model.assess.history import ClusterHistory
from cotenant.model.errors import InvalidInput
from cotenant.services.assess.whole_report import assess
from cotenant_lab.cli.commands import DUMPED
from cotenant_lab.cli.dumping import TAKEN_S, copy_of
from cotenant_lab.traces.clusters import READERS, trace_cluster


def table(folder: Path, name: str, head: str, *rows: object) -> None:
    with gzip.open(folder / f"{name}.csv.gz", "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(head.split(","))
        writer.writerows(rows)  # type: ignore[arg-type]


def test_every_reader_is_in_the_help() -> None:
    assert tuple(READERS) == DUMPED


def test_a_cell_is_a_node_with_its_use(tmp_path: Path) -> None:
    head = "time_stamp,avg_cpu,avg_mem,avg_assigned_mem,avg_cycles_per_instruction"
    table(tmp_path, "instance_usage_300s_days1-20", head, *((300 * i, 0.25, 0.5, 0.6, 1.0) for i in range(600)))
    assert main(["lab", "dump", "google2019", str(tmp_path), str(tmp_path / "out.zip")]) == 0
    snapshot, history = read_archive(tmp_path / "out.zip")
    assert history is not None
    assert history.nodes.end_s == TAKEN_S
    assert snapshot.count("v1/nodes") == 1
    report = assess(snapshot, history, 0.01)
    values = {figure.key: figure.value for figure in report.figures}
    assert values["cpu_used_p99_day"] == pytest.approx(250.0)
    assert report.back_test is not None
    assert any("one node" in note for note in report.source.notes)


def test_machines_have_means_of_their_samples(tmp_path: Path) -> None:
    head = "machine_id,time_stamp,cpu_util_percent,mem_util_percent,mem_gps,mkpi,net_in,net_out,disk_io_percent"
    rows = [("m_1", 0, 10, 50, "", "", 0, 0, 0), ("m_1", 100, 30, 50, "", "", 0, 0, 0)]
    table(tmp_path, "machine_usage_11_machines", head, *rows, ("m_1", 700, 50, "", "", "", 0, 0, 0))
    found = trace_cluster("alibaba2018", tmp_path)
    assert found.history is not None
    use = found.history.nodes
    assert use.cpu_m[0, 0] == pytest.approx(0.2 * 96_000)
    assert np.isnan(use.cpu_m[0, 1])
    assert np.isnan(use.memory_mib[0, 2])


def test_virtual_machines_fill_the_emptiest_host(tmp_path: Path) -> None:
    rows = [(0.0, 400.0, 32), (1.0, 400.0, 64), (2.0, 3.0, 65), (300.0, 10.0, 1)]
    table(tmp_path, "azure_vms", "arrival_hours,duration_hours,cpus", *rows)
    found = trace_cluster("azure-vm", tmp_path)
    assert sorted(pod.cpu_m for pod in found.pods) == [1000, 32_000, 64_000]
    assert len({pod.node for pod in found.pods}) == 3
    assert found.history is not None
    assert found.history.nodes.cpu_m[:, -1].sum() == pytest.approx(96_000)  # the last comes in the step after
    assert "1 of 4" in found.notes[0]


def test_pods_of_openb_wait_and_are_placed_by_the_engine(tmp_path: Path) -> None:
    table(tmp_path, "openb_node_list_all_node", "sn,cpu_milli,memory_mib,gpu,model", ("n0", 8000, 8192, 1, "T4"))
    head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli"
    rows = [("p0", 1000, 1024, 1, 500), ("p1", 1000, 1024, 1, 500), ("p2", 1000, 1024, 1, 500)]
    table(tmp_path, "openb_pod_list_default", head, *rows)
    snapshot, history = copy_of("openb", trace_cluster("openb", tmp_path))
    assert history is None
    report = assess(snapshot, None, 0.01)
    assert sum(group.pods for group in report.waiting) == 3
    assert sum(group.placed_now for group in report.waiting) == 2  # two halves of one card


def test_containers_of_tianchi_run_with_their_curves(tmp_path: Path) -> None:
    curve = "|".join(["1"] * 97 + ["3"])
    table(tmp_path, "app_resources", "app,cpu_98,mem_98,disk,P,M,PM", ("app_1", curve, curve, 1, 0, 0, 0))
    machines = ("machine_1", 32, 64, 1, 1, 1, 1)
    table(tmp_path, "machine_resources", "machine,cpu,mem,disk,P,M,PM", machines)
    placed = [("inst_1", "app_1", "machine_1"), ("inst_2", "app_1", "machine_1"), ("inst_3", "app_1", "")]
    table(tmp_path, "instance_deploy", "instance,app,initial_machine", *placed)
    snapshot, history = copy_of("tianchi", trace_cluster("tianchi", tmp_path))
    assert isinstance(history, ClusterHistory)
    report = assess(snapshot, history, 0.01)
    values = {figure.key: figure.value for figure in report.figures}
    assert (values["pods"], values["cpu_allocated"]) == (2, 6)
    (workload,) = report.workloads
    assert workload.name == "default/ReplicaSet/app-1"
    assert workload.cpu_p50_m == pytest.approx(2000)


@pytest.mark.parametrize("name", ["swim", "nothing"])
def test_traces_without_machines_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="google2019"):
        trace_cluster(name, tmp_path)


def test_a_folder_without_the_table_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "dump", "openb", str(tmp_path), str(tmp_path / "out.zip")]) == 2
    assert "openb_node_list_all_node" in capsys.readouterr().err
    assert main(["lab", "dump", "openb", str(tmp_path / "no"), str(tmp_path / "out.zip")]) == 2
