"""Get, list and watch.

A list is one snapshot over all its pages; a watch continues exactly where a list ended. A page's snapshot is the table
with the history undone back to the token's revision; lists and watches read encoded objects and filter on the fields
stored beside them. Uncommitted state is never returned: a read waits for the batch that it saw.
Sources: Kubernetes API concepts, "Resource versions", "Retrieving large results sets in chunks", "Streaming lists".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cotenant.drivers.kube.manifests.errors import ApiError, FieldError
from cotenant_local.apiserver.contract import ListOptions, RequestTarget, Resource
from cotenant_local.apiserver.kinds.conversion import converter
from cotenant_local.apiserver.selectors import FieldSelector, FieldTerm, ListSelector, parse_fields, parse_labels
from cotenant_local.apiserver.storage.history import expired
from cotenant_local.apiserver.storage.stored import Key, StoredObject
from cotenant_local.apiserver.storage.table import ObjectTable
from cotenant_local.apiserver.storage.watching import Convert, Predicate, WatchStream, bookmark, line
from cotenant_local.apiserver.verbs import continuation
from cotenant_local.apiserver.verbs.context import Context
from cotenant_local.apiserver.verbs.errors import bad_request, not_found
from cotenant_local.apiserver.verbs.numbers import parse_version

_CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue "
    "parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with "
    "the provided "
    "token results in an inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was "
    "returned and now may show up in the list."
)
_MIN_WATCH_S = 1800.0
_MAX_WATCH_S = 7 * 86_400.0  # timers do not accept every number of 64 bits


@dataclass(frozen=True, slots=True)
class EncodedPage:
    """One page of a list, encoded. `remaining` is -1 if unknown (with a selector)."""

    items: list[StoredObject]
    resource_version: int
    continue_token: str = ""
    remaining: int = 0


@dataclass(frozen=True, slots=True)
class Selection:
    """The requested part of a table."""

    namespace: str
    labels: ListSelector
    fields: FieldSelector

    @property
    def is_whole(self) -> bool:
        """Whether it selects every object of its namespace."""
        return self.labels.is_empty and self.fields.is_empty

    def predicate(self, table: ObjectTable, *, with_namespace: bool) -> Predicate | None:
        """The filter on objects, None if all pass."""
        namespace = self.namespace if with_namespace else ""
        labels = None if self.labels.is_empty else self.labels
        names = [name for name, _ in table.selectable]
        terms = [(names.index(term.field), term.value, term.is_equal) for term in self.fields.terms]
        if not namespace and labels is None and not terms:
            return None
        selectable = table.selectable

        def selects(stored: StoredObject) -> bool:
            if namespace and stored.key[0] != namespace:
                return False
            if labels is not None and not labels.matches(stored.labels):
                return False
            if terms:
                values = stored.fields if stored.fields is not None else stored.selectable(selectable)
                for at, value, is_equal in terms:
                    if (values[at] == value) is not is_equal:
                        return False
            return True

        return selects


def selection(context: Context, target: RequestTarget, options: ListOptions) -> Selection:
    """Parse the selectors of a request. Raises ApiError 400."""
    table = context.table(target.resource)
    fields = parse_fields(options.fields, [name for name, _ in table.selectable])
    if target.name:
        fields = FieldSelector((*fields.terms, FieldTerm("metadata.name", target.name, True)))
    return Selection(target.namespace, parse_labels(options.labels), fields)


async def get(context: Context, target: RequestTarget) -> bytes:
    """One object, encoded. Raises ApiError 404."""
    stored = context.table(target.resource).get((target.namespace, target.name))
    await context.store.settled(context.store.revision if stored is None else stored.resource_version)
    if stored is None:
        raise not_found(target.resource, target.name)
    convert = _convert(context, target.resource)
    return stored.raw if convert is None else convert(stored.raw)


def _convert(context: Context, resource: Resource) -> Convert | None:
    return converter(resource, context.registry.hub(resource))


def _bad_match(cause: FieldError) -> ApiError:
    message = f'ListOptions.meta.k8s.io "" is invalid: {cause.field}: {cause.message}'
    return ApiError(422, "Invalid", message, group="meta.k8s.io", kind="ListOptions", causes=(cause,))


def _forbidden_match(why: str) -> ApiError:
    return _bad_match(FieldError("FieldValueForbidden", f"Forbidden: {why}", "resourceVersionMatch"))


def too_large(requested: int, current: int) -> ApiError:
    """The error for a list at a revision that does not exist yet (a watch waits for it instead)."""
    return ApiError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {requested}, current: {current}",
        causes=(FieldError("ResourceVersionTooLarge", "Too large resource version", ""),),
        retry_after_s=1,
    )


def _snapshot_version(context: Context, options: ListOptions) -> int:
    """The exact revision required of a first page, 0 for the newest."""
    requested = parse_version(options.resource_version)
    if options.match and options.match not in ("Exact", "NotOlderThan"):
        why = f'Unsupported value: "{options.match}": supported values: "Exact", "NotOlderThan", ""'
        raise _bad_match(FieldError("FieldValueNotSupported", why, "resourceVersionMatch"))
    if options.match and not options.resource_version:
        raise _forbidden_match("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if options.match == "Exact" and requested == 0:
        raise _forbidden_match('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    if requested > context.store.revision:
        raise too_large(requested, context.store.revision)
    is_exact = options.match == "Exact" or (options.limit > 0 and requested > 0 and not options.match)
    return requested if is_exact else 0


def _walk_at(
    context: Context, table: ObjectTable, revision: int, selected: Selection, after: Key | None
) -> Iterator[StoredObject]:
    """The objects of a table as they were at a revision, in order. Raises ApiError 410."""
    at_revision: dict[Key, StoredObject | None] = {}
    context.store.pending_changes(table, at_revision)
    table.history.undo(revision, at_revision)
    deleted = sorted(
        key
        for key, old in at_revision.items()
        if old is not None
        and table.get(key) is None
        and (not selected.namespace or key[0] == selected.namespace)
        and (after is None or key > after)
    )
    at = 0
    for stored in table.walk(selected.namespace, after):
        while at < len(deleted) and deleted[at] < stored.key:
            old = at_revision[deleted[at]]
            at += 1
            if old is not None:
                yield old
        if stored.key in at_revision:
            old = at_revision[stored.key]
            if old is not None:
                yield old
        else:
            yield stored
    for key in deleted[at:]:
        old = at_revision[key]
        if old is not None:
            yield old


async def list_page(context: Context, target: RequestTarget, options: ListOptions) -> EncodedPage:
    """One page of a snapshot. Raises ApiError 400, 410 (with a token for an inconsistent continuation), 504."""
    table = context.table(target.resource)
    selected = selection(context, target, options)
    after: Key | None = None
    if options.continue_token:
        if options.resource_version and options.resource_version != "0":
            raise bad_request("specifying resource version is not allowed when using continue")
        token = continuation.decode(options.continue_token)
        after = token.after
        exact = 0 if token.resource_version == continuation.INCONSISTENT else token.resource_version
    else:
        exact = _snapshot_version(context, options)
    revision = exact or context.store.revision
    if exact and not table.history.compacted <= revision <= context.store.revision:  # later: of an earlier store
        if after is None:
            raise expired(revision, table.history.compacted)
        new_token = continuation.encode(continuation.Token(continuation.INCONSISTENT, after))
        raise ApiError(410, "Expired", _CONTINUE_EXPIRED, continue_token=new_token)
    if exact and revision < context.store.revision:
        walk = _walk_at(context, table, revision, selected, after)
    else:
        walk = table.walk(selected.namespace, after)
    predicate = selected.predicate(table, with_namespace=False)
    items: list[StoredObject] = []
    is_cut = False
    for stored in walk:
        if predicate is not None and not predicate(stored):
            continue
        if options.limit > 0 and len(items) == options.limit:
            is_cut = True
            break
        items.append(stored)
    remaining = -1
    if is_cut and predicate is None:
        remaining = 1 + sum(1 for _ in walk)
    await context.store.settled(min(revision, context.store.revision))
    token_text = ""
    if is_cut:
        token_text = continuation.encode(continuation.Token(revision, items[-1].key))
    return EncodedPage(_shown(context, target.resource, items), revision, token_text, remaining if is_cut else 0)


def _shown(context: Context, resource: Resource, items: list[StoredObject]) -> list[StoredObject]:
    convert = _convert(context, resource)
    if convert is None:
        return items
    return [
        StoredObject(item.id, item.key, item.resource_version, item.uid, convert(item.raw), item.labels, item.fields)
        for item in items
    ]


def watch(context: Context, target: RequestTarget, options: ListOptions) -> WatchStream:
    """A stream of events. Raises ApiError 400, and 410 if it should start before the retained history.

    (The real server answers 200 and then an ERROR event with that 410; the HTTP layer may do so with the error's
    status.)
    """
    resource = target.resource
    table = context.table(resource)
    selected = selection(context, target, options)
    if options.send_initial and options.match != "NotOlderThan":
        raise _forbidden_match("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    if options.match and not options.send_initial:
        raise _forbidden_match("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
    requested = parse_version(options.resource_version)
    predicate = selected.predicate(table, with_namespace=True)
    convert = _convert(context, resource)
    channel_key = (selected, resource.api_version, resource.plural)
    channel = table.channel(channel_key, predicate, convert)
    published = context.store.published
    first: Iterator[bytes]
    if requested == 0 or options.send_initial:
        if requested > published:
            raise too_large(requested, published)
        state = _published_state(context, table, selected)
        first = _initial(state, convert, context, resource, published, options)
    else:
        events = table.history.since(requested)
        first = channel.replay(events)
        if requested > published:  # a future revision: no events until it is reached
            channel = table.channel((channel_key, requested), predicate, convert, requested)
    rng = context.rng
    timeout_s = min(options.timeout_s, _MAX_WATCH_S) if options.timeout_s > 0 else _MIN_WATCH_S * (1.0 + rng.random())

    def mark() -> bytes:
        return bookmark(resource.api_version, resource.kind, max(context.store.published, requested))

    return WatchStream(
        channel,
        first,
        mark=mark if options.bookmarks else None,
        bookmark_period_s=context.bookmark_period_s,
        timeout_s=timeout_s,
        on_close=lambda _: None,
    )


def _published_state(context: Context, table: ObjectTable, selected: Selection) -> list[StoredObject]:
    """The state published to watchers: the table without the uncommitted batch."""
    if context.store.published == context.store.revision:
        walk = table.walk(selected.namespace)
    else:
        walk = _walk_at(context, table, context.store.published, selected, None)
    predicate = selected.predicate(table, with_namespace=False)
    return [stored for stored in walk if predicate is None or predicate(stored)]


def _initial(
    state: list[StoredObject],
    convert: Convert | None,
    context: Context,
    resource: Resource,
    revision: int,
    options: ListOptions,
) -> Iterator[bytes]:
    for stored in state:
        yield line("ADDED", stored.raw if convert is None else convert(stored.raw))
    if options.send_initial and options.bookmarks:
        yield bookmark(resource.api_version, resource.kind, revision, is_initial_end=True)
