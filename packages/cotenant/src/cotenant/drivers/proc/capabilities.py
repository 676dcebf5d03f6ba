"""Which capabilities this process has.

Limits: the effective ones of the calling thread's process; what a capability is good for is not known here.

Source: proc(5), /proc/PID/status; capabilities(7) for the numbers.
"""

from __future__ import annotations

from pathlib import Path

STATUS = Path("/proc/self/status")
_NUMBERS = {"CAP_SYS_RESOURCE": 24}


def lacking(status: Path = STATUS) -> tuple[str, ...]:
    """The known capabilities that are not effective; all of them where the file cannot be read."""
    try:
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        lines = []
    mask = next((line.split()[1] for line in lines if line.startswith("CapEff:")), "0")
    return tuple(name for name, number in _NUMBERS.items() if not int(mask, 16) >> number & 1)
