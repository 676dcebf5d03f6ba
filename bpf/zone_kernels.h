/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What sched_ext calls by other names, or does not have, from one kernel to the next: Linux 6.12 to 7.3.
 *
 * One object must load on all of them. Every function that some kernel lacks is a weak symbol: libbpf sets the address of one that the running kernel has not
 * to 0, the verifier then knows the branch and does not look at what is not there. Facts, by the kernels' type information: 6.12 queues and takes tasks by
 * `scx_bpf_dispatch`, `scx_bpf_dispatch_vtime` and `scx_bpf_consume`, later ones by the names used here; before 6.19 a queue's first task is found by an iterator
 * and a slice is written into the task; since 6.19 what queues by key takes a structure, and since 7.3 the old form ends a sub-scheduler; until 6.16 a group's weight is in `struct task_group` itself. Limits: names that a later kernel drops.
 */
#ifndef COTENANT_ZONE_KERNELS_H
#define COTENANT_ZONE_KERNELS_H
#include "zone_types.h"

struct bpf_iter_scx_dsq {
	__u64 opaque[6];
};
struct scx_bpf_dsq_insert_vtime_args { /* the kernel's layout */
	__u64 dsq_id;
	__u64 slice;
	__u64 vtime;
	__u64 enq_flags;
};
extern void scx_bpf_dsq_insert(struct task_struct *p, __u64 dsq_id, __u64 slice, __u64 enq_flags) __weak __ksym;
extern void scx_bpf_dispatch(struct task_struct *p, __u64 dsq_id, __u64 slice, __u64 enq_flags) __weak __ksym;
extern void scx_bpf_dsq_insert_vtime(struct task_struct *p, __u64 dsq_id, __u64 slice, __u64 vtime, __u64 enq_flags) __weak __ksym;
extern bool __scx_bpf_dsq_insert_vtime(struct task_struct *p, struct scx_bpf_dsq_insert_vtime_args *args) __weak __ksym;
extern void scx_bpf_dispatch_vtime(struct task_struct *p, __u64 dsq_id, __u64 slice, __u64 vtime, __u64 enq_flags) __weak __ksym;
extern bool scx_bpf_dsq_move_to_local(__u64 dsq_id) __weak __ksym;
extern bool scx_bpf_consume(__u64 dsq_id) __weak __ksym;
extern bool scx_bpf_task_set_slice(struct task_struct *p, __u64 slice) __weak __ksym;
extern struct task_struct *scx_bpf_dsq_peek(__u64 dsq_id) __weak __ksym;
extern int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, __u64 dsq_id, __u64 flags) __weak __ksym;
extern struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __weak __ksym;
extern void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __weak __ksym;
extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;

/* Puts a task at the end of a queue. */
static __always_inline void queue_task(struct task_struct *p, __u64 queue, __u64 slice, __u64 flags)
{
	if (scx_bpf_dsq_insert)
		scx_bpf_dsq_insert(p, queue, slice, flags);
	else
		scx_bpf_dispatch(p, queue, slice, flags);
}

/* Puts a task into a queue in the order of keys. */
static __always_inline void queue_by_key(struct task_struct *p, __u64 queue, __u64 slice, __u64 key, __u64 flags)
{
	struct scx_bpf_dsq_insert_vtime_args args = {.dsq_id = queue, .slice = slice, .vtime = key, .enq_flags = flags};

	if (__scx_bpf_dsq_insert_vtime)
		__scx_bpf_dsq_insert_vtime(p, &args);
	else if (scx_bpf_dsq_insert_vtime)
		scx_bpf_dsq_insert_vtime(p, queue, slice, key, flags);
	else
		scx_bpf_dispatch_vtime(p, queue, slice, key, flags);
}

/* Runs the first task of a queue here that may; false: there is none. */
static __always_inline bool run_first(__u64 queue)
{
	return scx_bpf_dsq_move_to_local ? scx_bpf_dsq_move_to_local(queue) : scx_bpf_consume(queue);
}

/* Of a task that runs here and goes on. */
static __always_inline void set_slice(struct task_struct *p, __u64 slice)
{
	if (scx_bpf_task_set_slice)
		scx_bpf_task_set_slice(p, slice);
	else
		p->scx.slice = slice;
}

/* The first task of a queue, until `first_seen`. */
static __always_inline struct task_struct *see_first(__u64 queue, struct bpf_iter_scx_dsq *it)
{
	bpf_rcu_read_lock();
	if (scx_bpf_dsq_peek)
		return scx_bpf_dsq_peek(queue);
	bpf_iter_scx_dsq_new(it, queue, 0);
	return bpf_iter_scx_dsq_next(it);
}

static __always_inline void first_seen(struct bpf_iter_scx_dsq *it)
{
	if (!scx_bpf_dsq_peek)
		bpf_iter_scx_dsq_destroy(it);
	bpf_rcu_read_unlock();
}

/* The cpu.weight of the task's group. */
static __always_inline __u64 weight_of_group(struct task_struct *p)
{
	struct task_group *group = p->sched_task_group;

	if (bpf_core_field_exists(group->scx))
		return group->scx.weight;
	return ((struct task_group___6_16 *)group)->scx_weight;
}
#endif
