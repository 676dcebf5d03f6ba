"""The days on which something is due: a third of a certificate's time before its end, and the overlap of signers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cotenant.drivers.http.certificates import validity
from cotenant.services.certificates.material import AUTHORITY_DAYS, OVERLAP, SERVER_DAYS, advance

HOSTS = ("cotenant-webhook.kube-system.svc",)
START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def third_before(certificate: str) -> datetime:
    held = validity(certificate)
    return held.end - (held.end - held.start) / 3


def test_a_server_certificate_is_renewed_when_a_third_of_its_time_is_left() -> None:
    first = advance(None, HOSTS, START)
    due = third_before(first.server.certificate)
    assert START + timedelta(days=SERVER_DAYS / 2) < due < START + timedelta(days=SERVER_DAYS * 3 / 4)
    assert advance(first, HOSTS, due) == first
    renewed = advance(first, HOSTS, due + MINUTE)
    assert renewed.server != first.server
    assert (renewed.signer, renewed.successor, renewed.retired) == (first.signer, None, ())
    assert advance(renewed, HOSTS, due + MINUTE) == renewed


def test_a_signer_is_followed_after_its_successor_was_trusted_for_the_overlap_and_dropped_at_its_end() -> None:
    first = advance(None, HOSTS, START)
    due = third_before(first.signer.certificate) + MINUTE
    assert due > START + timedelta(days=AUTHORITY_DAYS / 2)
    before = advance(first, HOSTS, due - 2 * MINUTE)
    assert (before.signer, before.successor) == (first.signer, None)
    named = advance(before, HOSTS, due)
    assert named.signer == first.signer
    assert named.successor is not None
    assert named.successor.certificate in named.bundle
    assert advance(named, HOSTS, due + OVERLAP - MINUTE) == named
    after = advance(named, HOSTS, due + OVERLAP)
    assert (after.signer, after.successor, after.retired) == (named.successor, None, (first.signer.certificate,))
    assert after.server != named.server
    end = validity(first.signer.certificate).end
    assert advance(after, HOSTS, end - MINUTE).retired == after.retired
    assert advance(after, HOSTS, end).retired == ()


def test_a_signer_that_has_ended_is_followed_at_once() -> None:
    first = advance(None, HOSTS, START)
    late = advance(first, HOSTS, validity(first.signer.certificate).end)
    assert late.signer != first.signer
    assert validity(late.server.certificate).end > validity(first.signer.certificate).end
