"""The command line in process: its output, its files, and one line for every error."""

import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant.cli.main import main
from cotenant_lab import registry, storage
from cotenant_lab.cli.commands import FORMATS
from cotenant_lab.cli.comparing import CompareArguments, make_plan
from cotenant_lab.contract import Scenario
from cotenant_lab.traces import formats

pytestmark = pytest.mark.usefixtures("fake_workloads")

COMPARE = ("lab", "compare")
FAKE = (*COMPARE, "--jobs", "1", "--workload", "fake", "--seeds", "2", "--policies", "cotenant,edf-paragon,random")


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def only_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The only line of standard error, with nothing on standard output."""
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    assert "Traceback" not in captured.err
    return captured.err


def test_compare_prints_a_table_of_a_hundred_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*FAKE, "--out", tmp_path / "out") == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    lines = captured.out.splitlines()
    assert max(map(len, lines)) <= 100
    rows = [line.split()[:2] for line in lines if line.startswith(("cotenant ", "edf-", "random")) and "±" in line]
    assert rows[:3] == [["cotenant", "ours"], ["edf-paragon", "rival"], ["random", "rival"]]
    assert "sorted by SLO violation" in captured.out
    assert "cotenant on SLO violation at load 0.77, paired by seed:" in captured.out
    assert {"experiment.json", "results.json", "results.parquet", "runs"} <= set(os.listdir(tmp_path / "out"))


def test_compare_json_is_one_object_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*FAKE, "--out", tmp_path, "--json") == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    printed = json.loads(captured.out)
    assert (printed["workload"], printed["seeds"], printed["ours"]) == ("fake", 2, "cotenant")
    first = printed["rows"][0]
    assert (first["policy"], first["load"]) == ("cotenant", 0.77)
    assert 0 < first["violation"] < 0.01
    assert first["violation_ci"] > 0
    assert first["first_failure"] is None
    assert printed["notes"] == ["Durations are stretched by about 79 times against the real ones."]
    assert {pair["policy"] for pair in printed["paired"]} == {"edf-paragon", "random"}
    assert printed["sustained_load"] == []
    stored = json.loads((tmp_path / "results.json").read_text())
    assert {entry["name"] for entry in stored.pop("metrics")} >= {"violation", "success"}
    assert printed == stored


@pytest.mark.slow
def test_a_sweep_prints_the_sustained_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*FAKE, "--load", "0.9,0.7,0.8,0.99", "--out", tmp_path) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    assert "Sustained load" in out
    assert "minus cotenant" in out
    assert run(*FAKE, "--load", "0.9,0.7,0.8,0.99", "--out", tmp_path, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["loads"] == [0.7, 0.8, 0.9, 0.99]
    assert [row["policy"] for row in printed["sustained_load"]] == ["cotenant", "edf-paragon", "random"]
    assert 0.7 < printed["sustained_load"][0]["sustained_load"] < 0.99


def test_the_same_command_continues_where_it_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*FAKE, "--out", tmp_path) == 0
    capsys.readouterr()
    assert run(*FAKE, "--out", tmp_path) == 0
    assert "6 runs (0 now, 6 stored before)" in capsys.readouterr().out


def test_a_failed_run_is_exit_status_one_and_the_rest_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(
            *COMPARE,
            "--jobs",
            1,
            "--workload",
            "fake",
            "--seeds",
            1,
            "--policies",
            "raises,cotenant",
            "--out",
            tmp_path,
        )
        == 1
    )
    captured = capsys.readouterr()
    assert captured.err == "cotenant: failed: raises, load 0.77, seed 0: RuntimeError: it was asked to fail\n"
    assert "1 failed" in captured.out
    assert "Traceback" in (tmp_path / "failures.txt").read_text()
    assert (
        run(*COMPARE, "--jobs", 1, "--workload", "fake", "--seeds", 1, "--policies", "raises", "--out", tmp_path) == 1
    )
    assert "the only run failed" in capsys.readouterr().err


def test_figures_are_printed_where_nothing_can_be_written_after_the_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (*COMPARE, "--jobs", 1, "--workload", "fake", "--policies", "raises,cotenant", "--out", tmp_path)
    assert run(*words, "--seeds", 6) == 1
    earlier = (tmp_path / "failures.txt").read_text()
    capsys.readouterr()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_048, hard))  # fails as a full disk does; the stored runs are read
    try:
        status = run(*words, "--seeds", 6)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert status == 1
    captured = capsys.readouterr()
    assert any(line.startswith("cotenant ") and "±" in line for line in captured.out.splitlines())
    for name in ("failures.txt", "results.json", "results.parquet", "report.html"):
        assert f"cannot write {tmp_path / name}: File too large" in captured.err
    assert (tmp_path / "failures.txt").read_text() == earlier


def test_knobs_switches_and_a_workload_file_reach_the_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "--set",
        "cotenant.spread=0.5",
        "--no-node-qos",
        "--no-failures",
        "--no-declared-profiles",
        "--interference",
        "2",
        "--json",
    )
    assert run(*FAKE, *words, "--out", tmp_path) == 0
    capsys.readouterr()
    printed = json.loads((tmp_path / "experiment.json").read_text())
    assert printed["overrides"] == [["cotenant", "spread", 0.5]]
    assert (printed["node_qos"], printed["failures"], printed["interference"]) == (False, False, 2.0)
    assert printed["declared_profiles"] is False
    command = printed["provenance"]["command"]
    assert "--no-declared-profiles --no-node-qos --no-failures --set cotenant.spread=0.5" in command
    assert "--interference 2 " in command


def test_the_default_folder_is_the_same_for_more_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*COMPARE, "--jobs", 1, "--workload", "fake", "--policies", "cotenant", "--seeds", 1) == 0
    assert run(*COMPARE, "--jobs", 1, "--workload", "fake", "--policies", "cotenant", "--seeds", 2) == 0
    assert "2 runs (1 now, 1 stored before)" in capsys.readouterr().out
    assert len(os.listdir("runs")) == 1
    assert os.listdir("runs")[0].startswith("fake-")


def test_an_interrupt_prints_the_command_to_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(*COMPARE, "--jobs", 1, "--workload", "fake", "--policies", "cotenant", "--seeds", 1, "--out", tmp_path) == 0
    )
    capsys.readouterr()

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cotenant_lab.experiment.run_and_store", interrupted)
    assert (
        run(*COMPARE, "--jobs", 1, "--workload", "fake", "--policies", "cotenant", "--seeds", 3, "--out", tmp_path)
        == 130
    )
    line = only_line(capsys)
    assert "interrupted with 1 of 3 runs stored; the same command continues: cotenant lab compare" in line
    assert f"--out {tmp_path}" in line


@pytest.fixture
def ctrl_c_is_heard() -> Iterator[None]:
    """Background jobs of a shell ignore Ctrl-C, and so would these tests when run from one."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.usefixtures("ctrl_c_is_heard")
def test_an_interrupt_ends_the_worker_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--workload", "fake", "--policies", "cotenant,interrupts", "--seeds", 50, "--jobs", 2, "--out", tmp_path)
    assert run(*COMPARE, *words) == 130
    assert "of 100 runs stored; the same command continues: cotenant lab compare" in only_line(capsys)
    assert multiprocessing.active_children() == []
    assert not list(tmp_path.glob("report.html"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--workload", "fake", "--policies", "cotenat"), "cotenat: expected a policy of fake; did you mean cotenant"),
        (("--workload", "fak"), "did you mean fake"),
        (("--workload", "fake:small"), "has no variants"),
        (("--workload", "fake", "--seeds", "0"), "--seeds: 0: expected at least 1"),
        (("--workload", "fake", "--seeds", "two"), "--seeds: two: expected a number of seeds"),
        (("--workload", "fake", "--seeds", "29-20"), "--seeds: 29-20: expected ranges that ascend, e.g. 20-29"),
        (("--workload", "fake", "--seeds", "nan"), "--seeds: nan: expected a number of seeds"),
        (("--workload", "fake", "--seeds", ""), "--seeds: : expected a number of seeds"),
        (("--workload", "fake", "--seeds", "0-4,4"), "each seed once; 4 is named twice"),
        (
            ("--workload", "dag:some"),
            "--workload: dag:some: expected dag or dag:JOBS, JOBS one of all, tuning, held-out",
        ),
        (("--workload", "fake", "--load", "-0.7"), "--load: -0.7: expected a number above 0"),
        (("--workload", "fake", "--load", "nan"), "--load: nan: expected a number above 0"),
        (("--workload", "fake", "--load", "0.7,,0.8"), "expected numbers with commas between"),
        (("--workload", "fake", "--load", "0.7,0.7"), "each one once"),
        (("--workload", "fake", "--load", "99"), "at most 1.5"),
        (("--workload", "fake", "--interference", "nan"), "--interference: nan: expected a number from 0 to 10"),
        (("--workload", "fake", "--pressure-law", "liner"), "linear, knee, queueing, mixed; did you mean linear"),
        (("--workload", "fake", "--estimate-error", "-1"), "--estimate-error: -1.0: expected a number from 0 to 5"),
        (("--workload", "fake", "--jobs", "0"), "--jobs: 0: expected at least 1"),
        (("--workload", "fake", "--policies", ","), "--policies: : expected at least one"),
        (("--workload", "fake", "--set", "cotenant.spread"), "expected POLICY.KNOB=NUMBER"),
        (("--workload", "fake", "--set", "cotenant.spread=nan"), "KNOB=NUMBER, e.g. cotenant.spread_weight=0.2"),
        (("--workload", "fake", "--set", "cotenant.sprad=1"), "a knob of that policy"),
        (("--workload", "founding", "--set", "cotenant.spread=1"), "--set: cotenant.spread: expected one of "),
        (("--workload", "founding", "--set", "cotenant.spread=1"), "spread_weight, "),
        (("--workload", "dag", "--load", "9"), "--load: 9.0: expected"),
        (
            ("--workload", "dag", "--policies", "cotenant", "--set", "cotenant.sprad=1"),
            "--set: cotenant.sprad: expected one of margin, ",
        ),
        (
            ("--workload", "dag", "--policies", "cotenant", "--set", "cotenant.margin=-1"),
            "--set: cotenant.margin=-1: expected a finite number",
        ),
        (("--workload", "openb", "--load", "99"), "--load: 99.0: expected"),
        (("--workload", "openb", "--set", "cotenant.sprad=1"), "--set: cotenant.sprad: expected a knob of cotenant: "),
        (
            ("--workload", "openb", "--set", "cotenant.unit=0"),
            "--set: cotenant.unit=0: expected a whole number 1..1000",
        ),
        (("--workload", "openb"), "--traces: "),
        (("--workload", "openb", "--policies", "magic"), "--policies: magic: expected"),
        (("--workload", "tianchi", "--load", "9"), "--load: 9.0: expected"),
        (
            ("--workload", "tianchi", "--policies", "cotenant", "--set", "cotenant.sprad=1"),
            "--set: cotenant.sprad: expected one of ",
        ),
        (("--workload", "fake", "--traces", "/nonexistent/traces"), "expected a folder of traces; it does not exist"),
        (("--workload", "/nonexistent/mine.yaml"), "expected a readable YAML file; No such file or directory"),
        (
            ("--workload", "fake", "--jobs", "1", "--policies", "refuses"),
            "machine_meta.csv: line 7: x: expected a number",
        ),
        (("--workload", "fake", "--bogus"), "--bogus"),
        ((), "--workload"),
    ],
)
def test_bad_arguments_of_compare_are_one_line_and_exit_status_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / "empty").mkdir()
    given = () if "--traces" in arguments else ("--traces", tmp_path / "empty")
    assert run(*COMPARE, "--out", tmp_path / "out", *given, *arguments) == 2
    assert words in only_line(capsys)


def test_a_figure_from_a_workload_file_is_named_as_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("base: founding\nload: 0.1\npolicies: [magic]\n")
    for words, expected in (
        ((), "mine.yaml: policies: magic: expected"),
        (("--policies", "random"), "mine.yaml: load: 0.1: expected"),
        (("--policies", "random", "--load", "0.2"), "cotenant: --load: 0.2: expected"),
    ):
        assert run(*COMPARE, "--out", tmp_path / "out", "--workload", file, *words) == 2
        assert expected in only_line(capsys)


def test_the_help_of_import_names_every_format() -> None:
    assert list(FORMATS) == [info.name for info in formats()]


def test_malformed_yaml_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("base: [founding\nnodes: 3\n")
    assert run(*COMPARE, "--workload", file) == 2
    assert "mine.yaml" in only_line(capsys)


def test_an_out_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    assert run(*FAKE, "--out", tmp_path / "file") == 2
    assert "expected a folder that can be written" in only_line(capsys)
    assert (tmp_path / "file").read_text() == "in the way"


def test_unknown_commands_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("lab", "compair") == 2
    assert "compair" in only_line(capsys)
    assert run("nonsense") == 2
    assert "nonsense" in only_line(capsys)


def test_explain_prints_a_decision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*FAKE, "--out", tmp_path, "--load", "0.7,0.8") == 0
    capsys.readouterr()
    assert run("lab", "explain", tmp_path, "pod-7") == 0
    out = capsys.readouterr().out
    assert "pod-7: placed on node-3 by cotenant" in out
    assert "(fake, cotenant, load 0.7, seed 0)" in out
    assert "31" in out
    assert "fit: too little CPU" in out
    assert run("lab", "explain", tmp_path, "pod-7", "--policy", "random", "--seed", 1, "--load", 0.8, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["policy"], printed["seed"], printed["load"]) == ("random", 1, 0.8)
    assert printed["outcome"] == "placed on node-3 by random"
    assert printed["candidates"][0] == ["node-3", 8.5, [["free", 12.0], ["violations", -3.5]]]


def test_explain_notes_a_comparison_made_with_other_sources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*FAKE, "--out", tmp_path) == 0
    capsys.readouterr()
    assert run("lab", "explain", tmp_path, "pod-7") == 0
    assert "other sources" not in capsys.readouterr().out
    file = tmp_path / "experiment.json"
    file.write_text(file.read_text().replace(storage.code_digest(), "0123456789abcdef"))
    assert run("lab", "explain", tmp_path, "pod-7") == 0
    assert "the comparison was made with other sources (0123456789abcdef)" in capsys.readouterr().out
    assert run("lab", "explain", tmp_path, "pod-7", "--json") == 0
    assert "other sources" in json.loads(capsys.readouterr().out)["notes"][0]


def test_bad_arguments_of_explain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("lab", "explain", tmp_path, "pod-7") == 2
    assert "expected the --out folder of `cotenant lab compare`" in only_line(capsys)
    assert run(*FAKE, "--out", tmp_path) == 0
    capsys.readouterr()
    for words, expected in (
        (("pod-0",), "pod-0: expected a task of this run"),
        (("pod-7", "--policy", "tetris"), "--policy: tetris: expected one of this comparison's"),
        (("pod-7", "--seed", 9), "--seed: 9: expected one of"),
        (("pod-7", "--load", 0.9), "--load: 0.9: expected one of"),
    ):
        assert run("lab", "explain", tmp_path, *words) == 2
        assert expected in only_line(capsys)


def test_import_converts_a_trace_and_reports_its_bad_rows_by_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "machine_meta.csv"
    source.write_text("m_1,0,1,2,96,100,USING\nm_2,0,1,2,many,100,USING\nm_3,0,1,2,96,100,USING\n")
    assert run("lab", "import", "alibaba2018", source, tmp_path / "machines.parquet") == 0
    out = capsys.readouterr().out
    assert "3 rows read, 2 kept" in out
    assert "(line 2, e.g. 'many')" in out
    assert (tmp_path / "machines.parquet").is_file()
    assert run("lab", "import", "alibaba2018", source, tmp_path / "again.parquet", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["tables"][0]["rows_kept"] == 2
    assert printed["tables"][0]["bad"][0]["lines"] == [2]


def test_bad_arguments_of_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("lab", "import", "alibaba2081", tmp_path, tmp_path / "x") == 2
    assert "FORMAT: alibaba2081: expected one of" in only_line(capsys)
    assert run("lab", "import", "alibaba2018", tmp_path / "absent.csv", tmp_path / "x") == 2
    assert "absent.csv" in only_line(capsys)
    binary = tmp_path / "machine_meta.csv"
    binary.write_bytes(bytes(range(256)))
    assert run("lab", "import", "alibaba2018", binary, tmp_path / "x") == 2
    assert "machine_meta.csv: line 1" in only_line(capsys)


def test_listings(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("lab", "workloads") == 0
    out = capsys.readouterr().out
    assert "founding" in out
    assert "openb[:LIST]" in out
    assert "fake-packing" in out
    assert max(map(len, out.splitlines())) <= 100
    assert run("lab", "workloads", "--json") == 0
    assert json.loads(capsys.readouterr().out)["workloads"][0]["name"] == "founding"
    assert run("lab", "policies", "--workload", "fake") == 0
    assert "* cotenant" in capsys.readouterr().out
    assert run("lab", "policies", "--workload", "fake", "--json") == 0
    assert json.loads(capsys.readouterr().out)["policies"][0]["role"] == "ours"
    assert run("lab", "formats") == 0
    assert "SoCC 2019" in " ".join(capsys.readouterr().out.split())
    assert run("lab", "formats", "--json") == 0
    assert json.loads(capsys.readouterr().out)["formats"][-1]["name"] == "generic"
    assert run("lab", "metrics") == 0
    assert "V_BE" in capsys.readouterr().out
    assert run("lab", "metrics", "--markdown") == 0
    assert "| `violation_batch` |" in capsys.readouterr().out
    assert run("lab", "metrics", "--json") == 0
    assert "sustained_load" in [load["name"] for load in json.loads(capsys.readouterr().out)["metrics"]]


@pytest.mark.slow
def test_listing_loads_no_scenario_and_no_heavy_library() -> None:

    code = (
        "import sys; from cotenant.cli.main import main; main(['lab', 'workloads']); main(['lab', 'metrics'])\n"
        "heavy = {'numba', 'polars', 'ortools', 'scipy'} & set(sys.modules)\n"
        "assert not heavy and not any('lab.scenarios' in name for name in sys.modules), heavy"
    )
    environment = {name: value for name, value in os.environ.items() if name != "COTENANT_SCENARIOS"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "--version",
        "--nothing",
        "up --nothing",
        "up --nodes -1",
        "up --speed 0",
        "scheduler --nothing",
        "scheduler --qps 0",
        "scheduler --listen nowhere",
        "scheduler --log-level loud",
        "manager --writes-per-s 0",
        "manager --log-format xml",
        "rebalancer run --watch-s 0",
        "rebalancer run --listen nowhere",
        "credit serve --bound 0",
        "credit serve --log-level loud",
        "traces --http nowhere",
        "traces --max-skew-s -1",
        "traces --log-level loud",
        "agent --nothing",
        "lab compare --nothing",
        "lab compare --workload founding --seeds 0",
        "lab compare --workload founding --jobs 0",
        "lab compare --workload founding --pressure-law none",
        "lab compare --workload founding --set nothing",
    ],
)
def test_what_is_answered_without_work_imports_little(words: str) -> None:
    code = (
        "import sys; from cotenant.cli.main import main; main(sys.argv[1:])\n"
        "heavy = {'numba', 'numpy', 'polars', 'ortools', 'scipy', 'aiohttp', 'prometheus_client', 'uvicorn'} & "
        "set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert len(sys.modules) < 510, len(sys.modules)"
    )
    command = [sys.executable, "-c", code, *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def fake_scenario(_: str) -> Scenario:
    return registry.scenario("fake")


def test_a_workload_file_gives_what_the_command_line_does_not(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "base: founding\nseeds: 3\nload: [0.7, 0.8]\npolicies: [random]\ninterference: 2\npressure_law: "
        "knee\nnode_qos: no\ndeclared_profiles: no\n"
    )
    plan, _ = make_plan(CompareArguments(str(file)), load=fake_scenario)
    assert (plan.policies, plan.seeds, plan.loads) == (("random",), (0, 1, 2), (0.7, 0.8))
    assert (plan.base.workload, plan.base.file, plan.base.interference) == ("founding", file, 2.0)
    assert plan.base.pressure_law == "knee"
    assert plan.base.declared_profiles is False
    assert (plan.base.node_qos, plan.base.failures) == (False, True)
    over, _ = make_plan(
        CompareArguments(str(file), seeds="20-22", load="0.9", policies="all", node_qos=True), load=fake_scenario
    )
    assert (over.seeds, over.loads, over.base.node_qos) == ((20, 21, 22), (0.9,), True)
    assert "raises" in over.policies
