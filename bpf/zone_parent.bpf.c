// SPDX-License-Identifier: GPL-2.0-only
/*
 * Root scheduler under which zones have schedulers of their own, one per cgroup (Linux 7.3).
 *
 * Problem: a sub-scheduler needs a scheduler above it that gives it turns, and zones must not be able to stop the rest of the machine. Choice: kernel threads
 * first, for a stall of one of them ejects the scheduler; then the zones and all other tasks take turns, the others as one. Every zone may queue on every CPU
 * and preempt tasks of its own. Limits: turns, not CPU time, are shared equally, so a zone with slices of 20 ms gets more than one with 4 ms; weights of
 * cgroups outside zones have no effect; at most eight zones, 1024 CPUs.
 */
#include "zone_cid.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct {
	unsigned int flags;
};
struct sched_ext_ops {
	__u64 sub_cgroup_id;
};
struct scx_sub_attach_args {
	struct sched_ext_ops *ops;
};
struct scx_sub_detach_args {
	struct sched_ext_ops *ops;
};
#pragma clang attribute pop

#define PF_KTHREAD 0x00200000
#define SCX_ENQ_WAKEUP 1ULL
#define SCX_KICK_PREEMPT 2ULL
#define CAPS_TO_QUEUE_AND_PREEMPT 7ULL
#define KERNEL 1
#define OTHERS 2
#define SLICE 4000000ULL
#define ZONES 8
#define MAX_CIDS 1024
#define FULL -28 /* ENOSPC */

struct scx_cmask {
	__u32 base;
	__u32 nr_cids;
	__u32 alloc_words;
	__u64 bits[0];
};
extern void scx_bpf_dsq_insert(struct task_struct *p, __u64 dsq_id, __u64 slice, __u64 enq_flags) __ksym;
extern bool scx_bpf_dsq_move_to_local(__u64 dsq_id) __ksym;
extern __s32 scx_bpf_create_dsq(__u64 dsq_id, __s32 node) __ksym;
extern __s32 scx_bpf_task_cid(const struct task_struct *p) __ksym;
extern void scx_bpf_kick_cid(__s32 cid, __u64 flags) __ksym;
extern bool scx_bpf_sub_dispatch(__u64 cgroup_id) __ksym;
extern __s32 scx_bpf_sub_grant(__u64 cgroup_id, __u64 caps, const struct scx_cmask *cmask, struct scx_cmask *denied) __ksym;

/* A struct scx_cmask of all CPUs. The loader writes it before the attach. */
struct {
	__u32 base;
	__u32 cids;
	__u32 words;
	__u32 unused;
	__u64 bits[MAX_CIDS / 64 + 1];
} every_cid SEC(".addr_space.1") = {.words = MAX_CIDS / 64 + 1};

__u64 zones[ZONES];
__u32 turn;

SEC("struct_ops/parent_enqueue")
void BPF_PROG(parent_enqueue, struct task_struct *p, __u64 flags)
{
	if (!(p->flags & PF_KTHREAD)) {
		scx_bpf_dsq_insert(p, OTHERS, SLICE, flags);
		return;
	}
	scx_bpf_dsq_insert(p, KERNEL, SLICE, flags);
	if (flags & SCX_ENQ_WAKEUP)
		scx_bpf_kick_cid(scx_bpf_task_cid(p), SCX_KICK_PREEMPT);
}

SEC("struct_ops/parent_dispatch")
void BPF_PROG(parent_dispatch, __s32 cid, struct task_struct *prev)
{
	__u32 last = turn;

	if (scx_bpf_dsq_move_to_local(KERNEL))
		return;
	for (__u32 i = 1; i <= ZONES + 1; i++) {
		__u32 next = (last + i) % (ZONES + 1);
		__u64 zone = next < ZONES ? zones[next] : 0;

		if (next == ZONES ? scx_bpf_dsq_move_to_local(OTHERS) : zone && scx_bpf_sub_dispatch(zone)) {
			turn = next;
			return;
		}
	}
}

SEC("struct_ops.s/parent_attach")
__s32 BPF_PROG(parent_attach, struct scx_sub_attach_args *args)
{
	__u64 cgroup = args->ops->sub_cgroup_id;

	for (__u32 i = 0; i < ZONES; i++) {
		if (!zones[i]) {
			zones[i] = cgroup;
			return scx_bpf_sub_grant(cgroup, CAPS_TO_QUEUE_AND_PREEMPT, (struct scx_cmask *)&every_cid, 0);
		}
	}
	return FULL;
}

SEC("struct_ops.s/parent_detach")
void BPF_PROG(parent_detach, struct scx_sub_detach_args *args)
{
	__u64 cgroup = args->ops->sub_cgroup_id;

	for (__u32 i = 0; i < ZONES; i++)
		if (zones[i] == cgroup)
			zones[i] = 0;
}

SEC("struct_ops.s/parent_init")
__s32 BPF_PROG(parent_init)
{
	__s32 error = scx_bpf_create_dsq(KERNEL, -1);

	use_arena();
	return error ? error : scx_bpf_create_dsq(OTHERS, -1);
}

SEC(".struct_ops.link")
struct sched_ext_ops_cid zone_scheduler = {
	.enqueue = (void *)parent_enqueue,
	.dispatch = (void *)parent_dispatch,
	.sub_attach = (void *)parent_attach,
	.sub_detach = (void *)parent_detach,
	.init = (void *)parent_init,
	.timeout_ms = 5000,
	.name = "cotenant_parent",
};

char LICENSE[] SEC("license") = "GPL";
