"""`cotenant node vms`: a table that is readable in a hundred columns, and the same as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cotenant.cli.node.vms import vms
from cotenant.model.errors import InvalidInput
from cotenant.model.vms.host_machine import HostMachine, ThreadTime

IDLE = HostMachine(7, "virt-shop_db", "0f-1", "/kubepods/pod0f-1", "TCG", (7, 8), {0: ThreadTime(0, 0, 0)}, 0, 0)
BUSY = HostMachine(9, "hog", "", "/machine.slice/hog", "", (9,), {}, 0, 0)


def looks(*found: tuple[HostMachine, ...]) -> list[tuple[HostMachine, ...]]:
    return list(reversed(found))


def test_the_dearest_machine_is_first_and_what_is_not_known_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    later = (
        replace(IDLE, vcpus={0: ThreadTime(10, 30, 1)}),
        replace(BUSY, other_us=10**9),
        replace(BUSY, pid=11, name="new"),
    )
    seen = looks((IDLE, BUSY), later)
    assert vms(1.0, False, seen.pop, lambda seconds: None) == 0
    said = capsys.readouterr().out
    rows = said.splitlines()
    assert all(len(row) <= 100 for row in rows)
    assert rows[2].startswith("hog")
    assert rows[3].startswith("virt-shop_db")
    assert "75.0 %" in rows[3]
    assert "pod 0f-1" in said
    assert "1 vCPU, " in said
    assert "debug-threads=on" in said
    assert "new" not in said


def test_as_json_with_the_reason_where_nothing_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    gone = replace(IDLE, accelerator="KVM", threads=(2**22 + 1,))  # of no process
    seen = looks((gone,), (gone,))
    assert vms(1.0, True, seen.pop, lambda seconds: None) == 0
    page = json.loads(capsys.readouterr().out)
    (machine,) = page["machines"]
    assert (machine["name"], machine["stolen"], machine["vcpus"]) == (
        "virt-shop_db",
        0.0,
        [{"number": 0, "cpus": 0.0, "stolen": 0.0}],
    )
    assert machine["kicks_per_notification"] is None
    assert isinstance(page["notCounted"], list)


def test_no_machine_is_one_sentence_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    def sleep(seconds: float) -> None:
        raise AssertionError

    assert vms(5.0, False, lambda: (), sleep) == 0
    assert "no virtual machine" in capsys.readouterr().out


@pytest.mark.parametrize("seconds", [0.0, -1.0, 4000.0, float("nan")])
def test_a_length_out_of_range_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidInput, match="--seconds"):
        vms(seconds, False)
