"""Extenders of a configuration file: what is taken as written, and each mistake by its path."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from cotenant.model.cluster.extender import USUAL_TIMEOUT_S, Extender, ExtenderTls
from cotenant.model.errors import InvalidInput
from cotenant.services.scheduler_config.extenders import read_extenders
from cotenant.services.scheduler_config.forms import ExtenderForm, ManagedResource, TlsConfig
from cotenant.services.scheduler_config.settings import SettingVerdicts

URL, SECURE = "http://127.0.0.1:8888/ext", "https://ext.example/v1"


def form(url: str = URL, **more: Any) -> ExtenderForm:
    return ExtenderForm(url, **more)


def one(**more: Any) -> Extender:
    (found,), _ = read_extenders((form(**more),), SettingVerdicts())
    return found


def encoded(text: bytes) -> str:
    return b64encode(text).decode()


def test_all_of_it_is_taken_as_written() -> None:
    cards = (ManagedResource("example.com/card", ignored_by_scheduler=True), ManagedResource("example.com/port"))
    written = form(
        filter_verb="f", prioritize_verb="p", preempt_verb="e", bind_verb="b", weight=3, ignorable=True,
        node_cache_capable=True, http_timeout="1.5s", managed_resources=cards,
    )  # fmt: skip
    settings = SettingVerdicts()
    (found,), ignored = read_extenders((written,), settings)
    assert found == Extender(
        url=URL, filter_verb="f", prioritize_verb="p", preempt_verb="e", bind_verb="b", weight=3, is_ignorable=True,
        caches_nodes=True, managed=frozenset({"example.com/card", "example.com/port"}), timeout_s=1.5, tls=None,
    )  # fmt: skip
    assert ignored == {"example.com/card"}
    assert [str(setting) for setting in settings.all()] == ["extenders[0]: honoured"]


def test_what_is_not_written_has_the_usual_value() -> None:
    found = one(filter_verb="f")
    assert found.timeout_s == one(filter_verb="f", http_timeout="0s").timeout_s == USUAL_TIMEOUT_S
    assert (found.is_ignorable, found.caches_nodes, found.managed, found.weight) == (False, False, frozenset(), 0)


def test_one_without_a_cache_of_nodes_is_told_what_it_is_sent() -> None:
    settings = SettingVerdicts()
    read_extenders((form(), form(node_cache_capable=True)), settings)
    said = {setting.path: setting.why for setting in settings.all()}
    assert set(said) == {"extenders[0]", "extenders[0].nodeCacheCapable", "extenders[1]"}
    assert "allocatable" in said["extenders[0].nodeCacheCapable"]


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"url": "ftp://a/b"}, r"extenders\[1\]\.urlPrefix"),
        ({"prioritize_verb": "p"}, r"extenders\[1\]\.weight"),
        ({"prioritize_verb": "p", "weight": -1}, r"extenders\[1\]\.weight"),
        ({"http_timeout": "soon"}, r"extenders\[1\]\.httpTimeout"),
        ({"bind_verb": "b"}, r"extenders\[1\]\.bindVerb"),
        ({"enable_https": True}, r"extenders\[1\]\.urlPrefix"),
        ({"tls_config": TlsConfig()}, r"extenders\[1\]\.urlPrefix"),
        ({"managed_resources": (ManagedResource("card"),)}, r"extenders\[1\]\.managedResources\[0\]\.name"),
        ({"managed_resources": (ManagedResource("kubernetes.io/card"),)}, r"managedResources\[0\]\.name"),
        ({"managed_resources": (ManagedResource("a.kubernetes.io/card"),)}, r"managedResources\[0\]\.name"),
        (
            {"managed_resources": (ManagedResource("x.y/a"), ManagedResource("example.com/card"))},
            r"extenders\[1\]\.managedResources\[1\]\.name",
        ),
    ],
)
def test_each_mistake_is_named_by_its_path(more: dict[str, Any], path: str) -> None:
    first = form(bind_verb="b", managed_resources=(ManagedResource("example.com/card"),))
    with pytest.raises(InvalidInput, match=path):
        read_extenders((first, form(**more)), SettingVerdicts())


def test_a_priority_needs_a_weight_above_0_and_a_filter_none() -> None:
    assert one(prioritize_verb="p", weight=1).weight == 1
    assert one(filter_verb="f", weight=0).weight == 0


@pytest.mark.parametrize(
    ("more", "tls"),
    [
        ({}, ExtenderTls(False, "", b"", b"", b"")),
        ({"enable_https": True}, ExtenderTls(True, "", b"", b"", b"")),
        (
            {"enable_https": True, "tls_config": TlsConfig(ca_data=encoded(b"ca"))},
            ExtenderTls(False, "", b"", b"", b"ca"),
        ),
        ({"tls_config": TlsConfig(insecure=True, server_name="n")}, ExtenderTls(True, "n", b"", b"", b"")),
        (
            {"tls_config": TlsConfig(cert_data=encoded(b"c"), key_data=encoded(b"k"))},
            ExtenderTls(False, "", b"c", b"k", b""),
        ),
    ],
)  # fmt: skip
def test_over_tls_its_certificate_is_checked_unless_it_may_not_be(more: dict[str, Any], tls: ExtenderTls) -> None:
    assert one(url=SECURE, **more).tls == tls


def test_certificates_are_read_from_files_where_they_are_not_written(tmp_path: Path) -> None:
    for name in ("c", "k", "a"):
        (tmp_path / name).write_text(f"file {name}")
    files = {f"{field}_file": str(tmp_path / name) for field, name in (("cert", "c"), ("key", "k"), ("ca", "a"))}
    assert one(url=SECURE, tls_config=TlsConfig(**files)).tls == ExtenderTls(False, "", b"file c", b"file k", b"file a")
    both = TlsConfig(ca_data=encoded(b"written"), ca_file=str(tmp_path / "a"))
    assert one(url=SECURE, tls_config=both).tls == ExtenderTls(False, "", b"", b"", b"written")


@pytest.mark.parametrize(
    ("config", "path"),
    [
        (TlsConfig(cert_data=encoded(b"c")), r"extenders\[0\]\.tlsConfig"),
        (TlsConfig(key_data=encoded(b"k")), r"extenders\[0\]\.tlsConfig"),
        (TlsConfig(ca_data="no base64!"), r"tlsConfig\.caData"),
        (TlsConfig(ca_file="/nowhere/ca"), r"tlsConfig\.caFile"),
    ],
)
def test_half_a_pair_and_what_cannot_be_read_is_refused(config: TlsConfig, path: str) -> None:
    with pytest.raises(InvalidInput, match=path):
        one(url=SECURE, tls_config=config)
