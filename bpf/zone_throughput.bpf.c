// SPDX-License-Identifier: GPL-2.0-only
/*
 * Zone scheduler "throughput": long slices.
 *
 * Problem: each change of task costs cache contents, which batch work that has no deadline should not pay. Choice: one queue for all listed tasks, in order of
 * arrival, with slices of 20 ms; unlisted tasks (kernel threads, the loader) have a queue of
 * their own and preempt: a switch to another scheduler would else wait for slices. Limits: a service here
 * waits for every task before it; late dispatches say so.
 */
#include "zone.h"

#define SYSTEM 1
#define LISTED 2
#define SYSTEM_SLICE (4 * MS)
#define SLICE (20 * MS)

const volatile __u64 starved_ns = 1000 * MS; /* a fifth of the watchdog's limit */

SEC("struct_ops/throughput_enqueue")
void BPF_PROG(throughput_enqueue, struct task_struct *p, __u64 flags)
{
	__u64 cgroup;
	struct zone_row *row = row_of(p, &cgroup);

	queued(p);
	if (class_of(row) == CLASS_SYSTEM) {
		queue_task(p, SYSTEM, SYSTEM_SLICE, flags);
		preempt(p, flags, ONLY(CLASS_SERVICE) | ONLY(CLASS_BATCH));
		return;
	}
	count(row->class == CLASS_BATCH ? COUNT_BATCH : COUNT_SERVICE);
	queue_task(p, LISTED, SLICE, flags);
}

SEC("struct_ops/throughput_dispatch")
void BPF_PROG(throughput_dispatch, __s32 cpu, struct task_struct *prev)
{
	if (overdue(LISTED, starved_ns) && run_first(LISTED)) {
		count(COUNT_OVERDUE);
		return;
	}
	if (!run_first(SYSTEM))
		run_first(LISTED);
}

SEC("struct_ops/throughput_running")
void BPF_PROG(throughput_running, struct task_struct *p)
{
	__u64 cgroup;
	struct zone_row *row = row_of(p, &cgroup);

	dispatched(p, bpf_task_storage_get(&zone_tasks, p, 0, 0), row, cgroup);
}

SEC("struct_ops/throughput_stopping")
void BPF_PROG(throughput_stopping, struct task_struct *p, bool runnable)
{
	left(p);
}

SEC("struct_ops.s/throughput_init")
__s32 BPF_PROG(throughput_init)
{
	__s32 error = scx_bpf_create_dsq(SYSTEM, -1);

	prepare();
	return error ? error : scx_bpf_create_dsq(LISTED, -1);
}

SEC("struct_ops/throughput_exit")
void BPF_PROG(throughput_exit, struct scx_exit_info *info)
{
	ended(info);
}

SEC(".struct_ops.link")
zone_operations zone_scheduler = {
	.enqueue = (void *)throughput_enqueue,
	.dispatch = (void *)throughput_dispatch,
	.running = (void *)throughput_running,
	.stopping = (void *)throughput_stopping,
	.init = (void *)throughput_init,
	.exit = (void *)throughput_exit,
	.timeout_ms = TIMEOUT_MS,
	.name = "cotenant_throughput",
};
