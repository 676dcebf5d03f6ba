"""The API server's verbs, in process: called by the HTTP layer, the controllers and the simulated nodes.

Every method raises `ApiError` (a Kubernetes Status) to refuse. Documents passed to `create` or `update` are modified in
place. Reads and answers are encoded JSON.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.contract import (
    APPLY,
    JSON,
    MERGE,
    STRATEGIC,
    Admission,
    ApiAnswer,
    DeletionOptions,
    ListOptions,
    RequestTarget,
    Resource,
    WriteOptions,
)
from cotenant_local.apiserver.kinds import built_in
from cotenant_local.apiserver.kinds.pods.binding import bind
from cotenant_local.apiserver.kinds.pods.eviction import evict
from cotenant_local.apiserver.kinds.reviews import review
from cotenant_local.apiserver.kinds.scale import scale_of, with_scale
from cotenant_local.apiserver.registry import ResourceRegistry
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.storage.stored import decode, encode
from cotenant_local.apiserver.storage.watching import WatchStream
from cotenant_local.apiserver.verbs.context import Context, Patching
from cotenant_local.apiserver.verbs.delete import delete, delete_collection
from cotenant_local.apiserver.verbs.errors import bad_request
from cotenant_local.apiserver.verbs.read import EncodedPage, get, list_page, watch
from cotenant_local.apiserver.verbs.write import Change, Modification, create, modify

__all__ = ["Api", "EncodedPage", "WatchStream"]

_REVIEWS = ("authentication.k8s.io", "authorization.k8s.io")


class Api:
    """One API server over a store."""

    def __init__(
        self,
        store: Store,
        registry: ResourceRegistry | None = None,
        *,
        patching: Patching | None = None,
        admission: Iterable[Admission] = (),
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        bookmark_period_s: float = 60.0,
        taints_new_nodes: bool = True,
    ) -> None:
        """`taints_new_nodes`: whether a node controller runs that removes the not-ready taint again."""
        self.store = store
        self.registry = registry if registry is not None else ResourceRegistry(built_in.BUILT_IN)
        self.context = Context(
            store,
            self.registry,
            behaviours=built_in.behaviours(taints_new_nodes=taints_new_nodes),
            patching=patching,
            admission=list(admission),
            clock=clock,
            rng=rng if rng is not None else random.Random(),
            bookmark_period_s=bookmark_period_s,
        )

    @property
    def admission(self) -> list[Admission]:
        """The admission plugins called for every write, in order. May be extended while serving."""
        return self.context.admission

    def target(
        self, group: str, plural: str, namespace: str = "", name: str = "", subresource: str = ""
    ) -> RequestTarget:
        """The target for a resource's plural, in its storage version. Raises ApiError 404 if it is not served."""
        resource = self.registry.stored(group, plural)
        if resource is None:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return RequestTarget(resource, namespace, name, subresource)

    async def get(self, target: RequestTarget) -> bytes:
        """One object (or its scale), encoded. Raises ApiError 404."""
        if target.subresource == "scale":
            return encode(scale_of(decode(await get(self.context, target)), target.resource))
        return await get(self.context, target)

    async def list(self, target: RequestTarget, options: ListOptions | None = None) -> EncodedPage:
        """One page. Raises ApiError 400, 410, 504."""
        return await list_page(self.context, target, options if options is not None else ListOptions())

    def watch(self, target: RequestTarget, options: ListOptions | None = None) -> WatchStream:
        """A stream of encoded events. Raises ApiError 400, 410."""
        return watch(self.context, target, options if options is not None else ListOptions())

    async def create(self, target: RequestTarget, obj: Manifest, options: WriteOptions | None = None) -> ApiAnswer:
        """POST: a new object, or a binding, an eviction, a review. Raises ApiError 400, 403, 404, 405, 409, 422,
        429.
        """
        chosen = options if options is not None else WriteOptions()
        resource = target.resource
        if not isinstance(obj, dict):
            raise bad_request("the object provided is not a JSON object")
        if target.subresource:
            return await self._create_subresource(target, obj, chosen)
        if resource.group == "" and resource.kind == "Binding":
            return await bind(self.context, self._built_in("", "pods"), target, obj, chosen)
        if resource.group in _REVIEWS:
            return review(resource, obj, chosen)
        return await create(self.context, target, obj, chosen)

    async def _create_subresource(self, target: RequestTarget, obj: Manifest, options: WriteOptions) -> ApiAnswer:
        if target.resource.storage == ("", "pods"):
            pods = target.resource
            if target.subresource == "binding":
                return await bind(self.context, pods, target, obj, options)
            if target.subresource == "eviction":
                budgets = self._built_in("policy", "poddisruptionbudgets")
                return await evict(self.context, pods, budgets, target, obj, options)
        raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

    async def update(self, target: RequestTarget, obj: Manifest, options: WriteOptions | None = None) -> ApiAnswer:
        """PUT: the whole object, or the part that a subresource covers. Raises ApiError 400, 404, 409, 422."""
        chosen = options if options is not None else WriteOptions()
        if not isinstance(obj, dict):
            raise bad_request("the object provided is not a JSON object")
        if target.subresource == "scale":
            return await self._scale(target, lambda _: obj, chosen)
        resource = target.resource
        if (
            not target.subresource
            and self.context.behaviour(resource).may_create_on_update
            and self.context.table(resource).get((target.namespace, target.name)) is None
        ):
            return await create(self.context, target, obj, chosen)
        if not self.context.admission:
            return await modify(self.context, target, Modification(lambda _: obj, is_put=True), chosen)
        raw = encode(obj)  # admission awaits, so the change may be applied more than once
        return await modify(self.context, target, Modification(lambda _: decode(raw), is_put=True), chosen)

    async def patch(
        self, target: RequestTarget, body: bytes, content_type: str, options: WriteOptions | None = None
    ) -> ApiAnswer:
        """PATCH in one of the four patch formats. Raises ApiError 400, 404, 409, 415, 422."""
        chosen = options if options is not None else WriteOptions()
        patching = self.context.patching
        if patching is None or content_type not in (JSON, MERGE, STRATEGIC, APPLY):
            raise ApiError(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: "
                f"{JSON}, {MERGE}, {STRATEGIC}, {APPLY}",
            )
        resource = target.resource
        if content_type == APPLY:
            return await self._apply(patching, target, body, chosen)
        if content_type == STRATEGIC and resource.is_custom:
            raise ApiError(
                415, "UnsupportedMediaType", "strategic merge patches are not supported for custom resources"
            )
        schema = None if target.subresource == "scale" else resource.schema

        def change(obj: Manifest) -> Manifest:
            if content_type == JSON:
                return patching.json_patch(obj, body)
            if content_type == MERGE:
                return patching.merge_patch(obj, body)
            return patching.strategic_merge(obj, body, schema)

        if target.subresource == "scale":
            return await self._scale(target, change, chosen)
        return await modify(self.context, target, Modification(change), chosen)

    async def _scale(self, target: RequestTarget, change: Change, options: WriteOptions) -> ApiAnswer:
        resource = target.resource

        def changed(obj: Manifest) -> Manifest:
            return with_scale(obj, change(scale_of(obj, resource)), resource)

        answer = await modify(self.context, target, Modification(changed, is_trusted=True), options)
        answer.raw = encode(scale_of(decode(answer.raw), resource))
        return answer

    async def _apply(self, patching: Patching, target: RequestTarget, body: bytes, options: WriteOptions) -> ApiAnswer:
        resource = target.resource
        if target.subresource == "scale":
            raise ApiError(
                415, "UnsupportedMediaType", "apply is not supported for the scale subresource: patch or update it"
            )

        def change(obj: Manifest | None) -> Manifest:
            return patching.apply(
                obj,
                body,
                resource.schema,
                options.manager,
                options.force,
                resource.api_version,
                self.context.stamp(),
                target.subresource,
            )

        if not target.subresource and self.context.table(resource).get((target.namespace, target.name)) is None:
            return await create(self.context, target, change(None), options, is_applied=True)
        return await modify(self.context, target, Modification(change, operation="Apply"), options)

    async def delete(self, target: RequestTarget, options: DeletionOptions | None = None) -> ApiAnswer:
        """DELETE: removes the object or marks it for deletion. Raises ApiError 404, 409, 422."""
        return await delete(self.context, target, options if options is not None else DeletionOptions())

    async def delete_collection(
        self, target: RequestTarget, selection: ListOptions | None = None, options: DeletionOptions | None = None
    ) -> EncodedPage:
        """DELETE of a collection; returns the selected objects."""
        return await delete_collection(
            self.context,
            target,
            selection if selection is not None else ListOptions(),
            options if options is not None else DeletionOptions(),
        )

    async def bootstrap(self) -> None:
        """Create the default objects of every cluster that are missing. Idempotent."""
        for storage, obj in built_in.default_objects():
            namespace = obj["metadata"].get("namespace", "")
            resource = self._built_in(*storage)
            if self.context.table(resource).get((namespace, obj["metadata"]["name"])) is None:
                await self.create(
                    RequestTarget(resource, namespace, obj["metadata"]["name"]), obj, WriteOptions(manager="cotenant")
                )

    def _built_in(self, group: str, plural: str) -> Resource:
        found = self.registry.find(group, "v1", plural)
        if found is None:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return found

    async def close(self) -> None:
        """Commit pending writes, end the watches, close the database."""
        await self.store.close()
