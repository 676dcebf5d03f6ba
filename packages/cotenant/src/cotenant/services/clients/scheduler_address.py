"""Where a scheduler answers by default; apart from its client, whose answers a wrong option does not need."""

from __future__ import annotations

DEFAULT_URL = "http://127.0.0.1:10261"
URL_FILE = "scheduler-url"  # in the directory of `cotenant up`
