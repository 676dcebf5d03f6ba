"""Where a process sends spans of its own: the three options, apart from what sends, so that a wrong one is refused
at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.http.tokens import read_token
from cotenant.drivers.http.trust import TlsTrust
from cotenant.model.errors import InvalidInput
from cotenant.model.urls import split_url

URL, TOKEN, CA = "--otlp-traces", "--otlp-traces-token-file", "--otlp-traces-ca"
EXPORT_PATH = "/v1/traces"


@dataclass(frozen=True, slots=True)
class SpanTarget:
    """Where spans are sent."""

    url: str  # with the path of OTLP/HTTP
    token_file: Path | None = None
    ca: Path | None = None


def span_target(url: str, token_file: Path | None, ca: Path | None) -> SpanTarget | None:
    """What the three options say; None = no spans. Raises `InvalidInput`."""
    if not url:
        for option, path in ((TOKEN, token_file), (CA, ca)):
            if path is not None:
                raise InvalidInput(option, str(path), f"only with {URL}")
        return None
    expected = "http://HOST:PORT or https://HOST:PORT of an OTLP/HTTP receiver"
    parts = split_url(url)
    if parts is None or parts.query or parts.fragment:
        raise InvalidInput(URL, url, expected, "such as http://127.0.0.1:4318, where `cotenant traces` listens")
    if token_file is not None:
        read_token(token_file, TOKEN)
    if ca is not None:
        TlsTrust(ca, CA).context()
    return SpanTarget(url if parts.path.strip("/") else url.rstrip("/") + EXPORT_PATH, token_file, ca)
