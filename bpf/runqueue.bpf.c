// SPDX-License-Identifier: GPL-2.0-only
/*
 * Run-queue wait of the tasks of chosen cgroups, and the groups that ran meanwhile.
 *
 * Problem: PSI and schedstat report that a group waited, but not for which groups, nor the distribution of its waits. Choice: one hook at the
 * context switch. The kernel records when a task was queued (sched_info.last_queued, on the clock of its run queue), so nothing is done at
 * wake-ups. Each CPU keeps a short timeline of which groups ran; a wait is overlaid on it and attributed, nanosecond by nanosecond, so that a
 * group's wait equals the run time of its culprits plus the time throttled by its own quota. A second hook, at migrations, attributes the wait
 * on the CPU that is left. Limits: a timeline holds SEGMENTS stretches of one group each; earlier time is charged to UNKNOWN. A wait is
 * reported when it ends. Needs Linux 5.11 with CONFIG_SCHED_INFO, CONFIG_FAIR_GROUP_SCHED, CONFIG_CGROUPS and BTF.
 */
#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "waits.h"

#define SEGMENTS 32 /* a power of two */
#define CHANGES 4   /* a power of two */
#define IDLE 0ULL
#define UNKNOWN (~0ULL)

/* Only the members that are read; their offsets are relocated when the object is loaded (CO-RE). */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sched_info {
	unsigned long pcount;
	unsigned long long run_delay;
	unsigned long long last_queued;
};
struct rq {
	struct task_struct *curr;
	__u64 clock;
	int cpu;
};
struct cfs_rq {
	struct rq *rq;
	__u64 throttled_clock_self_time;
	__u64 throttled_clock_pelt_time;
};
struct sched_entity {
	struct cfs_rq *cfs_rq;
};
struct task_struct {
	int pid;
	struct sched_entity se;
	struct sched_info sched_info;
	struct css_set *cgroups;
};
#pragma clang attribute pop

/* Layouts shared with drivers/ebpf/layout.py. */
struct change {
	__u64 at_ns;
	__u64 total_ns;
};
struct watch { /* of one cgroup on one CPU */
	__u64 owner;   /* the group that it is counted under; 0: itself */
	__u64 late_ns; /* a longer wait is reported at once; 0: never */
	__u64 changes; /* number of increases of the time throttled by its quota, including the first observation */
	struct change withheld[CHANGES];
};
struct waits { /* of one owner on one CPU */
	__u64 count;
	__u64 wait_ns;	    /* without the time throttled by the quota */
	__u64 throttled_ns; /* throttled by its own quota */
	__u64 late;	    /* waits longer than late_ns */
	__u64 reported_ns;	    /* when one of them was last reported */
	__u64 bucket[BUCKETS]; /* of wait_ns in microseconds: [0, 2), [2, 4), [4, 8) ... */
};
struct pair {
	__u64 victim;
	__u64 culprit;
};
struct late {
	__u64 at_ns; /* CLOCK_MONOTONIC */
	__u64 victim;
	__u64 culprit; /* the group that ran longest meanwhile */
	__u64 wait_ns;
	__u64 culprit_ns;
	__u32 cpu;
	__u32 pid;
};
struct segment {
	__u64 group;
	__u64 end_ns;
};
struct timeline {
	__u64 written;
	struct segment past[SEGMENTS];
};
struct account { /* of one task */
	__u64 pcount;   /* sched_info.pcount after the last observed run; another value: it ran unobserved, and its earlier wait is not counted */
	__u64 counted; /* the part of its run delay that is in a histogram */
	__u64 charged; /* the part of its run delay that is attributed */
};

const volatile struct {
	bool v1;	/* group ids are those of the v1 cpu hierarchy, else of the v2 tree */
	bool everyone;	/* also watch groups that were not named */
	__u64 quiet_ns; /* minimum time between two late waits reported for one group on one CPU */
} config = {};

struct {
	__u64 blame_ns;
	__u64 late;
} lost = {};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct watch);
} watched SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct waits);
} waited SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct pair);
	__type(value, __u64);
} blamed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set to the number of CPUs before loading */
	__type(key, __u32);
	__type(value, struct timeline);
} timelines SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct account);
} accounts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
} events SEC(".maps");

static __always_inline __u64 group_of(struct task_struct *p)
{
	return group_id(p->cgroups, config.v1);
}

static __always_inline void charge(__u64 victim, __u64 culprit, __u64 ns)
{
	struct pair key = { victim, culprit };
	__u64 *sum = bpf_map_lookup_elem(&blamed, &key);

	if (!sum && !bpf_map_update_elem(&blamed, &key, &ns, BPF_NOEXIST))
		return;
	if (!sum) /* another CPU was first, or the map is full */
		sum = bpf_map_lookup_elem(&blamed, &key);
	__sync_fetch_and_add(sum ? sum : &lost.blame_ns, ns);
}

/* Attribute [from, to] to the groups on the timeline. The culprit of the longest stretch is stored in `worst`. */
static __always_inline void blame(struct timeline *line, __u64 victim, __u64 from, __u64 to, struct segment *worst)
{
	__u64 written = line->written;

	for (int i = 0; i < SEGMENTS - 1; i++) {
		if (to <= from || i + 1 >= written)
			break;
		struct segment *ran = &line->past[(written - 1 - i) & (SEGMENTS - 1)];
		__u64 begin = line->past[(written - 2 - i) & (SEGMENTS - 1)].end_ns;

		if (begin < from)
			begin = from;
		if (begin >= to)
			continue;
		charge(victim, ran->group, to - begin);
		if (to - begin > worst->end_ns) {
			worst->group = ran->group;
			worst->end_ns = to - begin;
		}
		to = begin;
	}
	if (to > from)
		charge(victim, UNKNOWN, to - from);
}

static __always_inline void report(struct waits *sum, struct late *what)
{
	__u64 now = bpf_ktime_get_ns();

	sum->late++;
	if (now - sum->reported_ns < config.quiet_ns)
		return;
	sum->reported_ns = now;
	what->at_ns = now;
	if (bpf_ringbuf_output(&events, what, sizeof(*what), 0))
		__sync_fetch_and_add(&lost.late, 1);
}

static __always_inline __u64 withheld(struct cfs_rq *queue)
{
	if (bpf_core_field_exists(queue->throttled_clock_self_time))
		return queue->throttled_clock_self_time;
	if (bpf_core_field_exists(queue->throttled_clock_pelt_time))
		return queue->throttled_clock_pelt_time;
	return 0;
}

static __always_inline struct waits *waits_of(__u64 owner)
{
	struct waits *sum = bpf_map_lookup_elem(&waited, &owner);

	if (sum || !config.everyone)
		return sum;
	struct waits fresh = {};

	bpf_map_update_elem(&waited, &owner, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&waited, &owner);
}

static __always_inline struct watch *watch_of(__u64 group)
{
	struct watch *watch = bpf_map_lookup_elem(&watched, &group);

	if (watch || !config.everyone)
		return watch;
	struct watch fresh = {};

	bpf_map_update_elem(&watched, &group, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&watched, &group);
}

/*
 * The part of [queued, now] throttled by the quota, all of it before the wait for others. It throttles all tasks of the queue at once, and is
 * observed when the first of them runs again; later ones look back.
 */
static __always_inline __u64 throttled_in(struct watch *watch, struct cfs_rq *queue, __u64 queued, __u64 now)
{
	__u64 total = withheld(queue), changes = watch->changes, base = total;

	if (!changes || watch->withheld[(changes - 1) & (CHANGES - 1)].total_ns != total) {
		struct change *fresh = &watch->withheld[changes & (CHANGES - 1)];

		fresh->at_ns = now;
		fresh->total_ns = total;
		watch->changes = ++changes;
	}
	for (int i = 0; i < CHANGES && i < changes; i++) {
		struct change *seen = &watch->withheld[(changes - 1 - i) & (CHANGES - 1)];

		base = seen->total_ns;
		if (seen->at_ns <= queued)
			break;
	}
	return total - base < now - queued ? total - base : now - queued;
}

/* `next` gets the CPU at `now`: count its wait, and attribute it. */
static __always_inline void account_wait(struct task_struct *next, struct cfs_rq *queue, struct timeline *line, __u64 now, __u32 cpu)
{
	__u64 group = group_of(next);
	struct watch *watch = watch_of(group);
	__u64 queued = next->sched_info.last_queued;

	if (!watch || !queued)
		return;
	__u64 owner = watch->owner ? watch->owner : group;
	struct waits *sum = waits_of(owner);
	struct account *account = bpf_task_storage_get(&accounts, next, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!sum || !account)
		return;
	if (queued > now)
		queued = now;
	__u64 before = next->sched_info.run_delay, pcount = next->sched_info.pcount;

	if (account->pcount != pcount) {
		account->counted = before;
		account->charged = before;
	}
	__u64 here = now - queued, elsewhere = before - account->charged;
	__u64 throttled = throttled_in(watch, queue, queued, now);
	__u64 wait = before - account->counted + here - throttled;

	account->pcount = pcount + 1;
	account->counted = account->charged = before + here;

	sum->count++;
	sum->wait_ns += wait;
	sum->throttled_ns += throttled;
	sum->bucket[slot_of(wait)]++;

	struct segment worst = {};

	blame(line, owner, queued + throttled, now, &worst);
	if (elsewhere)
		charge(owner, UNKNOWN, elsewhere);
	if (watch->late_ns && wait > watch->late_ns) {
		struct late what = {
			.victim = owner, .culprit = worst.group, .wait_ns = wait, .culprit_ns = worst.end_ns, .cpu = cpu, .pid = next->pid,
		};
		report(sum, &what);
	}
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	/* The idle task is in no queue, so use the clock of the other one. */
	struct cfs_rq *queue = next->pid ? next->se.cfs_rq : prev->se.cfs_rq;
	__u64 now = queue->rq->clock;
	__u32 cpu = bpf_get_smp_processor_id();
	struct timeline *line = bpf_map_lookup_elem(&timelines, &cpu);

	if (!line)
		return 0;
	__u64 ran = prev->pid ? group_of(prev) : IDLE;
	struct segment *last = &line->past[(line->written - 1) & (SEGMENTS - 1)];

	if (line->written && last->group == ran) {
		last->end_ns = now;
	} else {
		struct segment *fresh = &line->past[line->written & (SEGMENTS - 1)];

		fresh->group = ran;
		fresh->end_ns = now;
		line->written++;
	}
	if (next->pid)
		account_wait(next, queue, line, now, cpu);
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct *p, int to_cpu)
{
	struct account *account = bpf_task_storage_get(&accounts, p, 0, 0);

	if (!account || account->pcount != p->sched_info.pcount)
		return 0;
	/* The kernel has just added the wait on the old CPU, whose run queue it holds locked. */
	__u64 waited_ns = p->sched_info.run_delay - account->charged;

	if (!waited_ns)
		return 0;
	__u64 group = group_of(p);
	struct watch *watch = bpf_map_lookup_elem(&watched, &group);
	struct rq *rq = p->se.cfs_rq->rq;
	__u32 cpu = rq->cpu;
	struct timeline *line = bpf_map_lookup_elem(&timelines, &cpu);

	if (!watch || !line)
		return 0;
	struct segment worst = {};
	__u64 owner = watch->owner ? watch->owner : group, now = rq->clock, from = now - waited_ns;

	account->charged += waited_ns;
	/* The running task is not on the timeline until it is switched out. */
	if (line->written) {
		__u64 since = line->past[(line->written - 1) & (SEGMENTS - 1)].end_ns;

		if (since < from)
			since = from;
		if (since < now) {
			struct task_struct *runs = rq->curr;

			charge(owner, runs->pid ? group_of(runs) : IDLE, now - since);
			now = since;
		}
	}
	blame(line, owner, from, now, &worst);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
