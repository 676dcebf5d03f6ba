"""Whatever a pod has or lacks: its patch applies to it, gives the mutated pod, and the pod that was asked about is
not changed.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonpatch import JsonPatch
from tests.property.few import examples, first_cases

from cotenant.model.cluster.colocation_profile import ColocationProfile, PriorityClassValue
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.qos import QoSClass
from cotenant.policy.admission.differences import difference
from cotenant.policy.admission.profiles import mutate_pod
from cotenant.services.reviewing.merging import merge_pod
from cotenant.services.reviewing.reviewer import complete_pod

CLASSES = {"batch": PriorityClassValue("batch", 5500, "Never"), "mid": PriorityClassValue("mid", 7500)}
NAMES = [
    "cpu",
    "memory",
    "kubernetes.io/batch-cpu",
    "koordinator.sh/gpu",
    "koordinator.sh/gpu-memory",
    "ephemeral-storage",
]
AMOUNTS = st.none() | st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["1", "2", 1, "100"]), max_size=3)
RESOURCES = st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS})
CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("abc")}, optional={"resources": st.none() | RESOURCES}), max_size=2
)
TEXTS = st.none() | st.dictionaries(st.sampled_from(["a", "b/c", "~"]), st.sampled_from(["", "x"]), max_size=2)
PODS = st.fixed_dictionaries(
    {
        "spec": st.fixed_dictionaries(
            {}, optional={"containers": CONTAINERS, "initContainers": CONTAINERS, "overhead": AMOUNTS}
        )
    },
    optional={"metadata": st.none() | st.fixed_dictionaries({}, optional={"labels": TEXTS, "annotations": TEXTS})},
)
PROFILES = st.lists(
    st.builds(
        ColocationProfile,
        name=st.sampled_from("pqr"),
        labels=st.sampled_from([(), (("a", "1"),)]),
        annotations=st.sampled_from([(), (("b/c", "1"),)]),
        label_keys=st.sampled_from([(), (("a", "b/c"),)]),
        label_suffixes=st.sampled_from([(), (("a", "-s"),)]),
        scheduler_name=st.sampled_from(["", "cotenant"]),
        qos=st.sampled_from([QoSClass.NONE, QoSClass.BE]),
        priority_class=st.sampled_from(["", "batch", "mid"]),
        patch=st.sampled_from(["", '{"metadata":{"annotations":{"~":null,"n":"1"}},"spec":{"nodeName":null}}']),
    ),
    max_size=3,
)


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PODS, PROFILES)
def test_the_patch_of_any_pod_gives_the_mutated_pod(pod: dict[str, Any], profiles: list[ColocationProfile]) -> None:
    kept = json.dumps(pod)
    done = mutate_pod(pod, profiles, Labels.of({}), CLASSES, lambda name: 0, merge_pod)
    assert done.refusal is None
    assert complete_pod(done) is None
    operations = json.loads(json.dumps(difference(pod, done.document)))
    assert json.dumps(pod) == kept
    assert JsonPatch(operations).apply(pod) == done.document


test_first_cases = first_cases(
    test_the_patch_of_any_pod_gives_the_mutated_pod,
    most=3,
)
