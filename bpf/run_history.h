/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which groups ran on a CPU of late: the last SLOTS stretches of time, with the run time of RUNNERS groups in each.
 *
 * Who ran while a task waited is asked seldom and must be noted at every context switch. A list of runs is soon full where tasks run for
 * microseconds, so runs are added up: a slot takes whole runs, one after the other, until it is `slot_ns` old. What a slot tells of a time that begins within
 * it is wrong by less than that, but for its first run, whose length is kept.
 */
#ifndef COTENANT_RUN_HISTORY_H
#define COTENANT_RUN_HISTORY_H
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#define SLOTS 16 /* a power of two */
#define RUNNERS 4
#define COMM 16
#define FRAMES 16

/* Layouts shared with drivers/ebpf/run_history.py. */
struct task_struct;

struct runner { /* a group in a slot of time */
	__u64 group;
	__u64 ran_ns;
	__u32 pid;     /* of its task that ran longest at once */
	__u32 longest; /* how long, in 1.024 us */
	char comm[COMM];
};
struct slot { /* whole runs of tasks, one after the other */
	__u64 begin_ns;
	__u64 first_ns; /* of the first run, whose group is that of the first runner */
	__u64 others_ns; /* of groups that found no place */
	__u64 used;
	struct runner ran[RUNNERS];
};
struct long_run { /* the last run of a quarter of the limit or more */
	__u64 begin_ns;
	__u64 end_ns;
	__u32 pid;
	__u32 frames;
	__u64 stack[FRAMES]; /* where it left the CPU */
};
struct timeline {
	__u64 written; /* slots, ever */
	__u64 until_ns;
	struct slot past[SLOTS];
	struct long_run last;
};
/* Some task may wait for one that ran so long. */
static __always_inline void ran_long(struct long_run *run, struct task_struct *prev, __u32 pid, __u64 begin, __u64 now)
{
	long bytes = bpf_get_task_stack(prev, run->stack, sizeof(run->stack), 0);

	run->begin_ns = begin;
	run->end_ns = now;
	run->pid = pid;
	run->frames = bytes > 0 ? bytes / sizeof(__u64) : 0;
}

/* A task of the group ran on this CPU until `now`. `group`: 0 for the idle task. */
static __always_inline void ran(struct timeline *line, __u64 group, __u32 pid, const char *comm, __u64 now, __u64 slot_ns)
{
	__u64 begin = line->until_ns, length = now - begin;

	line->until_ns = now;
	if (!begin || now < begin)
		return;
	struct slot *slot = &line->past[(line->written - 1) & (SLOTS - 1)];

	if (!line->written || begin - slot->begin_ns >= slot_ns) {
		slot = &line->past[line->written & (SLOTS - 1)];
		line->written++;
		slot->begin_ns = begin;
		slot->first_ns = length;
		slot->others_ns = 0;
		slot->used = 0;
	}
	__u32 longest = length >> 42 ? ~0U : length >> 10;

	for (int i = 0; i < RUNNERS; i++) {
		struct runner *runner = &slot->ran[i];

		if (i >= slot->used) {
			runner->group = group;
			runner->ran_ns = 0;
			runner->longest = 0;
			slot->used = i + 1;
		}
		if (runner->group != group)
			continue;
		runner->ran_ns += length;
		if (longest >= runner->longest) {
			runner->longest = longest;
			runner->pid = pid;
			*(__u64 *)&runner->comm[0] = *(__u64 *)&comm[0];
			*(__u64 *)&runner->comm[8] = *(__u64 *)&comm[8];
		}
		return;
	}
	slot->others_ns += length;
}
#endif
