"""The shape of a kind as a tree of nodes.

Decoding, pruning, strategic merge and server-side apply need the same facts about a field: whether it exists, what
values it may have, and how its lists and maps merge. One slotted node per type, shared where the API shares a type
(recursive types are cycles), compiled once from whichever schema language describes the kind.
Limits: a node has no value rules (enums, ranges): validation is elsewhere.
Source: the `x-kubernetes-*` extensions of the Kubernetes OpenAPI (list-type, list-map-keys, map-type, patch-strategy,
patch-merge-key).
"""

from __future__ import annotations

STRING = 0
INTEGER = 1
NUMBER = 2
BOOLEAN = 3
QUANTITY = 4
INT_OR_STRING = 5
TIME = 6
MICRO_TIME = 7
BYTES = 8
STRUCT = 9
MAP = 10
LIST = 11
ANY = 12  # any JSON value

ATOMIC = "atomic"
SET = "set"
ASSOCIATIVE = "map"

INT32 = (-(2**31), 2**31 - 1)
INT64 = (-(2**63), 2**63 - 1)

_PLAIN: dict[int, type] = {STRING: str, INTEGER: int, BOOLEAN: bool}


class SchemaNode:
    """One type. `fields` is for structs, `item` for lists (elements) and maps (values); the rest describes how
    values merge.
    """

    __slots__ = (
        "atomic",
        "defaults",
        "fields",
        "go_type",
        "high",
        "item",
        "keeps_empty",
        "keys",
        "kind",
        "list_type",
        "low",
        "merge_key",
        "merges",
        "name",
        "plain",
        "preserves",
        "required",
    )

    def __init__(self, kind: int, name: str = "") -> None:
        self.kind = kind
        self.name = name  # of the Go type, for a struct
        self.go_type = ""  # the expected type in messages of Kubernetes' decoder
        self.plain: type | None = _PLAIN.get(kind)  # the Python type that needs no further check
        self.fields: dict[str, SchemaNode] = {}
        self.required: frozenset[str] = frozenset()
        self.item: SchemaNode = self
        self.list_type = ATOMIC
        self.keys: tuple[str, ...] = ()  # of an associative list
        self.defaults: dict[str, str] = {}  # of keys that an element may leave out
        self.atomic = False  # a map or struct that is owned as a whole
        self.merges = False  # strategic merge: elements (or keys) merge instead of being replaced
        self.merge_key = ""
        self.keeps_empty = False  # an empty value differs from an absent one
        self.preserves = False  # unknown fields are kept (custom resources)
        self.low, self.high = INT64

    def copy(self) -> SchemaNode:
        """A shallow copy that shares fields and items."""
        other = SchemaNode.__new__(SchemaNode)
        for slot in SchemaNode.__slots__:
            setattr(other, slot, getattr(self, slot))
        return other


def untyped(*, atomic: bool) -> SchemaNode:
    """Any JSON value; granular maps and atomic lists unless the whole is `atomic`."""
    node = SchemaNode(ANY)
    node.atomic = atomic
    node.preserves = True
    return node


DEDUCED = untyped(atomic=False)
OPAQUE = untyped(atomic=True)
