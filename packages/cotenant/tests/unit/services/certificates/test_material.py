"""Certificates over a year: at every step the bundle covers what replicas serve."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest

from cotenant.drivers.http.certificates import Pair, validity
from cotenant.services.certificates.material import Material, advance, read_material

HOSTS = ("cotenant-webhook.kube-system.svc", "127.0.0.1")
START = datetime(2026, 1, 1, tzinfo=UTC)


def is_covered(material: Material, certificate: str) -> bool:
    """Whether the bundle has the authority that signed a certificate."""
    from cryptography import x509

    made = x509.load_pem_x509_certificate(certificate.encode())
    for authority in x509.load_pem_x509_certificates(material.bundle.encode()):
        try:
            made.verify_directly_issued_by(authority)
        except Exception:
            continue
        return True
    return False


def test_the_first_step_makes_a_pair_that_the_bundle_covers() -> None:
    made = advance(None, HOSTS, START)
    assert set(validity(made.server.certificate).hosts) == set(HOSTS)
    assert is_covered(made, made.server.certificate)
    ssl.create_default_context(cadata=made.bundle)
    assert advance(made, HOSTS, START + timedelta(days=1)) == made
    assert read_material(made.values()) == made


@pytest.mark.slow
def test_every_bundle_covers_the_certificates_of_its_time_and_the_one_before() -> None:
    kept, now = advance(None, HOSTS, START), START
    served = kept.server.certificate
    signers = {kept.signer.certificate}
    for _ in range(3 * 365):
        now += timedelta(days=1)
        for pause in (timedelta(0), timedelta(minutes=11)):
            moved = advance(kept, HOSTS, now + pause)
            assert is_covered(moved, served)  # replicas still serve it when the new bundle is injected
            assert is_covered(
                kept, moved.server.certificate
            )  # and the new one is covered before its bundle is injected
            assert validity(moved.server.certificate).end > now
            kept, served = moved, moved.server.certificate
            signers.add(kept.signer.certificate)
    assert len(signers) >= 4
    assert len(kept.retired) <= 2


def test_another_name_gives_another_certificate_of_the_same_authority() -> None:
    made = advance(None, HOSTS, START)
    moved = advance(made, (*HOSTS, "new.example"), START)
    assert moved.server != made.server
    assert moved.signer == made.signer


@pytest.mark.parametrize("broken", ["x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_what_cannot_be_read_is_made_anew(broken: str) -> None:
    made = advance(None, HOSTS, START)
    moved = advance(Material(made.server, Pair(broken, made.signer.key)), HOSTS, START)
    assert is_covered(moved, moved.server.certificate)


def test_an_incomplete_secret_counts_as_none() -> None:
    values = advance(None, HOSTS, START).values()
    assert read_material({}) is None
    assert read_material(values | {"tls.key": ""}) is None
