"""Asking the keeper about zones: its answers, its two kinds of refusal, and its absence."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.services.zones.client import RefusedInput, ZoneClient


def asked(folder: Path, answer: bytes, ask: Callable[[ZoneClient], Any]) -> tuple[Any, dict[str, Any]]:
    """What the client makes of this answer, and what it sent."""

    async def play() -> tuple[Any, dict[str, Any]]:
        sent: list[bytes] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            sent.append(await reader.readline())
            writer.write(answer)
            writer.close()

        server = await asyncio.start_unix_server(serve, folder / "s")
        try:
            return await asyncio.to_thread(ask, ZoneClient(folder / "s")), json.loads(sent[0])
        finally:
            server.close()

    return asyncio.run(play())


def ok(value: Any) -> bytes:
    return json.dumps({"ok": value}).encode() + b"\n"


@pytest.mark.parametrize(
    ("ask", "value", "found", "sent"),
    [
        (
            lambda client: client.create("text", "n", "agent:1", wait=False),
            {"state": "x"}, {"state": "x"},
            {"do": "create", "text": "text", "name": "n", "agent": "agent:1", "wait": False},
        ),
        (
            lambda client: client.create("text", "n"), {}, {},
            {"do": "create", "text": "text", "name": "n", "agent": None, "wait": True},
        ),
        (
            lambda client: client.switch("z", "fair"), {"a": 1}, {"a": 1},
            {"do": "switch", "zone": "z", "setting": "fair"},
        ),
        (
            lambda client: client.execute("z", "g", ["nproc"]), {"exit": 3}, {"exit": 3},
            {"do": "exec", "zone": "z", "group": "g", "command": ["nproc"]},
        ),
        (lambda client: client.destroy("z"), "ended", "ended", {"do": "destroy", "zone": "z"}),
        (lambda client: client.sources(), {"z": "f"}, {"z": "f"}, {"do": "sources"}),
        (lambda client: client.failures(), {"z": ["f", "why"]}, {"z": ("f", "why")}, {"do": "failures"}),
        (lambda client: client.keeps_back(5), None, None, {"do": "keepsBack", "bytes": 5}),
    ],
)  # fmt: skip
def test_each_question_and_its_answer(ask: Any, value: Any, found: Any, sent: Any, tmp_path: Path) -> None:
    assert asked(tmp_path, ok(value), ask) == (found, sent)


def test_a_refusal_of_input_is_one_of_input_and_another_is_final(tmp_path: Path) -> None:
    said = "zone: 7: expected a name"
    for answer, error in (({"invalid": True, "error": said}, RefusedInput), ({"error": said}, Permanent)):
        with pytest.raises(error, match="zone: 7: expected a name") as caught:
            asked(tmp_path, json.dumps(answer).encode() + b"\n", lambda client: client.sources())
        assert isinstance(caught.value, InvalidInput) is (error is RefusedInput)
        (tmp_path / "s").unlink(missing_ok=True)


def test_refused_input_has_its_parts_also_in_another_process() -> None:
    refused = RefusedInput("zone: 7: expected a name")
    assert (refused.field, refused.value, refused.expected) == ("zone", "7", "a name")
    copied = pickle.loads(pickle.dumps(refused))
    assert type(copied) is InvalidInput
    assert (copied.field, copied.value, copied.expected) == ("zone", "7", "a name")


def test_who_closes_at_once_or_is_not_there_may_answer_later(tmp_path: Path) -> None:
    with pytest.raises(Transient, match="is this user allowed to"):
        asked(tmp_path, b"", lambda client: client.sources())
    with pytest.raises(Transient, match=r"no process runs zones at .*none: No such file"):
        ZoneClient(tmp_path / "none").sources()
