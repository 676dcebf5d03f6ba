import errno
import os
import select
import socket
from pathlib import Path

import pytest
from tests.fakes.node.cgroup_trees import CgroupTrees
from tests.fakes.node.open_files import descriptors

from cotenant.drivers.psi import triggers
from cotenant.drivers.psi.triggers import HOST, PressureFiles, PressureResource, PressureTrigger, TriggerEvent
from cotenant.model.errors import InvalidInput, Unsupported
from cotenant.model.machine.knob import Vanished


@pytest.mark.parametrize(
    ("stall_us", "window_us"), [(0, 1_000_000), (2_000_000, 1_000_000), (5, 499_999), (5, 10_000_001)]
)
def test_amounts_that_no_kernel_accepts(stall_us: int, window_us: int) -> None:
    with pytest.raises(InvalidInput):
        PressureFiles(None).trigger(HOST, PressureResource.CPU, stall_us, window_us)


def test_v1_alone_has_no_pressure_of_groups(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="cgroup v2 tree"):
        PressureFiles(CgroupTrees(tmp_path, "v1").layout).trigger("pod", PressureResource.CPU, 1, 1_000_000)


def test_a_missing_group_and_one_without_pressure(tmp_path: Path) -> None:
    trees = CgroupTrees(tmp_path, "v2")
    trees.add("pod")
    trees.path("pod", "io.pressure").unlink()
    before = descriptors()
    files = PressureFiles(trees.layout)
    with pytest.raises(Vanished, match="/gone"):
        files.trigger("gone", PressureResource.IO, 1, 1_000_000)
    with pytest.raises(Unsupported, match="CONFIG_PSI"):
        files.trigger("pod", PressureResource.IO, 1, 1_000_000)
    files.close()
    assert descriptors() == before


def test_a_host_without_pressure(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="CONFIG_PSI"):
        PressureFiles(None, str(tmp_path)).trigger(HOST, PressureResource.MEMORY, 1, 1_000_000)


@pytest.mark.parametrize(
    ("refused", "window_us", "granted"),
    [
        (1_000_000, 1_000_000, 2_000_000),
        (3_000_000, 3_000_000, 4_000_000),
        (None, 500_000, 500_000),
        (None, 2_000_000, 2_000_000),
    ],
)
def test_a_refused_window_becomes_the_next_unprivileged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int | None, window_us: int, granted: int
) -> None:
    """The kernel's answer stands in for itself: a plain file refuses no window and cannot be waited for."""
    asked: list[tuple[int, int]] = []

    def ask(pressure: int, full: bool, stall_us: int, window: int) -> None:
        asked.append((stall_us, window))
        if window == refused:
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(triggers, "_arm", ask)
    reader, writer = os.pipe()
    monkeypatch.setattr(PressureFiles, "_open", lambda self, group, resource: os.dup(reader))
    with PressureFiles(None).trigger(HOST, PressureResource.CPU, 50_000, window_us) as trigger:
        assert (trigger.window_us, trigger.stall_us) == (granted, 50_000)
        assert asked[-1] == (50_000, granted)
    os.close(reader)
    os.close(writer)


def test_a_window_that_is_refused_in_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(pressure: int, full: bool, stall_us: int, window: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(triggers, "_arm", ask)
    trees = CgroupTrees(tmp_path, "v2")
    trees.add("pod")
    with pytest.raises(Unsupported, match="CAP_SYS_RESOURCE"):
        PressureFiles(trees.layout).trigger("pod", PressureResource.CPU, 50_000, 1_000_000)


def trigger_on(descriptor: int) -> PressureTrigger:
    return PressureTrigger(os.dup(descriptor), "pod", PressureResource.CPU, 50_000, 1_000_000)


def test_a_group_whose_pressure_file_vanished_is_gone_and_not_stalled() -> None:
    """The kernel answers a poll of a removed group's file with an error or a hang-up, as a pipe does whose other
    end is closed.
    """
    reader, writer = os.pipe()
    with trigger_on(reader) as hung_up:
        os.close(writer)
        assert hung_up.take() is TriggerEvent.GONE
    with socket.socket() as unconnected, trigger_on(unconnected.fileno()) as hung_up:
        assert hung_up.take() is TriggerEvent.GONE
    reader_two, writer_two = os.pipe()
    with trigger_on(writer_two) as failed:
        os.close(reader_two)
        assert failed.take() is TriggerEvent.GONE
    for number in (reader, writer_two):
        os.close(number)


def test_priority_data_is_a_stall() -> None:
    """Priority data is what a pressure trigger gives; a socket gives it for out-of-band data."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sender:
        receiver, _ = server.accept()
        with receiver, trigger_on(receiver.fileno()) as trigger:
            sender.send(b"!", socket.MSG_OOB)
            assert select.select([trigger.fileno()], [], [], 5.0)[0]
            assert trigger.take() is TriggerEvent.STALLED


def test_an_ordinary_event_of_the_file_does_not_fire() -> None:
    reader, writer = os.pipe()
    with trigger_on(reader) as trigger:
        os.write(writer, b"x")
        assert not select.select([trigger.fileno()], [], [], 0.0)[0]
    os.close(reader)
    os.close(writer)
