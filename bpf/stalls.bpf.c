// SPDX-License-Identifier: GPL-2.0-only
/*
 * What tasks of a cgroup wait for besides a CPU (uninterruptible sleep, mostly block I/O, and direct reclaim), and who ran while a task waited long.
 *
 * A group's pressure says that its tasks waited, not how long each wait was, who ended it, where in the kernel it was and who ran instead. A sleep
 * begins at the context switch and ends at the wake-up; reclaim is timed in the task that does it; both are counted by the group of the waiting task.
 * A wait beyond the limit is an event, and only then is a stack walked: that of the sleeper, which is still as it went to sleep. A wait for a CPU
 * beyond the limit is an event too (how long the kernel had it queued), with what ran on that CPU: each CPU keeps the last SLOTS stretches of time,
 * with the run time of RUNNERS groups in each. Events of a group since the last reading may take as many bytes as are free in the ring, so that however many
 * a group has, others find room. An iterator counts tasks that run or wait for a CPU, and those in uninterruptible sleep, by group: what load averages
 * are made of. Limits: waits that began before the program was loaded are not counted; a wait for a CPU counts from the task's last migration on, and
 * with the time that its group's quota withheld, which is told by a flag. Needs Linux 5.11 with BTF, CONFIG_CGROUPS, CONFIG_SCHED_INFO and
 * CONFIG_FAIR_GROUP_SCHED.
 */
#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "run_history.h"
#include "waits.h"

#define RING_BYTES 524288
#define QUOTA_PERIOD_NS 100000000ULL
#define UNINTERRUPTIBLE 2
#define NO_LOAD 0x400 /* kernel threads that sleep so for ever: the kernel's load average leaves them out, too */
#define KIND_BLOCKED 0
#define KIND_RECLAIM 1
#define KIND_RUNNABLE 2

/* Only the members that are read; their offsets are relocated when the object is loaded (CO-RE). */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sched_info {
	unsigned long long last_queued;
};
struct rq {
	__u64 clock;
	__u64 clock_pelt;
	__u64 lost_idle_time;
};
struct cfs_rq {
	struct rq *rq;
	__u64 throttled_clock_pelt;
};
struct sched_entity {
	struct cfs_rq *cfs_rq;
};
struct task_struct {
	unsigned int __state;
	int pid;
	struct sched_entity se;
	struct sched_info sched_info;
	struct css_set *cgroups;
	char comm[COMM];
};
struct task_struct___old {
	long state;
};
struct bpf_iter__task {
	struct task_struct *task;
};
#pragma clang attribute pop

/* Layouts shared with drivers/ebpf/stall_layout.py. */
struct waits {
	__u64 count;
	__u64 wait_ns;
	__u64 bucket[BUCKETS]; /* of a wait in microseconds: [0, 2), [2, 4), [4, 8) ... */
};
struct wait_key {
	__u64 group;
	__u64 kind;
};
struct counts {
	__u64 runnable;
	__u64 blocked;
};
struct long_wait {
	__u64 at_ns; /* CLOCK_MONOTONIC */
	__u64 group;
	__u64 wait_ns;
	__u64 waker_group; /* of who ended it: the waker; of a wait for a CPU the task that ran last */
	__u32 kind;
	__u32 pid;
	__u32 waker_pid;
	__u32 frames;
	__u64 withheld; /* 1: its group's quota ended its run in this wait or shortly before */
	char comm[COMM];
	char waker_comm[COMM];
	__u64 stack[FRAMES]; /* of the sleeper; of a wait for a CPU that of the task that ran last, beside that of the last long run */
};
struct long_run_queue_wait {
	struct long_wait wait;
	__u64 ended_ns; /* on the clock of the run queue */
	struct timeline line;
};
struct share { /* of the ring, of one group */
	__u64 read;  /* how far the ring had been read when it began */
	__u64 bytes;
	__u64 lost; /* long waits that did not fit */
};
struct begun { /* of one task */
	__u64 blocked_ns;
	__u64 reclaim_ns;
};

const volatile struct {
	bool v1;	   /* group ids are those of the v1 cpu hierarchy, else of the v2 tree */
	__u64 long_ns; /* a longer wait is an event; 0: none is */
	__u64 slot_ns;
} config = {};

struct {
	__u64 events;
	__u64 waits; /* that were not counted, because there are too many groups */
} lost = {};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct wait_key);
	__type(value, struct waits);
} waited SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct counts);
} counted SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct begun);
} begins SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set to the number of CPUs before loading */
	__type(key, __u32);
	__type(value, struct timeline);
} timelines SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct share);
} shares SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} events SEC(".maps");

static __always_inline __u64 group_of(struct task_struct *p)
{
	return group_id(p->cgroups, config.v1);
}

static __always_inline __u64 state_of(struct task_struct *p)
{
	if (bpf_core_field_exists(p->__state))
		return p->__state;
	return BPF_CORE_READ((struct task_struct___old *)p, state);
}

static __always_inline bool blocked(__u64 state)
{
	return (state & UNINTERRUPTIBLE) && !(state & NO_LOAD);
}

/* Whether an event of the group may be written, which then counts. */
static __always_inline bool has_room(__u64 group, __u64 size)
{
	struct share *own = bpf_map_lookup_elem(&shares, &group);
	__u64 read = bpf_ringbuf_query(&events, BPF_RB_CONS_POS);

	if (!own) {
		struct share fresh = { .read = read };

		bpf_map_update_elem(&shares, &group, &fresh, BPF_NOEXIST);
		own = bpf_map_lookup_elem(&shares, &group);
	}
	if (!own)
		return false;
	if (own->read != read) {
		own->read = read;
		own->bytes = 0;
	}
	if (own->bytes + size <= RING_BYTES - bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA)) {
		__sync_fetch_and_add(&own->bytes, size);
		return true;
	}
	__sync_fetch_and_add(&own->lost, 1);
	return false;
}

static __always_inline void tell(struct long_wait *what, struct task_struct *p, __u64 wait, __u64 kind, struct task_struct *waker, struct task_struct *walked)
{
	what->at_ns = bpf_ktime_get_ns();
	what->group = group_of(p);
	what->wait_ns = wait;
	what->waker_group = group_of(waker);
	what->kind = kind;
	what->pid = p->pid;
	what->waker_pid = waker->pid;
	what->withheld = 0;
	bpf_probe_read_kernel(what->comm, COMM, p->comm);
	bpf_probe_read_kernel(what->waker_comm, COMM, waker->comm);
	long bytes = bpf_get_task_stack(walked, what->stack, sizeof(what->stack), 0);

	what->frames = bytes > 0 ? bytes / sizeof(__u64) : 0;
}

static __always_inline void ended(struct task_struct *p, __u64 kind, __u64 from, struct task_struct *waker)
{
	__u64 wait = bpf_ktime_get_ns() - from;
	struct wait_key key = { group_of(p), kind };
	struct waits *sum = bpf_map_lookup_elem(&waited, &key);

	if (!sum) {
		struct waits fresh = {};

		bpf_map_update_elem(&waited, &key, &fresh, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&waited, &key);
	}
	if (sum) {
		__sync_fetch_and_add(&sum->count, 1);
		__sync_fetch_and_add(&sum->wait_ns, wait);
		__sync_fetch_and_add(&sum->bucket[slot_of(wait)], 1);
	} else {
		__sync_fetch_and_add(&lost.waits, 1);
	}
	if (!config.long_ns || wait <= config.long_ns)
		return;
	struct long_wait *what = has_room(key.group, sizeof(*what)) ? bpf_ringbuf_reserve(&events, sizeof(*what), 0) : 0;

	if (!what) {
		__sync_fetch_and_add(&lost.events, 1);
		return;
	}
	tell(what, p, wait, kind, waker, p);
	bpf_ringbuf_submit(what, 0);
}

/* Whether the quota of the task's group ended its run within the time, or a period before. */
static __always_inline bool withheld(struct cfs_rq *queue, __u64 within_ns)
{
	if (!bpf_core_field_exists(queue->throttled_clock_pelt) || !bpf_core_field_exists(queue->rq->lost_idle_time))
		return false;
	return queue->rq->clock_pelt - queue->rq->lost_idle_time - queue->throttled_clock_pelt < within_ns + QUOTA_PERIOD_NS;
}

static __always_inline void waited_long(struct timeline *line, struct task_struct *next, struct task_struct *prev, __u64 now, __u64 wait)
{
	struct long_run_queue_wait *what = 0;

	if (has_room(group_of(next), sizeof(*what)))
		what = bpf_ringbuf_reserve(&events, sizeof(*what), 0);
	if (!what) {
		__sync_fetch_and_add(&lost.events, 1);
		return;
	}
	tell(&what->wait, next, wait, KIND_RUNNABLE, prev, prev);
	what->wait.withheld = withheld(next->se.cfs_rq, wait);
	what->ended_ns = now;
	bpf_probe_read_kernel(&what->line, sizeof(what->line), line);
	bpf_ringbuf_submit(what, 0);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (config.long_ns) {
		/* The idle task is in no queue, so use the clock of the other one. */
		__u64 now = next->pid ? next->se.cfs_rq->rq->clock : prev->se.cfs_rq->rq->clock;
		__u64 queued = next->sched_info.last_queued;
		__u32 cpu = bpf_get_smp_processor_id();
		struct timeline *line = bpf_map_lookup_elem(&timelines, &cpu);

		if (line) {
			__u64 begin = line->until_ns;

			ran(line, prev->pid ? group_of(prev) : 0, prev->pid, prev->comm, now, config.slot_ns);
			if (prev->pid && begin && now > begin && now - begin >= 2 * config.slot_ns)
				ran_long(&line->last, prev, prev->pid, begin, now);
			if (next->pid && queued && now > queued && now - queued > config.long_ns)
				waited_long(line, next, prev, now, now - queued);
		}
	}
	if (preempt || !blocked(state_of(prev)))
		return 0;
	struct begun *begun = bpf_task_storage_get(&begins, prev, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (begun)
		begun->blocked_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *p)
{
	/* The state is still that of the sleep: most wake-ups end here. */
	if (!blocked(state_of(p)))
		return 0;
	struct begun *begun = bpf_task_storage_get(&begins, p, 0, 0);

	if (!begun || !begun->blocked_ns)
		return 0;
	__u64 from = begun->blocked_ns;

	begun->blocked_ns = 0;
	ended(p, KIND_BLOCKED, from, bpf_get_current_task_btf());
	return 0;
}

static __always_inline int reclaim_begins(void)
{
	struct begun *begun = bpf_task_storage_get(&begins, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (begun)
		begun->reclaim_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int reclaim_ends(void)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct begun *begun = bpf_task_storage_get(&begins, p, 0, 0);

	if (!begun || !begun->reclaim_ns)
		return 0;
	__u64 from = begun->reclaim_ns;

	begun->reclaim_ns = 0;
	ended(p, KIND_RECLAIM, from, p);
	return 0;
}

/* for the machine, and for a group at its limit */
SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(on_reclaim_begin)
{
	return reclaim_begins();
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(on_reclaim_end)
{
	return reclaim_ends();
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(on_group_reclaim_begin)
{
	return reclaim_begins();
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(on_group_reclaim_end)
{
	return reclaim_ends();
}

SEC("iter/task")
int count_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;

	if (!p)
		return 0;
	__u64 state = state_of(p);
	bool runnable = state == 0, waits = blocked(state);

	if (!runnable && !waits)
		return 0;
	__u64 group = group_of(p);
	struct counts *sum = bpf_map_lookup_elem(&counted, &group);

	if (!sum) {
		struct counts fresh = {};

		bpf_map_update_elem(&counted, &group, &fresh, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&counted, &group);
	}
	if (!sum)
		return 0;
	sum->runnable += runnable;
	sum->blocked += waits;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
