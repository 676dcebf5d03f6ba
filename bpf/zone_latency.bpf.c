// SPDX-License-Identifier: GPL-2.0-only
/*
 * Zone scheduler "latency": services before batch, at once.
 *
 * Problem: a service that wakes up beside batch work must not wait for the end of a slice, and batch must still make progress. Choice: two queues. A service
 * that wakes up preempts a batch or unlisted task on its CPU; batch runs when no service waits. A batch task that has waited for `starved_ns` goes first: without
 * that bound a service that never sleeps would stall batch until the kernel's watchdog ejects the scheduler. Limits: one pair of queues for all CPUs;
 * tasks of one class are served in order of arrival.
 */
#include "zone.h"

#define HIGH 1
#define LOW 2
#define SLICE (4 * MS)

const volatile __u64 starved_ns = 1000 * MS; /* a fifth of the watchdog's limit */

SEC("struct_ops/latency_enqueue")
void BPF_PROG(latency_enqueue, struct task_struct *p, __u64 flags)
{
	__u64 cgroup;
	struct zone_row *row = row_of(p, &cgroup);

	queued(p);
	if (class_of(row) == CLASS_BATCH) {
		count(COUNT_BATCH);
		queue_task(p, LOW, slice_of(row, SLICE), flags);
		return;
	}
	count(COUNT_SERVICE);
	queue_task(p, HIGH, slice_of(row, SLICE), flags);
	/* Kernel threads may run for several milliseconds at a time: a service does not wait for them, and they are next. */
	preempt(p, flags, ONLY(CLASS_BATCH) | (class_of(row) == CLASS_SERVICE ? ONLY(CLASS_SYSTEM) : 0));
}

SEC("struct_ops/latency_dispatch")
void BPF_PROG(latency_dispatch, __s32 cpu, struct task_struct *prev)
{
	struct zone_row *row;
	__u64 cgroup;

	if (overdue(LOW, starved_ns) && run_first(LOW)) {
		count(COUNT_OVERDUE);
		return;
	}
	if (run_first(HIGH))
		return;
	/* At the end of a slice `prev` is in no queue yet: without this, batch would get a turn after each slice of a service. */
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
		row = row_of(prev, &cgroup);
		if (class_of(row) != CLASS_BATCH) {
			set_slice(prev, slice_of(row, SLICE));
			count(COUNT_KEPT);
			return;
		}
	}
	run_first(LOW);
}

SEC("struct_ops/latency_running")
void BPF_PROG(latency_running, struct task_struct *p)
{
	__u64 cgroup;
	struct zone_row *row = row_of(p, &cgroup);

	dispatched(p, bpf_task_storage_get(&zone_tasks, p, 0, 0), row, cgroup);
}

SEC("struct_ops/latency_stopping")
void BPF_PROG(latency_stopping, struct task_struct *p, bool runnable)
{
	left(p);
}

SEC("struct_ops.s/latency_init")
__s32 BPF_PROG(latency_init)
{
	__s32 error = scx_bpf_create_dsq(HIGH, -1);

	prepare();
	return error ? error : scx_bpf_create_dsq(LOW, -1);
}

SEC("struct_ops/latency_exit")
void BPF_PROG(latency_exit, struct scx_exit_info *info)
{
	ended(info);
}

SEC(".struct_ops.link")
zone_operations zone_scheduler = {
	.enqueue = (void *)latency_enqueue,
	.dispatch = (void *)latency_dispatch,
	.running = (void *)latency_running,
	.stopping = (void *)latency_stopping,
	.init = (void *)latency_init,
	.exit = (void *)latency_exit,
	.timeout_ms = TIMEOUT_MS,
	.name = "cotenant_latency",
};
