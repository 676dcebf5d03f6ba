"""The verbs over HTTP: maps a routed request to a call of the in-process API, and its result to a response.

Method, name, subresource and query together determine the verb; objects pass through without being decoded unless
another representation is requested. One function per verb.
Limits: duplicate fields of a patch are not detected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.contract import (
    APPLY,
    JSON,
    MERGE,
    STRATEGIC,
    ApiAnswer,
    DeletionOptions,
    RequestTarget,
    Resource,
    ResourceScope,
    WriteOptions,
)
from cotenant_local.apiserver.http.bodies import (
    BodyDecoder,
    check_patch,
    is_surely_single,
    media_type,
)
from cotenant_local.apiserver.http.encoding import rendering
from cotenant_local.apiserver.http.encoding.accept import Representation, ResponseForm, negotiate
from cotenant_local.apiserver.http.encoding.json_documents import decode_json
from cotenant_local.apiserver.http.exchange import Exchange, Header
from cotenant_local.apiserver.http.options import (
    Query,
    check_apply,
    delete_options,
    is_watch,
    list_options,
    parse_query,
    write_options,
)
from cotenant_local.apiserver.http.protocols import ApiProtocol
from cotenant_local.apiserver.http.routing import ResourceRoute
from cotenant_local.apiserver.http.streaming import Streams
from cotenant_local.apiserver.http.unsupported import refuse_subresource

_CREATE_ONLY = frozenset({"binding", "eviction", "token"})
_PATCHES = frozenset({JSON, MERGE, STRATEGIC, APPLY})
_BROWSERS = ("curl/", "Wget/", "Mozilla/")
_WARNINGS_TOTAL, _WARNING_CUT = 4096, 256  # characters


def not_found() -> ApiError:
    """404 for a path where nothing is served."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def method_not_allowed() -> ApiError:
    """405 MethodNotAllowed."""
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def is_pretty(query: Query, exchange: Exchange) -> bool:
    """Whether to indent the response: by the `pretty` parameter, or for interactive clients."""
    requested = query.get("pretty")
    if requested is not None:
        return requested.lower() not in ("false", "0")
    return exchange.header(b"user-agent").startswith(_BROWSERS)


def warning_headers(warnings: Sequence[str]) -> list[Header]:
    """One `Warning: 299 - "text"` header per warning, 4 KiB of text in all; long ones are cut, as by kube-apiserver."""
    headers = []
    total = 0
    is_long = sum(map(len, warnings)) > _WARNINGS_TOTAL
    for text in warnings:
        if is_long:
            text = text[:_WARNING_CUT]
        total += len(text)
        if total > _WARNINGS_TOTAL:
            break
        shown = "".join(letter for letter in text if letter.isprintable()).replace("\\", "\\\\").replace('"', '\\"')
        headers.append((b"warning", f'299 - "{shown}"'.encode("latin-1", "replace")))
    return headers


class ResourceHandler:
    """Serves the resource URLs."""

    def __init__(self, api: ApiProtocol, streams: Streams, bodies: BodyDecoder, clock: Callable[[], float]) -> None:
        self._api = api
        self._bodies = bodies
        self._streams = streams
        self._clock = clock

    def target(self, route: ResourceRoute) -> RequestTarget:
        """The target of a route. Raises ApiError 404 or 501."""
        resource = self._api.registry.find(route.group, route.version, route.plural)
        if resource is None:
            raise not_found()
        if resource.scope is ResourceScope.CLUSTER:
            if route.namespace:
                raise not_found()
        elif route.name and not route.namespace:
            raise not_found()
        target = RequestTarget(resource, route.namespace, route.name, route.subresource)
        if route.subresource:
            refuse_subresource(target)
            if route.subresource not in resource.subresources:
                raise not_found()
        return target

    def verb(self, exchange: Exchange, target: RequestTarget, query: Query) -> str:
        """The verb of a request. Raises ApiError 405."""
        method = exchange.method
        resource = target.resource
        if target.subresource:
            if target.subresource in _CREATE_ONLY:
                verb = {"POST": "create"}.get(method, "")
            else:
                verb = {"GET": "get", "PUT": "update", "PATCH": "patch"}.get(method, "")
            if not verb:
                raise method_not_allowed()
            return verb
        if method == "GET":
            verb = "watch" if query and is_watch(query) else "get" if target.name else "list"
        elif method == "POST":
            verb = "" if target.name else "create"
            if resource.scope is ResourceScope.NAMESPACED and not target.namespace:
                verb = ""
        elif method == "PUT":
            verb = "update" if target.name else ""
        elif method == "PATCH":
            verb = "patch" if target.name else ""
        elif method == "DELETE":
            verb = "delete" if target.name else "deletecollection"
            if resource.scope is ResourceScope.NAMESPACED and not target.namespace:
                verb = ""
        else:
            verb = ""
        if verb not in resource.verbs:
            raise method_not_allowed()
        return verb

    async def serve(self, exchange: Exchange, route: ResourceRoute) -> str:
        """Serve a request for a resource. Returns its verb. Raises ApiError."""
        target = self.target(route)
        query = parse_query(exchange.query_string)
        verb = self.verb(exchange, target, query)
        representation = negotiate(exchange.header(b"accept"))
        if verb == "create":
            await self._create(exchange, target, query, representation)
        elif verb == "get":
            raw = await self._api.get(target)
            await self._object(exchange, target.resource, raw, query, representation, 200)
        elif verb == "patch":
            await self._patch(exchange, target, query, representation)
        elif verb == "update":
            await self._update(exchange, target, query, representation)
        elif verb == "list":
            await self._list(exchange, target, query, representation)
        elif verb == "watch":
            await self._watch(exchange, target, query, representation)
        elif verb == "delete":
            await self._delete(exchange, target, query, representation)
        else:
            await self._delete_collection(exchange, target, query, representation)
        return verb

    async def _create(
        self, exchange: Exchange, target: RequestTarget, query: Query, representation: Representation
    ) -> None:
        obj, options, warnings = await self._read_write(exchange, target, query, "CreateOptions")
        answer = await self._api.create(target, obj, options)
        await self._answer(exchange, target.resource, answer, warnings, query, representation, 201)

    async def _update(
        self, exchange: Exchange, target: RequestTarget, query: Query, representation: Representation
    ) -> None:
        obj, options, warnings = await self._read_write(exchange, target, query, "UpdateOptions")
        answer = await self._api.update(target, obj, options)
        await self._answer(
            exchange, target.resource, answer, warnings, query, representation, 201 if answer.created else 200
        )

    async def _read_write(
        self, exchange: Exchange, target: RequestTarget, query: Query, options_kind: str
    ) -> tuple[Manifest, WriteOptions, list[str]]:
        options = write_options(query, options_kind, exchange.header(b"user-agent"))
        body = await exchange.body()
        content_type = exchange.header(b"content-type")
        kind = target.resource.kind
        obj = await self._bodies.object(body, content_type, kind)
        warnings: list[str] = []
        if (
            options.validation != "Ignore"
            and media_type(content_type) == "application/json"
            and not is_surely_single(body, obj)
        ):
            duplicates = await self._bodies.duplicates(body)
            if duplicates and options.validation == "Strict":
                raise strict_error(target.resource, obj, duplicates)
            warnings = [f'duplicate field "{path}"' for path in duplicates]
        return obj, options, warnings

    async def _patch(
        self, exchange: Exchange, target: RequestTarget, query: Query, representation: Representation
    ) -> None:
        media = media_type(exchange.header(b"content-type"))
        if media not in _PATCHES or (media == STRATEGIC and target.resource.is_custom):
            raise ApiError(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: "
                + ", ".join([JSON, MERGE, APPLY] if target.resource.is_custom else [JSON, MERGE, STRATEGIC, APPLY]),
            )
        options = write_options(query, "PatchOptions", exchange.header(b"user-agent"))
        if media == APPLY:
            check_apply(query)
        elif "force" in query and options.force:
            cause = "Forbidden: may not be specified for non-apply patch"
            raise ApiError(422, "Invalid", f'PatchOptions.meta.k8s.io "" is invalid: force: {cause}')
        body = await exchange.body()
        if media == APPLY:
            body = await self._bodies.applied(body)
        elif media == JSON:
            decode_json(body)
        else:
            check_patch(body)
        answer = await self._api.patch(target, body, media, options)
        await self._answer(exchange, target.resource, answer, (), query, representation, 201 if answer.created else 200)

    async def _answer(
        self,
        exchange: Exchange,
        resource: Resource,
        answer: ApiAnswer,
        warnings: Sequence[str],
        query: Query,
        representation: Representation,
        code: int,
    ) -> None:
        all_warnings = [*warnings, *answer.warnings]
        headers = warning_headers(all_warnings) if all_warnings else []
        await self._object(exchange, resource, answer.raw, query, representation, code, headers)

    async def _object(
        self,
        exchange: Exchange,
        resource: Resource,
        raw: bytes,
        query: Query,
        representation: Representation,
        code: int,
        headers: Sequence[Header] = (),
    ) -> None:
        if representation.form is not ResponseForm.OBJECT and not raw.startswith(b'{"kind":"Status"'):
            raw = rendering.one(raw, resource, representation, query.get("includeObject", ""), self._clock())
        body = rendering.finish(raw, representation, is_pretty(query, exchange))
        await exchange.answer(code, representation.content_type, body, headers)

    async def _list(
        self, exchange: Exchange, target: RequestTarget, query: Query, representation: Representation
    ) -> None:
        page = await self._api.list(target, list_options(query))
        metadata = rendering.list_metadata(page.resource_version, page.continue_token, page.remaining)
        await self._many(exchange, target.resource, [item.raw for item in page.items], metadata, query, representation)

    async def _many(
        self,
        exchange: Exchange,
        resource: Resource,
        raws: Sequence[bytes],
        metadata: Manifest,
        query: Query,
        representation: Representation,
    ) -> None:
        pieces = rendering.many(raws, resource, representation, query.get("includeObject", ""), self._clock(), metadata)
        if representation.is_yaml or is_pretty(query, exchange):
            pieces = [rendering.finish(b"".join(pieces), representation, is_pretty(query, exchange))]
        headers: list[Header] = [(b"content-type", representation.content_type)]
        size = sum(map(len, pieces))
        if size >= rendering.GZIP_FROM_BYTES and "gzip" in exchange.header(b"accept-encoding"):
            pieces = [await asyncio.to_thread(rendering.gzipped, pieces)]
            size = len(pieces[0])
            headers += [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
        headers.append((b"content-length", b"%d" % size))
        await exchange.start(200, headers)
        for piece in pieces[:-1]:
            await exchange.send(piece, is_more=True)
        await exchange.send(pieces[-1])

    async def _watch(
        self, exchange: Exchange, target: RequestTarget, query: Query, representation: Representation
    ) -> None:
        options = list_options(query)
        await exchange.body()
        await self._streams.run(exchange, self._api, target, options, representation, query.get("includeObject", ""))

    async def _delete_body(self, exchange: Exchange, query: Query) -> DeletionOptions:
        body = await exchange.body()
        content_type = exchange.header(b"content-type")
        options = await self._bodies.object(body, content_type, "DeleteOptions") if body else None
        return delete_options(query, options)

    async def _delete(
        self, exchange: Exchange, target: RequestTarget, query: Query, representation: Representation
    ) -> None:
        answer = await self._api.delete(target, await self._delete_body(exchange, query))
        await self._answer(exchange, target.resource, answer, (), query, representation, 200)

    async def _delete_collection(
        self, exchange: Exchange, target: RequestTarget, query: Query, representation: Representation
    ) -> None:
        options = await self._delete_body(exchange, query)
        page = await self._api.delete_collection(target, list_options(query), options)
        metadata = rendering.list_metadata(page.resource_version, page.continue_token, page.remaining)
        await self._many(exchange, target.resource, [item.raw for item in page.items], metadata, query, representation)


def strict_error(resource: Resource, obj: Manifest, duplicates: Sequence[str]) -> ApiError:
    """400 listing every unknown and duplicate field."""
    unknown = resource.schema.unknown_fields(obj) if resource.schema is not None else []
    problems = [f'unknown field "{path}"' for path in unknown] + [f'duplicate field "{path}"' for path in duplicates]
    kind = resource.kind
    return ApiError(
        400,
        "BadRequest",
        f'{kind} in version "{resource.version}" cannot be handled as a {kind}: strict decoding error: '
        f"{', '.join(problems)}",
    )
