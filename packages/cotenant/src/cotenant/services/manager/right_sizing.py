"""Right-sizing inside the manager: its watches, its engine, and its two writes. On with `--right-sizing` only.

Pods are watched once more with what their programs are told, which the manager's own pods do not have; a manager that
resizes nothing does not pay for it. A resize that the API server refuses (a LimitRange, a quota, a QoS class) is told
to the engine, which gives the change up and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from cotenant.drivers.kube.client.client import STRATEGIC_PATCH, Client
from cotenant.drivers.kube.client.errors import Conflict, NotFound
from cotenant.drivers.kube.kinds.custom.node_metric import NODE_METRICS, read_node_metric
from cotenant.drivers.kube.kinds.custom.objective_status import OBJECTIVE_STATUSES, read_objective_status
from cotenant.drivers.kube.kinds.custom.right_sizing import RIGHT_SIZINGS, read_right_sizing, status_fields
from cotenant.drivers.kube.kinds.namespace_limits import AUTOSCALERS, AutoscalerObject, scaled_by
from cotenant.drivers.kube.kinds.pod.sized import RESIZER, SIZED_PODS, read_sized_pod, written_size
from cotenant.drivers.kube.kinds.workloads import REPLICA_SETS, WorkloadObject
from cotenant.engine.autonomy.permissions import Permissions
from cotenant.engine.sizing.reports import CapacityOf
from cotenant.engine.sizing.right_sizer import RightSizer
from cotenant.engine.sizing.scene import ResizePod, WriteSizing
from cotenant.model.errors import Permanent
from cotenant.policy.assess.container_sizes import HeldResources, held_by_autoscaler
from cotenant.services.kube_process.statuses import Writer
from cotenant.services.kube_process.watches import ObjectHandler, Watches

_Owned = tuple[str, str, tuple[str, str] | None]


class RightSizingService:
    """Adds the watches; `engine` decides, `writers` carry out."""

    def __init__(
        self,
        watches: Watches,
        now: Callable[[], float],
        permissions: Permissions,
        capacity_of: CapacityOf = lambda node: None,
    ) -> None:
        """`now`: the process's clock, Unix seconds. `permissions` and `capacity_of` (a node): kept up to date by who
        reads them.
        """
        self._now = now
        self.engine = RightSizer(_stamp, permissions, capacity_of)
        engine = self.engine
        watches.handle(
            RIGHT_SIZINGS,
            ObjectHandler(read_right_sizing, engine.sizing_seen, engine.sizing_gone),
            optional=True,
        )
        watches.handle(SIZED_PODS, ObjectHandler(read_sized_pod, engine.pod_seen, engine.pod_gone))
        watches.handle(
            REPLICA_SETS,
            ObjectHandler(_owned, lambda found: engine.owner_seen(*found), self._owner_gone),
            optional=True,
        )
        reports = ObjectHandler(
            read_node_metric, lambda metric: engine.metric_seen(metric, now()), engine.reports.node_gone
        )
        watches.handle(NODE_METRICS, reports, optional=True)
        watches.handle(
            OBJECTIVE_STATUSES,
            ObjectHandler(read_objective_status, engine.objective_seen, engine.objective_gone),
            optional=True,
        )
        watches.handle(
            AUTOSCALERS,
            ObjectHandler(held_by, lambda found: engine.autoscaler_seen(*found), engine.autoscaler_gone),
            optional=True,
        )

    def _owner_gone(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        self.engine.owner_seen(namespace, name, None)

    def writers(self) -> Mapping[type, Writer]:
        """The write of each instruction."""
        return {WriteSizing: write_sizing, ResizePod: self._resize}

    async def _resize(self, client: Client, write: ResizePod) -> None:
        if self.engine.may_resize(write, self._now()):  # a freeze may have come while it waited
            await resize_pod(client, write, self.engine.resize_refused)


async def resize_pod(client: Client, write: ResizePod, refused: Callable[[ResizePod, str], None]) -> None:
    """Set a container's amounts in place; a refusal is told and not tried again."""
    container = {"name": write.container, "resources": written_size(write.size)}
    body = {"metadata": {"uid": write.uid}, "spec": {"containers": [container]}}
    try:
        await client.patch(
            SIZED_PODS,
            write.namespace,
            write.pod,
            body,
            content_type=STRATEGIC_PATCH,
            subresource="resize",
            field_manager=RESIZER,
        )
    except (NotFound, Conflict):
        raise
    except Permanent as error:
        refused(write, str(error))


async def write_sizing(client: Client, write: WriteSizing) -> None:
    """Store a status; `Conflict` where the name has another object."""
    namespace, _, name = write.sizing.partition("/")
    await client.set_status(RIGHT_SIZINGS, namespace, name, write.uid, status_fields(write.status))


def held_by(scaler: AutoscalerObject) -> tuple[str, tuple[str, str, str], HeldResources]:
    """The autoscaler's key, what it scales, and what it goes by."""
    namespace, name = scaler.metadata.namespace or "default", scaler.metadata.name or ""
    target = scaler.spec.scale_target_ref
    held = held_by_autoscaler(name, [resource for resource, _ in scaled_by(scaler)])
    return f"{namespace}/{name}", (namespace, target.kind, target.name), held


def _owned(obj: WorkloadObject) -> _Owned:
    meta = obj.metadata
    above = next((found for found in meta.owner_references or () if found.controller), None)
    return meta.namespace or "default", meta.name or "", (above.kind, above.name) if above is not None else None


def _stamp(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
