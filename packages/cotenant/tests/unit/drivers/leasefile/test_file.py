"""The guarantees of the state file: durable before it returns, readable wherever it was truncated, no silent loss."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from cotenant.drivers.leasefile.file import LOCK, NAME, SPARE_BYTES, LeaseFile, asides, held_by, read_only
from cotenant.drivers.leasefile.lines import Keep, encode
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.model.machine.knob import Knob, KnobLease, KnobTarget, LeaseState
from cotenant.model.machine.node_decision import DecisionTerm, Reason

BOOT = "a boot"


def lease(number: int = 0, state: LeaseState = LeaseState.HELD) -> KnobLease:
    return KnobLease(
        KnobTarget(f'be/odd "name"\n{number}', Knob.CPU_MAX),
        raw_before='{"cpu.max": "max 100000"}',
        value="20000 100000",
        reason=Reason("guard", "slack is −3 %", (DecisionTerm("slack", -30, "‰"),)),
        state=state,
        taken_at_s=1.5,
        expires_at_us=7,
        before="max 100000",
        stands=None if state is LeaseState.INTENDED else "20000 100000",
        identity="4711",
    )


def reopened(folder: Path, boot: str = BOOT) -> LeaseFile:
    file = LeaseFile(folder, boot)
    file.close()
    return file


def test_kept_leases_are_found_and_dropped_ones_are_not(tmp_path: Path) -> None:
    file = LeaseFile(tmp_path, BOOT)
    file.keep([lease(0), lease(1, LeaseState.INTENDED)], durable=True)
    file.keep([replace(lease(0), value="max 100000")], durable=False)
    file.drop([lease(1).target, lease(2).target])
    file.close()
    assert reopened(tmp_path).found.leases == (replace(lease(0), value="max 100000"),)


def test_one_sync_per_batch_and_none_for_progress_lines(tmp_path: Path) -> None:
    file = LeaseFile(tmp_path, BOOT)
    file.keep([lease(number) for number in range(100)], durable=True)
    assert file.syncs == 1
    file.keep([lease(3)], durable=False)
    file.drop([lease(4).target])
    assert file.syncs == 1
    file.close()


@pytest.mark.parametrize("kept", [1, 40, 150])
def test_a_truncated_last_line_is_not_a_fault(tmp_path: Path, kept: int) -> None:
    file = LeaseFile(tmp_path, BOOT)
    file.keep([lease(0)], durable=True)
    whole = (tmp_path / NAME).read_bytes()
    file.keep([lease(1)], durable=True)
    file.close()
    (tmp_path / NAME).write_bytes((tmp_path / NAME).read_bytes()[: len(whole) + kept])
    found = reopened(tmp_path).found
    assert (found.leases, found.torn, found.faults) == ((lease(0),), True, ())
    assert reopened(tmp_path).found.torn is False


def test_an_unreadable_line_is_reported_with_its_field_and_the_file_is_kept(tmp_path: Path) -> None:
    file = LeaseFile(tmp_path, BOOT)
    file.keep([lease(0), lease(1), lease(2)], durable=True)
    file.close()
    lines = (tmp_path / NAME).read_bytes().split(b"\n")
    lines[2] = lines[2].replace(b'"expires_at_us":7', b'"expires_at_us":"soon"')
    (tmp_path / NAME).write_bytes(b"\n".join(lines))
    found = reopened(tmp_path).found
    assert found.leases == (lease(0), lease(2))
    (fault,) = found.faults
    assert f"{NAME}:3: lease.expires_at_us" in fault.field
    assert found.aside == tmp_path / "leases.bad-1"
    assert found.aside.read_bytes() == b"\n".join(lines)
    assert asides(tmp_path) == (found.aside,)
    assert reopened(tmp_path).found.faults == ()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\0" * 300 + b"\n",
        b"not JSON\n",
        b'{"op":"keep"}\n',
        b'{"op":"keep","lease":{"target":{"group":"..","knob":"cpu.max"}}}\n',
        b"\xff\xfe\n",
        b"[" * 5000 + b"\n",
        encode(Keep(lease(9, LeaseState.RESTORED))),
    ],
    ids=["zeros", "words", "no lease", "path", "bytes", "deep", "over"],
)
def test_garbage_loses_no_readable_lease(tmp_path: Path, garbage: bytes) -> None:
    file = LeaseFile(tmp_path, BOOT)
    file.keep([lease(0)], durable=True)
    file.close()
    with (tmp_path / NAME).open("ab") as out:
        out.write(garbage)
    found = reopened(tmp_path).found
    assert found.leases == (lease(0),)
    assert len(found.faults) == 1


def test_an_unreadable_first_line_loses_no_lease(tmp_path: Path) -> None:
    file = LeaseFile(tmp_path, BOOT)
    file.keep([lease(0)], durable=True)
    file.close()
    data = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(b"garbage" + data[7:])
    found = reopened(tmp_path).found
    assert found.leases == (lease(0),)
    assert found.faults


def test_a_file_of_another_version_is_not_modified(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"op":"opened","version":2,"boot":"a boot","more":1}\n')
    with pytest.raises(InvalidInput, match="version: 2: expected 1"):
        LeaseFile(tmp_path, BOOT)
    assert (tmp_path / NAME).read_text().startswith('{"op":"opened","version":2')
    assert held_by(tmp_path) is None


def test_leases_of_an_earlier_boot_are_dropped_and_counted(tmp_path: Path) -> None:
    file = LeaseFile(tmp_path, BOOT)
    file.keep([lease(0), lease(1)], durable=True)
    file.close()
    found = reopened(tmp_path, "the next boot").found
    assert (found.leases, found.earlier_boot) == ((), 2)
    assert reopened(tmp_path, BOOT).found.leases == ()


def test_only_one_process_can_open_the_folder(tmp_path: Path) -> None:
    file = LeaseFile(tmp_path, BOOT)
    assert held_by(tmp_path) == os.getpid()
    with pytest.raises(Permanent, match=f"process {os.getpid()}"):
        LeaseFile(tmp_path, BOOT)
    file.close()
    assert held_by(tmp_path) is None
    reopened(tmp_path)


def test_the_file_does_not_grow_with_ended_leases(tmp_path: Path) -> None:
    file = LeaseFile(tmp_path, BOOT)
    file.keep([lease(0)], durable=True)
    for _ in range(40):
        batch = [lease(number) for number in range(1, 60)]
        file.keep(batch, durable=False)
        file.drop([entry.target for entry in batch])
    assert (tmp_path / NAME).stat().st_size < 800_000
    file.keep([lease(70)], durable=True)
    file.close()
    assert set(reopened(tmp_path).found.leases) == {lease(0), lease(70)}


def test_a_group_name_that_is_not_text_cannot_be_kept(tmp_path: Path) -> None:
    file = LeaseFile(tmp_path, BOOT)
    with pytest.raises(InvalidInput, match="UTF-8"):
        file.keep([replace(lease(0), target=KnobTarget("be/\udcff", Knob.CPU_MAX))], durable=True)
    file.close()


def test_read_only_does_not_take_the_file_over(tmp_path: Path) -> None:
    assert read_only(tmp_path).leases == ()
    file = LeaseFile(tmp_path, BOOT)
    file.keep([lease(0)], durable=True)
    content = read_only(tmp_path)
    assert (content.boot, content.leases) == (BOOT, (lease(0),))
    file.close()


def test_links_in_the_folder_are_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / LOCK).symlink_to(victim)
    with pytest.raises(Transient):
        LeaseFile(folder, BOOT)
    assert victim.read_text() == "precious"


def test_a_folder_that_cannot_be_created_raises(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Transient, match="file"):
        LeaseFile(tmp_path / "file", BOOT)


# Size


def test_a_lease_that_only_changes_does_not_grow_the_file(tmp_path: Path) -> None:
    """Lines of progress were counted, and only where a lease ended."""
    file = LeaseFile(tmp_path, BOOT)
    long = replace(lease(0), detail="x" * 10_000)
    for number in range(200):
        file.keep([replace(long, expires_at_us=number)], durable=False)
        assert (tmp_path / NAME).stat().st_size <= SPARE_BYTES + 4 * 11_000
    file.close()
    assert reopened(tmp_path).found.leases == (replace(long, expires_at_us=199),)


def test_large_live_leases_are_not_rewritten_at_each_change(tmp_path: Path) -> None:
    file = LeaseFile(tmp_path, BOOT)
    file.keep([replace(lease(number), detail="x" * 10_000) for number in range(100)], durable=True)
    inodes = set()
    for number in range(200):
        file.keep([replace(lease(number % 100), detail="y" * 10_000)], durable=False)
        inodes.add((tmp_path / NAME).stat().st_ino)
    assert len(inodes) <= 3
    file.close()
    assert len(reopened(tmp_path).found.leases) == 100


# The folder


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777, 0o720])
def test_a_folder_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(InvalidInput, match="writable by its owner only"):
        LeaseFile(folder, BOOT)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a folder away")
def test_a_folder_or_file_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    reopened(folder)
    os.chown(folder / NAME, 65534, -1)
    with pytest.raises(InvalidInput, match="belongs to user 65534"):
        LeaseFile(folder, BOOT)
    os.chown(folder / NAME, 0, -1)
    os.chown(folder, 65534, -1)
    with pytest.raises(InvalidInput, match="belongs to user 65534"):
        LeaseFile(folder, BOOT)


def test_a_folder_that_others_may_replace_is_refused(tmp_path: Path) -> None:
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(0o777)
    (above / "state").mkdir(mode=0o700)
    with pytest.raises(InvalidInput, match=f"{above}: expected writable by its owner only"):
        LeaseFile(above / "state", BOOT)
    (tmp_path / "link").symlink_to(above / "state")
    with pytest.raises(InvalidInput, match="writable by its owner only"):
        LeaseFile(tmp_path / "link", BOOT)
    above.chmod(0o1777)
    reopened(above / "state")


def test_a_file_that_others_may_write_and_a_link_are_refused(tmp_path: Path) -> None:
    reopened(tmp_path)
    (tmp_path / NAME).chmod(0o666)
    with pytest.raises(InvalidInput, match="writable by its owner only"):
        LeaseFile(tmp_path, BOOT)
    (tmp_path / NAME).rename(tmp_path / "elsewhere")
    (tmp_path / NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Transient):
        LeaseFile(tmp_path, BOOT)
