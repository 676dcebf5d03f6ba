"""Stored values as files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cotenant.drivers.nats.contract import RevisionConflict, StoredValue
from cotenant.drivers.nats.file_store import FileStore
from cotenant.model.errors import Permanent


def test_values_survive_and_writers_see_each_other(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    assert asyncio.run(store.put("group.shop", b'{"a":1}', 0)) == 1
    with pytest.raises(RevisionConflict):
        asyncio.run(store.put("group.shop", b"{}", 0))
    assert asyncio.run(store.put("group.shop", b'{"a":2}', 1)) == 2
    assert asyncio.run(store.put("group.shop", b'{"a":3}')) == 3
    with pytest.raises(Permanent, match="another process uses"):
        FileStore(tmp_path)
    store.close()
    again = FileStore(tmp_path)
    assert again.names() == ["group.shop"]
    assert again.get("group.shop") == StoredValue(b'{"a":3}', 3)
    asyncio.run(again.delete("group.shop"))
    again.close()
    last = FileStore(tmp_path)
    assert last.names() == []
    last.close()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "group.shop.json").write_text("{")
    with pytest.raises(Permanent, match=r"group\.shop\.json is damaged"):
        FileStore(tmp_path)
    (tmp_path / "group.shop.json").unlink()
    FileStore(tmp_path).close()
