"""What is installed, read from files and page by page from a cluster, of which some may not be read."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest

from cotenant.drivers.kube.client.errors import Forbidden, NotFound
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.services.migrate import installed
from cotenant.services.migrate.installed import Installed, from_cluster, from_files, read_objects


class Server:
    """Answers by path: pages, one after the other, or an error; other paths are not installed."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, dict[str, str]]] = []

    async def request(self, method: str, path: str, query: dict[str, str]) -> bytes:
        assert method == "GET"
        self.asked.append((path, query))
        found = self.answers.get(path)
        if found is None:
            raise NotFound(path)
        if isinstance(found, Exception):
            raise found
        return json.dumps(found[int(query.get("continue", "0"))]).encode()


def read(server: Server) -> Installed:
    return asyncio.run(from_cluster(cast(Any, server)))


@pytest.fixture
def paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "_PATHS", {"A": "a", "B": "b", "C": "c"})


@pytest.mark.usefixtures("paths")
def test_every_page_of_every_kind_is_read_with_what_lists_leave_out() -> None:
    first = {"apiVersion": "x/v1", "items": [{"n": 1}, {"n": 2}], "metadata": {"continue": "1"}}
    last = {"apiVersion": "x/v1", "items": [{"n": 3, "kind": "Own"}], "metadata": {}}
    server = Server(a=[first, last], c=[{"items": None}])
    found = read(server)
    assert found.objects == (
        {"apiVersion": "x/v1", "kind": "A", "n": 1},
        {"apiVersion": "x/v1", "kind": "A", "n": 2},
        {"apiVersion": "x/v1", "kind": "Own", "n": 3},
    )
    assert found.unread == ()
    limit = str(installed.PAGE)
    assert server.asked == [
        ("a", {"limit": limit}),
        ("a", {"limit": limit, "continue": "1"}),
        ("b", {"limit": limit}),
        ("c", {"limit": limit}),
    ]


@pytest.mark.usefixtures("paths")
def test_what_may_not_be_read_is_named_and_only_nothing_at_all_is_an_error() -> None:
    refused = Forbidden("403")
    found = read(Server(a=refused, b=[{"items": [{"n": 1}]}], c=refused))
    assert (len(found.objects), found.unread) == (1, ("A: 403", "C: 403"))
    assert read(Server(a=refused, b=refused)).unread == ("A: 403", "B: 403")
    with pytest.raises(Permanent, match="nothing could be read: A: 403"):
        read(Server(a=refused, b=refused, c=refused))
    assert read(Server()) == Installed(())


def test_a_file_has_objects_and_lists_of_them(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "---\n---\napiVersion: v1\nkind: A\n---\napiVersion: v1\nkind: AList\nitems: [{apiVersion: v1, kind: B}]\n"
        "---\napiVersion: v1\nkind: Basket\nitems: [1]\n"
    )
    (tmp_path / "b.json").write_text('{"apiVersion": "v1", "kind": "C"}')
    found = from_files((tmp_path / "a.yaml", tmp_path / "b.json"))
    assert [one["kind"] for one in found.objects] == ["A", "B", "Basket", "C"]
    with pytest.raises(InvalidInput, match=r"--file: .*gone: expected a file that can be read"):
        from_files((tmp_path / "gone",))


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (b"- 1", "f: document 1: list"),
        (b"---\nkind: A", "f: document 1: apiVersion: None"),
        (b"apiVersion: v1\n---\nx: 1", "f: document 1: kind: None"),
        (b"apiVersion: v1\nkind: A\n---\napiVersion: ''\nkind: A", "f: document 2: apiVersion: ''"),
        (b"apiVersion: v1\nkind: [A]", "f: document 1: kind: "),
        (b"kind: List\nitems: [{apiVersion: v1, kind: A}, 5]", r"f: document 1: items\[1\]: int"),
        (b"{", "f: its text: expected YAML or JSON"),
    ],
)
def test_what_is_no_object_is_named_by_its_place(text: bytes, where: str) -> None:
    with pytest.raises(InvalidInput, match=where):
        read_objects(text, "f")


def test_a_text_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "MAX_BYTES", 25)
    assert len(read_objects(b"apiVersion: v1\nkind: AAAA\n"[:25], "f")) == 1
    with pytest.raises(InvalidInput, match="26 bytes: expected at most 25 bytes"):
        read_objects(b"apiVersion: v1\nkind: AAAA\n", "f")
