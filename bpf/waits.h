/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What programs that count waits of cgroups share: the id of a task's group, and the slot of a histogram of waits.
 */
#ifndef COTENANT_WAITS_H
#define COTENANT_WAITS_H
#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define BUCKETS 28 /* the last is open: 2^27 us is 134 s */

/* Only the members that are read; their offsets are relocated when the object is loaded (CO-RE). */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct kernfs_node {
	__u64 id;
};
struct cgroup {
	struct kernfs_node *kn;
};
struct cgroup_subsys_state {
	struct cgroup *cgroup;
};
struct css_set {
	struct cgroup_subsys_state *subsys[16];
	struct cgroup *dfl_cgrp;
};
#pragma clang attribute pop
enum cgroup_subsys_id { cpu_cgrp_id = 1 };

/* `v1`: the id is that of the v1 cpu hierarchy, else of the v2 tree. */
static __always_inline __u64 group_id(struct css_set *set, bool v1)
{
	if (!v1)
		return set->dfl_cgrp->kn->id;
	/* The controller's index differs between kernels; it is a constant when the program is verified. */
	int cpu_controller = bpf_core_enum_value(enum cgroup_subsys_id, cpu_cgrp_id);

	return set->subsys[cpu_controller & 15]->cgroup->kn->id;
}

/* Of a wait in microseconds: [0, 2), [2, 4), [4, 8) ... */
static __always_inline __u32 slot_of(__u64 ns)
{
	__u64 us = ns / 1000;
	__u32 slot = 0;

	if (us >> 32)
		return BUCKETS - 1;
	if (us >> 16) { us >>= 16; slot += 16; }
	if (us >> 8) { us >>= 8; slot += 8; }
	if (us >> 4) { us >>= 4; slot += 4; }
	if (us >> 2) { us >>= 2; slot += 2; }
	if (us >> 1)
		slot += 1;
	return slot < BUCKETS ? slot : BUCKETS - 1;
}
#endif
