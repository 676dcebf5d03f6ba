from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from cotenant.drivers.ebpf.sched_ext import has_sub_schedulers, sub_schedulers
from cotenant.drivers.ebpf.sub_scheduler import PARENT, Parent, check_sub_schedulers, every_cid
from cotenant.model.errors import Transient, Unsupported
from cotenant.model.zones.table import SchedulerState

SOURCE = (Path(__file__).parents[6] / "bpf" / "zone_parent.bpf.c").read_text()


def test_the_mask_of_all_cpus_is_laid_out_as_in_the_source() -> None:
    most = re.search(r"#define MAX_CIDS (\d+)", SOURCE)
    assert most is not None
    words = int(most[1]) // 64 + 1
    assert len(every_cid(1)) == 16 + 8 * words
    for cpus in (1, 2, 63, 64, 65, 1024):
        base, count, length, _, *bits = struct.unpack(f"=IIII{words}Q", every_cid(cpus))
        assert (base, count, length) == (0, cpus, words)
        assert sum(word << (64 * at) for at, word in enumerate(bits)) == (1 << cpus) - 1
    with pytest.raises(Unsupported, match="1024"):
        every_cid(1025)


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("7.3.4+deb13-cloud-amd64", True),
        ("7.3-rc1", True),
        ("8.0.0", True),
        ("7.2.12", False),
        ("6.12", False),
        ("x", False),
    ],
)
def test_sub_schedulers_need_linux_7_3(release: str, expected: bool) -> None:
    assert has_sub_schedulers(release) is expected
    if not expected:
        with pytest.raises(Unsupported, match="Linux 7"):
            check_sub_schedulers(release, (1, 6))


def test_an_old_libbpf_is_refused() -> None:
    check_sub_schedulers("7.3.0", (1, 4))
    with pytest.raises(Unsupported, match=r"libbpf 1.4 or later \(found 1.2\)"):
        check_sub_schedulers("7.3.0", (1, 2))


def test_schedulers_of_cgroups_are_read_from_the_tree(tmp_path: Path) -> None:
    assert sub_schedulers(tmp_path) == {}
    for name, text in (("sub/sub-74", "cotenant_latency"), ("sub/sub-74/sub/sub-80", "other"), ("sub/sub-x", "odd")):
        (tmp_path / "root" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name / "ops").write_text(f"{text}\n")
    assert sub_schedulers(tmp_path) == {74: "cotenant_latency", 80: "other"}


def test_a_parent_that_runs_is_used_and_another_root_scheduler_is_kept(tmp_path: Path) -> None:
    Parent(tmp_path, lambda: SchedulerState("enabled", PARENT, 1)).ensure()
    with pytest.raises(Transient, match="cotenant_latency"):
        Parent(tmp_path, lambda: SchedulerState("enabled", "cotenant_latency", 1)).ensure()


def test_the_parent_ends_with_the_last_zone(tmp_path: Path) -> None:
    pin = tmp_path / "cotenant-parent"
    pin.touch()
    parent = Parent(tmp_path, lambda: SchedulerState("enabled", PARENT, 1))
    parent.release(lambda: {74: "cotenant_latency"})
    assert pin.exists()
    parent.release(dict)
    parent.release(dict)
    assert not pin.exists()
