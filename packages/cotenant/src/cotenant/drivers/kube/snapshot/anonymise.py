"""A copy without the user's names: each is replaced by a word that stands for it throughout the copy.

Someone who may not send names may send amounts. Names refer to one another (a pod's node, a selector's labels, a
budget's namespace), so one text becomes one word wherever it stands, and the same figures follow. Words are made with a
key that is thrown away, so nobody can try names. Images and labels are names too. What is kept is on a list
(vocabulary.py): amounts, times, the words of the Kubernetes API, and label keys of well-known projects.
Limits: the number of objects, their amounts and times, and how they refer to each other stay, which may tell someone
who knows the cluster which it is.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace

import msgspec

from cotenant.drivers.kube.client.errors import UNREADABLE
from cotenant.drivers.kube.kinds.workload.objects import kind_of
from cotenant.drivers.kube.snapshot.declared import PACKAGED
from cotenant.drivers.kube.snapshot.fields import Every, Fields, Json, NamedKeys
from cotenant.drivers.kube.snapshot.kinds import key_of
from cotenant.drivers.kube.snapshot.snapshot import ClusterSnapshot
from cotenant.drivers.kube.snapshot.vocabulary import (
    AMOUNTS,
    DOMAINS,
    DURATION,
    KEYS,
    LABELS,
    NAMES_IN_ANNOTATIONS,
    QUANTITY,
    RESOURCES,
    SEMANTIC_LABELS,
    TIME,
    TIMES,
    WORDS,
)
from cotenant.model.groups.workload_kind import WorkloadKind

_FIRST_WORDS = (
    "amber ash autumn bay bold brass brisk bronze calm cedar clear cloud coral crisp dawn deep dune dusk early elm "
    "even fair fern field flint fresh gold grand green grey hazel high ivory jade keen lake late leaf light lime long "
    "low maple mellow mild mint moss noble north oak ocean olive opal pale pearl pine plain proud quick quiet rapid "
    "red river"
)
_FIRST = _FIRST_WORDS.split()
_SECOND_WORDS = (
    "badger bear beaver bee bison boar bream buzzard carp cat cod cow crane crow deer dove duck eagle eel elk falcon "
    "finch fox frog goat goose gull hare hawk heron horse ibis jay kite lark lion lynx mole moose moth mouse newt "
    "otter owl ox perch pike plover pony quail rat raven ray robin rook salmon seal shrew skate snail stork swan "
    "swift tern"
)
_SECOND = _SECOND_WORDS.split()


class Words:
    """Words for names. `secret` is not kept anywhere."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._words: dict[str, str] = {}
        self._used: set[str] = set()

    def of(self, name: str) -> str:
        """The word for a name: a valid name of objects, labels and nodes. Nothing stays nothing."""
        if not name or name in WORDS:
            return name
        word = self._words.get(name)
        if word is None:
            digest = hmac.digest(self._secret, name.encode("utf-8", "surrogatepass"), hashlib.sha256)
            word = f"{_FIRST[digest[0] % len(_FIRST)]}-{_SECOND[digest[1] % len(_SECOND)]}-{digest[2:6].hex()}"
            size = 6
            while word in self._used:  # two names of one word would become one object
                size += 1
                word = f"{word.rpartition('-')[0]}-{digest[2:size].hex()}"
            self._used.add(word)
            self._words[name] = word
        return word

    def each(self, text: str) -> str:
        """The words for names that slashes or commas separate."""
        for mark in (",", "/"):
            if mark in text:
                return mark.join(map(self.each, text.split(mark)))
        return self.of(text)

    def key(self, key: str) -> str:
        """The key of a label, taint, annotation or resource; those of well-known domains stay."""
        if key in WORDS or RESOURCES.fullmatch(key):
            return key
        domain, slash, _ = key.rpartition("/")
        if slash and (domain in DOMAINS or domain.endswith(".koordinator.sh")):
            return key
        if domain == "node-role.kubernetes.io":
            return f"{domain}/{self.of(key)}"
        return self.each(key)


def anonymised(snapshot: ClusterSnapshot, words: Words) -> ClusterSnapshot:
    """The copy with words for names. Sentences that may have names in them are left out."""
    objects = {}
    own = {kind: _renamed(kind, words) for kind in snapshot.workloads if kind not in PACKAGED}
    keys = {key_of(kind_of(kind)): key_of(kind_of(made)) for kind, made in own.items()}
    for key, lines in snapshot.objects.items():
        fields = snapshot.copied(key).fields
        objects[keys.get(key, key)] = tuple(
            msgspec.json.encode(_replaced(msgspec.json.decode(line), fields, "", words)) for line in lines
        )
    return replace(
        snapshot,
        objects=objects,
        kinds=tuple(
            replace(kind, key=keys.get(kind.key, kind.key), why=kind.reading.value if kind.why else "")
            for kind in snapshot.kinds
        ),
        workloads=tuple(_labelled(own.get(kind, kind), words) for kind in snapshot.workloads),
        source="an anonymised copy",
        is_anonymised=True,
        notes=(),
    )


def _renamed(kind: WorkloadKind, words: Words) -> WorkloadKind:
    """A kind that the package does not declare, as references to its objects name it in the copy."""
    return replace(kind, kind=words.of(kind.kind), api=_version(kind.api, words), plural=words.of(kind.plural))


def _labelled(kind: WorkloadKind, words: Words) -> WorkloadKind:
    """With its labels as pods of the copy have them."""
    name, group, role = (words.key(label) for label in (kind.name_label, kind.group_label, kind.role_label))
    return replace(kind, name_label=name, group_label=group, role_label=role)


def _version(value: str, words: Words) -> str:
    """Group and version of a kind."""
    group, slash, version = value.rpartition("/")
    return f"{words.key(f'{group}/')[:-1]}/{version}" if slash and value not in WORDS else words.of(value)


def _replaced(value: Json, fields: Fields, name: str, words: Words) -> Json:
    """`name` is the field that the value is in."""
    if isinstance(fields, NamedKeys) and isinstance(value, dict):
        made: dict[str, Json] = {}
        for field, inner in fields.fields.items():
            part = value.get(field)
            if part is None:
                continue
            if name == "annotations":
                made[field] = _annotation(part, field, words)
            elif field == "resourceVersion":
                made[field] = "1"
            else:
                made[field] = _replaced(part, inner, field, words)
        return made
    if isinstance(fields, Every) and isinstance(value, dict):
        if name == "annotations":
            return {key: _annotation(part, key, words) for key, part in value.items()}
        return {words.key(key): _member(part, fields.member, name, key, words) for key, part in value.items()}
    if isinstance(fields, Every) and isinstance(value, list):
        return [_replaced(member, fields.member, name, words) for member in value]
    return _leaf(value, name, words)


def _member(value: Json, fields: Fields, name: str, key: str, words: Words) -> Json:
    if not isinstance(value, str):
        return _replaced(value, fields, name, words)
    if name in LABELS:
        is_ours = key in SEMANTIC_LABELS or (".koordinator.sh" in key and QUANTITY.fullmatch(value) is not None)
        return value if is_ours else words.of(value)
    return value if QUANTITY.fullmatch(value) or TIME.fullmatch(value) else words.of(value)


def _leaf(value: Json, name: str, words: Words) -> Json:
    """A text, or a part that has no structs."""
    if isinstance(value, dict):
        return {key: _leaf(part, key, words) for key, part in value.items()}
    if isinstance(value, list):
        return [_leaf(part, name, words) for part in value]
    if not isinstance(value, str):
        return value
    if TIME.fullmatch(value) or (name in AMOUNTS and QUANTITY.fullmatch(value)):
        return value
    if name in TIMES and DURATION.fullmatch(value):
        return value
    if name in KEYS:
        return words.key(value)
    if name == "apiVersion":
        return _version(value, words)
    return words.of(value)


def _annotation(value: Json, key: str, words: Words) -> Json:
    """An annotation: names, an amount, or JSON with both."""
    if not isinstance(value, str):
        return None
    if value.lstrip()[:1] in ("{", "["):
        try:
            return msgspec.json.encode(_inside(msgspec.json.decode(value), "", words)).decode()
        except UNREADABLE:
            return words.of(value)
    is_amount = any(form.fullmatch(value) for form in (QUANTITY, DURATION, TIME))
    return value if is_amount and key not in NAMES_IN_ANNOTATIONS else words.each(value)


def _inside(value: Json, name: str, words: Words) -> Json:
    """JSON in an annotation: its keys are fields or resources (below `containers`, names), its texts amounts, CPU lists
    or names.
    """
    if isinstance(value, dict):
        is_field = name != "containers"
        return {
            key if is_field and key.isascii() and key.isalnum() else words.key(key): _inside(part, key, words)
            for key, part in value.items()
        }
    if isinstance(value, list):
        return [_inside(part, "", words) for part in value]
    if isinstance(value, str):
        is_amount = QUANTITY.fullmatch(value) or all(character in "0123456789,-" for character in value)
        return value if is_amount else words.each(value)
    return value
