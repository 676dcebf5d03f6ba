"""`cotenant node` in process: one line for every error, tables of a hundred columns, valid JSON."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from cotenant.cli import tables
from cotenant.cli.main import main
from cotenant.cli.node.status_commands import hook_state, print_agent
from cotenant.drivers.leasefile.file import NAME, LeaseFile
from cotenant.drivers.nri.state_file import HookState, StateFile
from cotenant.drivers.seals.seals import unsealed
from cotenant.model.machine.knob import Knob, KnobLease, KnobTarget, LeaseState
from cotenant.model.machine.node_decision import Reason
from cotenant.services.agent_settings.runtime_hook import RuntimeHook
from cotenant.services.knobs.host import boot_id
from cotenant_lab.cli import node_experiments as experiments
from cotenant_lab.experiments import page, registry
from cotenant_lab.experiments.outcome import Curve, FigureCheck, Findings, Picture

NOWHERE = "unix:/nowhere/agent.sock"


def only_line(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    return captured.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("experiment", "sine", "--rounds", "0"), "--rounds: 0: expected 1 to 1000"),
        (("watch", "--every", "0"), "--every"),
        (("watch", "--count", "0"), "--count"),
        (("knobs", "--agent", "nonsense"), "--agent: nonsense: expected HOST:PORT or unix:/PATH"),
    ],
)
def test_a_wrong_argument_is_one_line_that_names_it(
    arguments: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["node", *arguments]) == 2
    assert expected in only_line(capsys)


def test_an_out_that_is_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("")
    assert main(["node", "experiment", "sine", "--out", str(tmp_path / "taken")]) == 2
    assert "a file of that name is in the way" in only_line(capsys)


def test_knobs_without_an_agent_are_those_of_the_state_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--agent", NOWHERE, "--state-dir", str(tmp_path))
    assert main(["node", "knobs", *where]) == 0
    expected = " ".join(capsys.readouterr().out.split())
    assert expected.startswith(f"no agent answers at {NOWHERE}")
    assert expected.endswith(f"no knob is held, according to {tmp_path}")
    assert main(["node", "knobs", *where, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "source": str(tmp_path),
        "keeper": None,
        "leases": [],
        "earlier_boot": 0,
        "faults": [],
        "aside": [],
    }


def test_a_state_folder_that_cannot_be_looked_into_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", "knobs", "--restore", "--state-dir", "/" + "x" * 300]) == 2
    assert "expected the state folder of a keeper" in only_line(capsys)


def test_a_groups_name_cannot_speak_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    name = "e\x1b[31mred\udcff\u00fc"
    tables.print_words(("group",), [(name,)])
    tables.print_line(name)
    tables.print_folded(name)
    assert capsys.readouterr().out.count("e\\x1b[31mred\\udcff\u00fc") == 3


def test_a_state_folder_that_is_not_there_says_nothing_of_knobs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelt folder does not prove that no knob is set."""
    missing = tmp_path / "missing"
    assert main(["node", "knobs", "--agent", NOWHERE, "--state-dir", str(missing)]) == 1
    assert f"there is no folder {missing}" in only_line(capsys)


def test_explaining_what_nobody_knows_says_who_was_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", "explain", "a/b", "--agent", NOWHERE, "--state-dir", str(tmp_path)]) == 1
    line = only_line(capsys)
    assert NOWHERE in line
    assert f"{tmp_path} has nothing about /a/b" in line


def outcome(**changes: object) -> Findings:
    checks = (
        FigureCheck("p99 regulated / alone, a name that is as long as the longest", 1.2, 1.3, low=1.1, high=1.4),
        FigureCheck("correlation", 0.5, 0.9, at_least=True),
        FigureCheck("probe", None, 0.5, unit=" % of the machine"),
    )
    picture = Picture("Seen", "s", "%", (("one", (Curve("x", [0, 1], [1, 2], "ours"),)),))
    values: dict[str, object] = {
        "experiment": "trial",
        "title": "A trial",
        "rounds": 3,
        "discarded": ((1, "others used <b>30%</b> of the plant's core"),),
        "seed": 1,
        "figures": {"alone": {"correlation": float("nan")}},
        "checks": checks,
        "columns": ("arm", "p99"),
        "rows": (("alone", "1.0"), ("regulated", "1.2")),
        "notes": ("A sentence that goes on and on. " * 6,),
        "pictures": (picture,),
    }
    return Findings(**(values | changes))  # type: ignore[arg-type]


def test_verdicts_fit_a_hundred_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiments.show(outcome(), tmp_path)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    rows = {line.split("  ")[0].strip(): line for line in out.splitlines()}
    assert rows["correlation"].rstrip().endswith("FAIL")
    assert "not measured" in rows["probe"]
    assert "round 1 left out: others used" in out


UNDECIDED = "1 of 9 rounds in 12 min were undisturbed, fewer than the 2 needed; most often (8): others used 31% of it"


def not_decided(found: Findings) -> tuple[FigureCheck, ...]:
    return tuple(replace(check, why_not_decided=UNDECIDED) for check in found.checks)


def test_what_is_not_decided_is_neither_a_pass_nor_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    undecided = outcome(rounds=1, checks=not_decided(outcome()))
    experiments.show(undecided, tmp_path)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    assert out.count("not decided") == 3
    assert "FAIL" not in out
    assert "Not decided: 1 of 9 rounds" in " ".join(out.split())
    printed = json.loads(registry.encode(undecided))
    assert (printed["verdict"], printed["passed"], printed["why_not_decided"]) == ("not decided", False, UNDECIDED)
    assert {(entry["verdict"], entry["passed"]) for entry in printed["checks"]} == {("not decided", None)}
    page.write(tmp_path / "report.html", undecided, "cotenant node experiment trial")
    text = (tmp_path / "report.html").read_text()
    assert text.count('class="check undecided"') == text.count("<em>not decided</em>") == 3
    assert UNDECIDED in text


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"checks": (FigureCheck("a", 1.0, 1.0),)}, 0),
        ({}, 1),
        ({"checks": (FigureCheck("a", 1.0, 1.0), FigureCheck("b", 1.0, 1.0, why_not_decided=UNDECIDED))}, 3),
        ({"checks": (FigureCheck("a", 2.0, 1.0), FigureCheck("b", 1.0, 1.0, why_not_decided=UNDECIDED))}, 1),
        ({"rounds": 0, "checks": ()}, 3),
    ],
)
def test_the_exit_status_tells_the_three_apart(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, object],
    status: int,
) -> None:
    monkeypatch.setattr(registry, "run", lambda *_: outcome(**changes))
    assert main(["node", "experiment", "loop", "--json", "--out", str(tmp_path), "--limit", "5"]) == status
    assert json.loads(capsys.readouterr().out)["experiment"] == "trial"


@pytest.mark.parametrize("limit", ["0", "-1", "nan", "9999"])
def test_a_limit_out_of_range_is_refused(limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", "experiment", "sine", "--limit", limit]) == 2
    assert "--limit" in only_line(capsys)


def test_the_object_has_no_number_that_json_lacks() -> None:
    printed = json.loads(registry.encode(outcome()), parse_constant=lambda name: pytest.fail(name))
    assert printed["alone"] == {"correlation": None}
    assert (printed["passed"], printed["rounds"], printed["discarded"]) == (False, 3, 1)
    assert [entry["passed"] for entry in printed["checks"]] == [True, False, False]


def test_the_page_says_failures_plainly_and_needs_no_network(tmp_path: Path) -> None:
    page.write(tmp_path / "report.html", outcome(), "cotenant node experiment trial")
    text = (tmp_path / "report.html").read_text()
    assert "<code>cotenant node experiment trial</code>" in text
    assert text.count("does not pass") == 2
    assert "&lt;b&gt;30%" in text  # what comes from outside is escaped
    assert "<script src" not in text


BATCH = KnobTarget("cotenant-test-none/batch", Knob.CPU_MAX)


def left_behind(folder: Path, boot: str) -> None:
    """The state left by a killed keeper: a quota of a group that is gone."""
    reason = Reason("guard", "a service waits")
    lease = KnobLease(BATCH, "-1 100000", "20000 100000", reason, LeaseState.HELD, 0.0, 10**15, before="max 100000")
    file = LeaseFile(folder, boot)
    file.keep([lease], durable=True)
    file.close()


def test_what_a_dead_keeper_left_is_shown_with_what_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left_behind(tmp_path, boot_id())
    with (tmp_path / NAME).open("a") as file:
        file.write("what is this\n{}\n")
    (tmp_path / "leases.bad-1").write_text("")
    where = ("--agent", NOWHERE, "--state-dir", str(tmp_path))
    assert main(["node", "knobs", *where]) == 0
    shown = capsys.readouterr().out
    assert "unreadable: " in shown
    assert "leases.bad-1" in shown
    assert "20000 100000" in shown
    assert "No running keeper holds them" in shown
    assert main(["node", "knobs", *where, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["leases"][0]["target"]["group"] == BATCH.group
    assert printed["faults"]
    assert printed["aside"] == [str(tmp_path / "leases.bad-1")]


def test_what_an_earlier_boot_left_is_not_shown_as_held(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left_behind(tmp_path, "another boot")
    assert main(["node", "knobs", "--agent", NOWHERE, "--state-dir", str(tmp_path)]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == "1 of an earlier boot: their groups no longer exist"
    assert " ".join(rest).endswith(f"no knob is held, according to {tmp_path}")


def test_nothing_is_put_back_beside_a_living_keeper_nor_made_where_there_was_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    none = tmp_path / "none"
    assert main(["node", "knobs", "--restore", "--state-dir", str(none)]) == 2
    assert "--state-dir" in only_line(capsys)
    assert not none.exists()
    none.mkdir()
    assert main(["node", "knobs", "--restore", "--state-dir", str(none)]) == 0
    assert capsys.readouterr().out == "nothing was held\n"
    left_behind(tmp_path, boot_id())
    held = LeaseFile(tmp_path, boot_id())
    try:
        assert main(["node", "knobs", "--restore", "--state-dir", str(tmp_path)]) == 1
        assert f"process {os.getpid()}" in only_line(capsys)
    finally:
        held.close()


def test_status_reads_the_runtime_hooks_state_where_the_agents_settings_have_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text(f"runtime_hook: {{state_file: {tmp_path}/hook.json}}")
    nobody = {"up": False}
    asked = {"up": True, "state": {"runtime_hook_state": "/run/other/nri.json"}}
    earlier: dict[str, object] = {"up": True, "state": {"node": "n"}}
    assert hook_state(None, nobody) == hook_state(None, earlier) == RuntimeHook().state_file
    assert hook_state(None, asked) == Path("/run/other/nri.json")
    assert hook_state(config, asked) == tmp_path / "hook.json"
    file = StateFile(tmp_path / "hook.json")
    file.write(HookState("containerd 2.1.0", acts=False))
    assert main(["node", "status", "--config", str(config), "--agent", f"unix:{tmp_path}/none", "--json"]) == 0
    said = {found["what"]: found["needs"] for found in json.loads(capsys.readouterr().out)["capabilities"]}
    assert said["first values of new containers, by a runtime hook"].endswith("the hook that containerd 2.1.0 has")
    config.write_text("runtime_hook: {state: x}")
    assert main(["node", "status", "--config", str(config)]) == 2
    assert "--config" in capsys.readouterr().err
    file.close()


def test_status_says_who_gives_cpus_whose_word_stands_what_fails_and_why_an_agent_observes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    state = {"node": "n", "mode": "observe", "pods": [], "keeper_up": None, "keeper_said": ""}
    said = {"remark": "mode is observe, not act", "kubelet": "the kubelet's static CPU manager gives CPUs on this node"}
    said["holdings"] = unsealed(None)
    failing = "policy burst fails: KeyError: 'cpu' (burst.py:12)"
    print_agent("here", {"up": True, "state": state | said | {"failing": [failing]}, "holds": []})
    remark, failure, *two, last = capsys.readouterr().out.splitlines()
    assert failure == failing
    assert [remark, *two] == [*said.values()]
    assert last.startswith("agent: n, mode observe")
    print_agent("here", {"up": True, "state": state, "holds": []})  # of an agent of an earlier version
    assert capsys.readouterr().out.startswith("agent: n")
