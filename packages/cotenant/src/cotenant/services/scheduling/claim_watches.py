"""The watches of device claims: claims, classes, slices and taint rules, each in every version that is read.

As with PodGroups, an object may come in several versions: the newest that has it counts, and it is gone with the last.
Claims are kept as they came too, since what is written to them depends on their version, finalizers and consumers. When
classes come to stand for other extended resources, the pods that request these are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Generic, Protocol, TypeVar

from cotenant.drivers.kube.cache.cache import ApiObject
from cotenant.drivers.kube.kinds.claims import schema
from cotenant.drivers.kube.kinds.claims.claim_reading import read_claim, read_class, read_slice, read_taint_rule
from cotenant.drivers.kube.kinds.claims.schema import VERSIONS, ClaimObject
from cotenant.drivers.kube.kinds.pod.claims import extended_requests
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.engine.rules.claims.facts import ClaimFacts
from cotenant.model.claims.claim import ResourceClaim
from cotenant.services.kube_process.watches import ObjectHandler, Watches


class _Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T")
V = TypeVar("V", bound=ApiObject)
N = TypeVar("N", bound=_Named)
ABSENT_S = 60.0  # between two requests for a version that is not served
_TAINT_VERSIONS = ("v1beta2", "v1alpha3")


class NewestVersion(Generic[T]):
    """Objects of one kind that may come in several versions. `versions`: the newest first."""

    def __init__(
        self, versions: tuple[str, ...], seen: Callable[[T, float], None], gone: Callable[[str, float], None]
    ) -> None:
        self._versions, self._seen, self._gone = versions, seen, gone
        self._found: dict[str, dict[str, T]] = {}  # key -> version -> the object

    def seen(self, version: str, key: str, value: T, now_s: float) -> None:
        """An object was created or changed, in one version."""
        versions = self._found.setdefault(key, {})
        versions[version] = value
        if self.version_of(key) == version:
            self._seen(value, now_s)

    def gone(self, version: str, key: str, now_s: float) -> None:
        """An object is gone in one version."""
        versions = self._found.get(key, {})
        if versions.pop(version, None) is None:
            return
        if versions:
            self._seen(versions[self.version_of(key)], now_s)
        else:
            del self._found[key]
            self._gone(key, now_s)

    def version_of(self, key: str) -> str:
        """The newest version that has the object."""
        found = self._found[key]
        return next(version for version in self._versions if version in found)


class StoredClaims:
    """Claims as they came, each in its newest version, for those that write to them."""

    def __init__(self, seen: Callable[[ResourceClaim], None]) -> None:
        self.by_key: dict[str, tuple[str, ClaimObject]] = {}
        self.version = VERSIONS[0]  # in which claims are made
        self._seen = seen
        self.changed: Callable[[], None] = lambda: None

    def put(self, version: str, obj: ClaimObject) -> None:
        """A claim as it is now, by a watch or by the answer to a write."""
        key = f"{obj.metadata.namespace}/{obj.metadata.name}"
        known = self.by_key.get(key)
        if known is not None and _is_older(obj, known[1]):
            return
        self.by_key[key] = version, obj
        self.version = version
        self._seen(read_claim(obj))
        self.changed()

    def drop(self, key: str) -> None:
        """A claim is gone."""
        self.by_key.pop(key, None)
        self.changed()


def _is_older(obj: ClaimObject, known: ClaimObject) -> bool:
    new, old = obj.metadata.resource_version or "", known.metadata.resource_version or ""
    return obj.metadata.uid == known.metadata.uid and new.isdecimal() and old.isdecimal() and int(new) < int(old)


class ClaimWatches:
    """Adds the watches, and keeps what they deliver."""

    def __init__(
        self, facts: ClaimFacts, reader: PodReader, now: Callable[[], float], reread: Callable[[frozenset[str]], None]
    ) -> None:
        """`reread`: reads the pods again that request one of these extended resources."""
        self._facts, self._reader, self._now, self._reread = facts, reader, now, reread
        self.claims = StoredClaims(lambda claim: facts.claim_seen(claim, now()))
        self._claims = NewestVersion[tuple[str, ClaimObject]](VERSIONS, self._claim_seen, self._claim_gone)
        self._classes = NewestVersion(VERSIONS, facts.class_seen, facts.class_gone)
        self._slices = NewestVersion(VERSIONS, facts.slice_seen, facts.slice_gone)
        self._rules = NewestVersion(_TAINT_VERSIONS, facts.rule_seen, facts.rule_gone)

    def watch(self, watches: Watches) -> None:
        """Watch every kind in every version."""
        for version in VERSIONS:
            watches.handle(
                schema.claims(version),
                ObjectHandler(
                    partial(_checked, version),
                    lambda found: self._claims.seen(found[0], _key(found[1]), found, self._now()),
                    partial(self._drop, self._claims, version),
                    partial(self._drop, self._claims, version),
                ),
                optional=True,
                absent_s=ABSENT_S,
            )
            watches.handle(
                schema.device_classes(version),
                self._named(version, read_class, self._classes),
                optional=True,
                absent_s=ABSENT_S,
            )
            watches.handle(
                schema.slices(version), self._named(version, read_slice, self._slices), optional=True, absent_s=ABSENT_S
            )
        for version in _TAINT_VERSIONS:
            watches.handle(
                schema.taint_rules(version),
                self._named(version, read_taint_rule, self._rules),
                optional=True,
                absent_s=ABSENT_S,
            )

    def _named(self, version: str, read: Callable[[V], N], kept: NewestVersion[N]) -> ObjectHandler[V, N]:
        def seen(value: N) -> None:
            kept.seen(version, value.name, value, self._now())
            self._classes_changed()

        def gone(key: str) -> None:
            kept.gone(version, key, self._now())
            self._classes_changed()

        return ObjectHandler(read, seen, gone)

    def _drop(self, kept: NewestVersion[T], version: str, key: str) -> None:
        kept.gone(version, key, self._now())

    def _claim_seen(self, found: tuple[str, ClaimObject], now_s: float) -> None:
        self.claims.put(*found)

    def _claim_gone(self, key: str, now_s: float) -> None:
        self.claims.drop(key)
        self._facts.claim_gone(key, now_s)

    def _classes_changed(self) -> None:
        resources = self._facts.extended_resources()
        changed = resources ^ self._reader.extended
        if changed:
            self._reader.extended = resources
            self._reread(changed)


def requesting(pods: Iterable[PodObject], resources: frozenset[str]) -> list[PodObject]:
    """The pods without a node that request one of these resources."""
    found = []
    for pod in pods:
        if pod.spec is None or pod.spec.node_name:
            continue
        requests = extended_requests(pod.spec)
        if any(name in resources for request in requests for name, _ in request.amounts):
            found.append(pod)
    return found


def _checked(version: str, obj: ClaimObject) -> tuple[str, ClaimObject]:
    """Raises `InvalidInput` for a claim that cannot be read."""
    read_claim(obj)
    return version, obj


def _key(obj: ClaimObject) -> str:
    return f"{obj.metadata.namespace}/{obj.metadata.name}"
