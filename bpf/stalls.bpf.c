// SPDX-License-Identifier: GPL-2.0-only
/*
 * What tasks of a cgroup wait for besides a CPU: uninterruptible sleep (mostly block I/O), and direct reclaim.
 *
 * A group's pressure says that its tasks waited, not how long each wait was, who ended it and where in the kernel it was. A wait begins at the
 * context switch, where its kernel stack is taken, and ends at the wake-up; both are counted by the group of the waiting task. Reclaim is timed
 * in the task that does it. A wait beyond the limit is an event with the task that ended it. An iterator counts tasks that run or wait for a CPU,
 * and those in uninterruptible sleep, by group: what load averages are made of. Limits: a stack is of the last task that slept there, until the map
 * is full; waits that began before the program was loaded are not counted. Needs Linux 5.11 with BTF and CONFIG_CGROUPS.
 */
#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "waits.h"

#define FRAMES 16
#define UNINTERRUPTIBLE 2
#define NO_LOAD 0x400 /* kernel threads that sleep so for ever: the kernel's load average leaves them out, too */
#define KIND_BLOCKED 0
#define KIND_RECLAIM 1
#define COMM 16

/* Only the members that are read; their offsets are relocated when the object is loaded (CO-RE). */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct {
	unsigned int __state;
	int pid;
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
	__u64 waker_group;
	__u32 kind;
	__u32 pid;
	__u32 waker_pid;
	__s32 stack;
	char comm[COMM];
	char waker_comm[COMM];
};
struct begun { /* of one task */
	__u64 blocked_ns;
	__u64 reclaim_ns;
	__s64 stack;
};

const volatile struct {
	bool v1;	   /* group ids are those of the v1 cpu hierarchy, else of the v2 tree */
	__u64 long_ns; /* a longer wait is an event; 0: none is */
} config = {};

struct {
	__u64 events;
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
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 4096);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, FRAMES * sizeof(__u64));
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
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

static __always_inline void ended(struct task_struct *p, __u64 kind, __u64 from, __s64 stack, struct task_struct *waker)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 wait = now - from;
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
	}
	if (!config.long_ns || wait <= config.long_ns)
		return;
	struct long_wait what = {
		.at_ns = now, .group = key.group, .wait_ns = wait, .kind = kind, .pid = p->pid, .stack = stack,
		.waker_group = group_of(waker), .waker_pid = waker->pid,
	};

	bpf_probe_read_kernel_str(what.comm, sizeof(what.comm), p->comm);
	bpf_probe_read_kernel_str(what.waker_comm, sizeof(what.waker_comm), waker->comm);
	if (bpf_ringbuf_output(&events, &what, sizeof(what), 0))
		__sync_fetch_and_add(&lost.events, 1);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (preempt || !blocked(state_of(prev)))
		return 0;
	struct begun *begun = bpf_task_storage_get(&begins, prev, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!begun)
		return 0;
	begun->blocked_ns = bpf_ktime_get_ns();
	begun->stack = config.long_ns ? bpf_get_stackid(ctx, &stacks, BPF_F_REUSE_STACKID) : -1;
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
	ended(p, KIND_BLOCKED, from, begun->stack, bpf_get_current_task_btf());
	return 0;
}

static __always_inline int reclaim_begins(void)
{
	struct begun *begun = bpf_task_storage_get(&begins, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (begun)
		begun->reclaim_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int reclaim_ends(void *ctx)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct begun *begun = bpf_task_storage_get(&begins, p, 0, 0);

	if (!begun || !begun->reclaim_ns)
		return 0;
	__u64 from = begun->reclaim_ns;

	begun->reclaim_ns = 0;
	ended(p, KIND_RECLAIM, from, config.long_ns ? bpf_get_stackid(ctx, &stacks, BPF_F_REUSE_STACKID) : -1, p);
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
	return reclaim_ends(ctx);
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(on_group_reclaim_begin)
{
	return reclaim_begins();
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(on_group_reclaim_end)
{
	return reclaim_ends(ctx);
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
