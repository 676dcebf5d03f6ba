"""What each path of the webhook answers to a review.

    /mutate-pod            profiles, record of lent amounts, devices          CREATE
    /validate-pod          classes, quotas, and where asked for, devices      CREATE, UPDATE, UPDATE of pods/resize
    /validate-eviction     an agent's own node                                CREATE of pods/eviction
    /mutate-reservation    profiles                                           CREATE
    /mutate-quota          defaults                                           CREATE, UPDATE
    /validate-quota        rules of the tree                                  CREATE, UPDATE, DELETE
    /mutate-node-status    amplification                                      UPDATE of nodes/status

A webhook stands in the way of every pod of a cluster, its own included. Whatever is not about the path's resource, its
operations or one of its namespaces is allowed as it is; an object that cannot be read is refused with 400 and its
field; everything else is a patch or a refusal with all broken rules. A write of a status is never refused, whatever is
wrong with it: the sentence becomes a warning to the writer.
Limits: an answer is made in the event loop, a pod at a time; only the rules of quotas ask the API server, whether a
quota has pods.

Source: Koordinator, pkg/webhook; Kubernetes, "Dynamic Admission Control".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from random import Random

from cotenant.drivers.kube.kinds.custom.elastic_quota import ELASTIC_QUOTAS, X_ELASTIC_QUOTAS
from cotenant.drivers.kube.kinds.custom.reservation import RESERVATIONS
from cotenant.model.cpus.spec import RESOURCE_STATUS, ResourceStatus
from cotenant.model.devices.inventory import GPU_ISOLATION, NODE_ISOLATION
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.quota import NAME, PREEMPTIBLE
from cotenant.model.resources import CPU_NAME, Amounts
from cotenant.policy.admission.devices import check_devices, default_devices
from cotenant.policy.admission.differences import difference
from cotenant.policy.admission.documents import AdmissionRefusal, Document, annotations_of, labels_of, mapping
from cotenant.policy.admission.holdings import check_holdings
from cotenant.policy.admission.pods import check_pod, requests_of
from cotenant.policy.admission.profiles import (
    Draw,
    Mutation,
    mutate_pod,
    mutate_reservation,
    note_profiles,
    workload_draw,
)
from cotenant.policy.admission.translation import left_native, record
from cotenant.policy.quota.admission import QuotaViolation
from cotenant.policy.quota.pods import check_pod_quota, closed_to, exceeded, quota_of_pod, unknown
from cotenant.services.reviewing import quotas
from cotenant.services.reviewing.facts import KnownQuota, QuotaCountedPod, WebhookFacts
from cotenant.services.reviewing.merging import merge_pod, merge_reservation
from cotenant.services.reviewing.nodes import amplified_node
from cotenant.services.reviewing.review import ALLOWED, ReviewOutcome, ReviewRequest
from cotenant.services.reviewing.rules import ReviewRules

MASTERS = "system:masters"
NODE_OF_TOKEN = "authentication.kubernetes.io/node-name"  # of a token that is bound to a pod; Kubernetes 1.30


@dataclass(frozen=True, slots=True)
class _Path:
    answer: Callable[[ReviewRequest], Awaitable[ReviewOutcome]]
    resources: frozenset[tuple[str, str]]  # (group, plural)
    operations: frozenset[str]
    subresource: str = ""
    is_everywhere: bool = False  # in exempt namespaces too
    also: str = ""  # another one


_PODS = frozenset({("", "pods")})
_QUOTAS = frozenset({(kind.group, kind.plural) for kind in (ELASTIC_QUOTAS, X_ELASTIC_QUOTAS)})
_CREATE, _WRITE = frozenset({"CREATE"}), frozenset({"CREATE", "UPDATE"})


NodeOf = Callable[[str, str], Awaitable[str | None]]
"""The node of a pod by its namespace and name; "" = not bound yet, None = no such pod. May raise `CotenantError`."""


async def _nowhere(namespace: str, name: str) -> str | None:
    return None


class Reviewer:
    """Answers reviews from what `facts` knows. `has_pods` may raise `CotenantError`; `rng` draws where pods draw
    one by one.
    """

    def __init__(
        self,
        facts: WebhookFacts,
        rules: ReviewRules,
        has_pods: quotas.HasPods,
        rng: Random,
        node_of: NodeOf | None = None,
    ) -> None:
        """`node_of` is needed where evictions are judged."""
        self._facts = facts
        self._rules = rules
        self._has_pods = has_pods
        self._rng = rng
        self._node_of = node_of or _nowhere
        reservations = frozenset({(RESERVATIONS.group, RESERVATIONS.plural)})
        self._paths = {
            "/mutate-pod": _Path(self._mutate_pod, _PODS, _CREATE),
            "/validate-pod": _Path(self._validate_pod, _PODS, _WRITE, also="resize"),
            "/mutate-quota": _Path(self._mutate_quota, _QUOTAS, _WRITE),
            "/validate-quota": _Path(self._validate_quota, _QUOTAS, _WRITE | {"DELETE"}),
        }
        if rules.agents:
            self._paths["/validate-eviction"] = _Path(
                self._validate_eviction, _PODS, _CREATE, "eviction", is_everywhere=True
            )
        if rules.reservations:
            self._paths["/mutate-reservation"] = _Path(self._mutate_reservation, reservations, _CREATE)
        if rules.amplifies_nodes:
            nodes = frozenset({("", "nodes")})
            self._paths["/mutate-node-status"] = _Path(self._mutate_node, nodes, frozenset({"UPDATE"}), "status")

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that are answered."""
        return tuple(self._paths)

    @property
    def status_paths(self) -> frozenset[str]:
        """Those whose reviews are of writes of a status: they are never refused."""
        return frozenset(name for name, path in self._paths.items() if path.subresource == "status")

    async def review(self, path: str, request: ReviewRequest) -> ReviewOutcome:
        """The answer to a request at one of `paths`. Raises `CotenantError` where the API server could not be asked."""
        found = self._paths[path]
        resource = request.resource
        if (
            (resource.group, resource.resource) not in found.resources
            or (request.sub_resource or "") not in (found.subresource, found.also)
            or request.operation not in found.operations
            or ((request.namespace or "") in self._rules.exempt and not found.is_everywhere)
        ):
            return ALLOWED
        outcome = await self._answer(found, request)
        if path in self.status_paths and not outcome.is_allowed:
            return ReviewOutcome(warnings=(*outcome.warnings, outcome.message))
        return outcome

    async def _answer(self, path: _Path, request: ReviewRequest) -> ReviewOutcome:
        body = request.old_object if request.operation == "DELETE" else request.object
        if not isinstance(body, dict):
            return ReviewOutcome(False, code=400, message=f"the request has no {request.resource.resource} object")
        try:
            return await path.answer(request)
        except InvalidInput as error:
            return ReviewOutcome(False, code=400, message=str(error))

    # ---- pods and reservations

    async def _mutate_pod(self, request: ReviewRequest) -> ReviewOutcome:
        pod, namespace = request.object, _namespace(request)
        done = mutate_pod(
            pod,
            list(self._facts.profiles.values()),
            self._facts.namespace_labels(namespace),
            self._facts.classes,
            self._draw(namespace, pod),
            merge_pod,
            translates=self._rules.translates,
        )
        refusal = done.refusal or complete_pod(done)
        return _mutated(pod, done, refusal)

    async def _mutate_reservation(self, request: ReviewRequest) -> ReviewOutcome:
        given = request.object
        done = mutate_reservation(
            given, list(self._facts.profiles.values()), self._facts.classes, self._draw("", given), merge_reservation
        )
        note_profiles(done.document, done.applied)
        return _mutated(given, done, done.refusal)

    async def _validate_pod(self, request: ReviewRequest) -> ReviewOutcome:
        pod, namespace = request.object, _namespace(request)
        old = request.old_object if request.operation == "UPDATE" and isinstance(request.old_object, dict) else None
        refusals = check_pod(pod, old, may_change_sub_priority=self._rules.may_change_sub_priority)
        user = request.user_info
        if self._rules.holders and user.username not in self._rules.holders and MASTERS not in (user.groups or ()):
            refusals += check_holdings(pod, old)
        violations = self._quota_violations(pod, old, namespace)
        if not violations and not refusals and self._rules.limits_quotas:
            violations = self._beyond_quota(request, pod, old, namespace)
        if self._rules.checks_devices and old is None:
            refusals += check_devices(pod)
        found = _judged([*(refusal.message for refusal in refusals), *(violation.text for violation in violations)])
        return replace(found, warnings=self._doubts(pod, old)) if found.is_allowed else found

    def _doubts(self, pod: Document, old: Document | None) -> tuple[str, ...]:
        """What is new of a pod and it does not get, as warnings to its writer."""
        found, labels, before = [], labels_of(pod), {} if old is None else labels_of(old)
        native, quota = left_native(pod), labels.get(NAME, "")
        if native and (old is None or native != left_native(old)):
            found.append(_mixed(native))
        if quota != before.get(NAME, "") and unknown(quota, self._facts.quotas_by_name()):
            found.append(
                f"there is no quota {quota} (label {NAME}): the pod counts in the default quota until there is"
            )
        if old is not None and _own_cpus(pod) and requests_of(pod).get(CPU_NAME) != requests_of(old).get(CPU_NAME):
            found.append(
                "the pod keeps the CPUs of its own that it has: a resize in place gives and takes none, and "
                "above them it runs on shared ones"
            )
        if GPU_ISOLATION in labels and labels[GPU_ISOLATION] != before.get(GPU_ISOLATION):
            found.append(
                f"a share of a GPU is given on nodes only whose label {NODE_ISOLATION} is {labels[GPU_ISOLATION]}"
            )
        return tuple(found)

    def _quota_violations(self, pod: Document, old: Document | None, namespace: str) -> list[QuotaViolation]:
        known = self._facts.quotas_by_name()
        labels = labels_of(pod)
        if not known and not (old and labels.get(PREEMPTIBLE) != labels_of(old).get(PREEMPTIBLE)):
            return []
        name = quota_of_pod(namespace, labels.get(NAME, ""), known)
        before = None if old is None else labels_of(old)
        changes = before is None or quota_of_pod(namespace, before.get(NAME, ""), known) != name
        if changes and labels.get(NAME) and (foreign := closed_to(namespace, name, known, self._facts.home_of)):
            return [QuotaViolation(name, "foreign-quota", foreign)]
        if changes and old is not None and mapping(old, "spec").get("nodeName"):
            text = f"a pod that runs stays in its quota: the label {NAME} cannot change; make another pod"
            return [QuotaViolation(name, "quota-immutable", text)]
        return check_pod_quota(
            known.get(name),
            changes_quota=changes,
            preemptible=labels.get(PREEMPTIBLE, ""),
            old_preemptible=None if before is None else before.get(PREEMPTIBLE, ""),
        )

    def _beyond_quota(
        self, request: ReviewRequest, pod: Document, old: Document | None, namespace: str
    ) -> list[QuotaViolation]:
        """What a new pod asks of its quota and does not fit; of a pod that is there, what grows, or all where it
        comes from another quota.
        """
        known, label, asked = self._facts.quotas_by_name(), labels_of(pod).get(NAME, ""), requests_of(pod)
        name, more = quota_of_pod(namespace, label, known), asked
        if old is not None and labels_of(old).get(NAME, "") == label:
            had = requests_of(old)
            more = Amounts.of({resource: amount for resource, amount in asked if amount > had.get(resource)})
        elif nowhere := unknown(label, known):
            return list(nowhere)
        found = self._facts.known_quota(name)
        if found is None or not more:
            return []
        uid = str(mapping(pod, "metadata").get("uid") or request.uid)
        violations = exceeded(found.quota, self._facts.requested(found.quota.name, uid), more, found.admission)
        if not violations and not request.dry_run:
            self._facts.member_admitted(QuotaCountedPod(uid, namespace, label, asked))
        return list(violations)

    async def _validate_eviction(self, request: ReviewRequest) -> ReviewOutcome:
        """An agent evicts pods of the node that its token names. The review does not say where the pod is."""
        if request.user_info.username != self._rules.agents:
            return ALLOWED
        own = (request.user_info.extra or {}).get(NODE_OF_TOKEN) or []
        node = await self._node_of(request.namespace or "", request.name or "")
        if node is None or node in own:
            return ALLOWED  # of a pod that is gone the API server says so itself
        named = ", ".join(own) or "no node: it is not bound to a pod"
        return _refused(
            [f"the agent may evict pods of its own node only: the token names {named}, the pod is on {node or 'none'}"]
        )

    # ---- quotas

    async def _mutate_quota(self, request: ReviewRequest) -> ReviewOutcome:
        document = request.object
        if not quotas.is_of_tree(document, request.resource.group):
            return ALLOWED
        made, violations = quotas.default_quota(document, self._facts.quotas_by_name())
        return (
            _refused(violation.text for violation in violations)
            if violations
            else ReviewOutcome(patch=difference(document, made))
        )

    async def _validate_quota(self, request: ReviewRequest) -> ReviewOutcome:
        deletes = request.operation == "DELETE"
        known = self._quota(request.old_object if deletes else request.object, request)
        others = [quota.quota for key, quota in self._facts.quotas().items() if key != known.key]
        if deletes:
            violations = await quotas.check_deleted(known.quota, others, self._has_pods)
        elif not quotas.is_of_tree(request.object, request.resource.group):
            violations = quotas.check_by_itself(known.quota)
        else:
            old = None
            if request.operation == "UPDATE" and isinstance(request.old_object, dict):
                try:
                    old = self._quota(request.old_object, request).quota
                except InvalidInput:
                    old = None  # what was stored cannot be read: the new one is judged as a new quota
            violations = await quotas.check_written(known.quota, old, others, self._has_pods)
        if not violations and not deletes and not request.dry_run:
            self._facts.quota_admitted(known)
        return _judged([violation.text for violation in violations])

    def _quota(self, document: Document, request: ReviewRequest) -> KnownQuota:
        is_x = request.resource.group == X_ELASTIC_QUOTAS.group
        return quotas.known_quota(quotas.decoded(document, request.namespace or ""), is_x=is_x)

    # ---- nodes

    async def _mutate_node(self, request: ReviewRequest) -> ReviewOutcome:
        node = request.object
        name = str(mapping(node, "metadata").get("name") or request.name or "")
        old = request.old_object if isinstance(request.old_object, dict) else None
        made = amplified_node(node, old, by_own_kubelet=request.user_info.username == f"system:node:{name}")
        patch = () if made.node is node else difference(node, made.node)
        return ReviewOutcome(patch=patch, warnings=tuple(f"node {name}: {entry}" for entry in made.ignored))

    def _draw(self, namespace: str, obj: Document) -> Draw:
        if self._rules.draws_by_pod:
            return lambda profile: self._rng.randrange(100)
        return workload_draw(namespace, obj)


def complete_pod(done: Mutation) -> AdmissionRefusal | None:
    """The steps after the profiles, in place: the record of lent amounts, devices, the profiles' names."""
    refusal = record(done.document)
    if refusal is None:
        default_devices(done.document)
        note_profiles(done.document, done.applied)
    return refusal


def _namespace(request: ReviewRequest) -> str:
    return str(mapping(request.object, "metadata").get("namespace") or request.namespace or "")


def _mutated(given: Document, done: Mutation, refusal: AdmissionRefusal | None) -> ReviewOutcome:
    if refusal is not None:
        return ReviewOutcome(False, warnings=done.warnings, code=refusal.code, message=refusal.message)
    return ReviewOutcome(patch=difference(given, done.document), warnings=done.warnings)


def _own_cpus(pod: Document) -> bool:
    """Whether the scheduler gave it CPUs of its own."""
    try:
        return bool(ResourceStatus.parse(annotations_of(pod).get(RESOURCE_STATUS) or "{}").cpus)
    except InvalidInput:
        return False


def _mixed(native: list[str]) -> str:
    return (
        f"containers that ask for cpu or memory of the node beside others with lent resources: {', '.join(native)}; "
        "Kubernetes then counts the pod as Burstable, outside of the best-effort group. Did another webhook add them?"
    )


def _judged(messages: list[str]) -> ReviewOutcome:
    return _refused(messages) if messages else ALLOWED


def _refused(messages: Iterable[str]) -> ReviewOutcome:
    return ReviewOutcome(False, message="; ".join(messages))
