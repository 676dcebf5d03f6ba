"""The `Admission` that calls the registered webhooks on every write.

Every write passes here, mostly without a matching webhook; a webhook that is down, slow or wrong must affect the write
exactly as its failure policy says. The configurations are parsed again only when their tables changed (two integers to
compare); mutating webhooks are called in sequence, in the order of their configurations' names, validating ones
concurrently. A denial refuses under any policy; so does a patch that does not apply; a failed call refuses under Fail
and is ignored under Ignore. Warnings of both phases are returned with the write.
Source: Kubernetes, "Dynamic Admission Control".
Limits: a webhook with reinvocationPolicy IfNeeded is called once more after a later one changed the object; matchPolicy
Equivalent is treated as Exact.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import msgspec

from cotenant.drivers.kube.manifests.document import copied
from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.admission import configuration, review
from cotenant_local.apiserver.admission.client import Caller
from cotenant_local.apiserver.admission.conditions import ConditionFailed, all_hold
from cotenant_local.apiserver.admission.configuration import GROUP, MUTATING, VALIDATING, Webhook
from cotenant_local.apiserver.admission.review import CallFailed, ReviewResult
from cotenant_local.apiserver.contract import RequestTarget, WriteOptions
from cotenant_local.apiserver.patching import json_patch
from cotenant_local.apiserver.verbs.api import Api

_encode = msgspec.json.Encoder().encode
_log = logging.getLogger(__name__)


class TableView(Protocol):
    """A table of stored objects."""

    changes: int

    def walk(self, namespace: str = "") -> Iterable[Any]:
        """The objects, in name order."""


Tables = Callable[[tuple[str, str]], TableView]  # by (group, plural)
Lookup = Callable[[str, str, str, str], Manifest | None]  # group, plural, namespace, name


def _new_uid() -> str:
    return str(uuid.uuid4())


class Webhooks:
    """Calls the registered webhooks on every write."""

    def __init__(self, tables: Tables, lookup: Lookup, new_uid: Callable[[], str] = _new_uid) -> None:
        self._tables = {
            True: tables((GROUP, MUTATING)),
            False: tables((GROUP, VALIDATING)),
        }
        self._lookup = lookup
        self._new_uid = new_uid
        self._parsed: dict[bool, tuple[int, tuple[Webhook, ...]]] = {}
        self._pending_warnings: weakref.WeakKeyDictionary[asyncio.Task[Any], list[str]] = weakref.WeakKeyDictionary()
        self._caller = Caller(lambda plural, namespace, name: lookup("", plural, namespace, name))
        self.failures = 0  # failed calls, under any failure policy
        self.ignored: dict[tuple[str, str], int] = {}  # failed calls under Ignore, by (webhook, mutating or validating)
        self._is_failing: set[str] = set()

    async def close(self) -> None:
        """Close the connections to the webhooks."""
        await self._caller.close()

    def _webhooks(self, is_mutating: bool) -> tuple[Webhook, ...]:
        table = self._tables[is_mutating]
        known = self._parsed.get(is_mutating)
        if known is not None and known[0] == table.changes:
            return known[1]
        found: list[Webhook] = []
        for stored in table.walk():
            found.extend(configuration.read(stored.decode(), is_mutating=is_mutating))
        self._parsed[is_mutating] = (table.changes, tuple(found))
        return tuple(found)

    def _matching(
        self, is_mutating: bool, operation: str, target: RequestTarget, obj: Manifest | None, old: Manifest | None
    ) -> list[Webhook]:
        webhooks = self._webhooks(is_mutating)
        if not webhooks or configuration.is_exempt(target):
            return []
        candidates = [one for one in webhooks if one.matches_rules(operation, target)]
        if not candidates:
            return []
        labels = self._namespace_labels(target, obj, old)
        return [
            one for one in candidates if (labels is None or one.namespaces.matches(labels)) and one.selects(obj, old)
        ]

    def _namespace_labels(
        self, target: RequestTarget, obj: Manifest | None, old: Manifest | None
    ) -> dict[str, str] | None:
        """The labels for namespace selectors; None for cluster-scoped objects (always selected)."""
        resource = target.resource
        if resource.group == "" and resource.plural == "namespaces":
            about: Manifest | None = obj or old
        elif not configuration.is_namespaced(target):
            return None
        else:
            about = self._lookup("", "namespaces", "", target.namespace)
        labels = ((about or {}).get("metadata") or {}).get("labels")
        return labels if isinstance(labels, dict) else {}

    async def mutate(
        self, operation: str, target: RequestTarget, obj: Manifest | None, old: Manifest | None, options: WriteOptions
    ) -> Manifest | None:
        """The object after the mutating webhooks (the same one if none changed it). Raises ApiError."""
        if configuration.is_exempt(target) and obj is not None:
            configuration.check(obj, target.resource.kind)
        matching = self._matching(True, operation, target, obj, old)
        if not matching:
            return obj
        changed_at: dict[str, int] = {}
        for position, webhook in enumerate(matching):
            after = await self._mutate_one(webhook, operation, target, obj, old, options)
            if after is not obj:
                changed_at[webhook.name] = position
                obj = after
        last = max(changed_at.values(), default=-1)
        for position, webhook in enumerate(matching):
            if webhook.is_reinvoked and position < last:
                obj = await self._mutate_one(webhook, operation, target, obj, old, options)
        return obj

    async def _mutate_one(
        self,
        webhook: Webhook,
        operation: str,
        target: RequestTarget,
        obj: Manifest | None,
        old: Manifest | None,
        options: WriteOptions,
    ) -> Manifest | None:
        response = await self._call(webhook, operation, target, obj, old, options)
        if response is None:
            return obj
        self._warnings().extend(response.warnings)
        if not response.is_allowed:
            raise review.denied(webhook.name, response.status)
        if not response.patch:
            return obj
        if obj is None:
            raise ApiError(
                400,
                "BadRequest",
                f'admission webhook "{webhook.name}" attempted to modify the object, which is not supported for this '
                "operation",
            )
        try:
            return json_patch(copied(obj), response.patch)  # a copy: what has changed is told by identity
        except ApiError as error:  # under any failure policy: the webhook did respond
            raise ApiError(500, "InternalError", f"Internal error occurred: {error.message}") from None

    async def validate(
        self, operation: str, target: RequestTarget, obj: Manifest | None, old: Manifest | None, options: WriteOptions
    ) -> list[str]:
        """Call the validating webhooks concurrently. Returns the warnings of both phases. Raises ApiError."""
        warnings = self._pending_warnings.pop(_task(), []) if self._pending_warnings else []
        matching = self._matching(False, operation, target, obj, old)
        if not matching:
            return warnings
        responses = await asyncio.gather(
            *(self._call(webhook, operation, target, obj, old, options) for webhook in matching), return_exceptions=True
        )
        for webhook, response in zip(matching, responses, strict=True):
            if isinstance(response, BaseException):
                raise response
            if response is None:
                continue
            warnings.extend(response.warnings)
            if not response.is_allowed:
                raise review.denied(webhook.name, response.status)
        return warnings

    def _warnings(self) -> list[str]:
        return self._pending_warnings.setdefault(_task(), [])

    async def _call(
        self,
        webhook: Webhook,
        operation: str,
        target: RequestTarget,
        obj: Manifest | None,
        old: Manifest | None,
        options: WriteOptions,
    ) -> ReviewResult | None:
        """The webhook's response; None if its conditions do not hold, or the call failed under Ignore. Raises
        ApiError if it failed under Fail.
        """
        uid = self._new_uid()
        request = review.request(uid, operation, target, obj, old, options)
        try:
            if not all_hold(webhook.conditions, request):
                return None
        except ConditionFailed as error:
            if not webhook.is_fatal:
                return None
            text = f'{target.resource.plural} "{request["request"].get("name", "")}" is forbidden: {error}'
            raise ApiError(403, "Forbidden", text, kind=target.resource.kind) from None
        if options.dry_run and not webhook.is_dry_runnable:
            raise ApiError(
                400,
                "BadRequest",
                f'admission webhook "{webhook.name}" does not support dry run',
                kind=target.resource.kind,
            )
        try:
            answer = await self._caller.post(webhook, _encode(request))
            result = review.read(answer, uid, is_mutating=webhook.is_mutating)
            if webhook.name in self._is_failing:
                self._is_failing.discard(webhook.name)
                _log.info("webhook %s answers again", webhook.name)
            return result
        except CallFailed as error:
            self.failures += 1
            if webhook.name not in self._is_failing:
                self._is_failing.add(webhook.name)
                outcome = "writes are refused" if webhook.is_fatal else "writes go on without it (failurePolicy Ignore)"
                _log.warning("webhook %s cannot be called, %s: %s", webhook.name, outcome, error)
            if not webhook.is_fatal:
                key = (webhook.name, "admit" if webhook.is_mutating else "validating")
                self.ignored[key] = self.ignored.get(key, 0) + 1
                return None
            raise ApiError(
                500, "InternalError", f'Internal error occurred: failed calling webhook "{webhook.name}": {error}'
            ) from None


def _task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None  # writes run in tasks
    return task


def attach(api: Api) -> Webhooks:
    """Make an API server call its webhooks from now on. Close the returned object before the API."""
    webhooks = Webhooks(api.context.store.table, api.context.lookup)
    api.admission.append(webhooks)
    return webhooks
