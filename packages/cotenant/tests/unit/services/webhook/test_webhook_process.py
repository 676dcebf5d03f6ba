"""Names in a webhook's certificate, and the files of an authority that was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.drivers.http.address import Address
from cotenant.model.errors import InvalidInput
from cotenant.services.webhook.webhook_arguments import WebhookSettings
from cotenant.services.webhook.webhook_process import _end_s, _hosts, _text

ALWAYS = ("hook", "hook.ns", "hook.ns.svc", "hook.ns.svc.cluster.local", "localhost", "127.0.0.1")


@pytest.mark.parametrize(
    ("url", "host", "more"),
    [
        ("", "0.0.0.0", ()),
        ("", "::", ()),
        ("", "", ()),
        ("", "127.0.0.1", ()),
        ("", "10.0.0.1", ("10.0.0.1",)),
        ("", "2001:db8:0:0::1", ("2001:db8::1",)),
        ("https://hooks.example:8443/a", "0.0.0.0", ("hooks.example",)),
        ("https://[2001:DB8::1]:8443", "2001:db8::1", ("2001:db8::1",)),
        ("https://localhost:1", "", ()),
    ],
)
def test_a_certificate_has_every_name_by_which_an_api_server_reaches_it_once(
    url: str, host: str, more: tuple[str, ...]
) -> None:
    assert _hosts(WebhookSettings(service="hook", url=url), "ns", Address(host, 1)) == (*ALWAYS, *more)


def test_an_authority_is_read_as_text_or_refused(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("PEM")
    (tmp_path / "binary").write_bytes(b"\xff")
    assert _text(None) == ""
    assert _text(tmp_path / "ca") == "PEM"
    for name in ("binary", "none"):
        with pytest.raises(InvalidInput, match="--ca-file"):
            _text(tmp_path / name)
        assert _end_s(tmp_path / name) == 0.0
