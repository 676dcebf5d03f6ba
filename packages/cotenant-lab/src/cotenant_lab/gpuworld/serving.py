"""Model servers with continuous batching, a step at a time. Compiled.

A replica serves one step after another: where prompts wait and fit, a prefill of the first of them, which gives each
its first token; else one step of decoding, which gives every running request one more token. A prefill is compute-bound
(its tokens count), decoding is bandwidth-bound (weights once a step, and the cache of all running requests). A request
is taken where the batch has a place and the KV cache has room for its prompt and its whole answer. Times are
microseconds; a step begun within a tick ends in the next.

Limits: prefill first, not in chunks; the cache is reserved whole, where a server that grows it would preempt; no
prefix is shared between prompts; who asks never gives up.
Source: Yu et al., Orca, OSDI'22 (scheduling by step); Kwon et al., vLLM, SOSP'23 (admission by free cache).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int
from cotenant.model.compiled import njit

NONE = -1
LOGGED = 512  # latest latencies of a replica
PPM = 1_000_000


class ServedRequests(NamedTuple):
    """[N] in the order of arrival."""

    arrive_us: Int
    prompt: Int
    output: Int
    first_us: Int  # first token; NONE: not yet
    end_us: Int  # last token
    next: Int  # the request that waits behind it


class Replicas(NamedTuple):
    """One row a card, whether a replica is there or not."""

    serves: Int  # [R] 1: takes requests
    clock_us: Int  # [R] when its present step ends
    head: Int  # [R] first waiting request
    tail: Int  # [R]
    waiting: Int  # [R] their number
    running: Int  # [R, B] request of each place
    made: Int  # [R, B] tokens that it has
    batch: Int  # [R] places in use, the first ones
    reserved: Int  # [R] tokens of the cache that are reserved
    context: Int  # [R] tokens in the cache
    prefill_us: Int  # [R] time in steps of either kind that began in this tick
    decode_us: Int  # [R]
    logged: Int  # [R] latencies logged so far
    log_at_us: Int  # [R, LOGGED]
    log_ppm: Int  # [R, LOGGED] latency over its objective, millionths


class ServerLaw(NamedTuple):
    """What a step costs, and what limits a batch."""

    max_batch: int
    max_prefill_tokens: int
    kv_tokens: int
    prefill_us_per_token: float
    weights_us: float
    kv_us_per_token: float
    first_token_us: int
    per_token_us: int


def new_requests(arrive_us: Int, prompt: Int, output: Int) -> ServedRequests:
    """None of them served."""
    none = np.full(len(arrive_us), NONE, np.int64)
    return ServedRequests(arrive_us, prompt, output, none.copy(), none.copy(), none.copy())


def new_replicas(cards: int, max_batch: int) -> Replicas:
    """No replica anywhere."""
    row, none = np.zeros(cards, np.int64), np.full(cards, NONE, np.int64)
    places, log = np.zeros((cards, max_batch), np.int64), np.zeros((cards, LOGGED), np.int64)
    return Replicas(
        row.copy(), row.copy(), none.copy(), none.copy(), row.copy(), places.copy(), places.copy(), row.copy(),
        row.copy(), row.copy(), row.copy(), row.copy(), row.copy(), log.copy(), log.copy(),
    )  # fmt: skip


@njit
def route(s: Replicas, q: ServedRequests, begin: int, end: int) -> None:
    """Each request goes to the serving replica with the fewest that wait and run, the first of equals."""
    for i in range(begin, end):
        best, least = -1, 0
        for r in range(len(s.serves)):
            if s.serves[r] == 1:
                held = s.waiting[r] + s.batch[r]
                if best < 0 or held < least:
                    best, least = r, held
        if s.tail[best] >= 0:
            q.next[s.tail[best]] = i
        else:
            s.head[best] = i
        s.tail[best] = i
        s.waiting[best] += 1


@njit
def advance(
    s: Replicas, q: ServedRequests, w: ServerLaw, until_us: int, slow_prefill: Float, slow_decode: Float
) -> None:
    """Serve until `until_us`. The slowdowns are those of each card, 1 alone."""
    for r in range(len(s.serves)):
        s.prefill_us[r] = 0
        s.decode_us[r] = 0
        while s.clock_us[r] < until_us:
            now = s.clock_us[r]
            tokens = _admit(s, q, w, r, now)
            if tokens > 0:
                took = int(np.rint(tokens * w.prefill_us_per_token * slow_prefill[r]))
                s.prefill_us[r] += took
                s.clock_us[r] = now + took
                _first_tokens(s, q, w, r)
            elif s.batch[r] > 0:
                took = int(np.rint((w.weights_us + s.context[r] * w.kv_us_per_token) * slow_decode[r]))
                s.decode_us[r] += took
                s.clock_us[r] = now + took
                for b in range(s.batch[r]):
                    s.made[r, b] += 1
                s.context[r] += s.batch[r]
                _finish(s, q, w, r)
            elif s.waiting[r] > 0 and q.arrive_us[s.head[r]] < until_us:
                s.clock_us[r] = q.arrive_us[s.head[r]]
            else:
                s.clock_us[r] = until_us


@njit
def _admit(s: Replicas, q: ServedRequests, w: ServerLaw, r: int, now: int) -> int:
    """Take waiting requests, in their order, as far as batch, cache and one prefill allow; the prompts' tokens. A
    prompt longer than a prefill goes alone.
    """
    tokens = 0
    while s.waiting[r] > 0 and s.batch[r] < w.max_batch:
        i = s.head[r]
        room = q.prompt[i] + q.output[i]
        if q.arrive_us[i] > now or s.reserved[r] + room > w.kv_tokens:
            break
        if tokens > 0 and tokens + q.prompt[i] > w.max_prefill_tokens:
            break
        s.head[r] = q.next[i]
        if s.head[r] < 0:
            s.tail[r] = NONE
        s.waiting[r] -= 1
        s.running[r, s.batch[r]] = i
        s.made[r, s.batch[r]] = 0
        s.batch[r] += 1
        s.reserved[r] += room
        tokens += q.prompt[i]
    return tokens


@njit
def _first_tokens(s: Replicas, q: ServedRequests, w: ServerLaw, r: int) -> None:
    for b in range(s.batch[r]):
        if s.made[r, b] == 0:
            i = s.running[r, b]
            s.made[r, b] = 1
            s.context[r] += q.prompt[i] + 1
            q.first_us[i] = s.clock_us[r]
            _log(s, r, (q.first_us[i] - q.arrive_us[i]) * PPM // w.first_token_us)
    _finish(s, q, w, r)


@njit
def _finish(s: Replicas, q: ServedRequests, w: ServerLaw, r: int) -> None:
    b = 0
    while b < s.batch[r]:
        i = s.running[r, b]
        if s.made[r, b] < q.output[i]:
            b += 1
            continue
        q.end_us[i] = s.clock_us[r]
        if q.output[i] > 1:
            _log(s, r, (q.end_us[i] - q.first_us[i]) // (q.output[i] - 1) * PPM // w.per_token_us)
        s.reserved[r] -= q.prompt[i] + q.output[i]
        s.context[r] -= q.prompt[i] + q.output[i]
        s.batch[r] -= 1
        s.running[r, b] = s.running[r, s.batch[r]]
        s.made[r, b] = s.made[r, s.batch[r]]


@njit
def _log(s: Replicas, r: int, ppm: int) -> None:
    at = s.logged[r] % LOGGED
    s.log_at_us[r, at] = s.clock_us[r]
    s.log_ppm[r, at] = ppm
    s.logged[r] += 1
