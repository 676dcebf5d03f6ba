"""How the suite is divided among pytest-xdist's workers.

`--dist loadscope` starts the modules with the most cases first, so a module of one long case may start last and keep
one worker busy alone; and it spreads folders whose modules share one expensive thing (a cluster, an emulated machine,
kernels to compile) over all workers, each of which then makes or awaits its own. Cases that wait for real processes
leave a core idle, and several of them at once starve one another. A unit of work is a module, or a whole folder of
`TOGETHER`; units start in the order of `LONGEST`, the rest after them in the order of collection. Every second worker
takes the units of `SHARED_MACHINE` first, the others take them last: with two workers a core, one computes while
another waits, and no more cases wait for processes at once than there are cores, until nothing else is left.
Limits: `LONGEST` is kept by hand from `--durations`; a wrong order costs time, never a result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

# Cases that wait for real processes, servers and cgroups: other load on a shared machine can starve one of them.
SHARED_MACHINE = frozenset({"browser", "e2e", "fault", "fleet", "kube", "node"})
# Folders whose modules share what is made once a session, or kernels that nothing has compiled before: two workers
# would compile them at the same time.
TOGETHER = (
    "tests/node/guest/kubelet",
    "tests/node/guest/systemd",
    "tests/node/guest",
    "tests/e2e",
    "tests/browser",
    "packages/cotenant-lab/tests/unit/replay",
    "packages/cotenant/tests/unit/engine/traces",
    "packages/cotenant-lab/tests/unit/world",
    "packages/cotenant-lab/tests/unit/baselines",
)
# What `make test` leaves to `make test-long`, by what the cases are and what remains.
LONG = (
    # Emulated machines; tests/node has real cgroups without one.
    "tests/node/guest/",
    "tests/node/kubelet/test_installed_loop.py",
    "tests/node/test_profile_run.py",
    "tests/node/test_zone_vm.py",
    "tests/node/test_zone_pods.py",
    "tests/node/test_zone_of_cluster.py",
    "tests/node/test_kernel_guest.py",
    "tests/node/test_scheduler_guest.py",
    "tests/node/test_scheduler_kernels.py",
    # Whole experiments and benchmarks; their parts have unit tests, and small ones of each kind remain.
    "packages/cotenant-lab/tests/lab/test_dag.py",
    "packages/cotenant-lab/tests/lab/test_openb.py",
    "packages/cotenant-lab/tests/lab/test_plant.py",
    "packages/cotenant-lab/tests/lab/test_takeover.py",
    "packages/cotenant-lab/tests/lab/test_tianchi.py",
    "tests/node/test_experiments.py",
    "tests/property/shards/test_trials.py",
    "tests/unit/test_bench.py",
    "tests/unit/tools/test_mutation.py",
    # Whole clusters for one subject, whose parts have tests; tests/kube has gangs, quotas, claims and the scheduler on
    # the same API server, tests/unit/deploy has the chart, and one cluster with its cases remains in tests/e2e.
    "tests/e2e/test_app.py",
    "tests/e2e/test_charts.py",
    "tests/e2e/test_claims.py",
    "tests/e2e/test_cluster_on_the_bus.py",
    "tests/e2e/test_console.py::test_the_printed_link",
    "tests/e2e/test_cpus.py",
    "tests/e2e/test_devices.py",
    "tests/e2e/test_federation.py",
    "tests/e2e/test_gangs.py",
    "tests/e2e/test_helm.py",
    "tests/e2e/test_load_aware.py",
    "tests/e2e/test_loop.py",
    "tests/e2e/test_manager.py",
    "tests/e2e/test_quota.py",
    "tests/e2e/test_rebalancer.py",
    "tests/e2e/test_right_sizing.py",
    "tests/kube/test_assess.py::test_a_cluster_and_its_prometheus_end_to_end",
    "tests/unit/test_wheel.py::test_every_module",
    # Kills: one moment of each kind remains, on folders (tests/fault/keeper), in one process (tests/fault/local) and on
    # real cgroups (tests/node/test_agent.py, test_keeper_process.py).
    "tests/fault/keeper/test_kill.py::test_groups_that_vanish_while_no_keeper_runs_are_not_written[v1-recreated]",
    "tests/fault/keeper/test_kill.py::test_groups_that_vanish_while_no_keeper_runs_are_not_written[v2-vanished]",
    "tests/fault/keeper/test_kill.py::test_killed_at_any_step_everything_is_restored_byte_for_byte[v1-before",
    "tests/fault/keeper/test_kill.py::test_killed_at_any_step_everything_is_restored_byte_for_byte[v2-after",
    "tests/fault/keeper/test_kill.py::test_killed_while_restoring_the_next_keeper_continues[v1]",
    "tests/fault/up/test_children.py::test_parts_killed_and_paused_in_any_order",
    "tests/fault/up/test_children.py::test_the_extender_killed",
    "tests/fault/up/test_ends.py::test_a_signal_ends_it_in_order[2]",
    "tests/fault/up/test_ends.py::test_a_signal_while_it_starts",
    "tests/fault/up/test_ends.py::test_kill_9",
    "tests/fault/up/test_schedulers.py",
    "tests/node/test_agent.py::test_killed_at_any_moment",
    "tests/node/test_fleet_control.py",
    "tests/node/test_fleet_docker.py::test_killed_over_an_up",
    "tests/node/test_fleet_killed.py",
    "tests/node/test_keeper_kill.py",
    # A fleet's real Prometheus, and dearer cases on Docker: restarts and hung-up terminals remain on containerd
    # (test_fleet_cri.py), limits in test_docker_pods.py, groups and recorded terminals on both.
    "tests/fleet/test_prometheus.py",
    "tests/node/test_fleet_docker.py::test_a_failing_one_is_restarted_so_often_and_no_more",
    "tests/node/test_fleet_docker.py::test_a_limit_is_held_and_given_back",
    "tests/node/test_fleet_terminal.py::test_what_was_left_running_is_hung_up",
    # The console in the other theme and size, and whether its golden images would notice.
    "tests/browser/test_fleet.py::test_axe_finds_nothing_serious[dark",
    "tests/browser/test_looks.py::test_axe_finds_nothing_serious_in_any_view[dark",
    "tests/browser/test_looks.py::test_faults_are_seen",
    "tests/browser/test_looks.py::test_views_look_as_they_did[machines-1280-dark]",
    "tests/browser/test_looks.py::test_views_look_as_they_did[machines-400-light]",
    "tests/browser/test_report.py::test_axe_finds_nothing_serious[dark",
    "tests/browser/test_tabs.py::test_a_change_reaches_every_tab",
    "tests/browser/test_zone_monitors.py::test_it_looks_as_it_did[zone-1280-dark]",
    "tests/browser/test_zone_monitors.py::test_it_looks_as_it_did[zone-400-light]",
    # The dearer ones of cases that differ in one value only.
    "tests/node/test_fleet_cri.py::test_restarts_of_failures_are_bounded_and_a_killed_agent_starts_none_twice[deaths1",
    "tests/node/test_native_stacks.py::test_java_names_its_methods_once_they_were_asked_for",
    "tests/node/test_native_stacks.py::test_node_names_its_functions_where_it_writes_them",
    "tests/property/node/test_agent.py::test_ten_thousand_groups_that_come_and_go_leave_no_more_than_two_thousand[False]",
    "tests/property/node/test_antagonist.py::test_the_antagonist_among_four_of_equal_mean_is_capped_first[cpu]",
    "tests/property/node/test_antagonist.py::test_without_interference_at_most_one_cap_in_ten_hours[cpu]",
    "tests/unit/contributing/test_contributing.py::test_a_recipe_followed_to_the_letter_works[filter]",
    "tests/unit/contributing/test_contributing.py::test_a_recipe_followed_to_the_letter_works[lab-policy]",
    "tests/unit/contributing/test_contributing.py::test_a_recipe_followed_to_the_letter_works[profile-knob]",
    "tests/unit/contributing/test_contributing.py::test_a_recipe_followed_to_the_letter_works[score]",
    "tests/unit/contributing/test_contributing.py::test_a_step_left_out_fails_loudly[score-",
    "tests/unit/test_termination.py::test_what_a_case_started_ends_with_a_run_that_is_told_to_end[with a worker]",
    "packages/cotenant/tests/unit/engine/node/recovery/test_cards.py::test_nobody_is_held_for_what_no_pod_did[own",
    "packages/cotenant/tests/unit/engine/test_rehearsal.py::test_random_clusters_need_no_kernel_that_was_not_rehearsed[cotenant-requests",
    "packages/cotenant/tests/unit/engine/test_rehearsal.py::test_random_clusters_need_no_kernel_that_was_not_rehearsed[kube",
    "packages/cotenant/tests/unit/engine/test_rehearsal.py::test_random_clusters_need_no_kernel_that_was_not_rehearsed[drf",
    "packages/cotenant-lab/tests/lab/test_built_in.py::test_a_built_in_workload_keeps_the_contract[dag]",
    "packages/cotenant-lab/tests/lab/test_built_in.py::test_a_built_in_workload_keeps_the_contract[takeover]",
    "packages/cotenant-lab/tests/lab/test_built_in.py::test_a_built_in_workload_keeps_the_contract[tianchi]",
    "packages/cotenant-lab/tests/lab/test_colocation.py::test_every_policy_runs_and_its_engine_adds_up[cotenant-lent]",
    "packages/cotenant-lab/tests/lab/test_colocation.py::test_every_policy_runs_and_its_engine_adds_up[drf-best-fit]",
    "packages/cotenant-lab/tests/lab/test_colocation.py::test_every_policy_runs_and_its_engine_adds_up[edf-paragon-",
    "packages/cotenant-lab/tests/lab/test_colocation.py::test_every_policy_runs_and_its_engine_adds_up[firmament-load-spreading]",
    "packages/cotenant-lab/tests/lab/test_colocation.py::test_every_policy_runs_and_its_engine_adds_up[firmament-quincy]",
    "packages/cotenant-lab/tests/lab/test_colocation.py::test_every_policy_runs_and_its_engine_adds_up[founding-ledger]",
    "packages/cotenant-lab/tests/lab/test_colocation.py::test_every_policy_runs_and_its_engine_adds_up[kube-lent",
    "packages/cotenant-lab/tests/lab/test_colocation.py::test_every_policy_runs_and_its_engine_adds_up[tetris]",
)
# Units that take more than five seconds, the longest first.
LONGEST = (
    "tests/kube/claims/test_same_as_upstream.py",
    "tests/kube/feasible/test_same_as_upstream.py",
    "tests/node/guest/systemd",
    "tests/node/guest/kubelet",
    "tests/node/guest",
    "tests/browser",
    "tests/e2e",
    "tests/kube/test_upstream_scores.py",
    "tests/node/test_zone_of_cluster.py",
    "tests/node/test_zone_pods.py",
    "tests/node/test_kernel_guest.py",
    "tests/node/test_scheduler_guest.py",
    "tests/node/test_scheduler_kernels.py",
    "tests/node/test_experiments.py",
    "tests/node/test_fleet_killed.py",
    "tests/unit/test_bench.py",
    "tests/fault/up/test_schedulers.py",
    "tests/fault/up/test_shard_storm.py",
    "tests/fault/up/test_shard_quota_storm.py",
    "tests/node/test_fleet_control.py",
    "packages/cotenant-lab/tests/lab/test_openb.py",
    "packages/cotenant-lab/tests/lab/test_dag.py",
    "packages/cotenant-lab/tests/lab/test_tianchi.py",
    "packages/cotenant-lab/tests/lab/test_plant.py",
    "tests/node/test_fleet_terminal.py",
    "tests/fleet/test_prometheus.py",
    "tests/node/test_keeper_kill.py",
    "tests/fault/keeper/test_kill.py",
    "tests/node/test_fleet_cri.py",
    "packages/cotenant/tests/unit/engine/test_churn.py",
    "packages/cotenant/tests/unit/engine/node/recovery/test_cards.py",
    "tests/node/test_agent.py",
    "packages/cotenant-lab/tests/lab/test_colocation.py",
    "tests/property/api/test_fuzz.py",
    "tests/property/placement/test_why.py",
    "packages/cotenant/tests/unit/engine/cycle/test_large_pods.py",
    "tests/unit/contributing/test_contributing.py",
    "tests/property/node/test_agent.py",
    "tests/node/test_tc.py",
    "tests/property/node/test_antagonist.py",
    "packages/cotenant-lab/tests/lab/world/test_runs.py",
    "tests/property/groups/test_quota.py",
    "tests/unit/deploy/test_roles.py",
    "tests/unit/test_wheel.py",
    "tests/fault/keeper/test_process.py",
    "tests/fault/up/test_children.py",
    "packages/cotenant/tests/unit/drivers/cgroup/test_counters.py",
    "tests/property/groups/test_simulated_rounds.py",
    "tests/fault/up/test_ends.py",
    "tests/fault/http/test_every_server.py",
    "tests/node/kubelet/test_contract.py",
    "tests/property/node/test_attribution.py",
    "tests/node/test_fleet_docker.py",
    "tests/property/sizing/test_books_after_resizes.py",
    "tests/property/placement/test_claims_kept.py",
    "packages/cotenant-lab/tests/unit/cli/test_main.py",
    "tests/fault/up/test_refused.py",
    "tests/node/test_docker_pods.py",
    "tests/kube/test_shadow.py",
    "tests/kube/test_scheduler_kinds.py",
    "packages/cotenant/tests/unit/engine/rules/test_claims_limit.py",
    "tests/kube/test_scheduler_config.py",
    "tests/unit/deploy/test_chart.py",
    "tests/node/test_ebpf.py",
    "tests/conformance/test_variants.py",
    "tests/property/api/test_assess_dumps.py",
    "tests/kube/test_kubectl.py",
    "packages/cotenant/tests/unit/policy/prediction/test_forecast.py",
    "tests/node/test_leases.py",
    "packages/cotenant-lab/tests/unit/world",
    "tests/property/node/test_same_in_both_worlds.py",
    "tests/kube/test_second_scheduler.py",
    "tests/property/node/test_originals.py",
    "packages/cotenant/tests/unit/model/test_compiled_sources.py",
    "tests/property/placement/test_extenders.py",
    "packages/cotenant/tests/unit/services/scheduler/shards/test_quota_rooms.py",
    "tests/property/shards/test_quota_rooms.py",
    "tests/property/shards/test_as_one.py",
    "tests/property/shards/test_preempting.py",
)
_RANK = {unit: rank for rank, unit in enumerate(LONGEST)}


def unit(node_id: str) -> str:
    """The unit of work that a case belongs to."""
    module = node_id.partition("::")[0]
    return next((folder for folder in TOGETHER if module.startswith(folder + "/")), module)


def is_long(node_id: str) -> bool:
    """Whether a case is left to `make test-long`."""
    return node_id.startswith(LONG)


def is_shared(unit: str) -> bool:
    """Whether a unit's cases are among those of `SHARED_MACHINE`."""
    return unit.removeprefix("tests/").partition("/")[0] in SHARED_MACHINE


def choice(waiting: Iterable[str], worker: str) -> str:
    """The unit that a worker (`gw0`, `gw1`, ...) takes next: the first of its sort, or the first of all where none
    is left.
    """
    units = list(waiting)
    takes_shared = int(worker.removeprefix("gw")) % 2 == 1
    return next((unit for unit in units if is_shared(unit) == takes_shared), units[0])


def sort(items: list[pytest.Item]) -> None:
    """Put the longest units first; the order inside a unit stays."""
    items.sort(key=lambda item: _RANK.get(unit(item.nodeid), len(_RANK)))


def scheduler(config: pytest.Config, log: Any) -> Any:
    """A scheduler for `--dist loadscope` whose scopes are units, taken in the order in which the workers collected
    them, those of a worker's sort first.
    """
    from xdist.scheduler import LoadScopeScheduling

    class UnitScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            self.workqueue.move_to_end(choice(self.workqueue, node.gateway.id), last=False)
            super()._assign_work_unit(node)

    config.option.loadscopereorder = False
    return UnitScheduling(config, log)
