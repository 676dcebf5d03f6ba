"""The nodes of one request, as rows.

Each call names hundreds of nodes, mostly the same ones in the same order as the call before it (prioritize repeats what
filter let through), and mapping names to rows is the most expensive part of an answer. The last lists are cached by
their bytes; a list that came once costs a comparison the next time. Duplicate names are kept once. In full-node mode a
node is read again only when its resourceVersion changed, and its own bytes are kept for the answer.
Limits: a few lists are cached; rows are looked up again whenever the mirror renumbers nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import msgspec
import numpy as np

from cotenant.drivers.kube.kinds.node import NodeObject, read_node
from cotenant.model.arrays import Int
from cotenant.model.cluster.node import HoldsNoPod
from cotenant.model.errors import InvalidInput
from cotenant.services.extender.mirror import UNKNOWN, Mirror
from cotenant.services.extender.wire import NodeList

_CACHED = 4
_KEPT_TEXTS = 100_000  # beginnings of scores, by node name

_names = msgspec.json.Decoder(list[str])
_nodes = msgspec.json.Decoder(NodeList)
_node = msgspec.json.Decoder(NodeObject)
_encode = msgspec.json.Encoder().encode


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    resource_version: str = ""


class _Identity(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


_identity = msgspec.json.Decoder(_Identity)


class RequestNodes:
    """Distinct names in the order they came, with their rows; `items` are the encoded nodes in full-node mode."""

    __slots__ = ("generation", "items", "names", "raw", "rows", "starts")

    def __init__(self, names: Sequence[str], raw: bytes, items: Sequence[msgspec.Raw] | None = None) -> None:
        self.names = names
        self.raw = raw  # the encoded list of names; empty where it has duplicates or in full-node mode
        self.items = items
        self.rows: Int = np.empty(0, dtype=np.int64)
        self.generation = -1
        self.starts: list[bytes] | None = None


class NodeListReader:
    """Reads the nodes of requests."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._last: list[RequestNodes] = []
        self._versions: dict[str, str] = {}  # resourceVersion last read of each node
        self._starts: dict[str, bytes] = {}

    def by_name(self, raw: bytes) -> RequestNodes:
        """The nodes of an encoded list of names. Raises `InvalidInput`."""
        for given in self._last:
            if given.raw == raw:
                return self._with_rows(given)
        try:
            names = _names.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput("NodeNames", "(not shown)", "a list of names", str(error)) from None
        if len(set(names)) < len(names):
            return self._with_rows(RequestNodes(list(dict.fromkeys(names)), b""))
        given = RequestNodes(names, raw)
        self._cache(given)
        return self._with_rows(given)

    def subset(self, given: RequestNodes, places: Int) -> RequestNodes:
        """The nodes at some places of a list by name, cached because the next call will have exactly these."""
        names = [given.names[i] for i in places.tolist()]
        part = RequestNodes(names, _encode(names))
        part.rows, part.generation = given.rows[places], given.generation
        self._cache(part)
        return part

    def by_object(self, raw: bytes) -> RequestNodes:
        """The nodes of an encoded NodeList; those that are new are added to the mirror. Raises `InvalidInput`."""
        try:
            items = _nodes.decode(raw).items or []
            identities = [_identity.decode(item).metadata for item in items]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput("Nodes", "(not shown)", "a v1 NodeList", str(error)) from None
        if not all(identity.name for identity in identities):
            raise InvalidInput("Nodes", "(a node)", "nodes with names")
        self._mirror.forget_unused(len(items))
        if len(self._versions) + len(items) > 2 * len(self._mirror.rows) + len(items):
            self._versions.clear()
        distinct: dict[str, msgspec.Raw] = {}
        rows = self._mirror.rows
        for identity, item in zip(identities, items, strict=True):
            name = identity.name
            distinct.setdefault(name, item)
            if name in rows and identity.resource_version and self._versions.get(name) == identity.resource_version:
                continue
            self._learn(name, item)
            self._versions[name] = identity.resource_version
        return self._with_rows(RequestNodes(list(distinct), b"", list(distinct.values())))

    def starts(self, given: RequestNodes) -> list[bytes]:
        """`{"Host":"NAME","Score":` for each name."""
        if given.starts is not None:
            return given.starts
        known = self._starts
        if len(known) > _KEPT_TEXTS:
            known.clear()
        try:
            starts = list(map(known.__getitem__, given.names))
        except KeyError:
            starts = [known.get(name) or self._start(name) for name in given.names]
        given.starts = starts
        return starts

    def _start(self, name: str) -> bytes:
        text = self._starts[name] = b'{"Host":' + _encode(name) + b',"Score":'
        return text

    def _learn(self, name: str, item: msgspec.Raw) -> None:
        try:
            self._mirror.node_in_request(read_node(_node.decode(item)))
        except HoldsNoPod as error:
            if self._mirror.knows(name) is not True:
                self._mirror.node_unusable(name, str(error))
        except (InvalidInput, msgspec.DecodeError):
            pass  # a node whose size cannot be read counts as unknown

    def _with_rows(self, given: RequestNodes) -> RequestNodes:
        mirror = self._mirror
        if given.generation != mirror.generation:
            rows = map(mirror.rows.get, given.names, repeat(UNKNOWN))
            given.rows = np.fromiter(rows, dtype=np.int64, count=len(given.names))
            given.generation = mirror.generation
        return given

    def _cache(self, given: RequestNodes) -> None:
        self._last.insert(0, given)
        del self._last[_CACHED:]
