"""The annotations that this project reads and writes on Kubernetes objects, each defined once.

A scheduler, a simulated node and a workload must agree on where a pod states its needs, and Kubernetes has no field for
them. Flat names under one prefix; amounts are decimal text with the unit in the name, structured values are JSON
objects with the field names of the corresponding value.
Limits: only `SIMULATED` may hold the true behaviour of a simulated pod; no scheduler reads it.
"""

from __future__ import annotations

PREFIX = "cotenant.io/"

# --- on pods, for schedulers
TENANT = "cotenant.io/tenant"  # the pod's tenant; absent = its namespace
OBJECTIVE_P99_MS = "cotenant.io/objective-p99-ms"  # a service's latency objective, milliseconds
ESTIMATE = "cotenant.io/estimate"  # JSON, the fields of model.pod.Estimate; absent fields take its defaults
DEADLINE = "cotenant.io/deadline"  # of the pod's job, RFC 3339
GROUP = "cotenant.io/group"  # at most `GROUP_LIMIT` pods of a group on one node
GROUP_LIMIT = "cotenant.io/group-limit"  # default 1
LOAD_LIMIT = (
    "cotenant.io/load-limit"  # highest estimated CPU fraction of a node at which the pod may still be placed there
)

# --- on pods, for the rebalancer: names of Kubernetes, Koordinator and the descheduler
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
EVICTION_COST = "scheduling.koordinator.sh/eviction-cost"  # 2147483647: never evicted
FORCED_EVICTION = "descheduler.alpha.kubernetes.io/evict"  # present: configurable filters do not apply
# --- on pods, about their disruption: names of Cluster Autoscaler, Karpenter and the descheduler, for every mover
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"  # "false" forbids
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"  # "true", or for how long after the start, such as "1h30m"
PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"  # present: forbids

# JSON, on a pod that waits: the node on which our rebalancer makes room for it, the pods that it moves, and until when
# schedulers keep it
EXPECTED_ROOM = "cotenant.io/expected-room"
MIRROR = "kubernetes.io/config.mirror"  # present: a static pod of its node

# --- on pods, by our scheduler; by admission
DECISION = "cotenant.io/decision"  # JSON: the reason for the placement, written together with the node
EXTENDED_SPEC = "node.koordinator.sh/extended-resource-spec"  # JSON with batch amounts per container, by admission

# --- on pods, for simulated nodes only
SIMULATED = "cotenant.io/simulated"  # JSON: the pod's true behaviour (cotenant_local/nodes/behaviour.py)
RUN_SECONDS = "cotenant.io/run-seconds"  # how long a simulated pod runs, alone on its node; absent = without end
EXIT_CODE = "cotenant.io/exit-code"  # exit code of its container; absent = 0

# --- on nodes, for simulated nodes only
FAIL_PREPARE = "cotenant.io/fail-prepare"  # of a simulated node: why it cannot prepare the devices of claims
UNHEALTHY_DEVICES = "cotenant.io/unhealthy-devices"  # of a simulated node: names of devices that its driver taints
FAIL = "cotenant.io/fail"  # "true": the simulated node stops reporting until this is removed
CPU_USED = "cotenant.io/cpu-used"  # written by simulated nodes: cores in use
MEMORY_USED = "cotenant.io/memory-used"  # bytes in use
VIOLATION = "cotenant.io/violation"  # share of the node's services that missed their objective in the last window

# --- on nodes, for schedulers: Koordinator's names
USAGE_THRESHOLDS = "scheduling.koordinator.sh/usage-thresholds"  # JSON: load thresholds of this node alone
RAW_ALLOCATABLE = "node.koordinator.sh/raw-allocatable"  # JSON: what the node had before it was amplified
AMPLIFICATION_RATIO = (
    "node.koordinator.sh/resource-amplification-ratio"  # JSON: {"cpu": 1.5}; also on its NodeResourceTopology
)

# JSON, by our manager: the amounts that are lent, with their terms; also on its NodeResourceTopology, by zone
LENT_TERMS = "cotenant.io/lent"
GPU_TERMS = "cotenant.io/gpu-totals"  # JSON, by our manager: the node's GPU resources, with their terms

ON_NODES = (
    USAGE_THRESHOLDS,
    RAW_ALLOCATABLE,
    AMPLIFICATION_RATIO,
    LENT_TERMS,
)  # the node annotations that a scheduler keeps
