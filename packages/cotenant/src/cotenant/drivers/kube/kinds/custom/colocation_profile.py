"""ClusterColocationProfile of config.koordinator.sh, as the model's value.

A profile whose selector or share cannot be read must not act on pods that it does not mean. `InvalidInput` with the
field; such a profile is not used.
Limits: the types of a patch's fields are checked where it is applied (services/reviewing/merging.py). A share above 100
percent is 100, a negative one 0, as upstream acts on them.

Source: Koordinator, apis/config/v1alpha1/cluster_colocation_profile_types.go.
"""

from __future__ import annotations

import re

import msgspec

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Strings, Text
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.drivers.kube.kinds.selectors import Selector, read_label_selector
from cotenant.model.cluster.colocation_profile import SKIP_UPDATE_RESOURCES, ColocationProfile, Pairs
from cotenant.model.cluster.qos import QoSClass, qos_of_label
from cotenant.model.errors import InvalidInput

_PERCENT = re.compile(r"[+-]?[0-9]{1,9}%")


class ColocationProfileSpec(ApiStruct, frozen=True):
    """Which pods, and what becomes of them."""

    namespace_selector: Selector | None = None
    selector: Selector | None = None
    probability: int | str | None = None
    labels: Strings = None
    annotations: Strings = None
    label_keys_mapping: Strings = None
    annotation_keys_mapping: Strings = None
    label_suffixes: Strings = None
    scheduler_name: Text = None
    qos_class: Text = None
    priority_class_name: Text = None
    koordinator_priority: int | None = None
    patch: msgspec.Raw = msgspec.Raw()


class ColocationProfileObject(ApiStruct, frozen=True):
    """A ClusterColocationProfile."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ColocationProfileSpec | None = None


COLOCATION_PROFILES = Kind(
    "ClusterColocationProfile",
    "config.koordinator.sh",
    "v1alpha1",
    "clustercolocationprofiles",
    False,
    ColocationProfileObject,
)


def read_colocation_profile(obj: ColocationProfileObject) -> ColocationProfile:
    """A profile. Raises `InvalidInput` for a field that cannot be read."""
    spec = obj.spec or ColocationProfileSpec()
    qos = qos_of_label(spec.qos_class)
    if spec.qos_class and not qos:
        raise InvalidInput("spec.qosClass", spec.qos_class, ", ".join(known.value for known in QoSClass if known))
    patch = bytes(spec.patch).decode() if spec.patch else ""
    return ColocationProfile(
        name=obj.metadata.name or "",
        namespaces=read_label_selector(spec.namespace_selector, "spec.namespaceSelector"),
        pods=read_label_selector(spec.selector, "spec.selector"),
        probability=_share(spec.probability),
        labels=_pairs(spec.labels),
        annotations=_pairs(spec.annotations),
        label_keys=_pairs(spec.label_keys_mapping),
        annotation_keys=_pairs(spec.annotation_keys_mapping),
        label_suffixes=_pairs(spec.label_suffixes),
        scheduler_name=spec.scheduler_name or "",
        qos=qos,
        priority_class=spec.priority_class_name or "",
        sub_priority=spec.koordinator_priority,
        patch="" if patch in ("null", "{}") else patch,
        keeps_resources=(obj.metadata.annotations or {}).get(SKIP_UPDATE_RESOURCES, "false") != "false",
    )


def _pairs(written: Strings) -> Pairs:
    return tuple(sorted((written or {}).items()))


def _share(written: int | str | None) -> int | None:
    if written is None:
        return None
    if isinstance(written, str):
        if not _PERCENT.fullmatch(written):
            raise InvalidInput("spec.probability", written, "a number from 0 to 100, or a percentage such as 50%")
        written = int(written[:-1])
    return max(0, min(100, written))
