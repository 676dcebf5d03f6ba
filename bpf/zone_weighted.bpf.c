// SPDX-License-Identifier: GPL-2.0-only
/*
 * Zone scheduler "weighted": groups share CPU time by their weights.
 *
 * Problem: shares by weight need an order in virtual time, and a queue in that order forgets the task that has just run, so two busy groups alternate whatever
 * their weights are. Choice: start-time fair queueing per cgroup. A task takes the group's virtual time as its key and charges the group a slice at
 * its weight; what it did not use is given back. At the end of a slice the running task is compared with the first one that waits, and keeps the CPU while its
 * group is not ahead. The weight is the row's, else the cgroup's cpu.weight, at most 1000. Tasks far behind in virtual time (low weight) wait in a queue in order of
 * arrival, whose first one is served after `starved_ns` at the latest. Where the timeline waited so long behind unlisted tasks
 * it goes before them for a tenth of a second. So the watchdog sees no stall. Limits: the weight of the task's own
 * cgroup counts, not those above it; at most 4096 groups, the rest share one account.
 */
#include "zone.h"

#define SYSTEM 1
#define TIMELINE 2
#define FAR 3
#define SLICE (4 * MS)
#define FAR_NS (8 * MS) /* of virtual time */
#define CREDIT_NS SLICE	/* what a group that slept may be behind the others */
#define HEAVIEST 1000
#define LISTED_NS (100 * MS)

const volatile __u64 starved_ns = 1000 * MS; /* a fifth of the watchdog's limit */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u64);
} account SEC(".maps");
static __u64 clock_ns; /* the largest key that ran */
static __u64 shared_account;
static __u64 listed_until_ns; /* listed tasks go before unlisted ones */

static __always_inline bool before(__u64 left, __u64 right)
{
	return (__s64)(left - right) < 0;
}

static __always_inline __u64 *account_of(__u64 cgroup)
{
	__u64 *found = bpf_map_lookup_elem(&account, &cgroup), start = clock_ns;

	if (found)
		return found;
	bpf_map_update_elem(&account, &cgroup, &start, BPF_NOEXIST);
	found = bpf_map_lookup_elem(&account, &cgroup);
	return found ? found : &shared_account;
}

static __always_inline __u64 weight_of(struct task_struct *p, const struct zone_row *row)
{
	__u64 weight = row && row->weight ? row->weight : weight_of_group(p);

	if (!weight)
		weight = 100;
	return weight > HEAVIEST ? HEAVIEST : weight;
}

/* Charges a slice to the group and returns the key: the group's virtual time before it. */
static __always_inline __u64 charge(struct task_struct *p, const struct zone_row *row, __u64 cgroup, struct waiting *task, __u64 slice)
{
	__u64 *spent = account_of(cgroup), key = *spent;

	if (before(key, clock_ns - CREDIT_NS)) {
		key = clock_ns - CREDIT_NS;
		*spent = key;
	}
	task->weight = weight_of(p, row);
	task->key = key;
	task->charged_ns = slice;
	__sync_fetch_and_add(spent, slice * 100 / task->weight);
	return key;
}

SEC("struct_ops/weighted_enqueue")
void BPF_PROG(weighted_enqueue, struct task_struct *p, __u64 flags)
{
	__u64 cgroup, slice, key;
	struct zone_row *row = row_of(p, &cgroup);
	struct waiting *task = queued(p);

	if (!task || !row || row->class == CLASS_SYSTEM) {
		queue_task(p, SYSTEM, SLICE, flags);
		preempt(p, flags, ONLY(CLASS_SERVICE) | ONLY(CLASS_BATCH));
		return;
	}
	count(row->class == CLASS_BATCH ? COUNT_BATCH : COUNT_SERVICE);
	slice = slice_of(row, SLICE);
	key = charge(p, row, cgroup, task, slice);
	if (before(clock_ns + FAR_NS, key))
		queue_task(p, FAR, slice, flags);
	else
		queue_by_key(p, TIMELINE, slice, key, flags);
}

/* The key of the first task of a queue; false where it is empty. */
static __always_inline bool first_key(__u64 queue, __u64 *key)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *first;
	struct waiting *task;
	bool found = false;

	first = see_first(queue, &it);
	if (first) {
		task = bpf_task_storage_get(&zone_tasks, first, 0, 0);
		if (task) {
			*key = task->key;
			found = true;
		}
	}
	first_seen(&it);
	return found;
}

SEC("struct_ops/weighted_dispatch")
void BPF_PROG(weighted_dispatch, __s32 cpu, struct task_struct *prev)
{
	__u64 cgroup, near_key = 0, far_key = 0, next, *spent;
	bool near, far, is_far;
	struct zone_row *row;
	struct waiting *task;

	if (overdue(FAR, starved_ns) && run_first(FAR)) {
		count(COUNT_OVERDUE);
		return;
	}
	/*
	 * Unlisted tasks go first and may never sleep. The first of the timeline has the least key and not the longest wait, so it is
	 * not one task's turn that comes then but all of theirs.
	 */
	if (overdue(TIMELINE, starved_ns)) {
		listed_until_ns = bpf_ktime_get_ns() + LISTED_NS;
		count(COUNT_OVERDUE);
	}
	if (bpf_ktime_get_ns() >= listed_until_ns && run_first(SYSTEM))
		return;
	near = first_key(TIMELINE, &near_key);
	far = first_key(FAR, &far_key);
	is_far = far && (!near || before(far_key, near_key));
	next = is_far ? far_key : near_key;
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED) && (near || far)) {
		row = row_of(prev, &cgroup);
		task = bpf_task_storage_get(&zone_tasks, prev, 0, 0);
		spent = account_of(cgroup);
		if (task && row && row->class != CLASS_SYSTEM && before(*spent, next)) {
			__u64 slice = slice_of(row, SLICE);

			/* What ran until now stays charged; the next slice comes on top. */
			charge(prev, row, cgroup, task, slice);
			task->started_ns = bpf_ktime_get_ns();
			clock_ns = before(clock_ns, task->key) ? task->key : clock_ns;
			set_slice(prev, slice);
			count(COUNT_KEPT);
			return;
		}
	}
	if (is_far && run_first(FAR))
		return;
	if (!run_first(TIMELINE) && !run_first(FAR))
		run_first(SYSTEM);
}

SEC("struct_ops/weighted_running")
void BPF_PROG(weighted_running, struct task_struct *p)
{
	__u64 cgroup;
	struct zone_row *row = row_of(p, &cgroup);
	struct waiting *task = bpf_task_storage_get(&zone_tasks, p, 0, 0);

	dispatched(p, task, row, cgroup);
	if (task && task->charged_ns && before(clock_ns, task->key))
		clock_ns = task->key;
}

SEC("struct_ops/weighted_stopping")
void BPF_PROG(weighted_stopping, struct task_struct *p, bool runnable)
{
	__u64 cgroup, ran;
	struct zone_row *row = row_of(p, &cgroup);
	struct waiting *task = bpf_task_storage_get(&zone_tasks, p, 0, 0);

	left(p);
	if (!row || !task || !task->charged_ns || !task->weight)
		return;
	ran = bpf_ktime_get_ns() - task->started_ns;
	if (ran < task->charged_ns)
		__sync_fetch_and_add(account_of(cgroup), -((task->charged_ns - ran) * 100 / task->weight));
	task->charged_ns = 0;
}

SEC("struct_ops.s/weighted_init")
__s32 BPF_PROG(weighted_init)
{
	__s32 error = scx_bpf_create_dsq(SYSTEM, -1);

	prepare();
	if (!error)
		error = scx_bpf_create_dsq(TIMELINE, -1);
	return error ? error : scx_bpf_create_dsq(FAR, -1);
}

SEC("struct_ops/weighted_exit")
void BPF_PROG(weighted_exit, struct scx_exit_info *info)
{
	ended(info);
}

SEC(".struct_ops.link")
zone_operations zone_scheduler = {
	.enqueue = (void *)weighted_enqueue,
	.dispatch = (void *)weighted_dispatch,
	.running = (void *)weighted_running,
	.stopping = (void *)weighted_stopping,
	.init = (void *)weighted_init,
	.exit = (void *)weighted_exit,
	.timeout_ms = TIMEOUT_MS,
	.name = "cotenant_weighted",
};
