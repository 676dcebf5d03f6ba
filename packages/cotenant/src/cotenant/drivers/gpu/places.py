"""The place of a PCI device in the machine, from sysfs.

Limits: locality is that of the host bridge; GPUs under two switches of one bridge count as together. A machine that
reports no NUMA node (-1) has none.

Source: Linux, Documentation/ABI/testing/sysfs-bus-pci.
"""

from __future__ import annotations

from pathlib import Path

PCI_DEVICES = Path("/sys/bus/pci/devices")


def place_of(bus: str, root: Path = PCI_DEVICES) -> tuple[int | None, str | None]:
    """NUMA node and host bridge of a PCI address; None for what is not known."""
    if not bus:
        return None, None
    link = root / bus
    try:
        numa = int((link / "numa_node").read_text())
    except (OSError, ValueError):
        numa = -1
    try:
        bridges = [part for part in link.resolve(strict=True).parts if part.startswith("pci")]
    except OSError:
        bridges = []
    return (numa if numa >= 0 else None), (bridges[-1] if bridges else None)


def short_address(address: str) -> str:
    """A PCI address in the kernel's form: NVML's has a domain of eight digits, in capitals."""
    domain, colon, rest = address.partition(":")
    return f"{domain[-4:]}:{rest}".lower() if colon else address.lower()
