"""Every field of a pod's spec that Kubernetes has, with our verdict, and the fields of a server that are not among
them.

A server's OpenAPI is compared with this table. A field that is not in it is *unknown*; one whose description speaks of
scheduling may steer it, and a pod that sets it waits and says so, since it might be placed wrongly. Others are only
named. Fields below one that is honoured as a whole, or irrelevant, are not looked at.

Source: Kubernetes API reference v1.30 to v1.37, core/v1 PodSpec.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct, field


class CoverageVerdict(StrEnum):
    """What this scheduler does with a field."""

    HONOURED = "honoured"
    IRRELEVANT = "irrelevant"  # to where a pod is placed
    NOT_SUPPORTED = "not supported"  # a pod that sets it waits, with this reason


class SchemaProperty(Struct):
    """A field in an OpenAPI document."""

    description: str = ""
    ref: str | None = field(default=None, name="$ref")
    all_of: list[SchemaProperty] | None = field(default=None, name="allOf")
    items: SchemaProperty | None = None

    def target(self) -> str:
        """The definition that the field, or each of its elements, is an instance of; empty for a scalar."""
        inner = self.items or self
        found = inner.ref or next((part.ref for part in inner.all_of or () if part.ref), None) or ""
        return found.rpartition("/")[2]


class Definition(Struct):
    """An object in an OpenAPI document."""

    properties: dict[str, SchemaProperty] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnknownField:
    """A field of a server's pods that is not in the table. `path`: from the spec, without positions in lists."""

    path: tuple[str, ...]
    may_steer: bool  # its description speaks of scheduling

    def __str__(self) -> str:
        return ".".join(("spec", *self.path))


def _table(**verdicts: str) -> Mapping[str, CoverageVerdict]:
    words = {
        "honoured": CoverageVerdict.HONOURED,
        "irrelevant": CoverageVerdict.IRRELEVANT,
        "unsupported": CoverageVerdict.NOT_SUPPORTED,
    }
    return {name: words[word] for word, names in verdicts.items() for name in names.split()}


_RULES = "requiredDuringSchedulingIgnoredDuringExecution preferredDuringSchedulingIgnoredDuringExecution"
_CORE = "io.k8s.api.core.v1."
FIELDS: Mapping[str, Mapping[str, CoverageVerdict]] = {
    "PodSpec": _table(
        honoured="affinity containers evictionResponders hostNetwork initContainers nodeName nodeSelector overhead "
        "preemptionPolicy priority resourceClaims resources schedulerName schedulingGates schedulingGroup"
        " terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes",
        irrelevant="activeDeadlineSeconds automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks"
        " ephemeralContainers hostAliases hostIPC hostPID hostUsers hostname hostnameOverride"
        " imagePullSecrets os"
        " priorityClassName readinessGates restartPolicy runtimeClassName securityContext serviceAccount"
        " serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain",
        unsupported="workloadRef",
    ),
    "EvictionResponder": _table(honoured="name", irrelevant="priority"),
    "PodSchedulingGroup": _table(honoured="podGroupName"),
    "PodResourceClaim": _table(honoured="name resourceClaimName resourceClaimTemplateName"),
    "PodSchedulingGate": _table(honoured="name"),
    "Affinity": _table(honoured="nodeAffinity podAffinity podAntiAffinity"),
    "NodeAffinity": _table(honoured=_RULES),
    "NodeSelector": _table(honoured="nodeSelectorTerms"),
    "PreferredSchedulingTerm": _table(honoured="preference weight"),
    "NodeSelectorTerm": _table(honoured="matchExpressions matchFields"),
    "NodeSelectorRequirement": _table(honoured="key operator values"),
    "PodAffinity": _table(honoured=_RULES),
    "PodAntiAffinity": _table(honoured=_RULES),
    "WeightedPodAffinityTerm": _table(honoured="podAffinityTerm weight"),
    "PodAffinityTerm": _table(
        honoured="labelSelector matchLabelKeys mismatchLabelKeys namespaceSelector namespaces topologyKey"
    ),
    "TopologySpreadConstraint": _table(
        honoured="labelSelector matchLabelKeys maxSkew minDomains nodeAffinityPolicy nodeTaintsPolicy topologyKey"
        " whenUnsatisfiable"
    ),
    "Toleration": _table(honoured="effect key operator value", irrelevant="tolerationSeconds"),
    "Container": _table(
        honoured="image name ports resources restartPolicy",
        irrelevant="args command env envFrom imagePullPolicy lifecycle livenessProbe readinessProbe resizePolicy"
        " restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath"
        " terminationMessagePolicy tty volumeDevices volumeMounts workingDir",
    ),
    "ContainerPort": _table(honoured="containerPort hostIP hostPort protocol", irrelevant="name"),
    "ResourceRequirements": _table(honoured="limits requests", irrelevant="claims"),  # claims: with spec.resourceClaims
    "Volume": _table(
        honoured="awsElasticBlockStore ephemeral gcePersistentDisk iscsi name persistentVolumeClaim rbd",
        irrelevant="azureDisk azureFile cephfs cinder configMap csi downwardAPI emptyDir fc flexVolume flocker gitRepo"
        " glusterfs hostPath image nfs photonPersistentDisk portworxVolume projected quobyte scaleIO secret storageos"
        " vsphereVolume",
    ),
}
_STEERING = re.compile(r"schedul|preempt|\bplace[ds]?\b|placement|topolog|\bnodes?\b", re.IGNORECASE)


def unknown_fields(definitions: Mapping[str, Definition]) -> tuple[UnknownField, ...]:
    """The fields of a server's PodSpec, and of what is honoured below it, that are not in the table."""
    return tuple(_unknown(definitions, f"{_CORE}PodSpec", ()))


def _unknown(definitions: Mapping[str, Definition], name: str, path: tuple[str, ...]) -> Iterator[UnknownField]:
    known, found = FIELDS.get(name.removeprefix(_CORE)), definitions.get(name)
    if known is None or found is None:
        return
    for part, written in found.properties.items():
        verdict = known.get(part)
        if verdict is None:
            yield UnknownField((*path, part), bool(_STEERING.search(f"{part} {written.description}")))
        elif verdict is CoverageVerdict.HONOURED:
            yield from _unknown(definitions, written.target(), (*path, part))
