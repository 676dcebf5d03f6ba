"""Who leads: never two by the rules, whatever clocks and servers do."""

from __future__ import annotations

import msgspec
import pytest

from cotenant.drivers.kube.kinds.lease import Lease, LeaseSpec
from cotenant.drivers.kube.leaderelection.election import Election, ReadLease, Timing, Wait, WriteLease
from cotenant.model.errors import InvalidInput

TIMING = Timing(15.0, 10.0, 2.0)


class Store:
    """A lease with optimistic concurrency."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.version = 0
        self.down = False

    def write(self, write: WriteLease) -> Lease | None:
        """The lease as stored, None for a conflict."""
        known = self.lease.metadata.resource_version if self.lease is not None else None
        if self.down or write.lease.metadata.resource_version != known:
            return None
        self.version += 1
        meta = msgspec.structs.replace(write.lease.metadata, resource_version=str(self.version))
        self.lease = msgspec.structs.replace(write.lease, metadata=meta)
        return self.lease


def turn(candidate: Election, store: Store, now_s: float, wall_s: float = 1e9) -> None:
    """Let a candidate act until it waits."""
    for _ in range(10):
        match candidate.step(now_s, wall_s):
            case Wait():
                return
            case ReadLease():
                if store.down:
                    candidate.failed(now_s)
                else:
                    candidate.observe(store.lease, now_s)
            case WriteLease() as write:
                stored = store.write(write)
                if stored is None:
                    candidate.failed(now_s)
                else:
                    candidate.wrote(stored, now_s, now_s)
    raise AssertionError("it never waits")


def pair() -> tuple[Store, Election, Election]:
    return Store(), Election("ns", "sched", "a", TIMING), Election("ns", "sched", "b", TIMING)


def test_the_first_one_leads_and_keeps_leading() -> None:
    store, a, b = pair()
    for now_s in range(0, 200, 2):
        turn(a, store, float(now_s))
        turn(b, store, float(now_s))
        assert (a.leading, b.leading) == (True, False)
    assert store.lease is not None
    assert store.lease.spec is not None
    assert store.lease.spec.lease_transitions == 0
    assert b.holder == "a"


def test_a_dead_leaders_lease_runs_out_by_our_own_watch() -> None:
    store, a, b = pair()
    turn(a, store, 0.0, wall_s=9e9)  # its clock is far ahead: what it writes must not matter
    taken_s = None
    for tick in range(60):
        turn(b, store, 100.0 + tick)
        if b.leading:
            taken_s = tick
            break
    assert taken_s is not None
    assert 15 <= taken_s <= 18
    assert store.lease is not None
    assert store.lease.spec is not None
    assert store.lease.spec.lease_transitions == 1


def test_a_leader_that_cannot_renew_stops_before_another_may_start() -> None:
    store, a, b = pair()
    turn(a, store, 0.0)
    turn(b, store, 0.5)
    store.down = True
    ended_s = started_s = None
    for tick in range(1, 400):
        now_s = tick / 10
        if now_s >= 12:
            store.down = False
        turn(a, store, now_s)
        turn(b, store, now_s)
        assert not (a.leading and b.leading)
        ended_s = now_s if ended_s is None and not a.leading else ended_s
        started_s = now_s if started_s is None and b.leading else started_s
    assert ended_s == 10.0
    assert started_s is None or started_s > ended_s


def test_a_leader_that_was_late_leads_on_where_nobody_took_the_lease() -> None:
    store, a, _ = pair()
    turn(a, store, 0.0)
    store.down = True
    for now_s in range(2, 60, 2):
        turn(a, store, float(now_s))
    assert (a.leading, a.in_term) == (False, True)
    assert a.unrenewed_s(60.0) == 60.0
    store.down = False
    turn(a, store, 62.0)
    assert (a.leading, a.in_term) == (True, True)
    assert store.lease is not None
    assert store.lease.spec is not None
    assert store.lease.spec.lease_transitions == 0


@pytest.mark.parametrize("gives_back", [False, True], ids=["holds", "held and released"])
def test_a_leader_that_was_late_ends_its_term_where_another_has_led(gives_back: bool) -> None:
    store, a, b = pair()
    turn(a, store, 0.0)
    for now_s in range(30):
        turn(b, store, float(now_s))
    assert b.leading
    if gives_back:
        write = b.release(1e9)
        assert write is not None
        assert store.write(write) is not None
    a.step(29.0, 0.0)
    assert (a.leading, a.in_term) == (False, True)  # it has not looked yet
    turn(a, store, 29.0)
    turn(a, store, 31.0)
    assert a.in_term is a.leading is gives_back  # a new term
    turn(a, store, 33.0)
    assert a.leading is gives_back


def test_a_leader_whose_lease_was_deleted_ends_its_term() -> None:
    store, a, _ = pair()
    turn(a, store, 0.0)
    store.lease = None
    a.observe(None, 1.0)
    assert (a.leading, a.in_term) == (False, False)


def test_the_deadline_counts_from_when_the_request_began() -> None:
    store, a, _ = pair()
    assert isinstance(a.step(0.0, 0.0), ReadLease)
    a.observe(None, 0.0)
    write = a.step(0.0, 0.0)
    assert isinstance(write, WriteLease)
    stored = store.write(write)
    assert stored is not None
    a.wrote(stored, 0.0, 9.0)
    assert a.leading
    assert a.left_s(9.0) == pytest.approx(1.0)
    slow = Election("ns", "sched", "a", TIMING)
    slow.wrote(stored, 0.0, 10.5)
    assert not slow.leading


def test_two_that_race_get_one_conflict() -> None:
    store, a, b = pair()
    for candidate in (a, b):
        assert isinstance(candidate.step(0.0, 0.0), ReadLease)
        candidate.observe(None, 0.0)
    writes = [candidate.step(0.0, 0.0) for candidate in (a, b)]
    assert all(isinstance(write, WriteLease) and write.creates for write in writes)
    first, second = (store.write(write) for write in writes if isinstance(write, WriteLease))
    assert first is not None
    assert second is None
    a.wrote(first, 0.0, 0.0)
    b.failed(0.0)
    turn(b, store, 2.0)
    assert (a.leading, b.leading) == (True, False)


def test_release_lets_the_next_one_start_at_once() -> None:
    store, a, b = pair()
    turn(a, store, 0.0)
    turn(b, store, 1.0)
    write = a.release(5.0)
    assert write is not None
    assert store.write(write) is not None
    assert not a.leading
    assert store.lease is not None
    assert store.lease.spec is not None
    assert store.lease.spec.holder_identity == ""
    turn(b, store, 3.0)
    assert b.leading
    a.observe(store.lease, 3.0)
    assert b.release(0.0) is not None
    assert a.release(0.0) is None


def test_release_after_a_renewal_that_nobody_awaited() -> None:
    store, a, _ = pair()
    turn(a, store, 0.0)
    lost_answer = a.step(2.0, 1e9)
    assert isinstance(lost_answer, WriteLease)
    assert store.write(lost_answer) is not None
    write = a.release(1e9)
    assert write is not None
    assert store.write(write) is None  # conflict
    a.observe(store.lease, 2.0)
    write = a.release(1e9)
    assert write is not None
    assert store.write(write) is not None


def test_a_forward_jump_does_not_expire_anothers_lease() -> None:
    store, a, b = pair()
    turn(a, store, 0.0)
    turn(b, store, 0.0)
    turn(b, store, 1_000_000.0)
    assert not b.leading
    turn(a, store, 2.0)
    assert a.leading


def test_a_forward_jump_ends_our_own_lead() -> None:
    store, a, _ = pair()
    turn(a, store, 0.0)
    a.step(3600.0, 0.0)
    assert not a.leading
    turn(a, store, 3602.0)
    assert a.leading  # the lease is still in our name: renewed, not taken over
    assert store.lease is not None
    assert store.lease.spec is not None
    assert store.lease.spec.lease_transitions == 0


def test_a_backward_jump_ends_our_own_lead_and_makes_others_wait_afresh() -> None:
    store, a, b = pair()
    turn(a, store, 1000.0)
    for tick in range(14):
        turn(b, store, 1000.0 + tick)
    turn(b, store, 500.0)
    a.step(500.0, 0.0)
    assert not a.leading
    for tick in range(1, 12):
        turn(b, store, 500.0 + tick)
        assert not b.leading


def test_a_leader_that_finds_another_holder_stops() -> None:
    store, a, _ = pair()
    turn(a, store, 0.0)
    assert store.lease is not None
    store.lease = Lease(
        metadata=msgspec.structs.replace(store.lease.metadata, resource_version="99"),
        spec=LeaseSpec(holder_identity="thief", lease_duration_seconds=15),
    )
    turn(a, store, 2.0)  # conflict
    turn(a, store, 4.0)  # looks
    assert not a.leading
    assert a.holder == "thief"


@pytest.mark.parametrize("timing", [(10.0, 15.0, 2.0), (15.0, 10.0, 10.0), (15.0, 10.0, 0.0)])
def test_timing_must_leave_room(timing: tuple[float, float, float]) -> None:
    with pytest.raises(InvalidInput):
        Timing(*timing)
