"""Where the trace process answers that a person means without naming it.

`cotenant up` gives its trace process a free port where the usual one is taken. It writes the URL beside the kubeconfig,
and commands take the one beside the kubeconfig in use, else that in the directory of `cotenant up`, else the usual one.
Limits: a file of a cluster that was killed may name what is gone.
"""

from __future__ import annotations

import os
from pathlib import Path

from cotenant.services.clients.traces_address import URL_FILE


def written_url(up: Path) -> str:
    """What a cluster of `cotenant up` wrote; empty where none did. `up`: its default directory."""
    kubeconfigs = filter(None, os.environ.get("KUBECONFIG", "").split(os.pathsep))
    for folder in (*(Path(kubeconfig).parent for kubeconfig in kubeconfigs), up):
        try:
            if url := (folder / URL_FILE).read_text().strip():
                return url
        except (OSError, UnicodeError):
            continue
    return ""
