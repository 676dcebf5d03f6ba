"""Which Events are written of what is said."""

from __future__ import annotations

from cotenant.drivers.kube.kinds.parts import ObjectReference
from cotenant.drivers.kube.record.correlator import COMBINED, DISTINCT, WINDOW_S, EventCorrelator

POD = ObjectReference(kind="Pod", namespace="d", name="p", uid="u")
NOW = 1_767_225_600.0


def notes(capacity: int = 100) -> EventCorrelator:
    return EventCorrelator("cotenant-scheduler", "host-1", capacity)


def say(to: EventCorrelator, message: str = "0/5 nodes", now_s: float = NOW, about: ObjectReference = POD) -> bool:
    return to.record(about, "Warning", "FailedScheduling", message, now_s)


def test_a_new_event() -> None:
    log = notes()
    assert say(log)
    write = log.take()
    assert write is not None
    assert write.is_new
    event = write.event
    assert (event.count, event.type, event.reason, event.message) == (1, "Warning", "FailedScheduling", "0/5 nodes")
    assert event.metadata.namespace == "d"
    assert (event.metadata.name or "").startswith("p.")
    assert event.first_timestamp == event.last_timestamp == "2026-01-01T00:00:00Z"
    assert log.take() is None


def test_what_repeats_before_it_is_written_is_one_event() -> None:
    log = notes()
    for i in range(5):
        say(log, now_s=NOW + i)
    write = log.take()
    assert write is not None
    assert (write.is_new, write.event.count, write.event.last_timestamp) == (True, 5, "2026-01-01T00:00:04Z")
    assert log.repeated == 4


def test_what_repeats_later_raises_the_count() -> None:
    log = notes()
    say(log)
    first = log.take()
    assert first is not None
    say(log)  # while it is being written
    assert log.take() is None
    log.written(first)
    second = log.take()
    assert second is not None
    assert (second.is_new, second.event.count) == (False, 2)
    assert second.event.metadata.name == first.event.metadata.name
    log.vanished(second)
    third = log.take()
    assert third is not None
    assert third.is_new


def test_after_a_while_it_is_a_new_event() -> None:
    log = notes()
    say(log)
    first = log.take()
    assert first is not None
    log.written(first)
    say(log, now_s=NOW + WINDOW_S + 1)
    second = log.take()
    assert second is not None
    assert second.is_new
    assert second.event.metadata.name != first.event.metadata.name


def test_many_different_messages_are_gathered() -> None:
    log = notes()
    for i in range(DISTINCT + 5):
        say(log, f"message {i}")
    assert len(log) == DISTINCT + 1
    events = [write.event for write in iter(log.take, None)]
    assert events[-1].message == f"{COMBINED}message {DISTINCT + 4}"
    assert events[-1].count == 5


def test_a_full_queue_drops_and_counts() -> None:
    log = notes(capacity=3)
    taken = [say(log, about=ObjectReference(kind="Pod", name=f"p{i}", uid=f"u{i}", namespace="d")) for i in range(5)]
    assert taken == [True, True, True, False, False]
    assert log.dropped == 2
    assert say(log, about=ObjectReference(kind="Pod", name="p0", uid="u0", namespace="d"))  # only a count


def test_failures() -> None:
    log = notes()
    say(log)
    write = log.take()
    assert write is not None
    log.failed(write, again=True)
    again = log.take()
    assert again is not None
    assert again.is_new
    log.failed(again, again=False)
    assert log.take() is None
    assert log.dropped == 1


def test_cluster_objects_go_to_the_default_namespace() -> None:
    log = notes()
    say(log, about=ObjectReference(kind="Node", name="n"))
    write = log.take()
    assert write is not None
    assert write.event.metadata.namespace == "default"


def test_long_messages_are_cut() -> None:
    log = notes()
    say(log, "x" * 5000)
    write = log.take()
    assert write is not None
    assert len(write.event.message) == 1024
