"""pods/eviction: deletes a pod if its disruption budget allows.

Two concurrent evictions must not both consume the last allowed disruption. Budget and pod are read, checked and written
in one step of the event loop, so no write can interleave (the real server retries on conflicts instead). The eviction
is recorded in the budget's status (`disruptedPods`, one disruption fewer), which its controller confirms.
Source: Kubernetes documentation "API-initiated Eviction", policy/v1 API reference; behaviour at an unprocessed budget
as observed on a real server (429).
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import ApiError, FieldError, Manifest
from cotenant.model.json_object import JsonValue
from cotenant_local.apiserver.contract import ApiAnswer, DeletionOptions, RequestTarget, Resource, WriteOptions
from cotenant_local.apiserver.kinds import shapes
from cotenant_local.apiserver.kinds.pods.pod import set_condition
from cotenant_local.apiserver.selectors import label_selector
from cotenant_local.apiserver.storage.stored import StoredObject, encode
from cotenant_local.apiserver.verbs.context import Context, timestamp
from cotenant_local.apiserver.verbs.delete import check_preconditions, delete
from cotenant_local.apiserver.verbs.deletion import check_options
from cotenant_local.apiserver.verbs.errors import bad_request, not_found
from cotenant_local.apiserver.verbs.object_meta import metadata_of

_SUCCESS = encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
_CAUSE = "DisruptionBudget"
_RETRY_S = 10
_MAX_DISRUPTED = 2000


def _too_many(message: str, retry_after_s: int) -> ApiError:
    return ApiError(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        causes=(FieldError(_CAUSE, message, ""),),
        retry_after_s=retry_after_s,
    )


def _options(eviction: Manifest, options: WriteOptions) -> DeletionOptions:
    requested: Manifest = eviction.get("deleteOptions") or {}
    preconditions = requested.get("preconditions") or {}
    return DeletionOptions(
        grace_s=requested.get("gracePeriodSeconds"),
        propagation=requested.get("propagationPolicy") or "",
        uid=preconditions.get("uid") or "",
        resource_version=preconditions.get("resourceVersion") or "",
        dry_run=options.dry_run or bool(requested.get("dryRun")),
        user=options.user,
    )


def _needs_no_budget(pod: Manifest) -> bool:
    """Whether no budget is checked: the pod has finished, is pending, or is already being deleted."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


def _is_ready(pod: Manifest) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)


def _budgets(context: Context, resource: Resource, pod: StoredObject) -> list[StoredObject]:
    found = []
    for stored in context.table(resource).walk(pod.namespace):
        selector = (stored.decode().get("spec") or {}).get("selector")
        if label_selector(selector).matches(pod.labels):
            found.append(stored)
    return found


def _may_evict_unready(pod: Manifest, budget: Manifest) -> bool:
    """Whether an unready pod may be evicted without consuming a disruption: by the budget's policy, or because
    enough pods are healthy.
    """
    if _is_ready(pod):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    return desired > 0 and healthy >= desired


def _set_insufficient(status: Manifest, generation: int, stamp: str) -> None:
    """Set the condition DisruptionAllowed to False."""
    condition: Manifest = {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": generation,
        "lastTransitionTime": stamp,
        "reason": "InsufficientPods",
        "message": "",
    }
    conditions: list[JsonValue] = status.setdefault("conditions", [])
    for at, found in enumerate(conditions):
        if found.get("type") == condition["type"]:
            if found.get("status") == "False":
                condition["lastTransitionTime"] = found.get("lastTransitionTime", stamp)
            conditions[at] = condition
            return
    conditions.append(condition)


def _consume(budget: Manifest, pod_name: str, stamp: str) -> None:
    """Consume one allowed disruption. Raises ApiError 403, 429."""
    name, status = budget["metadata"]["name"], budget.setdefault("status", {})
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _too_many(f"The disruption budget {name} is still being processed by the server.", _RETRY_S)
    allowed = status.get("disruptionsAllowed", 0)
    disrupted: dict[str, str] = status.setdefault("disruptedPods", {})
    if allowed < 0 or len(disrupted) > _MAX_DISRUPTED:
        why = (
            "pdb disruptions allowed is negative"
            if allowed < 0
            else "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        )
        raise ApiError(
            403, "Forbidden", f'poddisruptionbudget.policy "{name}" is forbidden: {why}', name=name, group="policy"
        )
    if allowed == 0:
        healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        condition: Manifest = next(
            (
                found
                for found in status.get("conditions") or []
                if found.get("type") == "DisruptionAllowed" and found.get("status") == "False"
            ),
            {},
        )
        sync_error = condition.get("message", "")
        if sync_error and condition.get("reason") == "SyncFailed":
            why = (
                f"The disruption budget {name} does not allow evicting pods currently because it failed sync: "
                f"{sync_error}"
            )
        elif healthy <= desired:
            why = f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        else:
            why = f"The disruption budget {name} does not allow evicting pods currently"
        raise _too_many(why, 0)
    status["disruptionsAllowed"] = allowed - 1
    if allowed == 1:
        _set_insufficient(status, budget["metadata"].get("generation", 0), stamp)
    disrupted[pod_name] = stamp


async def evict(
    context: Context,
    pods: Resource,
    budgets: Resource,
    target: RequestTarget,
    eviction: Manifest,
    options: WriteOptions,
) -> ApiAnswer:
    """Evict the target pod. Raises ApiError 400, 404, 409, 429, 500."""
    shapes.check(eviction, shapes.Eviction)
    if eviction.get("kind") not in (None, "", "Eviction"):
        raise bad_request(f"not a Eviction object: {eviction.get('kind')}")
    name = metadata_of(eviction).setdefault("name", target.name)
    if name != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    for admission in context.admission:
        eviction = await admission.mutate("CREATE", target, eviction, None, options) or eviction
    for admission in context.admission:
        await admission.validate("CREATE", target, eviction, None, options)
    shapes.check(eviction, shapes.Eviction)
    delete_options = _options(eviction, options)
    check_options(delete_options)
    table = context.table(pods)
    stored = table.get((target.namespace, name))
    if stored is None:
        raise not_found(pods, name)
    one = RequestTarget(pods, target.namespace, name)
    check_preconditions(one, stored, delete_options)
    pod = stored.decode()
    if not _needs_no_budget(pod):
        found = _budgets(context, budgets, stored)
        if len(found) > 1:
            raise ApiError(
                500,
                "InternalError",
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            )
        if found:
            budget = found[0].decode()
            if not _may_evict_unready(pod, budget):
                _consume(budget, name, timestamp(context.now()))
                if not delete_options.dry_run:
                    context.store.put(context.table(budgets), found[0].key, budget, found[0])
    if not delete_options.dry_run:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        set_condition(pod.setdefault("status", {}), condition, context.now())
        # The condition and the deletion are two writes of one batch.
        marked = context.store.put(table, stored.key, pod, stored)
        delete_options = DeletionOptions(
            delete_options.grace_s,
            delete_options.propagation,
            delete_options.uid,
            str(marked.resource_version),
            user=delete_options.user,
        )
    await delete(context, one, delete_options, is_admitted=True)
    return ApiAnswer(_SUCCESS, created=True)
