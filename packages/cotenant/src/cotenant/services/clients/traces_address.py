"""Where a trace process answers by default, and the file in which `cotenant up` says where its own does."""

from __future__ import annotations

DEFAULT_URL = "http://127.0.0.1:4318"
URL_FILE = "traces-url"  # in the directory of `cotenant up`
