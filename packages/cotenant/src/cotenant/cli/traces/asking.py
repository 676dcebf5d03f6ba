"""The trace process that a command asks."""

from __future__ import annotations

from pathlib import Path

from cotenant.cli.local_directory import default_directory
from cotenant.services.clients.traces_address import DEFAULT_URL
from cotenant.services.traces.client import TraceClient
from cotenant.services.traces.finding import written_url


def client(url: str, token_file: Path | None, ca: Path | None) -> TraceClient:
    """The one that is named, else the one of the cluster in use, else at the usual port."""
    return TraceClient(url or written_url(default_directory()) or DEFAULT_URL, token_file, ca)
