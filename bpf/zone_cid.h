/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What schedulers with cid-form operations share: the parent of all zones, and the zones' schedulers as its children.
 *
 * Problem: sub-schedulers (Linux 7.3) exist only for operations in cid form, whose programs must use an arena. Choice: the arena is named by an instruction of
 * the init program and otherwise left to the kernel, which takes its pages there; so no casts between address spaces are needed, which Debian 12's
 * clang 14 cannot compile. Limits: at each attach the kernel takes about four pages of the arena and does not give them back; the loader loads the object
 * again before the arena is used up.
 */
#ifndef COTENANT_ZONE_CID_H
#define COTENANT_ZONE_CID_H
#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#define MAP_TYPE_ARENA 33 /* absent from the headers of Linux 6.1 */
#define ARENA_PAGES 2048

struct {
	__uint(type, MAP_TYPE_ARENA);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ARENA_PAGES);
} zone_arena SEC(".maps");

struct task_struct;
struct scx_exit_info;
struct scx_sub_attach_args;
struct scx_sub_detach_args;
/* Copied member by member, by name, into the kernel's structure. The loader writes the first member, so it stays first. */
struct sched_ext_ops_cid {
	__u64 sub_cgroup_id;
	__s32 (*select_cid)(struct task_struct *, __s32, __u64);
	void (*enqueue)(struct task_struct *, __u64);
	void (*dispatch)(__s32, struct task_struct *);
	void (*running)(struct task_struct *);
	void (*stopping)(struct task_struct *, bool);
	__s32 (*sub_attach)(struct scx_sub_attach_args *);
	void (*sub_detach)(struct scx_sub_detach_args *);
	__s32 (*init)(void);
	void (*exit)(struct scx_exit_info *);
	__u64 flags;
	__u32 timeout_ms;
	char name[128];
};

/* A program that has this uses the arena, for the verifier. */
static __always_inline void use_arena(void)
{
	asm volatile("" : : "r"(&zone_arena));
}
#endif
