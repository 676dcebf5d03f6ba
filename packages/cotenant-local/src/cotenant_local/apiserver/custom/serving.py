"""Serves custom kinds while their definitions exist.

A definition must be served soon after it was written, after a restart too, and its objects must be deleted before it
is. One task watches the definitions and reconciles each idempotently: names accepted and established in its status, its
versions in the registry, a finalizer that is removed once the objects are deleted. The same class, as admission, warns
of what is not enforced.
Limits: a definition that can no longer be compiled (written by a newer version of this program) is not served.
Source: Kubernetes API reference apiextensions.k8s.io/v1 (conditions NamesAccepted, Established, Terminating; the
clean-up finalizer).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import msgspec

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.contract import DeletionOptions, ListOptions, RequestTarget, Resource, WriteOptions
from cotenant_local.apiserver.custom.definition import unenforced_warnings
from cotenant_local.apiserver.custom.resources import resources_of
from cotenant_local.apiserver.verbs.api import Api
from cotenant_local.apiserver.verbs.context import timestamp

GROUP = "apiextensions.k8s.io"
PLURAL = "customresourcedefinitions"
FINALIZER = "customresourcecleanup.apiextensions.k8s.io"

_SYSTEM_WRITE = WriteOptions(validation="Ignore", manager="apiextensions-apiserver")
_RETRY_S = 0.5  # interval between checks for objects kept by finalizers
_ATTEMPTS = 5


class CustomKinds:
    """Serves the custom kinds of one API. Also an `Admission`, to be added to the API's plugins."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._served: dict[str, tuple[Resource, ...]] = {}  # by definition
        self._specs: dict[str, bytes] = {}  # the spec that the served resources were built from
        self._cleaning_up: dict[str, asyncio.Task[None]] = {}
        self._task: asyncio.Task[None] | None = None
        self.failures: dict[str, str] = {}  # definitions that could not be served, and why

    # -- start and stop
    # -------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Serve the existing definitions, then watch for changes."""
        page = await self._api.list(self._target(), ListOptions())
        for stored in page.items:
            await self._reconcile(msgspec.json.decode(stored.raw))
        self._task = asyncio.create_task(self._watch(page.resource_version))

    async def stop(self) -> None:
        """Stop watching. Served kinds stay served."""
        tasks = [task for task in (self._task, *self._cleaning_up.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, version: int) -> None:
        while True:
            try:
                async for line in self._api.watch(self._target(), ListOptions(resource_version=str(version))):
                    event = msgspec.json.decode(line)
                    obj = event["object"]
                    if event["type"] == "ERROR":
                        raise ApiError(410, "Expired", "too old")
                    version = int(obj["metadata"]["resourceVersion"])
                    if event["type"] == "DELETED":
                        self._withdraw(obj["metadata"]["name"])
                    elif event["type"] != "BOOKMARK":
                        await self._reconcile(obj)
            except ApiError as error:
                if error.code != 410:
                    raise
                page = await self._api.list(self._target(), ListOptions())
                version = page.resource_version
                present = {stored.name for stored in page.items}
                for name in [name for name in self._served if name not in present]:
                    self._withdraw(name)
                for stored in page.items:
                    await self._reconcile(msgspec.json.decode(stored.raw))

    # -- one definition
    # ---------------------------------------------------------------------------------------------------

    async def _reconcile(self, obj: Manifest) -> None:
        """Reconcile one definition; a failure is recorded in `failures` and does not affect the others."""
        name = obj["metadata"]["name"]
        try:
            await self._try_reconcile(name, obj)
        except (ApiError, KeyError, TypeError, ValueError, re.error) as wrong:
            self.failures[name] = str(wrong)
        else:
            self.failures.pop(name, None)

    async def _try_reconcile(self, name: str, obj: Manifest) -> None:
        if obj["metadata"].get("deletionTimestamp"):
            if FINALIZER in obj["metadata"].get("finalizers", ()) and name not in self._cleaning_up:
                self._cleaning_up[name] = asyncio.create_task(self._clean_up(obj))
            return
        problem = self._conflict(obj)
        if not problem:
            self._serve(name, obj)
        if FINALIZER not in obj["metadata"].get("finalizers", ()):
            await self._change(name, "", _with_finalizer)
        now = timestamp(self._api.context.clock())
        await self._change(name, "status", lambda found: _with_status(found, problem, now))

    def _serve(self, name: str, obj: Manifest) -> None:
        raw = msgspec.json.encode(obj["spec"])
        if self._specs.get(name) == raw:
            return
        resources = resources_of(obj)
        registry = self._api.registry
        urls = {(entry.group, entry.version, entry.plural) for entry in resources}
        for old in self._served.get(name, ()):
            if (old.group, old.version, old.plural) not in urls:
                registry.remove(old.group, old.version, old.plural)
        for index, resource in enumerate(resources):
            registry.add(resource, is_hub=index == 0)
        self._served[name] = resources
        self._specs[name] = raw

    def _withdraw(self, name: str) -> None:
        for resource in self._served.pop(name, ()):
            self._api.registry.remove(resource.group, resource.version, resource.plural)
        self._specs.pop(name, None)

    def _conflict(self, obj: Manifest) -> str:
        """Why the names are not accepted: another kind of the group uses them. Empty if they are."""
        spec, name = obj["spec"], obj["metadata"]["name"]
        names = spec["names"]
        own = {(resource.group, resource.version, resource.plural) for resource in self._served.get(name, ())}
        for other in self._api.registry.resources():
            if other.group != spec["group"] or (other.group, other.version, other.plural) in own:
                continue
            if other.is_custom and other.plural == names["plural"]:
                continue  # its own, of a version no longer served
            taken = {other.plural, other.singular, *other.short_names}
            for requested in (names["plural"], names.get("singular", ""), *names.get("shortNames", ())):
                if requested in taken:
                    return f'"{requested}" is already in use'
            if other.kind == names["kind"]:
                return f'"{other.kind}" is already in use'
        return ""

    async def _clean_up(self, obj: Manifest) -> None:
        """Delete the objects, then remove the definition's finalizer."""
        name = obj["metadata"]["name"]
        now = timestamp(self._api.context.clock())
        try:
            await self._change(name, "status", lambda found: _terminating(found, now))
            served = self._served.get(name, ())
            while served:
                target = RequestTarget(served[0])
                page = await self._api.delete_collection(target, ListOptions(), DeletionOptions())
                if not page.items or not (await self._api.list(target, ListOptions(limit=1))).items:
                    break
                await asyncio.sleep(_RETRY_S)
            self._withdraw(name)
            await self._change(name, "", _without_finalizer)
        finally:
            self._cleaning_up.pop(name, None)

    async def _change(self, name: str, subresource: str, change: Callable[[Manifest], bool]) -> None:
        """Read, modify and write a definition, retrying on conflict; does nothing if it is deleted or needs no
        change.
        """
        for _ in range(_ATTEMPTS):
            try:
                obj = msgspec.json.decode(await self._api.get(self._target(name)))
                if not change(obj):
                    return
                await self._api.update(self._target(name, subresource), obj, _SYSTEM_WRITE)
                return
            except ApiError as error:
                if error.code == 404:
                    return
                if error.code != 409:
                    raise

    def _target(self, name: str = "", subresource: str = "") -> RequestTarget:
        return self._api.target(GROUP, PLURAL, "", name, subresource)

    # -- admission
    # --------------------------------------------------------------------------------------------------------

    async def mutate(
        self, operation: str, target: RequestTarget, obj: Manifest | None, old: Manifest | None, options: WriteOptions
    ) -> Manifest | None:
        """Return the object unchanged."""
        return obj

    async def validate(
        self, operation: str, target: RequestTarget, obj: Manifest | None, old: Manifest | None, options: WriteOptions
    ) -> list[str]:
        """Warn of rules in a definition that this server does not enforce."""
        is_definition = target.resource.group == GROUP and target.resource.plural == PLURAL
        if not is_definition or obj is None or target.subresource or options is _SYSTEM_WRITE:
            return []
        return unenforced_warnings(obj)


def _with_finalizer(obj: Manifest) -> bool:
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if FINALIZER in finalizers or obj["metadata"].get("deletionTimestamp"):
        return False
    finalizers.append(FINALIZER)
    return True


def _without_finalizer(obj: Manifest) -> bool:
    finalizers = obj["metadata"].get("finalizers", [])
    if FINALIZER not in finalizers:
        return False
    finalizers.remove(FINALIZER)
    return True


def _with_status(obj: Manifest, problem: str, now: str) -> bool:
    status = obj.setdefault("status", {})
    before = msgspec.json.encode(status, order="sorted")
    if not problem:
        status["acceptedNames"] = obj["spec"]["names"]
    else:
        status.setdefault("acceptedNames", {"plural": "", "kind": ""})
    stored = status.setdefault("storedVersions", [])
    for version in obj["spec"]["versions"]:
        if version.get("storage") and version["name"] not in stored:
            stored.append(version["name"])
    accepted = ("False", "NameConflict", problem) if problem else ("True", "NoConflicts", "no conflicts found")
    _condition(status, "NamesAccepted", *accepted, now)
    if problem:
        _condition(status, "Established", "False", "NotAccepted", "not all names are accepted", now)
    else:
        _condition(status, "Established", "True", "InitialNamesAccepted", "the initial names have been accepted", now)
    return msgspec.json.encode(status, order="sorted") != before


def _terminating(obj: Manifest, now: str) -> bool:
    status = obj.setdefault("status", {})
    before = msgspec.json.encode(status, order="sorted")
    text = "CustomResource deletion is in progress"
    _condition(status, "Terminating", "True", "InstanceDeletionInProgress", text, now)
    return msgspec.json.encode(status, order="sorted") != before


def _condition(status: Manifest, kind: str, value: str, reason: str, message: str, now: str) -> None:
    conditions = status.setdefault("conditions", [])
    new = {"type": kind, "status": value, "reason": reason, "message": message}
    for condition in conditions:
        if condition["type"] == kind:
            if condition.get("status") != value or "lastTransitionTime" not in condition:
                condition["lastTransitionTime"] = now
            condition.update(new)
            return
    conditions.append({"lastTransitionTime": now, **new})
