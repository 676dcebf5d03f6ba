// SPDX-License-Identifier: GPL-2.0-only
/*
 * Zone scheduler "apart": parties that never run at once, by rule.
 *
 * Problem: tenants that must not observe one another through a shared core, or batch that slows a service through a shared cache, may run on the same machine but
 * not at the same time in one place. Choice: each row names a party; rules say which parties exclude one another within a core, a cache or the machine, always or
 * while a service of theirs was late. A place counts what it runs of each party in one word, and a task is dispatched only after its party was added to that word
 * where no excluded one is in it (compare and swap): the exclusion holds without a gap, also between CPUs that decide at once. Order as under "latency": services
 * first, batch bounded by `starved_ns`. Who may not start takes a *turn*: meanwhile the excluded parties are put off their CPUs there and get none. A service takes
 * it from batch at once, from a service after 4 ms; batch from batch after 20 ms and from a service after `starved_ns`, for 4 ms. No bound breaks a rule. Limits:
 * tasks that the kernel places itself (exiting, migration disabled) run beside others until the next interrupt; a CPU may idle for want of a task that is allowed;
 * 8 parties; 127 CPUs in a place; a sub-scheduler knows of its own zone's tasks only.
 */
#include "zone_apart.h"

SEC("struct_ops/apart_select")
__s32 BPF_PROG(apart_select, struct task_struct *p, __s32 previous, __u64 flags)
{
	__u64 cgroup;
	struct zone_row *row = row_of(p, &cgroup);
	__u32 party = party_of(row);
	__s32 cpu = find(party, false);

	if (cpu < 0 && class_of(row) != CLASS_BATCH)
		cpu = find(party, true);
#ifdef ZONE_SUB
	return cpu < 0 ? previous : scx_bpf_cpu_to_cid(cpu);
#else
	return cpu < 0 ? previous : cpu;
#endif
}

SEC("struct_ops/apart_enqueue")
void BPF_PROG(apart_enqueue, struct task_struct *p, __u64 flags)
{
	__u64 cgroup;
	struct zone_row *row = row_of(p, &cgroup);
	__u32 class = class_of(row), party = party_of(row), runs;
	__s32 cpu = cpu_of(p);
	enum state state;

	queued(p);
	count(class == CLASS_BATCH ? COUNT_BATCH : COUNT_SERVICE);
	queue_task(p, class == CLASS_SYSTEM ? SYSTEM : queue_of(party, class), slice_of(row, SLICE), flags);
	if (class == CLASS_SYSTEM)
		party = 0;
	if (cpu < 0)
		return;
	/* its own CPU may be the only one that it may use */
	runs = runs_on(cpu);
	state = state_of(cpu, party);
	if (state == OPEN && runs == IDLE) {
		kick(cpu, SCX_KICK_IDLE);
		return;
	}
	if (class != CLASS_BATCH && flags & SCX_ENQ_WAKEUP && state <= BY_BATCH) {
		if (state == BY_BATCH)
			take(cpu, party, SLICE);
		if (runs == IDLE) {
			kick(cpu, SCX_KICK_IDLE);
		} else if (runs == ONLY(CLASS_BATCH) || (class == CLASS_SERVICE && runs == ONLY(CLASS_SYSTEM))) {
			kick(cpu, SCX_KICK_PREEMPT);
			count(COUNT_KICKED);
		}
		return;
	}
	cpu = find(party, false);
	if (cpu >= 0)
		kick(cpu, SCX_KICK_IDLE);
}

/* The queues of one class, as seen from a CPU. */
struct queues {
	__u32 cpu;
	__u32 class;
	__u32 tried; /* bits of parties */
	__u32 open; /* whose first task has waited longest of those that may run here */
	__u32 blocked; /* of those that may not */
	__s32 blocked_cpu;
	__u64 open_since;
	__u64 blocked_since;
};
#define NONE 255

static long inspect(__u32 party, struct queues *queues)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *first;
	struct waiting *task;
	__u64 since = 0;
	__s32 cpu = -1;

	if (queues->tried & 1U << (party & 15))
		return 0;
	first = see_first(queue_of(party, queues->class), &it);
	if (first) {
		task = bpf_task_storage_get(&zone_tasks, first, 0, 0);
		since = task && task->since_ns ? task->since_ns : bpf_ktime_get_ns();
		cpu = cpu_of(first);
	}
	first_seen(&it);
	if (!since)
		return 0;
	if (state_of(queues->cpu, party) == OPEN) {
		if (since < queues->open_since) {
			queues->open = party;
			queues->open_since = since;
		}
	} else if (since < queues->blocked_since) {
		queues->blocked = party;
		queues->blocked_since = since;
		queues->blocked_cpu = cpu;
	}
	return 0;
}

/* Lets the party that has waited longest take its turn, where it may. */
static __always_inline void turn_of_blocked(const struct queues *queues)
{
	__u64 now = bpf_ktime_get_ns(), waited = now > queues->blocked_since ? now - queues->blocked_since : 0;
	enum state state;
	bool batch = queues->class == CLASS_BATCH;

	if (queues->blocked == NONE || queues->blocked_cpu < 0)
		return;
	/* on its own CPU: it may not be allowed on this one */
	state = state_of(queues->blocked_cpu, queues->blocked);
	if (state == OPEN)
		kick(queues->blocked_cpu, SCX_KICK_IDLE);
	else if (state == BY_BATCH && waited >= (batch ? TURN : 0))
		take(queues->blocked_cpu, queues->blocked, batch ? TURN : SLICE);
	else if (state == BY_SERVICE && waited >= (batch ? apart.starved_ns : SLICE))
		take(queues->blocked_cpu, queues->blocked, SLICE);
}

/* Runs a task of this class here; false: there is none that may. */
__noinline bool serve(__u32 cpu, __u32 class, __u32 held, __u64 older_than)
{
	struct queues queues = {.cpu = cpu, .class = class};
	struct seat *seat = seat_of(cpu);

	for (int try = 0; try < 3; try++) {
		queues.open = queues.blocked = NONE;
		queues.open_since = queues.blocked_since = older_than;
		bpf_loop(PARTIES + 1, inspect, &queues, 0);
		if (!try)
			turn_of_blocked(&queues);
		if (queues.open == NONE || !seat)
			return false;
		if (claim(cpu, queues.open, held)) {
			if (run_first(queue_of(queues.open, class))) {
				seat->next = queues.open;
				return true;
			}
			/* without waking others: they would find as little as this CPU has, in turn without end */
			release_at(LEVELS, cpu, queues.open);
		}
		queues.tried |= 1U << (queues.open & 15);
	}
	return false;
}

/* One idle CPU more, where the party has tasks left. */
static __always_inline void wake_another(__u32 party)
{
	__s32 cpu;

	if (!waits(party))
		return;
	cpu = find(party, false);
	if (cpu >= 0)
		kick(cpu, SCX_KICK_IDLE);
}

static __always_inline bool stays(__u32 cpu, struct task_struct *prev, const struct seat *seat, bool batch)
{
	__u64 cgroup;
	struct zone_row *row;
	__u32 class;

	if (!prev || !(prev->scx.flags & SCX_TASK_QUEUED))
		return false;
	row = row_of(prev, &cgroup);
	class = class_of(row);
	if ((class == CLASS_BATCH) != batch)
		return false;
	if (class != CLASS_SYSTEM && (seat->held != party_of(row) || state_of(cpu, seat->held) != OPEN))
		return false;
	set_slice(prev, slice_of(row, SLICE));
	count(COUNT_KEPT);
	return true;
}

SEC("struct_ops/apart_dispatch")
void BPF_PROG(apart_dispatch, __s32 cpu, struct task_struct *prev)
{
	struct seat *seat;
	__u64 now = bpf_ktime_get_ns();

#ifdef ZONE_SUB
	cpu = scx_bpf_cid_to_cpu(cpu);
#endif
	seat = seat_of(cpu);
	if (!seat)
		return;
	if (seat->next) { /* its task went elsewhere before it ran */
		release(cpu, seat->next);
		seat->next = 0;
	}
	/* Services wait for unlisted tasks, which may never sleep. */
	if (now > apart.starved_ns &&
	    (serve(cpu, CLASS_BATCH, seat->held, now - apart.starved_ns) || serve(cpu, CLASS_SERVICE, seat->held, now - apart.starved_ns))) {
		count(COUNT_OVERDUE);
		return;
	}
	if (run_first(SYSTEM))
		return;
	if (serve(cpu, CLASS_SERVICE, seat->held, ~0ULL)) {
		wake_another(seat->next);
		return;
	}
	if (stays(cpu, prev, seat, false))
		return;
	if (serve(cpu, CLASS_BATCH, seat->held, ~0ULL)) {
		wake_another(seat->next);
		return;
	}
	stays(cpu, prev, seat, true);
}

static __always_inline void count_service(__u32 cpu, __u32 party, bool leaves)
{
	for (__u32 level = 0; level < LEVELS; level++) {
		struct place *place = counts_at(level, party) ? place_of(level, cpu) : 0;

		if (place && leaves)
			__sync_fetch_and_sub(&place->services, one(party));
		else if (place)
			__sync_fetch_and_add(&place->services, one(party));
	}
}

SEC("struct_ops/apart_running")
void BPF_PROG(apart_running, struct task_struct *p)
{
	__u64 cgroup, now = bpf_ktime_get_ns(), *until;
	struct zone_row *row = row_of(p, &cgroup);
	struct waiting *task = bpf_task_storage_get(&zone_tasks, p, 0, 0);
	__u32 cpu = cpu_of(p), class = class_of(row), party = class == CLASS_SYSTEM ? 0 : party_of(row), number;
	bool late = party && class == CLASS_SERVICE && row->late_us && task && task->since_ns && now - task->since_ns >= row->late_us * 1000ULL;
	struct seat *seat = seat_of(cpu);

	dispatched(p, task, row, cgroup);
	if (!seat)
		return;
	if (seat->next != party) {
		if (seat->next)
			release(cpu, seat->next);
		if (party && !claim(cpu, party, 0)) {
			party = 0;
			kick(cpu, SCX_KICK_PREEMPT);
		}
	}
	seat->next = 0;
	seat->held = party;
	seat->service = class == CLASS_SERVICE;
	if (party && class == CLASS_SERVICE)
		count_service(cpu, party, false);
	if (party && state_of(cpu, party) == BY_TURN)
		kick(cpu, SCX_KICK_PREEMPT);
	if (!late)
		return;
	number = (party - 1) & (PARTIES - 1);
	until = bpf_map_lookup_elem(&zone_pressed, &number);
	if (until && party) {
		*until = now + LATE_HOLDS;
		put_off(cpu, party);
	}
}

SEC("struct_ops/apart_stopping")
void BPF_PROG(apart_stopping, struct task_struct *p, bool runnable)
{
	__u32 cpu = cpu_of(p), party;
	struct seat *seat = seat_of(cpu);

	left(p);
	if (!seat)
		return;
	party = seat->held;
	seat->held = 0;
	if (party && seat->service)
		count_service(cpu, party, true);
	if (party)
		release(cpu, party);
}

static long is_idle(__u32 cpu, void *unused)
{
	__u32 first = 0, *there = bpf_map_lookup_percpu_elem(&zone_running, &first, cpu);
	struct seat *seat = seat_of(cpu);

	if (there)
		*there = NOTHING;
	if (seat)
		seat->held = seat->next = 0;
	return 0;
}

static long is_empty(__u32 key, void *unused)
{
	struct place *place = bpf_map_lookup_elem(&zone_places, &key);

	if (place)
		place->runs = place->services = place->turn = 0;
	return 0;
}

SEC("struct_ops.s/apart_init")
__s32 BPF_PROG(apart_init)
{
	__s32 error;

	prepare();
	if (apart.cpus < 1 || apart.cpus > MAX_CPUS)
		return INVALID;
	bpf_loop(apart.cpus, is_idle, 0, 0);
	bpf_loop(2 * MAX_CPUS + 1, is_empty, 0, 0);
	error = scx_bpf_create_dsq(SYSTEM, -1);
	for (__u32 queue = 0; queue < QUEUES && !error; queue++)
		error = scx_bpf_create_dsq(queue, -1);
	return error;
}

SEC("struct_ops/apart_exit")
void BPF_PROG(apart_exit, struct scx_exit_info *info)
{
	ended(info);
}

SEC(".struct_ops.link")
zone_operations zone_scheduler = {
#ifdef ZONE_SUB
	.select_cid = (void *)apart_select,
#else
	.select_cpu = (void *)apart_select,
#endif
	.enqueue = (void *)apart_enqueue,
	.dispatch = (void *)apart_dispatch,
	.running = (void *)apart_running,
	.stopping = (void *)apart_stopping,
	.init = (void *)apart_init,
	.exit = (void *)apart_exit,
	.flags = SCX_OPS_ENQ_LAST, /* else the kernel lets a task go on at the end of its turn, also against a rule */
	.timeout_ms = TIMEOUT_MS,
	.name = "cotenant_apart",
};
