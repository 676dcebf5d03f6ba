"""The exit status of `cotenant assess report`: what a file lost is named, and the rest is reported."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from tests.fakes.cluster.assessed import node, pod, replica_set, snapshot

from cotenant.cli.main import main
from cotenant.drivers.kube.snapshot.archive import write_archive


def test_a_copy_that_lost_objects_is_reported_with_status_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, short = tmp_path / "whole.zip", tmp_path / "short.zip"
    write_archive(whole, snapshot([node("a"), pod("p", "a"), pod("q", "a"), replica_set(2)]))
    assert main(["assess", "report", str(whole), "--quiet"]) == 0
    assert "not read" not in capsys.readouterr().out
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(short, "w") as new:
        for name in old.namelist():
            text = old.read(name)
            new.writestr(name, text.splitlines()[0] + b"\n" if name == "objects/v1_pods.jsonl" else text)
    page = tmp_path / "page.html"
    assert main(["assess", "report", str(short), "--quiet", "--html", str(page)]) == 3
    assert "not read: pods: 1 object is missing from the file" in capsys.readouterr().out
    assert "pods: 1 object is missing from the file" in page.read_text()


def test_a_file_of_kubectl_with_entries_that_are_none_is_reported_with_status_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nodes.json"
    path.write_text(
        '{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"status":'
        '{"allocatable":{"cpu":"2","memory":"4Gi","pods":"9"}}},{"apiVersion":"v1","kind":"PodList","items":[null]}]}'
    )
    assert main(["assess", "report", str(path), "--quiet"]) == 3
    assert "not read: pods: 1 entry was no object with a name" in capsys.readouterr().out
