"""Defaulting and validation of the GPU resources of a pod's containers.

One request for GPUs has several spellings, and what a scheduler divides must be divisible. On creation
`koordinator.sh/gpu: n` becomes gpu-core and gpu-memory-ratio of n percent, and a request in percent or bytes gets the
number of devices (`gpu.shared`) that it is divided over; both in requests and in limits. Validation is optional, as
upstream: the scheduler checks requests by stricter rules (model/devices/request.py) and says so on the pod.
Koordinator's earlier names (`kubernetes.io/gpu-core`) become today's.
Limits: Koordinator's names only.

Source: Koordinator, pkg/webhook/pod/{mutating,validating} (device resources). Upstream fails on requests without
limits; the limits are made here.
"""

from __future__ import annotations

from cotenant.model.devices.request import NPU_CORE, WHOLE
from cotenant.model.resources import EARLIER, GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, GPU_SHARED, parse_amount
from cotenant.policy.admission.documents import AdmissionRefusal, Document, containers_of, mapping, section

_PARTS = (GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO)
_DEFAULTED = (GPU, *_PARTS)


def default_devices(pod: Document) -> bool:
    """Complete the containers' GPU requests in place; whether any was changed. Raises `InvalidInput` for an amount
    that cannot be read.
    """
    changed = False
    for where, container in containers_of(mapping(pod, "spec")):
        resources = mapping(container, "resources", where)
        requests = mapping(resources, "requests", f"{where}.resources")
        limits = mapping(resources, "limits", f"{where}.resources")
        renamed = [_renamed(part) for part in (requests, limits)]
        changed = changed or any(renamed)
        asked = limits | requests
        if GPU_SHARED in asked or not any(name in asked for name in _DEFAULTED):
            continue
        amounts = _amounts(asked, f"{where}.resources")
        more = dict.fromkeys((GPU_CORE, GPU_MEMORY_RATIO), amounts[GPU]) if GPU in amounts else {}
        amounts |= more
        ratio = amounts.get(GPU_MEMORY_RATIO, amounts.get(GPU_CORE, 0))
        more[GPU_SHARED] = ratio // WHOLE if ratio > WHOLE and ratio % WHOLE == 0 else 1
        texts = {name: str(amount) for name, amount in more.items()}
        for kind in ("requests", "limits"):
            part = section(resources, kind)
            part.pop(GPU, None)
            part |= texts
        changed = True
    return changed


def _renamed(part: Document) -> bool:
    """Give earlier names of resources those of today, since a kubelet refuses names of Kubernetes' own that its
    node does not offer; whether there were any.
    """
    found = [name for name in EARLIER if name in part]
    for name in found:
        part.setdefault(EARLIER[name], part.pop(name))
    return bool(found)


def check_devices(pod: Document) -> list[AdmissionRefusal]:
    """Every rule that the containers' GPU requests break; `gpu.shared` is expected to have been defaulted. Raises
    `InvalidInput`.
    """
    found: dict[str, AdmissionRefusal] = {}
    for where, container in containers_of(mapping(pod, "spec")):
        field = f"{where}.resources.requests"
        requests = mapping(mapping(container, "resources", where), "requests", f"{where}.resources")
        amounts = _amounts(requests, field)
        for rule, text in _broken(amounts):
            found.setdefault(rule, AdmissionRefusal(rule, text, field))
    return list(found.values())


def _broken(amounts: dict[str, int]) -> list[tuple[str, str]]:
    found = []
    whole, shared = amounts.get(GPU), amounts.get(GPU_SHARED)
    if whole is not None and shared is not None:
        return [("gpu-and-shared", f"{GPU} and {GPU_SHARED} exclude each other")]
    if whole is not None and whole <= 0:
        found.append(("gpu-zero", f"{GPU} {whole}: expected more than 0 percent"))
    elif whole is not None and whole > WHOLE and whole % WHOLE:
        found.append(("gpu-not-whole", f"{GPU} {whole}: above 100 percent only whole devices, such as 200"))
    if shared is None:
        return found
    if shared <= 0:
        found.append(("shared-zero", f"{GPU_SHARED} {shared}: expected 1 or more"))
    if amounts.get(NPU_CORE):
        return found
    has_memory, has_ratio = bool(amounts.get(GPU_MEMORY)), bool(amounts.get(GPU_MEMORY_RATIO))
    if has_memory and has_ratio:
        found.append(("memory-and-ratio", f"{GPU_MEMORY} and {GPU_MEMORY_RATIO} exclude each other"))
    elif not (has_memory or has_ratio):
        found.append(("no-memory", f"{GPU_SHARED} needs {GPU_MEMORY} or {GPU_MEMORY_RATIO} beside it"))
    for name, rule in ((GPU_CORE, "core-not-multiple"), (GPU_MEMORY_RATIO, "ratio-not-multiple")):
        if shared > 0 and amounts.get(name, 0) % shared:
            found.append((rule, f"{name} {amounts[name]}: expected a multiple of {GPU_SHARED} {shared}"))
    return found


def _amounts(written: Document, where: str) -> dict[str, int]:
    return {
        name: parse_amount(name, written[name], f"{where}.{name}")
        for name in (*_DEFAULTED, GPU_SHARED, NPU_CORE)
        if written.get(name) is not None
    }
