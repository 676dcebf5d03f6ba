"""Deletion of one object or of a selection."""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.contract import (
    ApiAnswer,
    DeletionOptions,
    ListOptions,
    RequestTarget,
    Resource,
    WriteOptions,
)
from cotenant_local.apiserver.kinds.conversion import outward
from cotenant_local.apiserver.storage.stored import StoredObject, encode
from cotenant_local.apiserver.verbs.context import Context
from cotenant_local.apiserver.verbs.deletion import DeletionStep, check_options, decide
from cotenant_local.apiserver.verbs.errors import conflict, not_found, precondition
from cotenant_local.apiserver.verbs.read import EncodedPage, list_page

# Kinds whose DELETE returns the object even if it is removed immediately; the others return a Status.
_RETURNED = frozenset(
    {
        ("", "pods"),
        ("", "services"),
        ("", "serviceaccounts"),
        ("", "persistentvolumes"),
        ("", "persistentvolumeclaims"),
        ("storage.k8s.io", "storageclasses"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "volumeattachments"),
    }
)
_ATTEMPTS = 8


def check_preconditions(target: RequestTarget, stored: StoredObject, options: DeletionOptions) -> None:
    """Check the preconditions on UID and resourceVersion. Raises ApiError 409."""
    if options.uid and options.uid != stored.uid:
        raise precondition(
            target.resource,
            target.name,
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({stored.uid}). "
            "The object might have been deleted and then recreated",
        )
    if options.resource_version and options.resource_version != str(stored.resource_version):
        raise precondition(
            target.resource,
            target.name,
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the ResourceVersion "
            "in record "
            f"({stored.resource_version}). The object might have been modified",
        )


def success(resource: Resource, name: str, uid: str) -> Manifest:
    """The Status of a completed deletion."""
    details = {"name": name, "kind": resource.plural, "uid": uid}
    if resource.group:
        details["group"] = resource.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


async def delete(
    context: Context, target: RequestTarget, options: DeletionOptions, *, is_admitted: bool = False
) -> ApiAnswer:
    """Delete an object, or mark it for deletion. Raises ApiError 404, 409, 422, or the refusal of admission.

    `is_admitted`: admission has already accepted the eviction.
    """
    resource = target.resource
    table = context.table(resource)
    behaviour = context.behaviour(resource)
    hub = context.registry.hub(resource)
    check_options(options)
    write = WriteOptions(dry_run=options.dry_run, user=options.user)
    for _ in range(_ATTEMPTS):
        stored = table.get((target.namespace, target.name))
        if stored is None:
            await context.store.settled(context.store.revision)
            raise not_found(resource, target.name)
        check_preconditions(target, stored, options)
        behaviour.check_delete(stored.decode())
        warnings: list[str] = []
        if context.admission and not is_admitted:
            old = outward(stored.decode(), resource, hub)
            for admission in context.admission:
                await admission.mutate("DELETE", target, None, old, write)
                warnings += await admission.validate("DELETE", target, None, old, write)
            if table.get(stored.key) is not stored:
                continue
        obj = stored.decode()
        behaviour.prepare_delete(obj)
        grace_s = behaviour.grace_s(obj, options.grace_s)
        decision = decide(
            obj,
            options,
            grace_s,
            context.now(),
            is_removable=behaviour.is_removable(obj),
            default_propagation=behaviour.default_propagation,
        )
        last = stored
        if not options.dry_run:
            if decision.step is DeletionStep.REMOVE:
                last = context.store.remove(table, stored, decision.obj)
            elif decision.step is DeletionStep.MARK:
                last = context.store.put(table, stored.key, decision.obj, stored)
        await context.store.settled(last.resource_version)
        if decision.step is DeletionStep.REMOVE and resource.storage not in _RETURNED:
            return ApiAnswer(encode(success(resource, target.name, stored.uid)), warnings=warnings)
        return ApiAnswer(encode(outward(decision.obj, resource, hub)), warnings=warnings)
    raise conflict(resource, target.name)


async def delete_collection(
    context: Context, target: RequestTarget, chosen: ListOptions, options: DeletionOptions
) -> EncodedPage:
    """Delete the selected objects. Returns them as they were before; objects deleted meanwhile are skipped."""
    page = await list_page(context, target, chosen)
    for item in page.items:
        one = RequestTarget(target.resource, item.namespace, item.name)
        try:
            await delete(context, one, options)
        except ApiError as error:
            if error.code != 404:
                raise
    return page
