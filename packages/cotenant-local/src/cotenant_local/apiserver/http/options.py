"""Parses the options of a request from its query string and its body.

Options arrive as text, in the URL and (for delete) in a body, and an invalid one must be refused with Kubernetes'
message, not ignored. One function per verb; unknown parameters are ignored, as in Kubernetes.
Limits: integers have 64 bits.
Source: Kubernetes API reference, common parameters; messages as a real server gives them.
"""

from __future__ import annotations

from urllib.parse import parse_qsl

from cotenant.drivers.kube.manifests.errors import ApiError, FieldError, Manifest
from cotenant.model.json_object import JsonValue
from cotenant_local.apiserver.contract import DeletionOptions, ListOptions, WriteOptions
from cotenant_local.apiserver.verbs.numbers import MAX_DIGITS, MAX_INTEGER, parse_version, shortened

Query = dict[str, str]

_VALIDATIONS = {"": "Warn", "Ignore": "Ignore", "Strict": "Strict", "Warn": "Warn"}
_PROPAGATIONS = ("Foreground", "Background", "Orphan")
_MANAGER_LIMIT = 128


def parse_query(raw: bytes) -> Query:
    """The parameters; the first value of a repeated one is used."""
    if not raw:
        return {}
    query: Query = {}
    for key, value in parse_qsl(raw.decode("latin-1"), keep_blank_values=True):
        query.setdefault(key, value)
    return query


def _invalid(kind: str, cause: FieldError) -> ApiError:
    return ApiError(
        422,
        "Invalid",
        f'{kind}.meta.k8s.io "" is invalid: {cause.field}: {cause.message}',
        group="meta.k8s.io",
        kind=kind,
        causes=(cause,),
    )


def _boolean(query: Query, name: str) -> bool:
    """True for anything but an absent, false or zero value (the API's own conversion)."""
    value = query.get(name)
    return value is not None and value.lower() not in ("false", "0")


def _integer(query: Query, name: str) -> int:
    value = query.get(name, "")
    if not value:
        return 0
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise ApiError(400, "BadRequest", f'strconv.ParseInt: parsing "{shortened(value)}": invalid syntax')
    if len(digits) > MAX_DIGITS or int(value) > MAX_INTEGER:
        raise ApiError(400, "BadRequest", f'strconv.ParseInt: parsing "{shortened(value)}": value out of range')
    return int(value)


def _dry_run(values: object, kind: str) -> bool:
    if values in (None, "", []):
        return False
    if values in ("All", ["All"]):
        return True
    shown = values if isinstance(values, list) else [values]
    text = ", ".join(f'"{value}"' for value in shown)
    message = f'Unsupported value: [{text}]: supported values: "All"'
    raise _invalid(kind, FieldError("FieldValueNotSupported", message, "dryRun"))


def default_manager(user_agent: str) -> str:
    """The default field manager: the User-Agent up to the slash."""
    name = user_agent.split("/", 1)[0][:_MANAGER_LIMIT]
    return "".join(letter for letter in name if letter.isprintable()) or "unknown"


def write_options(query: Query, kind: str, user_agent: str) -> WriteOptions:
    """Options of create, update and patch. `kind` names them in refusals (CreateOptions ...). Raises ApiError 422."""
    if not query:
        return WriteOptions(manager=default_manager(user_agent))
    validation = query.get("fieldValidation", "")
    if validation not in _VALIDATIONS:
        message = f'Unsupported value: "{validation}": supported values: "", "Ignore", "Strict", "Warn"'
        raise _invalid(kind, FieldError("FieldValueNotSupported", message, "fieldValidation"))
    manager = query.get("fieldManager", "")
    if len(manager) > _MANAGER_LIMIT:
        message = f"Too long: may not be more than {_MANAGER_LIMIT} bytes"
        raise _invalid(kind, FieldError("FieldValueTooLong", message, "fieldManager"))
    if not manager.isprintable():
        message = f"Invalid value: {manager!r}: should only contain printable characters"
        raise _invalid(kind, FieldError("FieldValueInvalid", message, "fieldManager"))
    return WriteOptions(
        dry_run=_dry_run(query.get("dryRun"), kind),
        validation=_VALIDATIONS[validation],
        manager=manager or default_manager(user_agent),
        force=_boolean(query, "force"),
    )


def check_apply(query: Query) -> None:
    """Server-side apply requires a field manager. Raises ApiError 422."""
    if not query.get("fieldManager"):
        cause = FieldError("FieldValueRequired", "Required value: is required for apply patch", "fieldManager")
        raise _invalid("PatchOptions", cause)


def list_options(query: Query) -> ListOptions:
    """Options of list, watch and deletecollection. Raises ApiError 400 or 422."""
    if not query:
        return ListOptions()
    match = query.get("resourceVersionMatch", "")
    version = query.get("resourceVersion", "")
    is_watch = _boolean(query, "watch")
    send_initial = is_watch and _boolean(query, "sendInitialEvents")
    continue_token = query.get("continue", "")
    causes = []
    if match:
        if send_initial or (is_watch and "sendInitialEvents" in query):
            if match != "NotOlderThan":
                causes.append(f'Unsupported value: "{match}": supported values: "NotOlderThan"')
        elif is_watch:
            causes.append("Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
        elif not version:
            causes.append("Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided")
        elif continue_token:
            causes.append("Forbidden: resourceVersionMatch is forbidden when continue is provided")
        elif match not in ("Exact", "NotOlderThan"):
            causes.append(f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan"')
        elif match == "Exact" and version == "0":
            causes.append('Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    elif send_initial:
        causes.append("Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    if causes:
        reason = "FieldValueForbidden" if causes[0].startswith("Forbidden") else "FieldValueNotSupported"
        raise _invalid("ListOptions", FieldError(reason, causes[0], "resourceVersionMatch"))
    parse_version(version)
    return ListOptions(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        limit=max(0, _integer(query, "limit")),
        continue_token=continue_token,
        resource_version=version,
        match=match,
        bookmarks=_boolean(query, "allowWatchBookmarks"),
        send_initial=send_initial,
        timeout_s=float(max(0, _integer(query, "timeoutSeconds"))),
    )


def is_watch(query: Query) -> bool:
    """Whether the request is a watch."""
    return _boolean(query, "watch")


def delete_options(query: Query, body: Manifest | None) -> DeletionOptions:
    """Options of a delete, from the body if there is one, else from the query. Raises ApiError 400 or 422."""
    if body:
        kind = body.get("kind", "DeleteOptions")
        if kind != "DeleteOptions":
            raise ApiError(400, "BadRequest", f'expected DeleteOptions, got kind "{kind}"')
        preconditions = body.get("preconditions") or {}
        return _deletion(
            grace=body.get("gracePeriodSeconds"),
            propagation=body.get("propagationPolicy") or "",
            orphan=body.get("orphanDependents"),
            dry_run=body.get("dryRun") or query.get("dryRun"),
            preconditions=preconditions if isinstance(preconditions, dict) else {},
        )
    grace = _integer(query, "gracePeriodSeconds") if query.get("gracePeriodSeconds") else None
    orphan = _boolean(query, "orphanDependents") if "orphanDependents" in query else None
    return _deletion(grace, query.get("propagationPolicy", ""), orphan, query.get("dryRun"), {})


def _deletion(
    grace: JsonValue, propagation: JsonValue, orphan: object, dry_run: object, preconditions: Manifest
) -> DeletionOptions:
    if grace is not None and (not isinstance(grace, int) or isinstance(grace, bool) or abs(grace) > MAX_INTEGER):
        raise ApiError(400, "BadRequest", "gracePeriodSeconds: expected an integer of 64 bits")
    if propagation and propagation not in _PROPAGATIONS:
        message = f'Unsupported value: "{propagation}": supported values: "Foreground", "Background", "Orphan", "nil"'
        raise _invalid("DeleteOptions", FieldError("FieldValueNotSupported", message, "propagationPolicy"))
    if propagation and orphan is not None:
        message = "Invalid value: orphanDependents and deletionPropagation cannot be both set"
        raise _invalid("DeleteOptions", FieldError("FieldValueInvalid", message, "propagationPolicy"))
    if orphan is not None:
        propagation = "Orphan" if orphan else "Background"
    return DeletionOptions(
        grace_s=None if grace is None else max(0, grace),
        propagation=propagation,
        uid=str(preconditions.get("uid") or ""),
        resource_version=str(preconditions.get("resourceVersion") or ""),
        dry_run=_dry_run(dry_run, "DeleteOptions"),
    )
