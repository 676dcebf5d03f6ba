// SPDX-License-Identifier: GPL-2.0-only
/*
 * Zone scheduler "siblings": batch never runs on a core on whose other thread a service runs.
 *
 * Problem: two hardware threads of a core share its units and caches, so batch beside a service slows it although each has a CPU of its own. Choice: services
 * before batch as under "latency"; besides, batch gets a CPU only while no service runs on the other thread of its core. A service that starts there ends the
 * turn of batch at once, and one that stops gives the thread back: unlike "exclusive" no CPU is set aside, and a core without a service is batch's. A service
 * goes to a core where nothing runs first, then beside another service. A batch task that has waited for `starved_ns` runs for one slice wherever it may, also
 * beside a service. Limits: between the start of a service and the end of the turn beside it is the time of an interrupt; cores with two threads; at most 1024
 * CPUs, and a wake-up looks at each in turn; a sub-scheduler knows of its own zone's tasks only. Without such cores it is "latency" with places.
 */
#include "zone.h"

#define HIGH 1
#define LOW 2
#define SLICE (4 * MS)
#define MAX_CPUS 1024
#define IDLE (1U << 8) /* beside the bits of classes */
#define ANY (~0U)
#define INVALID -22 /* EINVAL */

/* Written by the loader; layout shared with drivers/ebpf/zone_layout.py. */
const volatile struct {
	__u64 starved_ns;
	__u64 cpus; /* numbers from 0 */
	__u16 sibling[MAX_CPUS]; /* the other thread of the core; a CPU without one: itself */
} siblings = {.starved_ns = 1000 * MS, .cpus = 2, .sibling = {1, 0}};

/* Until when batch may run beside a service here, for it had waited too long. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} zone_licence SEC(".maps");

static __always_inline __u32 sibling_of(__u32 cpu)
{
	return siblings.sibling[cpu & (MAX_CPUS - 1)];
}

/* What runs on a CPU: the bit of a class, or IDLE. */
static __always_inline __u32 runs_on(__u32 cpu)
{
	__u32 first = 0, *there = bpf_map_lookup_percpu_elem(&zone_running, &first, cpu);

	return !there || *there > CLASS_BATCH ? IDLE : ONLY(*there);
}

/* What runs on the other thread of this CPU's core: IDLE where it has none. */
static __always_inline __u32 runs_beside(__u32 cpu)
{
	__u32 other = sibling_of(cpu);

	return other == cpu ? IDLE : runs_on(other);
}

static __always_inline bool licensed(__u32 cpu)
{
	__u32 first = 0;
	__u64 *until = bpf_map_lookup_percpu_elem(&zone_licence, &first, cpu);

	return until && bpf_ktime_get_ns() < *until;
}

struct search {
	__s32 found;
	__u32 here;   /* what may run on the CPU */
	__u32 beside; /* and on the other thread of its core */
};

static long look(__u32 cpu, struct search *search)
{
	if (!(search->here & runs_on(cpu)) || !(search->beside & runs_beside(cpu)))
		return 0;
	search->found = cpu;
	return 1;
}

static __always_inline __s32 find(__u32 here, __u32 beside)
{
	struct search search = {.found = -1, .here = here, .beside = beside};

	bpf_loop(siblings.cpus, look, &search, 0);
	return search.found;
}

/* Where a task of this class runs at once; -1: nowhere. */
static __always_inline __s32 place_for(__u32 class, bool *preempts)
{
	__s32 cpu;

	*preempts = false;
	if (class == CLASS_BATCH)
		return find(IDLE, IDLE | ONLY(CLASS_BATCH) | ONLY(CLASS_SYSTEM));
	cpu = find(IDLE, IDLE);
	if (cpu < 0)
		cpu = find(IDLE, IDLE | ONLY(CLASS_SERVICE) | ONLY(CLASS_SYSTEM));
	if (cpu < 0)
		cpu = find(IDLE, ANY);
	if (cpu < 0) {
		cpu = find(ONLY(CLASS_BATCH), ANY);
		*preempts = cpu >= 0;
	}
	return cpu;
}

SEC("struct_ops/siblings_select")
__s32 BPF_PROG(siblings_select, struct task_struct *p, __s32 previous, __u64 flags)
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

SEC("struct_ops/siblings_enqueue")
void BPF_PROG(siblings_enqueue, struct task_struct *p, __u64 flags)
{
	__u64 cgroup;
	struct zone_row *row = row_of(p, &cgroup);
	__u32 class = class_of(row);
	bool preempts;
	__s32 cpu;

	queued(p);
	count(class == CLASS_BATCH ? COUNT_BATCH : COUNT_SERVICE);
	queue_task(p, class == CLASS_BATCH ? LOW : HIGH, slice_of(row, SLICE), flags);
	cpu = place_for(class, &preempts);
	if (cpu >= 0 && !preempts) {
		kick(cpu, SCX_KICK_IDLE);
	} else if (cpu >= 0 && (flags & SCX_ENQ_WAKEUP)) {
		kick(cpu, SCX_KICK_PREEMPT);
		count(COUNT_KICKED);
	} else if (class == CLASS_SERVICE) {
		preempt(p, flags, ONLY(CLASS_SYSTEM));
	}
}

/* The CPU of the first batch task, where that has waited for too long; -1: it has not. */
static __always_inline __s32 starves_on(void)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *first;
	struct waiting *task;
	__s32 cpu = -1;

	first = see_first(LOW, &it);
	if (first) {
		task = bpf_task_storage_get(&zone_tasks, first, 0, 0);
		if (task && task->since_ns && bpf_ktime_get_ns() - task->since_ns > siblings.starved_ns)
			cpu = cpu_of(first);
	}
	first_seen(&it);
	return cpu;
}

/* One idle CPU more, where a queue has tasks left. */
static __always_inline void wake_another(__u64 queue, __u32 class)
{
	bool preempts;
	__s32 cpu;

	if (scx_bpf_dsq_nr_queued(queue) <= 0)
		return;
	cpu = place_for(class, &preempts);
	if (cpu >= 0 && !preempts)
		kick(cpu, SCX_KICK_IDLE);
}

SEC("struct_ops/siblings_dispatch")
void BPF_PROG(siblings_dispatch, __s32 cpu, struct task_struct *prev)
{
	__u32 first = 0;
	__u64 cgroup, *until;
	struct zone_row *row;
	__s32 there = starves_on();

#ifdef ZONE_SUB
	cpu = scx_bpf_cid_to_cpu(cpu);
#endif
	if (there >= 0) {
		until = bpf_map_lookup_elem(&zone_licence, &first);
		if (until)
			*until = bpf_ktime_get_ns() + SLICE;
		if (run_first(LOW)) {
			count(COUNT_OVERDUE);
			return;
		}
		if (until)
			*until = 0;
		/* it may not run here: its own CPU may be idle */
		kick(there, SCX_KICK_IDLE);
	}
	if (run_first(HIGH)) {
		wake_another(HIGH, CLASS_SERVICE);
		return;
	}
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
		row = row_of(prev, &cgroup);
		if (class_of(row) != CLASS_BATCH) {
			set_slice(prev, slice_of(row, SLICE));
			count(COUNT_KEPT);
			return;
		}
	}
	if (runs_beside(cpu) & ONLY(CLASS_SERVICE))
		return;
	if (run_first(LOW))
		wake_another(LOW, CLASS_BATCH);
}

SEC("struct_ops/siblings_running")
void BPF_PROG(siblings_running, struct task_struct *p)
{
	__u64 cgroup;
	struct zone_row *row = row_of(p, &cgroup);
	__u32 cpu = cpu_of(p), other = sibling_of(cpu), class = class_of(row), first = 0, beside, *here;

	dispatched(p, bpf_task_storage_get(&zone_tasks, p, 0, 0), row, cgroup);
	if (other == cpu)
		return;
	/* Both threads say what they run before they look at the other: of two that start at once, one sees it at least. */
	here = bpf_map_lookup_percpu_elem(&zone_running, &first, cpu);
	if (here)
		__sync_lock_test_and_set(here, class);
	beside = runs_on(other);
	if (class == CLASS_SERVICE && beside == ONLY(CLASS_BATCH) && !licensed(other)) {
		kick(other, SCX_KICK_PREEMPT);
		count(COUNT_KICKED);
	} else if (class == CLASS_BATCH && beside == ONLY(CLASS_SERVICE) && !licensed(cpu)) {
		kick(cpu, SCX_KICK_PREEMPT);
		count(COUNT_KICKED);
	}
}

SEC("struct_ops/siblings_stopping")
void BPF_PROG(siblings_stopping, struct task_struct *p, bool runnable)
{
	__u64 cgroup;
	__u32 cpu = cpu_of(p), other = sibling_of(cpu);

	left(p);
	/* One that was preempted is back soon, here or elsewhere: then this CPU's next dispatch wakes the other thread. */
	if (other != cpu && !runnable && class_of(row_of(p, &cgroup)) != CLASS_BATCH && runs_on(other) == IDLE && scx_bpf_dsq_nr_queued(LOW) > 0)
		kick(other, SCX_KICK_IDLE);
}

static long is_idle(__u32 cpu, void *unused)
{
	__u32 first = 0, *there = bpf_map_lookup_percpu_elem(&zone_running, &first, cpu);

	if (there)
		*there = NOTHING;
	return 0;
}

SEC("struct_ops.s/siblings_init")
__s32 BPF_PROG(siblings_init)
{
	__s32 error;

	prepare();
	if (siblings.cpus < 1 || siblings.cpus > MAX_CPUS)
		return INVALID;
	bpf_loop(siblings.cpus, is_idle, 0, 0);
	error = scx_bpf_create_dsq(HIGH, -1);
	return error ? error : scx_bpf_create_dsq(LOW, -1);
}

SEC("struct_ops/siblings_exit")
void BPF_PROG(siblings_exit, struct scx_exit_info *info)
{
	ended(info);
}

SEC(".struct_ops.link")
zone_operations zone_scheduler = {
#ifdef ZONE_SUB
	.select_cid = (void *)siblings_select,
#else
	.select_cpu = (void *)siblings_select,
#endif
	.enqueue = (void *)siblings_enqueue,
	.dispatch = (void *)siblings_dispatch,
	.running = (void *)siblings_running,
	.stopping = (void *)siblings_stopping,
	.init = (void *)siblings_init,
	.exit = (void *)siblings_exit,
	.flags = SCX_OPS_ENQ_LAST, /* else the kernel lets batch go on at the end of its turn, also beside a service */
	.timeout_ms = TIMEOUT_MS,
	.name = "cotenant_siblings",
};
