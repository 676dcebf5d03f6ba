"""pods/binding and bindings: assigns a pod to a node, with the scheduler's annotations and labels, in one write.

Rules observed on a real server: a wrong UID, a second bind and a gated pod are 409; an unknown node is not checked; the
annotations and labels of the Binding are merged into the pod; PodScheduled becomes True; the nomination is cleared.
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import ApiError, FieldError, Manifest
from cotenant_local.apiserver.contract import ApiAnswer, RequestTarget, Resource, WriteOptions
from cotenant_local.apiserver.kinds import shapes
from cotenant_local.apiserver.kinds.pods.pod import set_condition
from cotenant_local.apiserver.storage.stored import encode
from cotenant_local.apiserver.verbs.context import Context
from cotenant_local.apiserver.verbs.errors import bad_request, conflict, invalid, not_found
from cotenant_local.apiserver.verbs.object_meta import check_metadata, metadata_of

_SUCCESS = encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})


def _check(binding: Manifest, name: str) -> None:
    if binding.get("kind") not in (None, "", "Binding"):
        raise bad_request(f"not a Binding object: {binding['kind']}")
    if binding["metadata"].get("name") != name:
        raise bad_request("name in URL does not match name in Binding object")
    target = binding["target"]
    causes = []
    if target.get("kind") not in (None, "", "Node"):
        causes.append(
            FieldError(
                "FieldValueNotSupported",
                f'Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"',
                "target.kind",
            )
        )
    if not target.get("name"):
        causes.append(FieldError("FieldValueRequired", "Required value", "target.name"))
    if causes:
        raise ApiError(
            422,
            "Invalid",
            f'Binding "{name}" is invalid: {causes[0].field}: {causes[0].message}',
            kind="Binding",
            causes=tuple(causes),
        )


def _refusal(pod: Manifest) -> str:
    name, spec = pod["metadata"]["name"], pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _assign(pod: Manifest, binding: Manifest, now: float) -> None:
    pod["spec"]["nodeName"] = binding["target"]["name"]
    metadata = binding["metadata"]
    for field in ("annotations", "labels"):
        if metadata.get(field):
            pod["metadata"][field] = {**(pod["metadata"].get(field) or {}), **metadata[field]}
    status = pod.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    set_condition(status, {"type": "PodScheduled", "status": "True"}, now)


async def bind(
    context: Context, pods: Resource, target: RequestTarget, binding: Manifest, options: WriteOptions
) -> ApiAnswer:
    """Bind the pod named by the target (or, on /bindings, by the object). Raises ApiError 400, 404, 409, 422."""
    shapes.check(binding, shapes.Binding)
    metadata = metadata_of(binding)
    name = target.name or metadata.get("name") or ""
    _check(binding, name)
    warnings: list[str] = []
    if context.admission:
        binding_target = RequestTarget(pods, target.namespace, name, "binding")
        for admission in context.admission:
            binding = await admission.mutate("CREATE", binding_target, binding, None, options) or binding
        for admission in context.admission:
            warnings += await admission.validate("CREATE", binding_target, binding, None, options)
        shapes.check(binding, shapes.Binding)
        metadata = metadata_of(binding)
    table = context.table(pods)
    stored = table.get((target.namespace, name))
    if stored is None:
        raise not_found(pods, name)
    if metadata.get("uid") and metadata["uid"] != stored.uid:
        raise conflict(
            pods, name, f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {stored.uid}"
        )
    if metadata.get("resourceVersion") and metadata["resourceVersion"] != str(stored.resource_version):
        given = metadata["resourceVersion"]
        why = (
            f"Precondition failed: ResourceVersion in precondition: {given}, ResourceVersion in object meta: "
            f"{stored.resource_version}"
        )
        raise conflict(pods, name, why)
    pod = stored.decode()
    if why := _refusal(pod):
        raise conflict(pods, name, why, "binding")
    _assign(pod, binding, context.now())
    if causes := check_metadata(pod["metadata"], None):  # the binding adds labels and annotations
        raise invalid(pods, name, causes)
    if not options.dry_run:
        last = context.store.put(table, stored.key, pod, stored)
        await context.store.settled(last.resource_version)
    return ApiAnswer(_SUCCESS, created=True, warnings=warnings)
