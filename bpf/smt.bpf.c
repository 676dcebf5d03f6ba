// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long services and batch run on the two threads of a core at once.
 *
 * Problem: what a scheduler keeps apart cannot be judged by its own books, and no file of the kernel has it. Choice: one hook at the context switch, whatever
 * scheduler runs; the group's class is looked up, and the time since the last switch on either thread is added to what both ran until now. Limits: cores with two
 * threads; at most 1024 CPUs; groups by their id in the v2 tree, not those below them; what a core ran before its first switch is not counted.
 */
#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define MAX_CPUS 1024
#define SERVICE 1
#define BATCH 2

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct kernfs_node {
	__u64 id;
};
struct cgroup {
	struct kernfs_node *kn;
};
struct css_set {
	struct cgroup *dfl_cgrp;
};
struct task_struct {
	int pid;
	struct css_set *cgroups;
};
#pragma clang attribute pop

/* Written by the loader; layout shared with drivers/ebpf/smt.py. */
const volatile struct {
	__u16 sibling[MAX_CPUS]; /* the other thread of the core; a CPU without one: itself */
} smt = {};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64); /* a cgroup's id */
	__type(value, __u32);
} smt_classes SEC(".maps");

/* Of one core, by the lower number of its CPUs. */
struct core {
	__u64 changed_ns;
	__u64 service_ns; /* a service ran on one thread at least */
	__u64 beside_ns;  /* a service on one, batch on the other */
	__u64 batch_ns;	  /* batch ran, of both threads together */
	__u32 runs[2];	  /* the class on the lower and the higher CPU */
	struct bpf_spin_lock lock;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, __u32);
	__type(value, struct core);
} smt_cores SEC(".maps");

SEC("tp_btf/sched_switch")
int BPF_PROG(smt_switched, bool preempted, struct task_struct *prev, struct task_struct *next)
{
	__u32 cpu = bpf_get_smp_processor_id() & (MAX_CPUS - 1), other = smt.sibling[cpu], lower = cpu < other ? cpu : other;
	__u32 class = 0, *found, first, second;
	__u64 cgroup, now, passed;
	struct core *core = bpf_map_lookup_elem(&smt_cores, &lower);

	if (!core)
		return 0;
	if (next->pid) {
		cgroup = next->cgroups->dfl_cgrp->kn->id;
		found = bpf_map_lookup_elem(&smt_classes, &cgroup);
		class = found ? *found : 0;
	}
	now = bpf_ktime_get_ns();
	bpf_spin_lock(&core->lock);
	first = core->runs[0];
	second = core->runs[1];
	/* two CPUs read the clock before they take the lock, in any order */
	passed = core->changed_ns && now > core->changed_ns ? now - core->changed_ns : 0;
	if (first == SERVICE || second == SERVICE)
		core->service_ns += passed;
	if ((first == SERVICE && second == BATCH) || (first == BATCH && second == SERVICE))
		core->beside_ns += passed;
	core->batch_ns += passed * ((first == BATCH) + (second == BATCH));
	if (!core->changed_ns || passed)
		core->changed_ns = now;
	if (cpu == lower)
		core->runs[0] = class;
	else
		core->runs[1] = class;
	bpf_spin_unlock(&core->lock);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
