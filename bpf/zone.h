/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the schedulers of Control Zones share: the kernel's types and functions that they use, the policy table, and the record of late dispatches.
 *
 * Problem: a zone changes its scheduler at run time; labels, events and the reason of an ejection must outlive each scheduler. Choice: they are in maps that
 * the loader pins by name, so the next scheduler finds the same maps. A task's row is that of its cgroup; a task without a row is of the system
 * class, which is served first: kernel threads and the loader itself are unlisted, and a stall of one of them ejects the scheduler. Threads
 * of a cgroup may have rows of their own, by name. Limits: rows apply to a cgroup, not to those below it. Needs Linux 6.12 with CONFIG_SCHED_CLASS_EXT; zone_kernels.h has what differs between kernels.
 */
#ifndef COTENANT_ZONE_H
#define COTENANT_ZONE_H
#include "zone_kernels.h"

#ifdef ZONE_SUB
#include "zone_cid.h"
typedef struct sched_ext_ops_cid zone_operations;
#else
/* Copied member by member, by name, into the kernel's structure when the scheduler is loaded. */
typedef struct sched_ext_ops {
	__s32 (*select_cpu)(struct task_struct *, __s32, __u64);
	void (*enqueue)(struct task_struct *, __u64);
	void (*dispatch)(__s32, struct task_struct *);
	void (*running)(struct task_struct *);
	void (*stopping)(struct task_struct *, bool);
	__s32 (*init)(void);
	void (*exit)(struct scx_exit_info *);
	__u64 flags;
	__u32 timeout_ms;
	char name[128];
} zone_operations;
#endif

#define SCX_ENQ_WAKEUP 1ULL
#define SCX_TASK_QUEUED 1U
#define SCX_KICK_IDLE 1ULL
#define SCX_KICK_PREEMPT 2ULL
#define SCX_OPS_ENQ_LAST 2ULL
extern __s32 scx_bpf_dsq_nr_queued(__u64 dsq_id) __weak __ksym;
#ifdef ZONE_SUB
extern __s32 scx_bpf_cpu_to_cid(__s32 cpu) __ksym;
extern __s32 scx_bpf_task_cid(const struct task_struct *p) __ksym;
extern __s32 scx_bpf_cid_to_cpu(__s32 cid) __ksym;
extern void scx_bpf_kick_cid(__s32 cid, __u64 flags) __ksym;
#else
extern __s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
extern void scx_bpf_kick_cpu(__s32 cpu, __u64 flags) __weak __ksym;
#endif
extern __s32 scx_bpf_create_dsq(__u64 dsq_id, __s32 node) __ksym;

#define MS 1000000ULL
#define TIMEOUT_MS 5000 /* Linux 7.3 warns at 4096 ms or less: its rescue of unserved tasks would come later than the watchdog */

/* Layouts shared with drivers/ebpf/zone_layout.py. */
enum zone_class { CLASS_SYSTEM, CLASS_SERVICE, CLASS_BATCH };
struct zone_row { /* of a cgroup; 0 in a number: the scheduler's default */
	__u8 class;
	__u8 party; /* of the rules of zone_apart.bpf.c; 0: none */
	__u16 threads; /* of its threads some have rows of their own, in zone_threads */
	__u32 weight;	/* weighted scheduler only; 0: the cgroup's cpu.weight */
	__u32 slice_us;
	__u32 late_us;	/* a longer wait for a CPU is reported; 0: never */
};
#define NAME_BYTES 16 /* of a task's name in the kernel */
struct zone_thread { /* threads of a cgroup whose name begins so; the longest that fits counts */
	__u32 bits; /* of what follows, those that are compared */
	__u8 cgroup[8];
	char name[NAME_BYTES];
};
struct zone_late {
	__u64 at_ns;
	__u64 cgroup;
	__u64 waited_ns;
	__u32 pid;
	__u32 class;
};
struct zone_exit { /* why a scheduler ended */
	__u64 at_ns;
	__u64 kind;
	char reason[64];
	char message[192];
};
enum zone_count { COUNT_SERVICE, COUNT_BATCH, COUNT_LATE, COUNT_LOST, COUNT_KICKED, COUNT_KEPT, COUNT_OVERDUE, COUNTS };

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct zone_row);
} zone_policy SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct zone_thread);
	__type(value, struct zone_row);
} zone_threads SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} zone_late SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} zone_counts SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct zone_exit);
} zone_exit SEC(".maps");

/* Of one task; ends with the scheduler. */
struct waiting {
	__u64 since_ns;	  /* when it was queued; 0: it is not */
	__u64 started_ns; /* when it got the CPU */
	__u64 key;	  /* its place in virtual time */
	__u64 charged_ns; /* of its slice, at its weight */
	__u64 weight;
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct waiting);
} zone_tasks SEC(".maps");

#define NOTHING 255 /* no task of this scheduler */
#define ONLY(class) (1U << (class))
/* The class of the task that runs on this CPU, or NOTHING. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} zone_running SEC(".maps");

static __always_inline void count(__u32 what)
{
	__u64 *value = bpf_map_lookup_elem(&zone_counts, &what);

	if (value)
		(*value)++;
}

static __always_inline struct zone_row *row_of(struct task_struct *p, __u64 *cgroup)
{
	struct zone_thread key = {.bits = 8 * (sizeof(key.cgroup) + NAME_BYTES)};
	struct zone_row *row, *own = 0;

	*cgroup = p->cgroups->dfl_cgrp->kn->id;
	row = bpf_map_lookup_elem(&zone_policy, cgroup);
	if (row && row->threads) {
		__builtin_memcpy(key.cgroup, cgroup, sizeof(key.cgroup));
		bpf_probe_read_kernel(key.name, NAME_BYTES, p->comm);
		own = bpf_map_lookup_elem(&zone_threads, &key);
	}
	return own ? own : row;
}

static __always_inline __u64 slice_of(const struct zone_row *row, __u64 otherwise)
{
	return row && row->slice_us ? row->slice_us * 1000ULL : otherwise;
}

static __always_inline __u32 class_of(const struct zone_row *row)
{
	return row ? row->class : CLASS_SYSTEM;
}

/* CPUs by their numbers, also where the kernel counts cids. */
static __always_inline __s32 cpu_of(struct task_struct *p)
{
#ifdef ZONE_SUB
	return scx_bpf_cid_to_cpu(scx_bpf_task_cid(p));
#else
	return scx_bpf_task_cpu(p);
#endif
}

static __always_inline void kick(__s32 cpu, __u64 flags)
{
#ifdef ZONE_SUB
	scx_bpf_kick_cid(scx_bpf_cpu_to_cid(cpu), flags);
#else
	scx_bpf_kick_cpu(cpu, flags);
#endif
}

/*
 * Preempts what runs on the task's CPU if that is of one of these classes. Only at a wake-up: a preempted task is queued again, and would preempt
 * in turn without end.
 */
static __always_inline void preempt(struct task_struct *p, __u64 flags, __u32 classes)
{
	__u32 first = 0, *there;
	__s32 cpu;

	if (!(flags & SCX_ENQ_WAKEUP))
		return;
#ifdef ZONE_SUB
	__s32 cid = scx_bpf_task_cid(p);

	cpu = scx_bpf_cid_to_cpu(cid);
#else
	cpu = scx_bpf_task_cpu(p);
#endif
	there = bpf_map_lookup_percpu_elem(&zone_running, &first, cpu);
	if (!there || *there > CLASS_BATCH || !(classes & ONLY(*there)))
		return;
#ifdef ZONE_SUB
	scx_bpf_kick_cid(cid, SCX_KICK_PREEMPT);
#else
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
#endif
	count(COUNT_KICKED);
}

/*
 * Called when a task leaves its CPU: what runs next may be of another zone, which this one does not preempt. Where another CPU changes a task that runs (its nice
 * value, its CPUs, its scheduler) the kernel calls this and `running` there, so the CPU is the task's and not the one that this runs on.
 */
static __always_inline void left(struct task_struct *p)
{
	__u32 first = 0, *here = bpf_map_lookup_percpu_elem(&zone_running, &first, cpu_of(p));

	if (here)
		*here = NOTHING;
}

/* What each scheduler's init has in common. */
static __always_inline void prepare(void)
{
#ifdef ZONE_SUB
	use_arena();
#endif
}

/* Records when the task was queued. */
static __always_inline struct waiting *queued(struct task_struct *p)
{
	struct waiting *task = bpf_task_storage_get(&zone_tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (task)
		task->since_ns = bpf_ktime_get_ns();
	return task;
}

/* Ends the wait of a task that got the CPU, and reports it where it was late. */
static __always_inline void dispatched(struct task_struct *p, struct waiting *task, const struct zone_row *row, __u64 cgroup)
{
	__u64 now = bpf_ktime_get_ns(), waited;
	__u32 first = 0, *here = bpf_map_lookup_percpu_elem(&zone_running, &first, cpu_of(p));
	struct zone_late *event;

	if (here)
		*here = class_of(row);
	if (!task)
		return;
	waited = task->since_ns ? now - task->since_ns : 0;
	task->since_ns = 0;
	task->started_ns = now;
	if (!row || !row->late_us || waited < row->late_us * 1000ULL)
		return;
	count(COUNT_LATE);
	event = bpf_ringbuf_reserve(&zone_late, sizeof(*event), 0);
	if (!event) {
		count(COUNT_LOST);
		return;
	}
	event->at_ns = now;
	event->cgroup = cgroup;
	event->waited_ns = waited;
	event->pid = p->pid;
	event->class = row->class;
	bpf_ringbuf_submit(event, 0);
}

/* Whether the first task of this queue has waited for longer than `limit_ns`. */
static __always_inline bool overdue(__u64 queue, __u64 limit_ns)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *first;
	struct waiting *task;
	bool found = false;

	first = see_first(queue, &it);
	if (first) {
		task = bpf_task_storage_get(&zone_tasks, first, 0, 0);
		found = task && task->since_ns && bpf_ktime_get_ns() - task->since_ns > limit_ns;
	}
	first_seen(&it);
	return found;
}

static __always_inline void ended(struct scx_exit_info *info)
{
	__u32 first = 0;
	struct zone_exit *record = bpf_map_lookup_elem(&zone_exit, &first);

	if (!record)
		return;
	record->at_ns = bpf_ktime_get_ns();
	record->kind = (__u32)info->kind;
	bpf_probe_read_kernel_str(record->reason, sizeof(record->reason), info->reason);
	bpf_probe_read_kernel_str(record->message, sizeof(record->message), info->msg);
}

char LICENSE[] SEC("license") = "GPL";
#endif
