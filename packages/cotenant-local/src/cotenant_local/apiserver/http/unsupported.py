"""Requests that only a real node or a real authorizer can serve: a Status that says so.

Kubectl logs, exec, port-forward or --as answered by "could not find the requested resource" looks like a mistake of the
user. The paths are known and answered with 501 and the reason.
Limits: the upgrade of a connection is not accepted; its client prints the message of the Status.
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.contract import RequestTarget
from cotenant_local.apiserver.http.exchange import Exchange

REASON = "NotImplemented"

_NO_CONTAINERS = "the nodes of this cluster are simulated: no container runs"
_SUBRESOURCES = {
    ("", "pods", "log"): f"{_NO_CONTAINERS}, so there are no logs; `kubectl describe pod` shows the events",
    ("", "pods", "exec"): f"{_NO_CONTAINERS}, so no command can be executed in one",
    ("", "pods", "attach"): f"{_NO_CONTAINERS}, so there is none to attach to",
    ("", "pods", "portforward"): f"{_NO_CONTAINERS}, so no port of the pod is open",
    ("", "pods", "proxy"): f"{_NO_CONTAINERS}, so no port of the pod is open",
    ("", "pods", "ephemeralcontainers"): f"{_NO_CONTAINERS}, so none can be added for debugging",
    ("", "services", "proxy"): f"{_NO_CONTAINERS}, so no endpoint of the service answers",
    (
        "",
        "nodes",
        "proxy",
    ): "the nodes of this cluster are simulated: no kubelet listens; `kubectl top` shows their usage",
}
_IMPERSONATION = (b"impersonate-user", b"impersonate-uid", b"impersonate-group")


def refuse_subresource(target: RequestTarget) -> None:
    """Raise ApiError 501 for a subresource that a simulated node cannot serve."""
    resource = target.resource
    why = _SUBRESOURCES.get((resource.group, resource.plural, target.subresource))
    if why is not None:
        raise ApiError(501, REASON, why, name=target.name, kind=resource.plural)


def refuse_impersonation(exchange: Exchange) -> None:
    """Raise ApiError 501 for a request on behalf of another user."""
    if any(name in exchange.headers for name in _IMPERSONATION):
        raise ApiError(
            501,
            REASON,
            "impersonation (--as, --as-group, --as-uid) is not supported: this server has one user, who may do "
            "everything",
        )
