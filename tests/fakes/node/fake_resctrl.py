"""A resctrl tree in a folder that behaves as the kernel's: groups come with files, masks are checked, tasks move,
classes run out.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from cotenant.drivers.resctrl.schemata import Schemata, parse_schemata
from cotenant.drivers.resctrl.tree import ResctrlTree
from cotenant.model.errors import InvalidInput


class FakeResctrl(ResctrlTree):
    def __init__(
        self, root: Path, ways: int = 11, memory: int | None = 100, closids: int = 4, min_ways: int = 1
    ) -> None:
        super().__init__(str(root))
        self.ways, self.closids, self.min_ways = ways, closids, min_ways
        full = (1 << ways) - 1
        self.full = f"    L3:0={full:x};1={full:x}\n" + ("" if memory is None else f"    MB:0= {memory};1= {memory}\n")
        self._fill(root)
        for name, text in {
            "L3/cbm_mask": f"{full:x}",
            "L3/min_cbm_bits": str(min_ways),
            "L3/num_closids": str(closids),
            "last_cmd_status": "ok",
        }.items():
            path = root / "info" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
        if memory is not None:
            for name, text in {"bandwidth_gran": "10" if memory <= 100 else "1", "min_bandwidth": "10"}.items():
                path = root / "info/MB" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"{text}\n")
        self.alive = set(range(100, 110))
        (root / "tasks").write_text("".join(f"{task}\n" for task in sorted(self.alive)))

    def _fill(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "schemata").write_text(self.full)
        (folder / "tasks").write_text("")
        for domain in ("mon_L3_00", "mon_L3_01"):
            for name in ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"):
                path = folder / "mon_data" / domain / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("0\n")

    def make(self, group: str) -> None:
        if not self.exists(group):
            if len(self.groups()) + 1 >= self.closids:
                self._said("Out of CLOSIDs")
                self._mapped(f"/{group}", self._refuse(errno.ENOSPC))
            self._fill(self.path(group))

    def remove_folder(self, path: Path) -> None:
        if not path.is_dir():
            raise FileNotFoundError
        back = (path / "tasks").read_text()
        shutil.rmtree(path)
        with (self.root / "tasks").open("a") as tasks:
            tasks.write(back)

    def write(self, group: str, name: str, text: str) -> None:
        if name == "tasks":
            self._move(group, int(text))
            return
        if not self.exists(group):
            super().write(group, name, text)  # says that it is gone
        stands = parse_schemata(self.read(group, "schemata"))
        try:
            after = stands.with_changes(parse_schemata(text))
        except InvalidInput:
            after = None
        if after is None or not self._takes(after):
            self._said("Mask invalid")
            self._mapped(f"/{group}/{name}", self._refuse(errno.EINVAL), text)
        self._said("ok")
        (self.path(group) / name).write_text("".join(f"    {line}\n" for line in str(after).splitlines()))

    def _takes(self, schemata: Schemata) -> bool:
        line = schemata.line("L3")
        for _, mask in line.domains if line is not None else ():
            lowest = mask & -mask
            contiguous = mask and (mask // lowest) & (mask // lowest + 1) == 0
            if not contiguous or mask >= 1 << self.ways or mask.bit_count() < self.min_ways:
                return False
        return True

    def _move(self, group: str, task: int) -> None:
        if task not in self.alive:
            self._mapped(f"/{group}/tasks", self._refuse(errno.ESRCH), str(task))
        for name in ("", *self.groups()):
            path = self.path(name) / "tasks"
            kept = [line for line in path.read_text().split() if int(line) != task]
            path.write_text("".join(f"{line}\n" for line in (*kept, *([task] if name == group else []))))

    def _said(self, text: str) -> None:
        (self.root / "info/last_cmd_status").write_text(f"{text}\n")

    @staticmethod
    def _refuse(number: int):  # type: ignore[no-untyped-def]
        def act() -> None:
            raise OSError(number, os.strerror(number))

        return act
