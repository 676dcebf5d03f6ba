"""Why the pods of a workload are not ready, in words: the scheduler's, the kubelet's and the controllers' own.

Equal reasons of several pods are told once, with their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from cotenant.model.json_object import JsonMapping

_SHOWN = 4
_MAX_MESSAGE = 300
_NORMAL_WAITING = frozenset({"ContainerCreating", "PodInitializing"})


def reasons_of(
    pods: Sequence[JsonMapping], claims: Iterable[JsonMapping], warnings: Iterable[JsonMapping]
) -> list[str]:
    """The reasons of pods that are not ready, most frequent first, then what was said of those that could not be made.

    `claims`: volume claims of the pods' namespace; `warnings`: Events about a workload with fewer pods than it wants,
    or about its sets.
    """
    unbound = {
        claim["metadata"]["name"]: claim for claim in claims if (claim.get("status") or {}).get("phase") == "Pending"
    }
    counted: Counter[str] = Counter()
    for pod in pods:
        counted.update(dict.fromkeys(_of_pod(pod, unbound), 1))
    lines = [f"{why} ({count} pods)" if count > 1 else why for why, count in counted.most_common(_SHOWN)]
    said = Counter(_shortened(f"{one.get('reason')}: {one.get('message')}") for one in warnings)
    lines += [why for why, _ in said.most_common(_SHOWN)]
    return lines or ["it has no pods"]


def _of_pod(pod: JsonMapping, unbound: dict[str, JsonMapping]) -> list[str]:
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return ["a pod of before is going"]
    gates = [str(gate.get("name")) for gate in spec.get("schedulingGates") or ()]
    if gates:
        return [f"held back by the scheduling gate {', '.join(gates)}"]
    found = []
    scheduled = _condition(status, "PodScheduled")
    if not spec.get("nodeName"):
        named = [(volume.get("persistentVolumeClaim") or {}).get("claimName") for volume in spec.get("volumes") or ()]
        found += [f"PersistentVolumeClaim {name} is not bound" for name in named if name in unbound]
        if scheduled.get("status") == "False":
            found.append(_shortened(f"pending: {scheduled.get('message') or scheduled.get('reason')}"))
        else:
            found.append(f"pending: no scheduler named {spec.get('schedulerName') or '?'} has judged it yet")
        return found
    if status.get("phase") == "Failed":
        return [_shortened(f"failed: {status.get('reason') or ''} {status.get('message') or ''}".strip())]
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        found += _of_container(container)
    return found or ([] if _condition(status, "Ready").get("status") == "True" else ["starting"])


def _of_container(container: JsonMapping) -> list[str]:
    name = container.get("name")
    state = container.get("state") or {}
    waiting, ended = state.get("waiting"), state.get("terminated")
    last = (container.get("lastState") or {}).get("terminated") or {}
    if waiting is not None:
        reason = waiting.get("reason") or "waiting"
        if reason in _NORMAL_WAITING:
            return []
        code = f" (exit code {last['exitCode']}, {last.get('reason')})" if "exitCode" in last else ""
        return [_shortened(f"container {name}: {reason}: {waiting.get('message') or ''}".rstrip(": ") + code)]
    if ended is not None and ended.get("exitCode"):
        return [f"container {name} ended with exit code {ended['exitCode']} ({ended.get('reason')})"]
    if state.get("running") is not None and not container.get("ready") and ended is None:
        return [f"container {name} runs and is not ready"]
    return []


def _condition(status: JsonMapping, kind: str) -> JsonMapping:
    found: JsonMapping = next((one for one in status.get("conditions") or () if one.get("type") == kind), {})
    return found


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_MESSAGE else text[: _MAX_MESSAGE - 3] + "..."
