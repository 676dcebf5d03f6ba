"""The cluster, and the cloud, whose releases and machines are changed on behalf of others."""

from __future__ import annotations

import re
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from cotenant.model.errors import InvalidInput
from cotenant.services.apps import command as apps
from cotenant.services.apps.command import AppLocation, Apps
from cotenant.services.changes.book import Say
from cotenant.services.vms import command as vms
from cotenant.services.vms.command import MachineLocation
from cotenant.services.vms.platform import Platform

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class ClusterPlace:
    """`cloud`: of OpenStack's clouds.yaml; empty = the cluster's machines are KubeVirt's."""

    kubeconfig: Path | None = None
    context: str = ""
    cloud: str = ""

    def releases(self, namespace: str, say: Say) -> AbstractAsyncContextManager[Apps]:
        """The releases, as seen from a namespace; empty = the kubeconfig's."""
        return apps.connected(AppLocation(self.kubeconfig, self.context, namespace), say)

    def machines(self, namespace: str) -> AbstractAsyncContextManager[Platform]:
        """The machines; a cloud has no namespaces."""
        if self.cloud:
            return vms.connected(MachineLocation(cloud=self.cloud))
        return vms.connected(MachineLocation(self.kubeconfig, self.context, namespace))


def check_namespace(namespace: str) -> str:
    """The namespace, or an empty text. Raises `InvalidInput`."""
    if namespace and not _NAMESPACE.fullmatch(namespace):
        raise InvalidInput("namespace", namespace[:64], "a namespace's name: lower-case letters, digits and -")
    return namespace
