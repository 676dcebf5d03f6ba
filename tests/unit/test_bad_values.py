"""A bad value is one line that names the option, exit status 2, and nothing has started."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.cli.main import main

KUBECONFIG = (
    "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], contexts: [{name: c, context: {cluster: c}}], "
    "current-context: c}"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    (tmp_path / "garbage").write_bytes(b"\xff\xfe: [1,\n")
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    return tmp_path


CASES = [
    "scheduler --quota-revoke-after-s nan",
    "scheduler --quota-revoke-after-s=-1",
    "scheduler --leader-elect-lease-s inf",
    "scheduler --leader-elect-retry-s 0",
    "scheduler --leader-elect-renew-deadline-s 20",
    "scheduler --lease-namespace Bad_NS --kubeconfig DIR/kubeconfig",
    "scheduler --scheduler-name My_Own --kubeconfig DIR/kubeconfig",
    "scheduler --load-aware DIR/garbage --kubeconfig DIR/kubeconfig",
    "scheduler --load-aware DIR/folder --kubeconfig DIR/kubeconfig",
    "scheduler --kubeconfig DIR/missing",
    "scheduler --kubeconfig DIR/folder",
    "scheduler --kubeconfig DIR/garbage",
    "extender --score-max 0",
    "extender --score-max 101",
    "extender --report-token-file DIR/missing",
    "extender --report-token-file DIR/file",
    "agent --config DIR/missing",
    "agent --config DIR/folder",
    "agent --config DIR/garbage",
    "keeper --root a --allow-gid=-4",
    "keeper --root /",
    "keeper --cgroup-root DIR/missing --root a",
    "keeper --state-dir DIR/file --root a",
    "keeper --socket DIR/folder --root a --state-dir DIR/state",
    "node status --groups=-1",
    "node watch --groups=-1",
    "node experiment sine --seed=-1",
    "node experiment sine --period nan",
    "node experiment sine --period inf",
    "demo --out DIR/file",
    "explain pod x --kubeconfig DIR/missing",
    "rebalancer plan --config DIR/missing",
    "rebalancer plan --config DIR/folder",
    "rebalancer plan --scheduler-name Bad_Name",
    "rebalancer plan --profile nothing",
    "rebalancer plan --within-s 0",
    "profile recommend --all --watch 10m --min-hours nan",
    "profile recommend --all --watch 10m --risk-percent 50",
    "profile recommend --all --watch 10m --form xml",
    "profile recommend --all --watch 10m --form yaml --json",
    "profile recommend --all --watch 10m --file DIR/file",
    "receipts approve a --kubeconfig DIR/missing",
    "lab compare --workload founding --seeds 1000000000",
    "lab compare --workload founding --seeds 29-20",
    "lab compare --workload founding --seeds nan",
    "lab compare --workload founding --seeds 1-2-3",
    "up --scheduler-name q --bare --dir DIR/up",
    "up --scheduler-name cotenant --dir DIR/up",
]


@pytest.mark.parametrize("words", CASES)
def test_a_bad_value_is_one_line_that_names_the_option(
    words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    option = next(word for word in reversed(words.split()) if word.startswith("--")).partition("=")[0]
    named = next(word for word in words.split() if word.startswith("--")).partition("=")[0]
    status = main([word.replace("DIR", str(folder)) for word in words.split()])
    printed = capsys.readouterr()
    assert (status, printed.out, printed.err.count("\n")) == (2, "", 1), printed.err
    assert named in printed.err or option in printed.err
    assert printed.err.startswith("cotenant: --")
    assert not (folder / "up").exists()


def test_an_absent_group_and_an_empty_host_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", "explain", "/"]) == 2
    assert "GROUP" in capsys.readouterr().err
    assert main(["up", "--host", "", "--dir", str(folder / "up")]) == 2
    assert "--host" in capsys.readouterr().err


def test_an_api_server_that_is_away_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "pod", "x", "--kubeconfig", str(folder / "kubeconfig")]) == 1
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1
    assert "the API server http://127.0.0.1:1 does not answer" in printed.err
