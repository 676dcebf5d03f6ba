"""Whether a built object is the one that was built with this package.

A kernel scheduler is loaded by a privileged process and orders every task of a machine; a file that was exchanged or
half written must not be loaded. `make bpf` writes the SHA-256 sums of all objects beside them, a wheel ships both, and
an object whose sum differs or is absent is refused.
Limits: whoever may write the objects may write the sums; objects of a checkout that has no sums yet (built by a version
before) are accepted.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from cotenant.drivers.ebpf.libbpf import SOURCES
from cotenant.model.errors import Permanent

SUMS = "SHA256SUMS"


def check_digest(path: Path, sources: Path = SOURCES) -> None:
    """Refuse an object that is not the one of the sums in its folder. Raises `Permanent`; an object that does not
    exist is left to its loader.
    """
    sums = path.parent / SUMS
    if not path.exists() or (not sums.exists() and (sources / "bpf").is_dir()):
        return
    try:
        lines = [line.split() for line in sums.read_text().splitlines()]
        wanted = {line[1].lstrip("*"): line[0] for line in lines if len(line) == 2}.get(path.name)
    except OSError as error:
        raise Permanent(f"{sums}: {error.strerror}: no scheduler is loaded without its digest") from error
    if hashlib.sha256(path.read_bytes()).hexdigest() != wanted:
        raise Permanent(f"{path} is not the object that was built with this package; `make bpf` builds it again")
