"""Imported traces as work: small files in the published form, every format; what cannot be replayed is one line."""

from pathlib import Path

import numpy as np
import pytest

from cotenant.cli.main import main
from cotenant.model.errors import InvalidInput
from cotenant_lab.traces import import_trace
from cotenant_lab.workloads.colocation import generate
from cotenant_lab.workloads.imported import GIB, read_imported
from cotenant_lab.workloads.replayed import Replayed
from cotenant_lab.workloads.tianchi import find_folder
from cotenant_lab.world.config import WorldConfig

CONFIG = WorldConfig(nodes=4, pods=300, horizon_s=7200.0)
DLRM = (
    "instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,rdma_limit,"
    "memory_request,memory_limit,disk_request,disk_limit,max_instance_per_node,creation_time,scheduled_time,"
    "deletion_time\n"
)


def gaia() -> str:
    return "arrival_hours,duration_hours,cpus\n" + "".join(f"{i / 10},{0.5 + i % 7},{1 + i % 4}\n" for i in range(2000))


def written(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return folder


TRACES = {
    "pai2020": ("pai_jobs.csv", gaia()),
    "azure-vm": ("azure_vms.csv", gaia()),
    "alibaba2017": (
        "batch_task.csv",
        "create_time,end_time,job_id,task_id,instance_num,status,plan_cpu,plan_mem\n"
        + "".join(
            f"{i},{i + 60 + i % 50},{i // 2},{i % 2},{1 + i % 5},Terminated,{200 + 200 * (i % 2)},0.004\n"
            for i in range(600)
        ),
    ),
    "swim": (
        "FB-2009_small.csv",
        "job,submit_s,gap_s,map_input_bytes,shuffle_bytes,reduce_output_bytes\n"
        + "".join(f"job{i},{i * 3},{3 if i else 0},{(1 + i % 9) << 28},{(i % 3) << 27},0\n" for i in range(600)),
    ),
    "dlrm2025": (
        "dlrm_instances.csv",
        DLRM + "".join(f"i{i},CN,app{i // 5},{4 + i % 3},16,0,0,0,0,32,64,10,10,-1,0,1,\n" for i in range(200)),
    ),
    "google2019": (
        "instance_usage.csv",
        "time_stamp,avg_cpu,avg_mem,avg_assigned_mem,avg_cycles_per_instruction\n"
        + "".join(f"{300 * i},{0.3 if i < 50 else 0.9},0.3,0.6,1\n" for i in range(100)),
    ),
}


@pytest.mark.parametrize("format_", sorted(TRACES))
def test_what_is_imported_becomes_a_workload_with_its_assumptions(format_: str, tmp_path: Path) -> None:
    source = written(tmp_path / "source", *TRACES[format_])
    import_trace(format_, source, tmp_path / "imported")
    raw, work = read_imported(source), read_imported(tmp_path / "imported")
    np.testing.assert_array_equal(raw.arrival_s, work.arrival_s)
    replayed = Replayed(work)
    truth, offer = generate(replayed.configured(CONFIG), 0, 0.8, 0.0, given=replayed)
    assert 100 < len(truth.cpu_milli) <= CONFIG.pods
    assert (np.diff(offer.level) <= 1).all()
    notes = " ".join(replayed.notes())
    assert format_ in notes
    assert len(replayed.notes()) >= 3
    again = generate(replayed.configured(CONFIG), 0, 0.8, 0.0, given=Replayed(work))[0]
    np.testing.assert_array_equal(truth.duration_s, again.duration_s)


def test_sizes_arrivals_and_order_are_those_of_the_trace(tmp_path: Path) -> None:
    work = read_imported(written(tmp_path / "source", *TRACES["azure-vm"]))
    replayed = Replayed(work)
    _, offer = generate(CONFIG, 3, 0.8, 0.0, given=replayed)
    batch = offer.cpu_milli[~offer.is_service]
    first = next(at for at in range(len(work.cores)) if (work.cores[at : at + len(batch)] * 1000 == batch).all())
    at = work.arrival_s[first : first + len(batch)]
    expected = (at - at[0]) / (at[-1] - at[0]) * CONFIG.horizon_s
    np.testing.assert_allclose(offer.arrival_s, expected, rtol=1e-6)


def test_a_curve_sets_the_rate_of_arrivals(tmp_path: Path) -> None:
    replayed = Replayed(read_imported(written(tmp_path / "source", *TRACES["google2019"])))
    arrivals = replayed.arrivals(CONFIG, np.random.default_rng(0), 40_000)
    assert arrivals is not None
    assert (arrivals > CONFIG.horizon_s / 2).mean() == pytest.approx(0.75, abs=0.01)  # 0.9 against 0.3
    assert replayed.configured(CONFIG).real_memory_median == pytest.approx(0.5)


def test_a_generic_table_gives_usage_and_chains(tmp_path: Path) -> None:
    rows = "".join(f"{i * 10},{60 + i % 9},2,4,{i // 2},1.5,1\n" for i in range(400))
    written(tmp_path, "mine.csv", "at,lasts,c,gib,j,uc,um\n" + rows)
    columns = {
        "arrival_s": "at",
        "duration_s": "lasts",
        "cpus": "c",
        "memory_gib": "gib",
        "job": "j",
        "used_cpus": "uc",
        "used_memory_gib": "um",
    }
    lines = "".join(f"  {name}: {{from: {source}, type: number}}\n" for name, source in columns.items())
    mapping = tmp_path / "map.yaml"
    mapping.write_text(f"file: mine.csv\ncolumns:\n{lines}")
    import_trace("generic", mapping, tmp_path / "imported" / "mine.parquet")
    work = read_imported(tmp_path / "imported")
    assert (work.used_cores == 1.5).all()
    assert (work.memory_bytes == 4 * GIB).all()
    replayed = Replayed(work)
    _, offer = generate(CONFIG, 0, 0.8, 0.0, given=replayed)
    assert set(offer.levels.tolist()) == {2}
    np.testing.assert_allclose(offer.est_use_cores[~offer.is_service], 1.5)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("notes.txt", "", "no table"),
        ("pai_jobs.csv", "arrival_hours,duration_hours,cpus\n", "no rows"),
        ("pai_jobs.csv", "", "pai_jobs.csv"),
        ("pai_jobs.csv", "arrival_hours,duration_hours,cpus\n1,NaN,1\n", "no usable row"),
        ("pai_jobs.csv", "arrival_hours,duration_hours,cpus\n1,-1,1\n", "no usable row"),
        ("pai_jobs.csv", "arrival_hours,duration_hours,cpus\n1,0,1\n", "at least one usable row"),
        ("jobs.parquet", "no Parquet", "damaged Parquet"),
    ],
)
def test_a_folder_that_cannot_be_replayed_is_one_line_and_status_2(
    name: str, text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = written(tmp_path / "source", name, text)
    out = tmp_path / "out"
    assert main(["lab", "compare", "--workload", "replay", "--traces", str(source), "--out", str(out)]) == 2
    said = capsys.readouterr()
    assert says in said.err
    assert said.err.count("\n") == 1
    assert not out.exists()


def test_two_traces_in_one_folder_are_refused(tmp_path: Path) -> None:
    written(tmp_path, *TRACES["pai2020"])
    with pytest.raises(InvalidInput, match="azure-vm and pai2020"):
        read_imported(written(tmp_path, *TRACES["azure-vm"]))


def test_a_tianchi_set_without_its_applications_says_what_is_missing(tmp_path: Path) -> None:
    folder = tmp_path / "alibaba2018-tianchi-containers"
    with pytest.raises(InvalidInput, match="a folder that holds alibaba2018-tianchi-containers"):
        find_folder(tmp_path)
    written(folder, "instance_deploy.csv", "instance,app,initial_machine\n")
    with pytest.raises(InvalidInput, match="app_resources"):
        find_folder(tmp_path)
    with pytest.raises(InvalidInput, match="app_resources"):
        find_folder(folder)
