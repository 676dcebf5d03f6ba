"""Create, update and patch: one path from a document to a stored object.

Order (that of the Kubernetes API server): the document's shape (unknown fields, pruning, defaults), name and metadata,
the kind's preparation and built-in admission, mutating admission, validation, validating admission, managed fields,
optimistic concurrency, store. Between reading the stored object and writing, only admission awaits; if another write
happened in between, the change is applied again to the new object, unless the client named a resourceVersion: that is a
conflict.
Limits: dry runs perform all steps but the last; a dry run's object has no resourceVersion of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cotenant.drivers.kube.manifests.errors import ApiError, FieldError, Manifest
from cotenant_local.apiserver.contract import ApiAnswer, RequestTarget, Resource, ResourceScope, WriteOptions
from cotenant_local.apiserver.kinds.behaviour import KindBehaviour
from cotenant_local.apiserver.kinds.conversion import inward, outward
from cotenant_local.apiserver.storage.stored import StoredObject, encode
from cotenant_local.apiserver.storage.table import ObjectTable
from cotenant_local.apiserver.verbs import names, object_meta
from cotenant_local.apiserver.verbs.context import Context
from cotenant_local.apiserver.verbs.errors import (
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
    qualified,
)

_GENERATE_ATTEMPTS = 8
_UPDATE_ATTEMPTS = 8

Change = Callable[[Manifest], Manifest]


@dataclass(frozen=True, slots=True)
class Modification:
    """How an update derives the new object from the old one (a fresh copy at each attempt)."""

    change: Change
    operation: str = "Update"  # Apply for server-side apply, which sets managed fields itself
    is_put: bool = False  # the client sent the whole object
    is_trusted: bool = False  # the server's own change (scale): no fields to prune


_MAX_UNKNOWN = 100  # fields that an error or warnings name, as in Kubernetes


def check_fields(obj: Manifest, resource: Resource, options: WriteOptions) -> list[str]:
    """Refuse or report unknown fields, prune them, and set defaults. Returns warnings."""
    schema = resource.schema
    if schema is None:
        return []
    unknown = schema.unknown_fields(obj)[:_MAX_UNKNOWN]  # also prunes, in the same walk
    if unknown and options.validation == "Strict":
        listed = ", ".join(f'unknown field "{path}"' for path in unknown)
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: strict decoding '
            f"error: {listed}"
        )
    warnings = [f'unknown field "{path}"' for path in unknown] if options.validation != "Ignore" else []
    schema.default(obj)
    return warnings


def check_namespace(context: Context, target: RequestTarget) -> None:
    """Check that the namespace exists and is not terminating. Raises ApiError 404, 403."""
    resource = target.resource
    if resource.scope is ResourceScope.CLUSTER:
        return
    found = context.find("", "namespaces", "", target.namespace)
    if found is None:
        raise ApiError(
            404, "NotFound", f'namespaces "{target.namespace}" not found', name=target.namespace, kind="namespaces"
        )
    if b'"deletionTimestamp"' in found.raw and found.decode()["metadata"].get("deletionTimestamp"):
        why = f"namespace {target.namespace} is being terminated"
        raise forbidden(
            resource,
            target.name,
            f"unable to create new content in namespace {target.namespace} because it is being terminated",
            (FieldError("NamespaceTerminating", why, "metadata.namespace"),),
        )


def _answer(
    context: Context, resource: Resource, raw: bytes, obj: Manifest, *, created: bool, warnings: list[str]
) -> ApiAnswer:
    hub = context.registry.hub(resource)
    if resource.api_version != hub.api_version:
        raw = encode(outward(obj, resource, hub))
    return ApiAnswer(raw, created, warnings)


async def create(
    context: Context, target: RequestTarget, obj: Manifest, options: WriteOptions, *, is_applied: bool = False
) -> ApiAnswer:
    """Store a new object. Raises ApiError 400, 403, 404 (namespace), 409, 422. `is_applied`: managed fields are set
    already.
    """
    resource = target.resource
    behaviour = context.behaviour(resource)
    object_meta.check_type(obj, target)
    metadata = object_meta.metadata_of(obj)
    object_meta.set_namespace(metadata, target)
    if target.name and metadata.setdefault("name", target.name) != target.name:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({target.name})"
        )
    warnings = check_fields(obj, resource, options)
    requested = RequestTarget(resource, target.namespace, metadata.get("name") or "", "")
    check_namespace(context, requested)
    behaviour.admit(obj, None, context)
    obj = await _mutate(context, "CREATE", requested, obj, None, options)
    metadata = obj["metadata"]
    prefix = metadata.get("generateName") or ""
    is_generated = bool(prefix) and not metadata.get("name")
    if is_generated:
        metadata["name"] = names.generate(prefix, context.rng.choice)
    managed = metadata.get("managedFields") if is_applied else None
    object_meta.set_system_fields(metadata, context.new_uid(), context.stamp(), has_generation=behaviour.has_generation)
    if managed is not None:
        metadata["managedFields"] = managed
    if behaviour.has_status and not behaviour.keeps_first_status:
        obj.pop("status", None)
    target = RequestTarget(resource, target.namespace, metadata.get("name") or "", "")
    if target.name:  # an empty name is refused below
        behaviour.prepare_create(obj, context)
    causes = names.check(target.name, prefix, names.form_of(resource.group, resource.plural))
    causes += object_meta.check_metadata(metadata, None, is_core=_is_core(resource))
    if resource.schema is not None:
        causes += resource.schema.validate(obj, None)
    causes += behaviour.check_related(obj, None, context)
    if not causes:
        causes = behaviour.check_create(obj)
    if causes:
        raise invalid(resource, target.name, causes)
    behaviour.admit_last(obj, None, context)
    warnings += behaviour.warnings(obj, None)
    for admission in context.admission:
        warnings += await admission.validate("CREATE", target, obj, None, options)
    if context.admission:
        check_namespace(context, target)  # its deletion may have started during admission
    if context.check_room is not None:
        context.check_room(target, obj)
    table = context.table(resource)
    key = (target.namespace, target.name)
    attempts = 0
    while table.get(key) is not None:
        attempts += 1
        if not is_generated or attempts > _GENERATE_ATTEMPTS:
            raise already_exists(resource, key[1])
        metadata["name"] = names.generate(prefix, context.rng.choice)
        key = (target.namespace, metadata["name"])
    if context.patching is not None and not is_applied:
        context.patching.track(None, obj, resource.schema, options.manager, "Update", metadata["creationTimestamp"], "")
    obj = inward(obj, resource, context.registry.hub(resource))
    if options.dry_run:
        return _answer(context, resource, encode(obj), obj, created=True, warnings=warnings)
    stored = context.store.put(table, key, obj, None)
    _expire(context, behaviour, table, stored)
    await context.store.settled(stored.resource_version)
    return _answer(context, resource, stored.raw, obj, created=True, warnings=warnings)


def _is_core(resource: Resource) -> bool:
    """Whether the stricter finalizer rule applies (custom resources and their definitions may use one without a
    domain).
    """
    return not resource.is_custom and resource.group != "apiextensions.k8s.io"


def _expire(context: Context, behaviour: KindBehaviour, table: ObjectTable, written: StoredObject) -> None:
    for stored in behaviour.expired(table, written, context.now()):
        context.store.remove(table, stored, stored.decode())


async def _mutate(
    context: Context, operation: str, target: RequestTarget, obj: Manifest, old: Manifest | None, options: WriteOptions
) -> Manifest:
    for admission in context.admission:
        changed = await admission.mutate(operation, target, obj, old, options)
        if changed is not None and changed is not obj:
            obj = changed
            if target.resource.schema is not None:
                target.resource.schema.prune(obj)
                target.resource.schema.default(obj)
    return obj


def _check_identity(
    target: RequestTarget, new: Manifest, old: Manifest, modification: Modification, *, needs_version: bool
) -> None:
    """Name, uid and resourceVersion of an update. Raises ApiError 400, 409, 422."""
    resource = target.resource
    metadata, before_metadata = object_meta.metadata_of(new), old["metadata"]
    if metadata.setdefault("name", target.name) != target.name:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({target.name})"
        )
    object_meta.set_namespace(metadata, target)
    uid = metadata.get("uid")
    if uid and uid != before_metadata["uid"] and modification.is_put:
        raise conflict(
            resource,
            target.name,
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {before_metadata['uid']}",
        )
    version = metadata.get("resourceVersion")
    if version and version != "0":
        if version != before_metadata["resourceVersion"]:
            raise conflict(resource, target.name)
    elif modification.is_put and needs_version:
        cause = FieldError(
            "FieldValueInvalid", "Invalid value: 0: must be specified for an update", "metadata.resourceVersion"
        )
        shown = f'{qualified(resource)} "{target.name}" is invalid: {cause.field}: {cause.message}'
        raise ApiError(
            422, "Invalid", shown, name=target.name, group=resource.group, kind=resource.plural, causes=(cause,)
        )


def _check_kept(target: RequestTarget, metadata: Manifest, old: Manifest) -> list[FieldError]:
    """Errors for changed immutable metadata. For a custom object's status the real server checks only the status
    itself.
    """
    if target.subresource != "status":
        return object_meta.check_kept(metadata, old)
    return [] if target.resource.is_custom else object_meta.check_uid(metadata, old)


def _same(new: Manifest, old: Manifest) -> bool:
    """Whether an update changes nothing (managed fields apart)."""
    if len(new) != len(old):
        return False
    for name, value in new.items():
        if name == "metadata":
            before, after = old["metadata"], value
            for field in before.keys() | after.keys():
                if field != "managedFields" and before.get(field) != after.get(field):
                    return False
        elif name not in old or old[name] != value:
            return False
    return True


def _only_status(new: Manifest, base: Manifest, *, keeps_metadata: bool) -> Manifest:
    """Apply a status write: only the status changes, plus labels, annotations and finalizers if the kind allows it."""
    if "status" in new:
        base["status"] = new["status"]
    else:
        base.pop("status", None)
    sent, kept = new["metadata"], base["metadata"]
    for name in ("labels", "annotations", "finalizers") if keeps_metadata else ():
        if name in sent:
            kept[name] = sent[name]
        else:
            kept.pop(name, None)
    if "managedFields" in sent:
        kept["managedFields"] = sent["managedFields"]
    return base


def _shape(
    target: RequestTarget, behaviour: KindBehaviour, new: Manifest, old: Manifest, base: Manifest, context: Context
) -> Manifest:
    """The parts of a write that take effect, depending on the subresource. `base` is a mutable copy of the stored
    object.
    """
    if target.subresource == "status":
        shaped = _only_status(new, base, keeps_metadata=behaviour.is_status_metadata_kept)
        behaviour.prepare_status(shaped, old)
        return shaped
    if target.subresource not in ("", "scale"):
        return behaviour.merge(target.subresource, new, base)
    if behaviour.has_status:
        if "status" in old:
            new["status"] = base["status"]
        else:
            new.pop("status", None)
    behaviour.prepare_update(new, old, context)
    return new


async def modify(
    context: Context, target: RequestTarget, modification: Modification, options: WriteOptions
) -> ApiAnswer:
    """Change a stored object. Raises ApiError 400, 404, 409, 422."""
    resource = target.resource
    table = context.table(resource)
    behaviour = context.behaviour(resource)
    hub = context.registry.hub(resource)
    for _ in range(_UPDATE_ATTEMPTS):
        stored = table.get((target.namespace, target.name))
        if stored is None:
            raise not_found(resource, target.name)
        old = outward(stored.decode(), resource, hub)
        new = modification.change(outward(stored.decode(), resource, hub))
        object_meta.check_type(new, target)
        _check_identity(target, new, old, modification, needs_version=behaviour.needs_version)
        warnings = [] if modification.is_trusted else check_fields(new, resource, options)
        if not target.subresource:
            behaviour.admit(new, old, context)
        new = await _mutate(context, "UPDATE", target, new, old, options)
        if kept := _check_kept(target, new["metadata"], old["metadata"]):
            raise invalid(resource, target.name, kept)
        new = _shape(target, behaviour, new, old, outward(stored.decode(), resource, hub), context)
        object_meta.keep_system_fields(new["metadata"], old["metadata"])
        if (
            behaviour.has_generation
            and target.subresource != "status"
            and behaviour.desired_state(new) != behaviour.desired_state(old)
        ):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        is_same = _same(new, old) and (modification.operation != "Apply" or new["metadata"] == old["metadata"])
        if not is_same:
            _check_update(context, target, new, old)
            if not target.subresource:
                warnings += behaviour.warnings(new, old)
        for admission in context.admission:
            warnings += await admission.validate("UPDATE", target, new, old, options)
        if table.get(stored.key) is not stored:
            continue  # the object was written concurrently
        if is_same:
            await context.store.settled(stored.resource_version)
            return _answer(context, resource, stored.raw, old, created=False, warnings=warnings)
        return await _write(context, table, target, stored, (old, new), modification, options, warnings)
    raise conflict(resource, target.name)


def _check_update(context: Context, target: RequestTarget, new: Manifest, old: Manifest) -> None:
    resource = target.resource
    causes = object_meta.check_metadata(new["metadata"], old["metadata"], is_core=_is_core(resource))
    if resource.schema is not None:
        causes += resource.schema.validate(new, old)
    behaviour = context.behaviour(resource)
    causes += behaviour.check_related(new, old, context)
    if target.subresource != "status" and not causes:
        causes = behaviour.check_update(new, old, target.subresource)
    if causes:
        raise invalid(resource, target.name, causes)
    if not target.subresource:
        behaviour.admit_last(new, old, context)


async def _write(
    context: Context,
    table: ObjectTable,
    target: RequestTarget,
    stored: StoredObject,
    states: tuple[Manifest, Manifest],
    modification: Modification,
    options: WriteOptions,
    warnings: list[str],
) -> ApiAnswer:
    """Store the new state; an object without a remaining finalizer is removed."""
    resource = target.resource
    old, new = states
    if context.patching is not None and modification.operation != "Apply":
        context.patching.track(
            old, new, resource.schema, options.manager, modification.operation, context.stamp(), target.subresource
        )
    new = inward(new, resource, context.registry.hub(resource))
    if options.dry_run:
        return _answer(context, resource, encode(new), new, created=False, warnings=warnings)
    if context.behaviour(resource).is_done(new):
        last = context.store.remove(table, stored, new)
    else:
        last = context.store.put(table, stored.key, new, stored)
        _expire(context, context.behaviour(resource), table, last)
    await context.store.settled(last.resource_version)
    return _answer(context, resource, last.raw, new, created=False, warnings=warnings)
