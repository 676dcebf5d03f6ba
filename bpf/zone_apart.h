/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who runs where, for the scheduler "apart": rules, places, claims, turns.
 *
 * Problem: two CPUs decide at once, and neither may start what the other's choice excludes. Choice: a place (a core, a cache, the machine) counts what it runs of each
 * party in the bytes of one word, so that one compare and swap both looks and counts. Limits: what reads the words elsewhere is a hint; only `claim` decides.
 */
#ifndef COTENANT_ZONE_APART_H
#define COTENANT_ZONE_APART_H
#include "zone.h"

#define SYSTEM 63
#define PARTIES 8 /* numbers from 1; 0: none */
#define QUEUES (2 * (PARTIES + 1))
#define LEVELS 3 /* core, cache, machine */
#define MAX_CPUS 1024
#define SLICE (4 * MS)
#define TURN (20 * MS) /* of batch, and how long batch waits for its own */
#define LATE_HOLDS (1000 * MS)
#define TRIES 32
#define IDLE (1U << 8) /* beside the bits of classes */
#define INVALID -22    /* EINVAL */

/*
 * Written by the loader; layout shared with drivers/ebpf/zone_layout.py. A party's byte in a word is that of its number less one. Not constant: of words that it
 * knows the verifier would follow every combination of late parties, and the functions below are global, so that it follows each of them once.
 */
volatile struct {
	__u64 starved_ns;
	__u64 cpus; /* numbers from 0 */
	__u64 always[LEVELS][PARTIES]; /* the bytes of the parties that a party excludes */
	__u64 late[LEVELS][PARTIES];   /* those only while a service of either was late */
	__u16 place[2][MAX_CPUS];      /* core and cache of each CPU, by their lowest CPU */
} apart = {.starved_ns = 1000 * MS, .cpus = 2, .always = {{0xff00, 0xff}}, .place = {{0, 0}, {0, 0}}};

struct place {
	__u64 runs;	/* of each party, a byte */
	__u64 services; /* of those, services */
	__u64 turn;	/* until when, in ns, with the party in the last four bits */
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * MAX_CPUS + 1);
	__type(key, __u32);
	__type(value, struct place);
} zone_places SEC(".maps");
/* Of one CPU. */
struct seat {
	__u32 held;	/* the party that runs here and is counted */
	__u32 next;	/* the party that was counted for a task which does not run yet */
	__u32 service; /* whether what is held is one */
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct seat);
} zone_seats SEC(".maps");
/* Until when the rules hold that hold while a party is late. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PARTIES);
	__type(key, __u32);
	__type(value, __u64);
} zone_pressed SEC(".maps");

static __always_inline __u32 party_of(const struct zone_row *row)
{
	return row && row->party <= PARTIES ? row->party : 0;
}

static __always_inline __u64 one(__u32 party)
{
	return 1ULL << (8 * ((party - 1) & (PARTIES - 1)));
}

static __always_inline struct place *place_of(__u32 level, __u32 cpu)
{
	__u32 key = level > 1 ? 2 * MAX_CPUS : level * MAX_CPUS + (apart.place[level & 1][cpu & (MAX_CPUS - 1)] & (MAX_CPUS - 1));

	return bpf_map_lookup_elem(&zone_places, &key);
}

static __always_inline bool pressed(__u32 number)
{
	__u64 *until = bpf_map_lookup_elem(&zone_pressed, &number);

	return until && bpf_ktime_get_ns() < *until;
}

/* Whether the party is counted at this level. */
static __always_inline bool counts_at(__u32 level, __u32 party)
{
	__u32 number = (party - 1) & (PARTIES - 1);

	return party && (apart.always[level][number] | apart.late[level][number]);
}

/* The bytes of the parties that this one excludes now. */
static __always_inline __u64 excluded(__u32 level, __u32 party)
{
	__u32 number = (party - 1) & (PARTIES - 1);
	__u64 found, late;

	if (!party)
		return 0;
	found = apart.always[level][number];
	late = apart.late[level][number];
	if (!late)
		return found;
	if (pressed(number))
		return found | late;
	for (__u32 other = 0; other < PARTIES; other++)
		if (late >> (8 * other) & 0xff && pressed(other))
			found |= 0xffULL << (8 * other);
	return found;
}

static __always_inline __u64 queue_of(__u32 party, __u32 class)
{
	return 2 * party + (class == CLASS_BATCH);
}

static __always_inline bool waits(__u32 party)
{
	return scx_bpf_dsq_nr_queued(queue_of(party, CLASS_SERVICE)) > 0 || scx_bpf_dsq_nr_queued(queue_of(party, CLASS_BATCH)) > 0;
}

/* Whether it is the turn of a party that is among `excluded`. A party that neither runs nor waits has none. */
static __always_inline bool turned(const struct place *place, __u64 excluded)
{
	__u64 turn = place->turn;
	__u32 whose = turn & 15;

	if (!whose || whose > PARTIES || bpf_ktime_get_ns() >= turn || !(excluded & one(whose)))
		return false;
	return place->runs & (0xff * one(whose)) || waits(whose);
}

enum state { OPEN, BY_BATCH, BY_SERVICE, BY_TURN };

/* What keeps a party from a CPU, apart from what runs on that CPU itself. */
__noinline enum state state_of(__u32 cpu, __u32 party)
{
	__u32 first = 0;
	struct seat *seat = bpf_map_lookup_percpu_elem(&zone_seats, &first, cpu);
	enum state found = OPEN;

	if (!seat || !party)
		return OPEN;
	for (__u32 level = 0; level < LEVELS; level++) {
		__u64 mask = excluded(level, party), runs, services;
		struct place *place;

		if (!mask)
			continue;
		place = place_of(level, cpu);
		if (!place)
			continue;
		if (turned(place, mask))
			return BY_TURN;
		runs = place->runs;
		services = place->services;
		if (counts_at(level, seat->held)) {
			runs -= one(seat->held);
			if (seat->service)
				services -= one(seat->held);
		}
		if (runs & mask && found < BY_BATCH)
			found = BY_BATCH;
		if (services & mask)
			found = BY_SERVICE;
	}
	return found;
}

static __always_inline void release_at(__u32 levels, __u32 cpu, __u32 party)
{
	for (__u32 level = 0; level < LEVELS; level++) {
		struct place *place;

		if (level >= levels || !counts_at(level, party))
			continue;
		place = place_of(level, cpu);
		if (place)
			__sync_fetch_and_sub(&place->runs, one(party));
	}
}

/* Counts a party on this CPU, beside what is `held` here and leaves with it; false: a rule forbids it. */
__noinline bool claim(__u32 cpu, __u32 party, __u32 held)
{
	if (!party)
		return true;
	for (__u32 level = 0; level < LEVELS; level++) {
		__u64 mask, old, own = counts_at(level, held) ? one(held) : 0;
		struct place *place;
		bool done = false;

		if (!counts_at(level, party))
			continue;
		mask = excluded(level, party);
		place = place_of(level, cpu);
		if (!place)
			continue;
		for (int try = 0; try < TRIES && !done; try++) {
			old = place->runs;
			if ((old - own) & mask || turned(place, mask))
				break;
			done = __sync_val_compare_and_swap(&place->runs, old, old + one(party)) == old;
		}
		if (!done) {
			release_at(level, cpu, party);
			return false;
		}
	}
	return true;
}

static __always_inline struct seat *seat_of(__u32 cpu)
{
	__u32 first = 0;

	return bpf_map_lookup_percpu_elem(&zone_seats, &first, cpu);
}

/* What runs on a CPU: the bit of a class, or IDLE. */
static __always_inline __u32 runs_on(__u32 cpu)
{
	__u32 first = 0, *there = bpf_map_lookup_percpu_elem(&zone_running, &first, cpu);

	return !there || *there > CLASS_BATCH ? IDLE : ONLY(*there);
}

static __always_inline bool same_place(__u32 level, __u32 cpu, __u32 other)
{
	return level > 1 || apart.place[level & 1][cpu & (MAX_CPUS - 1)] == apart.place[level & 1][other & (MAX_CPUS - 1)];
}

struct round {
	__u32 cpu;
	__u32 party;
	__u64 excluded[LEVELS];
};

static long put_off_at(__u32 cpu, struct round *round)
{
	struct seat *seat = seat_of(cpu);

	if (!seat || !seat->held)
		return 0;
	for (__u32 level = 0; level < LEVELS; level++)
		if (round->excluded[level] & one(seat->held) && same_place(level, round->cpu, cpu)) {
			kick(cpu, SCX_KICK_PREEMPT);
			count(COUNT_KICKED);
			return 0;
		}
	return 0;
}

/* Ends the turns of tasks that a party excludes around a CPU. (Linux 6.16 takes no global function without a value.) */
__noinline int put_off(__u32 cpu, __u32 party)
{
	struct round round = {.cpu = cpu, .party = party};

	for (__u32 level = 0; level < LEVELS; level++)
		round.excluded[level] = excluded(level, party);
	return bpf_loop(apart.cpus, put_off_at, &round, 0);
}

/* From now on it is the party's turn around a CPU. */
__noinline int take(__u32 cpu, __u32 party, __u64 length_ns)
{
	for (__u32 level = 0; level < LEVELS; level++) {
		struct place *place = excluded(level, party) ? place_of(level, cpu) : 0;

		if (place)
			place->turn = ((bpf_ktime_get_ns() + length_ns) & ~15ULL) | party;
	}
	return put_off(cpu, party);
}

static long wake_at(__u32 cpu, struct round *round)
{
	if (runs_on(cpu) != IDLE)
		return 0;
	for (__u32 level = 0; level < LEVELS; level++)
		if (round->excluded[level] && same_place(level, round->cpu, cpu)) {
			kick(cpu, SCX_KICK_IDLE);
			return 0;
		}
	return 0;
}

/* Gives a party's CPU back, and wakes idle ones where others waited for that. */
__noinline int release(__u32 cpu, __u32 party)
{
	struct round round = {.cpu = cpu, .party = party};
	__u64 waiting = 0;

	if (!party)
		return 0;
	release_at(LEVELS, cpu, party);
	for (__u32 level = 0; level < LEVELS; level++) {
		__u32 number = (party - 1) & (PARTIES - 1);

		round.excluded[level] = apart.always[level][number] | apart.late[level][number];
		waiting |= round.excluded[level];
	}
	for (__u32 other = 1; other <= PARTIES; other++)
		if (waiting & one(other) && waits(other)) {
			bpf_loop(apart.cpus, wake_at, &round, 0);
			break;
		}
	return 0;
}

struct search {
	__s32 found;
	__u32 party;
	bool preempts; /* a place from which batch is put off will do */
};

static long look(__u32 cpu, struct search *search)
{
	__u32 runs = runs_on(cpu);
	enum state state;

	if (!(runs & (search->preempts ? IDLE | ONLY(CLASS_BATCH) : IDLE)))
		return 0;
	state = state_of(cpu, search->party);
	if (state > (search->preempts ? BY_BATCH : OPEN))
		return 0;
	search->found = cpu;
	return 1;
}

static __always_inline __s32 find(__u32 party, bool preempts)
{
	struct search search = {.found = -1, .party = party, .preempts = preempts};

	bpf_loop(apart.cpus, look, &search, 0);
	return search.found;
}
#endif
