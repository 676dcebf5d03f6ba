"""Invariants of the division of a cluster among quotas, for any requests, use, changes and removals."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples, first_cases

from cotenant.model.compiled import njit
from cotenant.model.groups.quota import ROOT_QUOTA, Quota, QuotaPod
from cotenant.model.resources import Amounts
from cotenant.policy.quota.forest import Forest
from cotenant.policy.quota.headroom import HeadroomRules, shortages
from cotenant.policy.quota.headroom_arrays import HeadroomTable, quota_add_use, quota_fits
from cotenant.policy.quota.preemption import preempt
from cotenant.policy.quota.reclaim import ReclaimJob, reclaim
from cotenant.policy.quota.revocation import over, revoke
from cotenant.policy.quota.runtime import QuotaSibling, apportion, scaled_minima, share, start
from cotenant.policy.quota.tree import QuotaTree
from cotenant.policy.quota.usable import select_usable

RESOURCES = ("cpu", "memory", "nvidia.com/gpu")
SMALL = st.integers(0, 12)
ANY = SMALL | st.integers(0, 2**52)
MEMBER = st.builds(QuotaSibling, request=ANY, floor=ANY, weight=ANY, lends=st.booleans())


@st.composite
def siblings(draw: st.DrawFn) -> tuple[int, list[QuotaSibling]]:
    """Floors that fit into the total, as scaled minima do."""
    total = draw(ANY)
    members = draw(st.lists(MEMBER, max_size=8))
    floors = scaled_minima(total, [member.floor for member in members], [True] * len(members))
    return total, [member._replace(floor=floor) for member, floor in zip(members, floors, strict=True)]


@settings(deadline=None)
@given(siblings())
def test_the_sum_never_exceeds_the_total_and_nothing_usable_is_idle(
    case: tuple[int, list[QuotaSibling]],
) -> None:
    total, members = case
    runtimes = share(total, members)
    assert sum(runtimes) <= total
    wanting = [member for member, got in zip(members, runtimes, strict=True) if got < member.request and member.weight]
    assert not wanting or sum(runtimes) == total


@settings(deadline=None)
@given(siblings())
def test_every_member_gets_its_request_up_to_its_floor_and_never_more_than_its_request(
    case: tuple[int, list[QuotaSibling]],
) -> None:
    for member, runtime in zip(case[1], share(*case), strict=True):
        assert min(member.request, member.floor) <= runtime
        assert runtime <= max(member.request, start(member.request, member.floor, member.lends))
        if not member.lends:
            assert runtime >= member.floor


@pytest.mark.slow
@settings(deadline=None)
@given(siblings(), st.data())
def test_more_weight_never_means_less(case: tuple[int, list[QuotaSibling]], data: st.DataObject) -> None:
    total, members = case
    if not members:
        return
    i = data.draw(st.integers(0, len(members) - 1))
    heavier = [*members]
    heavier[i] = members[i]._replace(weight=members[i].weight + data.draw(SMALL.filter(bool)))
    before, after = share(total, members), share(total, heavier)
    assert after[i] >= before[i]
    # and what it gains is no other's gain, as long as all had a weight before
    if members[i].weight:
        assert all(after[j] <= before[j] + 1 for j in range(len(members)) if j != i)


@settings(deadline=None)
@given(siblings(), st.randoms(use_true_random=False))
def test_the_order_of_siblings_decides_no_more_than_one_unit(
    case: tuple[int, list[QuotaSibling]], random: object
) -> None:
    total, members = case
    order = list(range(len(members)))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = share(total, [members[i] for i in order])
    plain = share(total, members)
    assert sum(shuffled) == sum(plain)
    assert all(abs(shuffled[position] - plain[i]) <= 1 for position, i in enumerate(order))


@settings(deadline=None)
@given(ANY, st.lists(st.tuples(ANY, ANY), max_size=8))
def test_an_apportionment_is_the_fair_one_to_less_than_a_unit(residual: int, asked: list[tuple[int, int]]) -> None:
    wants, weights = [want for want, _ in asked], [weight for _, weight in asked]
    gains = apportion(residual, wants, weights)
    short = [i for i, gained in enumerate(gains) if gained < wants[i] and weights[i]]
    for i in short:  # a member that is short is at most one unit behind any other, by weight
        for j, gained in enumerate(gains):
            if gained:
                assert (gains[i] + 1) * weights[j] >= (gained - 1) * weights[i]


@st.composite
def quotas(draw: st.DrawFn) -> tuple[Quota, ...]:
    made: list[Quota] = []
    for i in range(draw(st.integers(1, 9))):
        parent = draw(st.sampled_from([ROOT_QUOTA, *(quota.name for quota in made)]))
        made.append(draw(quota_named(f"q{i}", parent)))
    return tuple(made)


def quota_named(name: str, parent: str) -> st.SearchStrategy[Quota]:
    names = st.lists(st.sampled_from(RESOURCES), unique=True, max_size=3)

    @st.composite
    def build(draw: st.DrawFn) -> Quota:
        maximum = {resource: draw(st.integers(0, 40)) for resource in draw(names)}
        minimum = {resource: draw(st.integers(0, most)) for resource, most in maximum.items()}
        weight = {resource: draw(SMALL) for resource in draw(names)}
        return Quota(
            name,
            Amounts.of(maximum),
            Amounts.of(minimum),
            parent,
            shared_weight=Amounts.of(weight),
            lends=draw(st.booleans()),
        )

    return build()


AMOUNTS = st.dictionaries(st.sampled_from((*RESOURCES, "pods")), st.integers(0, 25), max_size=3).map(Amounts.of)


@st.composite
def a_life(draw: st.DrawFn, tree: QuotaTree) -> None:
    """Pods arrive, are placed and leave, the cluster changes its size, quotas change and move; some runtimes are
    read in between.
    """
    asking: list[tuple[str, Amounts]] = []
    using: list[tuple[str, Amounts, bool]] = []
    names = [quota.name for quota in tree.quotas()]
    for _ in range(draw(st.integers(0, 25))):
        name = draw(st.sampled_from(names))
        match draw(st.sampled_from(["ask", "ask", "ask", "gone", "use", "stop", "total", "put", "read"])):
            case "ask":
                asking.append((name, draw(AMOUNTS)))
                tree.ask(*asking[-1])
            case "gone" if asking:
                tree.withdraw(*asking.pop(draw(st.integers(0, len(asking) - 1))))
            case "use":
                using.append((name, draw(AMOUNTS), draw(st.booleans())))
                tree.use(*using[-1])
            case "stop" if using:
                tree.release(*using.pop(draw(st.integers(0, len(using) - 1))))
            case "total":
                tree.set_total(draw(AMOUNTS))
            case "put":
                other = draw(st.sampled_from([ROOT_QUOTA, *names]))
                if name not in tree.path(other) if other != ROOT_QUOTA else True:
                    tree.put(draw(quota_named(name, other)))
            case "read":
                tree.runtime(name)


@st.composite
def lived(draw: st.DrawFn) -> QuotaTree:
    total = draw(AMOUNTS)
    tree = QuotaTree(draw(quotas()), total, scale_minima=draw(st.booleans()), guarantee_use=draw(st.booleans()))
    draw(a_life(tree))
    return tree


@pytest.mark.slow
@settings(max_examples=examples(100), deadline=None)
@given(lived())
def test_the_incremental_tree_equals_the_recomputed_tree(tree: QuotaTree) -> None:
    tree.validate()


@pytest.mark.slow
@settings(deadline=None)
@given(lived())
def test_refreshing_one_path_equals_refreshing_everything(tree: QuotaTree) -> None:
    one_by_one = {quota.name: tree.runtime(quota.name) for quota in tree.quotas()}
    tree.refresh()
    assert one_by_one == {quota.name: tree.runtime(quota.name) for quota in tree.quotas()}


@pytest.mark.slow
@settings(deadline=None)
@given(quotas(), AMOUNTS, st.data())
def test_children_never_get_more_than_their_parent_has(
    made: tuple[Quota, ...], total: Amounts, data: st.DataObject
) -> None:
    tree = QuotaTree(made, total)
    data.draw(a_life(tree))
    for parent in (ROOT_QUOTA, *(quota.name for quota in tree.quotas())):
        for resource in {resource for quota in tree.quotas() for resource, _ in quota.maximum}:
            standings = [tree.runtime_terms(child, resource) for child in tree.children(parent)]
            shares = sum(standing.runtime for standing in standings)
            if standings:
                assert shares <= standings[0].total
            for standing in standings:
                assert standing.runtime >= min(standing.limited, standing.scaled_minimum)
                if standing.runtime < standing.limited and standing.weight:
                    assert shares == standing.total


@pytest.mark.slow
@settings(deadline=None)
@given(quotas(), AMOUNTS, st.lists(st.tuples(SMALL, AMOUNTS), max_size=12), st.randoms(use_true_random=False))
def test_neither_the_order_of_quotas_nor_that_of_pods_matters(
    made: tuple[Quota, ...], total: Amounts, asked: list[tuple[int, Amounts]], random: object
) -> None:
    def runtimes(of: list[Quota], pods: list[tuple[int, Amounts]]) -> dict[str, object]:
        tree = QuotaTree(of, total)
        for i, amounts in pods:
            tree.ask(made[i % len(made)].name, amounts)
        return {quota.name: tree.runtime(quota.name) for quota in made}

    before = runtimes([*made], asked)
    mixed, pods = [*made], [*asked]
    random.shuffle(mixed)  # type: ignore[attr-defined]
    random.shuffle(pods)  # type: ignore[attr-defined]
    assert runtimes(mixed, pods) == before


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans(), st.sampled_from(["", "x"])), max_size=10)
)
def test_accepted_quotas_are_consistent_and_every_other_has_a_reason(
    heap: list[tuple[int, int, bool, str]],
) -> None:
    given_ = [
        Quota(
            f"q{i}",
            Amounts.of({"cpu": 5}),
            Amounts.of({"cpu": 9 if bad else 1}),
            ROOT_QUOTA if parent == 9 else f"q{parent}",
            tree_id=tree_id,
            namespaces=(f"n{i % 3}",),
        )
        for i, parent, bad, tree_id in heap
    ]
    kept, refused = select_usable(given_)
    Forest(kept).validate()
    unfit = [violation for violation in refused if violation.rule != "namespace"]
    assert len(kept) + len(unfit) == len(given_)
    assert {quota.name for quota in kept} | {violation.quota for violation in refused} == {q.name for q in given_}


@njit
def _asked(quotas, rows, requests, preemptible, fits):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        fits[i] = quota_fits(quotas, rows[i], requests[i], preemptible[i])


@njit
def _booked(quotas, row, request, preemptible):  # type: ignore[no-untyped-def]
    quota_add_use(quotas, row, request, 1, preemptible)


@pytest.mark.slow
@settings(deadline=None)
@given(
    lived(), st.lists(st.tuples(SMALL, AMOUNTS, st.booleans()), min_size=1, max_size=6), st.booleans(), st.booleans()
)
def test_the_compiled_check_equals_the_plain_one(
    tree: QuotaTree, pods: list[tuple[int, Amounts, bool]], parents: bool, by_runtime: bool
) -> None:
    rules = HeadroomRules(by_runtime=by_runtime, check_parents=parents)
    table = HeadroomTable(tree, rules)
    names = [tree.quotas()[i % len(tree.quotas())].name for i, _, _ in pods]
    for name, (_, request, preemptible) in zip(names, pods, strict=True):
        fits = np.zeros(1, dtype=np.bool_)
        row = table.request(request)
        _asked(table.arrays, np.array([table.row(name)]), row[None, :], np.array([preemptible]), fits)
        assert fits[0] == (not shortages(tree, name, request, preemptible, rules))
        known = Amounts.of([(resource, amount) for resource, amount in request if resource in table.resources])
        tree.use(name, known, preemptible)
        _booked(table.arrays, table.row(name), row, preemptible)
        used, held = table.arrays.used.copy(), table.arrays.held.copy()
        table.copy(tree)  # what is in use may be guaranteed, and then a booking moves runtimes
        assert np.array_equal(table.arrays.used, used)
        assert np.array_equal(table.arrays.held, held)


POD = st.builds(
    QuotaPod,
    uid=st.uuids().map(str),
    request=AMOUNTS,
    priority=st.integers(0, 3),
    started_us=SMALL,
    preemptible=st.booleans(),
    breaks_budget=st.booleans(),
)
PODS = st.lists(POD, max_size=8, unique_by=lambda pod: pod.uid)


@pytest.mark.slow
@settings(deadline=None)
@given(PODS, st.dictionaries(st.sampled_from(RESOURCES), st.integers(-5, 60), max_size=3))
def test_revocation_ends_overuse_where_it_can_and_takes_no_pod_too_many(
    pods: list[QuotaPod], limits: dict[str, int]
) -> None:
    runtime = tuple(limits.items())

    def use(of: list[QuotaPod]) -> tuple[tuple[str, int], ...]:
        return tuple((resource, sum(pod.request.get(resource) for pod in of)) for resource in RESOURCES)

    gone = revoke(pods, runtime)
    assert all(pod.preemptible for pod in gone)
    stays = [pod for pod in pods if pod not in gone]
    cannot_fit = over(use(stays), runtime)
    assert not any(pod.preemptible and any(map(pod.request.get, cannot_fit)) for pod in stays)
    assert all(any(map(pod.request.get, over(use([*stays, pod]), runtime))) for pod in gone)


@pytest.mark.slow
@settings(deadline=None)
@given(PODS, POD, st.integers(0, 60), st.integers(0, 60))
def test_preemption_takes_less_important_pods_only_makes_room_and_takes_no_pod_too_many(
    pods: list[QuotaPod], newcomer: QuotaPod, most: int, least: int
) -> None:
    limits = Amounts.of({"cpu": max(most, least), "memory": max(most, least)})
    tree = QuotaTree([Quota("q", limits, Amounts.of({"cpu": min(most, least)}))], limits)
    for pod in pods:
        tree.ask("q", pod.request)
        tree.use("q", pod.request, pod.preemptible)
    tree.ask("q", newcomer.request)
    before = shortages(tree, "q", newcomer.request, newcomer.preemptible)
    outcome = preempt(tree, "q", newcomer, pods)
    assert bool(outcome.victims or outcome.still_short) == bool(before)
    assert not (outcome.victims and outcome.still_short)
    assert all(pod.preemptible and pod.priority < newcomer.priority for pod in outcome.victims)
    for pod in outcome.victims:
        tree.release("q", pod.request)
    assert outcome.still_short or not shortages(tree, "q", newcomer.request, newcomer.preemptible)
    for pod in outcome.victims:
        tree.use("q", pod.request)
        assert shortages(tree, "q", newcomer.request, newcomer.preemptible)
        tree.release("q", pod.request)


@pytest.mark.slow
@settings(max_examples=examples(80), deadline=None)
@given(quotas(), st.lists(st.tuples(SMALL, AMOUNTS, SMALL, st.booleans()), max_size=10), AMOUNTS, SMALL, AMOUNTS)
def test_reclaim_takes_whole_jobs_of_borrowers_only_frees_all_that_is_missing_and_takes_no_job_too_many(
    made: tuple[Quota, ...], seeds: list[tuple[int, Amounts, int, bool]], total: Amounts, who: int, request: Amounts
) -> None:
    tree = QuotaTree(made, total)
    jobs = [
        ReclaimJob(f"j{i}", made[at % len(made)].name, held, priority, i, preemptible)
        for i, (at, held, priority, preemptible) in enumerate(seeds)
    ]
    claimant = made[who % len(made)].name
    for job in jobs:
        tree.ask(job.quota, job.held)
        tree.use(job.quota, job.held)
    tree.ask(claimant, request)
    runtimes = {quota.name: dict(tree.runtime(quota.name)) for quota in made}
    outcome = reclaim(tree, claimant, request, jobs)
    assert outcome.granted or not outcome.jobs
    assert all(job.preemptible and job.quota != claimant for job in outcome.jobs)
    claim = Amounts.of([(name, amount) for name, amount in request if name in runtimes[claimant] and amount])

    def room() -> bool:
        at_quotas = all(
            dict(tree.used(name)).get(resource, 0) + amount <= runtimes[name].get(resource, 1 << 60)
            for name in tree.path(claimant)
            for resource, amount in claim
        )
        return at_quotas and all(
            dict(tree.used()).get(resource, 0) + amount <= total.get(resource)
            for resource, amount in claim
            if resource in total
        )

    for job in outcome.jobs:
        used = dict(tree.used(job.quota))
        assert any(used[name] > most for name, most in runtimes[job.quota].items()), "not a borrower"
    for job in outcome.jobs:
        tree.release(job.quota, job.held)
    if outcome.granted:
        assert room()
    for job in outcome.jobs:
        tree.use(job.quota, job.held)
        assert not room()
        tree.release(job.quota, job.held)


@pytest.mark.slow
@settings(deadline=None)
@given(quotas(), AMOUNTS, SMALL, st.lists(SMALL, min_size=2, max_size=6, unique=True))
def test_more_shared_weight_never_means_a_smaller_runtime(
    made: tuple[Quota, ...], total: Amounts, who: int, weights: list[int]
) -> None:
    chosen = made[who % len(made)]
    got = []
    for weight in sorted(weights):
        changed = replace(chosen, shared_weight=Amounts.of({"cpu": weight + 1}))
        tree = QuotaTree([changed if quota is chosen else quota for quota in made], total)
        for quota in made:
            tree.ask(quota.name, Amounts.of({"cpu": 30}))
        got.append(dict(tree.runtime(chosen.name)).get("cpu", 0))
    assert all(less <= more for less, more in pairwise(got))


test_first_cases = first_cases(
    test_more_weight_never_means_less,
    test_the_incremental_tree_equals_the_recomputed_tree,
    test_refreshing_one_path_equals_refreshing_everything,
    test_children_never_get_more_than_their_parent_has,
    test_neither_the_order_of_quotas_nor_that_of_pods_matters,
    test_the_compiled_check_equals_the_plain_one,
    test_revocation_ends_overuse_where_it_can_and_takes_no_pod_too_many,
    test_preemption_takes_less_important_pods_only_makes_room_and_takes_no_pod_too_many,
    test_reclaim_takes_whole_jobs_of_borrowers_only_frees_all_that_is_missing_and_takes_no_job_too_many,
    test_more_shared_weight_never_means_a_smaller_runtime,
)
