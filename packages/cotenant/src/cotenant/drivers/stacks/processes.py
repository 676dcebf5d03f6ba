"""Python processes of this host by guid or pod: found by the environment that their container was given.

Works with any runtime, and needs the right to read other users' /proc/PID/environ. A pod is known by HOSTNAME, which
Kubernetes sets to its name; pods of one name in two namespaces are not told apart.
"""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")


def python_processes(name: str, proc: Path = _PROC) -> list[int]:
    """Those with this guid or pod name whose parent is not one of them."""
    wanted = (f"COTENANT_GUID={name}".encode(), f"HOSTNAME={name}".encode())
    parents: dict[int, int] = {}
    for folder in proc.iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            if any(variable in wanted for variable in (folder / "environ").read_bytes().split(b"\0")) and (
                b"python" in (folder / "maps").read_bytes()
            ):
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it ended, or is another user's
    return sorted(pid for pid, parent in parents.items() if parent not in parents)
