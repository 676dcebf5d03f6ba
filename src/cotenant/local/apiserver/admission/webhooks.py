"""Webhooks in the write path: the `Admission` that asks them.

Problem: every write passes here, most with nobody to ask; a webhook that is down, slow or wrong must do to the write exactly what its
failure policy says, and no more. Choice: the configurations are read again only when their tables changed (two integers to compare);
mutating webhooks are asked one after the other, in the order of their configurations' names, validating ones together. A denial refuses
under any policy; so does a patch that does not apply; a call that fails refuses under Fail and is passed over under Ignore. Warnings of
both phases reach the client with the write. Source: Kubernetes, "Dynamic Admission Control". Limits: a webhook with reinvocationPolicy
IfNeeded is asked once more after a later one changed the object; matchPolicy Equivalent is treated as Exact.
"""

from __future__ import annotations

import asyncio
import uuid
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import msgspec

from cotenant.local.apiserver.admission import configuration, review
from cotenant.local.apiserver.admission.calling import Caller
from cotenant.local.apiserver.admission.configuration import GROUP, MUTATING, VALIDATING, Webhook
from cotenant.local.apiserver.admission.review import CallFailed, Verdict
from cotenant.local.apiserver.contract import ApiError, Manifest, Target, WriteOptions
from cotenant.local.apiserver.patching import json_patch
from cotenant.local.apiserver.verbs.api import Api

_encode = msgspec.json.Encoder().encode


class TableFace(Protocol):
    """A table of stored objects."""

    changes: int

    def walk(self, namespace: str = "") -> Iterable[Any]:
        """Its objects, by name."""


Tables = Callable[[tuple[str, str]], TableFace]  # by (group, plural)
Lookup = Callable[[str, str, str, str], Manifest | None]  # group, plural, namespace, name


def _new_uid() -> str:
    return str(uuid.uuid4())


class Webhooks:
    """Asks the registered webhooks about every write."""

    def __init__(self, tables: Tables, lookup: Lookup, new_uid: Callable[[], str] = _new_uid) -> None:
        self._tables = {
            True: tables((GROUP, MUTATING)),
            False: tables((GROUP, VALIDATING)),
        }
        self._lookup = lookup
        self._new_uid = new_uid
        self._read: dict[bool, tuple[int, tuple[Webhook, ...]]] = {}
        self._told: weakref.WeakKeyDictionary[asyncio.Task[Any], list[str]] = weakref.WeakKeyDictionary()
        self._caller = Caller(lambda plural, namespace, name: lookup("", plural, namespace, name))
        self.failures = 0  # calls that failed, whatever their policy made of it

    async def close(self) -> None:
        """Close the connections to the webhooks."""
        await self._caller.close()

    def _webhooks(self, is_mutating: bool) -> tuple[Webhook, ...]:
        table = self._tables[is_mutating]
        known = self._read.get(is_mutating)
        if known is not None and known[0] == table.changes:
            return known[1]
        found: list[Webhook] = []
        for stored in table.walk():
            found.extend(configuration.read(stored.decode(), is_mutating=is_mutating))
        self._read[is_mutating] = (table.changes, tuple(found))
        return tuple(found)

    def _asked(
        self, is_mutating: bool, operation: str, target: Target, obj: Manifest | None, old: Manifest | None
    ) -> list[Webhook]:
        webhooks = self._webhooks(is_mutating)
        if not webhooks or configuration.applies_to_itself(target):
            return []
        wanting = [one for one in webhooks if one.wants(operation, target)]
        if not wanting:
            return []
        labels = self._namespace_labels(target, obj, old)
        return [one for one in wanting if (labels is None or one.namespaces.matches(labels)) and one.selects(obj, old)]

    def _namespace_labels(self, target: Target, obj: Manifest | None, old: Manifest | None) -> dict[str, str] | None:
        """The labels that namespace selectors look at; None for what is in no namespace (always selected)."""
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
        self, operation: str, target: Target, obj: Manifest | None, old: Manifest | None, options: WriteOptions
    ) -> Manifest | None:
        """The object as the mutating webhooks leave it (the same one where none changed it). Raises ApiError."""
        if configuration.applies_to_itself(target) and obj is not None:
            configuration.check(obj, target.resource.kind)
        asked = self._asked(True, operation, target, obj, old)
        if not asked:
            return obj
        changed_at: dict[str, int] = {}
        for turn, webhook in enumerate(asked):
            after = await self._change(webhook, operation, target, obj, old, options)
            if after is not obj:
                changed_at[webhook.name] = turn
                obj = after
        last = max(changed_at.values(), default=-1)
        for turn, webhook in enumerate(asked):
            if webhook.is_reinvoked and turn < last:
                obj = await self._change(webhook, operation, target, obj, old, options)
        return obj

    async def _change(
        self,
        webhook: Webhook,
        operation: str,
        target: Target,
        obj: Manifest | None,
        old: Manifest | None,
        options: WriteOptions,
    ) -> Manifest | None:
        verdict = await self._ask(webhook, operation, target, obj, old, options)
        if verdict is None:
            return obj
        self._warnings().extend(verdict.warnings)
        if not verdict.is_allowed:
            raise review.denied(webhook.name, verdict.status)
        if not verdict.patch:
            return obj
        if obj is None:
            raise ApiError(
                400,
                "BadRequest",
                f'admission webhook "{webhook.name}" attempted to modify the object, which is not supported for this operation',
            )
        try:
            return json_patch(obj, verdict.patch)
        except ApiError as error:  # under any failure policy: the webhook did answer
            raise ApiError(500, "InternalError", f"Internal error occurred: {error.message}") from None

    async def validate(
        self, operation: str, target: Target, obj: Manifest | None, old: Manifest | None, options: WriteOptions
    ) -> list[str]:
        """Ask the validating webhooks together. Returns the warnings of both phases. Raises ApiError."""
        warnings = self._told.pop(_task(), []) if self._told else []
        asked = self._asked(False, operation, target, obj, old)
        if not asked:
            return warnings
        verdicts = await asyncio.gather(
            *(self._ask(webhook, operation, target, obj, old, options) for webhook in asked), return_exceptions=True
        )
        for webhook, verdict in zip(asked, verdicts, strict=True):
            if isinstance(verdict, BaseException):
                raise verdict
            if verdict is None:
                continue
            warnings.extend(verdict.warnings)
            if not verdict.is_allowed:
                raise review.denied(webhook.name, verdict.status)
        return warnings

    def _warnings(self) -> list[str]:
        return self._told.setdefault(_task(), [])

    async def _ask(
        self,
        webhook: Webhook,
        operation: str,
        target: Target,
        obj: Manifest | None,
        old: Manifest | None,
        options: WriteOptions,
    ) -> Verdict | None:
        """Its answer; None where the call failed and the policy is to go on. Raises ApiError where it is not."""
        if options.dry_run and not webhook.is_dry_runnable:
            raise ApiError(
                400,
                "BadRequest",
                f'admission webhook "{webhook.name}" does not support dry run',
                kind=target.resource.kind,
            )
        uid = self._new_uid()
        question = review.request(uid, operation, target, obj, old, options)
        try:
            answer = await self._caller.post(webhook, _encode(question))
            return review.read(answer, uid, is_mutating=webhook.is_mutating)
        except CallFailed as error:
            self.failures += 1
            if not webhook.is_fatal:
                return None
            raise ApiError(
                500, "InternalError", f'Internal error occurred: failed calling webhook "{webhook.name}": {error}'
            ) from None


def _task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None  # writes run in tasks
    return task


def attach(api: Api) -> Webhooks:
    """Have an API server ask its webhooks from now on. Close what is returned before the API."""
    webhooks = Webhooks(api.context.store.table, api.context.lookup)
    api.admission.append(webhooks)
    return webhooks
