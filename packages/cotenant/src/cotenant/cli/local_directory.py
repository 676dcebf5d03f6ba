"""Where `cotenant up` keeps its state: commands that ask the processes of a local cluster find their addresses
there.
"""

from __future__ import annotations

import os
from pathlib import Path


def default_directory() -> Path:
    """`$XDG_STATE_HOME/cotenant/up`, or the same under `~/.local/state`."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "cotenant" / "up"
