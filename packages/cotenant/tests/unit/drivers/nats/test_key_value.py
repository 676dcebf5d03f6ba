"""What a store on the bus believes of what it hears late."""

from __future__ import annotations

import asyncio
from typing import Any

from cotenant.drivers.nats.key_value import JetStreamStore


class Values:
    """Deletes without a word."""

    async def delete(self, key: str, last: int | None = None) -> None:
        pass


def test_a_value_that_was_deleted_is_not_brought_back_by_what_is_heard_late_of_it() -> None:
    values: Any = Values()
    store = JetStreamStore(values, values, "bucket")
    store._heard("a", b"1", 5, is_deleted=False)
    asyncio.run(store.delete("a"))
    store._heard("a", b"1", 5, is_deleted=False)  # on its way when it was deleted
    assert store.names() == []
    store._heard("a", None, 6, is_deleted=True)
    store._heard("a", b"2", 7, is_deleted=False)  # another's
    found = store.get("a")
    assert found is not None
    assert (found.value, found.revision) == (b"2", 7)
