/* SPDX-License-Identifier: GPL-2.0-only */
/* The members of kernel structures that the schedulers of zones use, and no others; libbpf finds them by name in the running kernel. */
#ifndef COTENANT_ZONE_TYPES_H
#define COTENANT_ZONE_TYPES_H
#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

enum scx_exit_kind { SCX_EXIT_ERROR = 1024 }; /* an enum in the kernel: an int would not be found */
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
struct scx_task_group {
	__u32 weight;
};
struct task_group {
	struct scx_task_group scx;
};
struct task_group___6_16 { /* and before */
	__u32 scx_weight;
};
struct sched_ext_entity {
	__u32 flags;
	__u64 slice;
	__u64 dsq_vtime;
};
struct task_struct {
	int pid;
	char comm[16];
	struct css_set *cgroups;
	struct task_group *sched_task_group;
	struct sched_ext_entity scx;
};
struct scx_exit_info {
	enum scx_exit_kind kind;
	const char *reason;
	char *msg;
};
#pragma clang attribute pop
#endif
