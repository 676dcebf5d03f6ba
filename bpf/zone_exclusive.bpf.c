// SPDX-License-Identifier: GPL-2.0-only
/*
 * Zone scheduler "exclusive": CPUs that only services use.
 *
 * Problem: a service that shares a CPU with batch finds its caches emptied after each turn of batch, however short the turns are. Choice: the loader names the
 * CPUs of services (whole cores) before the object is loaded. Batch does not run on them, also while they are idle; services run there first, and on the other
 * CPUs only while no batch waits: batch preempts them there at a wake-up. Unlisted tasks run anywhere, before batch and, after a slice at most, before services. A task that waited for
 * `starved_ns` is served on any CPU that it may use, for one slice: batch pinned to the services' CPUs, or services pinned to the others, would else stall until the
 * kernel's watchdog ejects the scheduler. Limits: at least two CPUs, one of them left to batch; at most 1024. An enqueue looks at each CPU in turn. A sub-scheduler
 * keeps only its own zone's batch off these CPUs. A task that starves on an idle CPU is seen when any CPU dispatches next.
 */
#include "zone.h"

#define SYSTEM 1
#define SERVICES 2
#define BATCH 3
#define SLICE (4 * MS)
#define MAX_CPUS 1024
#define IDLE (1U << 8) /* beside the bits of classes */
#define INVALID -22    /* EINVAL */

/* Written by the loader; layout shared with drivers/ebpf/zone_layout.py. */
const volatile struct {
	__u64 starved_ns;
	__u64 cpus; /* numbers from 0 */
	__u64 own[MAX_CPUS / 64]; /* a bit for each CPU of services */
} exclusive = {.starved_ns = 1000 * MS, .cpus = 2, .own = {2}};

static __always_inline bool is_own(__u32 cpu)
{
	cpu &= MAX_CPUS - 1;
	return exclusive.own[cpu / 64] >> (cpu % 64) & 1;
}

struct search {
	__s32 found;
	__u32 wanted; /* bits of classes, or IDLE: of what runs there */
	bool own;
};

static long look(__u32 cpu, struct search *search)
{
	__u32 first = 0, *there;

	if (is_own(cpu) != search->own)
		return 0;
	there = bpf_map_lookup_percpu_elem(&zone_running, &first, cpu);
	if (!there || !(search->wanted & (*there > CLASS_BATCH ? IDLE : ONLY(*there))))
		return 0;
	search->found = cpu;
	return 1;
}

/* A CPU of services, or of the others, on which one of these runs; -1: there is none. */
static __always_inline __s32 find(bool own, __u32 wanted)
{
	struct search search = {.found = -1, .wanted = wanted, .own = own};

	bpf_loop(exclusive.cpus, look, &search, 0);
	return search.found;
}

/* Where a task of this class runs at once: on an idle CPU of its side, in place of what yields to it there, or on an idle CPU of the other side. */
static __always_inline __s32 place_for(__u32 class, bool *preempts)
{
	bool own = class == CLASS_SERVICE;
	__s32 cpu = find(own, IDLE);

	*preempts = false;
	if (cpu >= 0)
		return cpu;
	if (class != CLASS_SYSTEM) {
		cpu = find(own, own ? ONLY(CLASS_BATCH) | ONLY(CLASS_SYSTEM) : ONLY(CLASS_SERVICE));
		*preempts = cpu >= 0;
	}
	if (cpu < 0 && class != CLASS_BATCH)
		cpu = find(!own, IDLE);
	return cpu;
}

static __always_inline __u64 queue_of(__u32 class)
{
	return class == CLASS_BATCH ? BATCH : class == CLASS_SERVICE ? SERVICES : SYSTEM;
}

SEC("struct_ops/exclusive_select")
__s32 BPF_PROG(exclusive_select, struct task_struct *p, __s32 previous, __u64 flags)
{
	__u64 cgroup;
	bool preempts;
	__s32 cpu = place_for(class_of(row_of(p, &cgroup)), &preempts);

#ifdef ZONE_SUB
	return cpu < 0 ? previous : scx_bpf_cpu_to_cid(cpu);
#else
	return cpu < 0 ? previous : cpu;
#endif
}

SEC("struct_ops/exclusive_enqueue")
void BPF_PROG(exclusive_enqueue, struct task_struct *p, __u64 flags)
{
	__u64 cgroup;
	struct zone_row *row = row_of(p, &cgroup);
	__u32 class = class_of(row);
	bool preempts;
	__s32 cpu;

	queued(p);
	count(class == CLASS_BATCH ? COUNT_BATCH : COUNT_SERVICE);
	queue_task(p, queue_of(class), slice_of(row, SLICE), flags);
	cpu = place_for(class, &preempts);
	if (cpu >= 0 && !preempts) {
		kick(cpu, SCX_KICK_IDLE);
	} else if (cpu >= 0 && (flags & SCX_ENQ_WAKEUP)) {
		kick(cpu, SCX_KICK_PREEMPT);
		count(COUNT_KICKED);
	} else if (class == CLASS_SYSTEM) {
		preempt(p, flags, ONLY(CLASS_BATCH));
	}
}

/* One idle CPU more, where a queue has tasks left. */
static __always_inline void wake_another(__u64 queue, bool own)
{
	__s32 cpu;

	if (scx_bpf_dsq_nr_queued(queue) <= 0)
		return;
	cpu = find(own, IDLE);
	if (cpu >= 0)
		kick(cpu, SCX_KICK_IDLE);
}

/* The CPU of the first task of a queue, where that has waited for longer; -1: it has not. */
static __always_inline __s32 waits_on(__u64 queue, __u64 limit_ns)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *first;
	struct waiting *task;
	__s32 cpu = -1;

	first = see_first(queue, &it);
	if (first) {
		task = bpf_task_storage_get(&zone_tasks, first, 0, 0);
		if (task && task->since_ns && bpf_ktime_get_ns() - task->since_ns > limit_ns)
			cpu = cpu_of(first);
	}
	first_seen(&it);
	return cpu;
}

SEC("struct_ops/exclusive_dispatch")
void BPF_PROG(exclusive_dispatch, __s32 cpu, struct task_struct *prev)
{
	__u64 cgroup, queue;
	struct zone_row *row;
	__u32 class;
	__s32 there;
	bool own;

#ifdef ZONE_SUB
	cpu = scx_bpf_cid_to_cpu(cpu);
#endif
	own = is_own(cpu);
	queue = own ? SERVICES : BATCH;
	for (int side = 0; side < 2; side++) {
		__u64 starving = side ? SERVICES : BATCH;

		there = waits_on(starving, exclusive.starved_ns);
		if (there < 0)
			continue;
		if (run_first(starving)) {
			count(COUNT_OVERDUE);
			return;
		}
		/* it may not run here: its own CPU may be idle */
		kick(there, SCX_KICK_IDLE);
	}
	/* Kernel threads may run for several milliseconds at a time: on their own CPUs services go first, for a slice. */
	if ((!own || waits_on(SYSTEM, SLICE) >= 0) && run_first(SYSTEM))
		return;
	if (run_first(queue)) {
		wake_another(queue, own);
		return;
	}
	if (own && run_first(SYSTEM))
		return;
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
		row = row_of(prev, &cgroup);
		class = class_of(row);
		if (class != CLASS_BATCH || !own) {
			set_slice(prev, slice_of(row, SLICE));
			count(COUNT_KEPT);
			return;
		}
	}
	if (!own)
		run_first(SERVICES);
}

SEC("struct_ops/exclusive_running")
void BPF_PROG(exclusive_running, struct task_struct *p)
{
	__u64 cgroup;
	struct zone_row *row = row_of(p, &cgroup);

	dispatched(p, bpf_task_storage_get(&zone_tasks, p, 0, 0), row, cgroup);
}

SEC("struct_ops/exclusive_stopping")
void BPF_PROG(exclusive_stopping, struct task_struct *p, bool runnable)
{
	left(p);
}

static long is_idle(__u32 cpu, void *unused)
{
	__u32 first = 0, *there = bpf_map_lookup_percpu_elem(&zone_running, &first, cpu);

	if (there)
		*there = NOTHING;
	return 0;
}

SEC("struct_ops.s/exclusive_init")
__s32 BPF_PROG(exclusive_init)
{
	__s32 error;

	prepare();
	if (exclusive.cpus < 2 || exclusive.cpus > MAX_CPUS)
		return INVALID;
	bpf_loop(exclusive.cpus, is_idle, 0, 0);
	error = scx_bpf_create_dsq(SYSTEM, -1);
	if (!error)
		error = scx_bpf_create_dsq(SERVICES, -1);
	return error ? error : scx_bpf_create_dsq(BATCH, -1);
}

SEC("struct_ops/exclusive_exit")
void BPF_PROG(exclusive_exit, struct scx_exit_info *info)
{
	ended(info);
}

SEC(".struct_ops.link")
zone_operations zone_scheduler = {
#ifdef ZONE_SUB
	.select_cid = (void *)exclusive_select,
#else
	.select_cpu = (void *)exclusive_select,
#endif
	.enqueue = (void *)exclusive_enqueue,
	.dispatch = (void *)exclusive_dispatch,
	.running = (void *)exclusive_running,
	.stopping = (void *)exclusive_stopping,
	.init = (void *)exclusive_init,
	.exit = (void *)exclusive_exit,
	.flags = SCX_OPS_ENQ_LAST, /* else the kernel lets batch go on at the end of its slice, also on a CPU of services */
	.timeout_ms = TIMEOUT_MS,
	.name = "cotenant_exclusive",
};
