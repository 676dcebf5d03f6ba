"""Pages of the scheduler's process: its state, histories and explanations of pods, nodes, and the debug flags.

What people ask of a running scheduler is spread over its engine, its binder and its flags. One route for each question,
each a few lines that fetch a frozen value; an unknown name is answered with a sentence.
Limits: every page is computed on request, in the scheduler's own loop (`python -m bench.why` measures it).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from cotenant.drivers.http.messages import TEXT, HttpAnswer
from cotenant.engine.cluster import Cluster
from cotenant.model.decisions.answers import Concern, PodAnswer, WhatIf
from cotenant.model.groups.workload_kind import WorkloadState
from cotenant.services.routes import Later, PageRequest, Route, UnknownName
from cotenant.services.scheduler.pages.debugging import Debugging
from cotenant.services.scheduler.pages.encoding import page
from cotenant.services.scheduler.pages.workload import workload_concern

MARKDOWN = b"text/markdown; charset=utf-8"


class ProcessState(msgspec.Struct, frozen=True, rename="camel"):
    """The answer of `/debug/state`."""

    identity: str
    leading: bool
    synced: bool
    nodes: int
    pods: int
    seated: int
    pending: dict[str, int]
    nominated: dict[str, str]
    binds_under_way: int
    notices_waiting: int
    oddities: dict[str, int]
    standing: str = ""  # why it does not lead


class Story(msgspec.Struct, frozen=True):
    """The answer of `/debug/pods/...`."""

    pod: str
    uid: str
    node: str
    state: str
    told: str
    story: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Process:
    """What the pages read of the process around the engine."""

    cluster: Cluster
    debugging: Debugging
    schedulers: tuple[str, ...]  # spec.schedulerName of our pods
    now: Callable[[], float]
    state: Callable[[], ProcessState]
    standing: Callable[[], str]  # why it does not lead; empty while it does
    workload: Callable[[str], WorkloadState | None] = lambda uid: None  # of a declared kind, by the UID of its object
    unread: Callable[[], tuple[str, ...]] = tuple  # sentences about what of the server it does not read
    shard_of: Callable[[str], str] | None = None  # which of several schedulers decides for a pod


def routes(process: Process) -> tuple[Route, ...]:
    """The routes that do not belong to a plugin."""
    cluster, debugging = process.cluster, process.debugging

    def story(asked: PageRequest) -> HttpAnswer:
        key = "/".join(asked.names)
        found = cluster.find(key)
        if found is None:
            raise _unknown_pod(key, process.schedulers)
        history = Story(key, found.seen.uid, found.node, found.state.name.lower(), found.last_message, found.lines())
        return HttpAnswer(200, msgspec.json.encode(history))

    def explained(asked: PageRequest) -> Later:
        key = "/".join(asked.names)
        supposed = WhatIf.parse(asked.query.get("if", ()))
        question = cluster.why.ask(key, process.now(), supposed)
        shard = process.shard_of(key) if process.shard_of is not None else ""
        if question is None:
            if shard:
                raise UnknownName(f"pod {key} waits: {shard}")
            raise _unknown_pod(key, process.schedulers)
        standing = process.standing()
        draft = replace(question.draft, leads=not standing, standing=standing, unread=process.unread())
        entry = cluster.find(key)
        concern = workload_concern(entry.seen.workload, process.workload) if entry is not None else None
        if concern is not None:
            draft = replace(draft, concerns=(concern, *draft.concerns))
        if shard and not question.draft.node:
            draft = replace(draft, concerns=(*draft.concerns, Concern("shard", "", holds=False, words=shard)))
        draft = _with_scores(draft, debugging)
        asked_now = replace(question, draft=draft)
        return lambda: HttpAnswer(200, msgspec.json.encode(asked_now.answer()))

    def node(asked: PageRequest) -> HttpAnswer:
        (name,) = asked.names
        answer = cluster.why.node(name, process.now())
        if answer is None:
            raise UnknownName(
                f"node {name} is not known to this scheduler; kubectl get nodes lists those that are there"
            )
        return page(answer)

    def scores(asked: PageRequest) -> HttpAnswer:
        tables = debugging.tables(asked.query.get("pod", ("",))[0])
        if not tables:
            off = "" if debugging.top_scores else "; the flag is off: PUT a number of nodes to /debug/flags/s"
            raise UnknownName(f"no scores are kept{off}")
        text = "\n\n".join(f"{table.pod}, {table.passing} nodes passed\n\n{table.markdown()}" for table in tables)
        return HttpAnswer(200, f"{text}\n".encode(), MARKDOWN)

    def filters(asked: PageRequest) -> HttpAnswer:
        failures = debugging.failures(asked.query.get("pod", ("",))[0])
        if not failures:
            off = "" if debugging.filters else "; the flag is off: PUT true to /debug/flags/f"
            raise UnknownName(f"no failures of filters are kept{off}")
        lines = [
            line
            for failure in failures
            for line in (*failure.lines, *([f"{failure.more} more"] if failure.more else []))
        ]
        return HttpAnswer(200, "\n".join((*lines, "")).encode(), TEXT)

    return (
        Route("GET", "/debug/state", lambda asked: HttpAnswer(200, msgspec.json.encode(process.state()))),
        Route("GET", "/debug/reports", lambda asked: page(cluster.why.reports(process.now()))),
        Route("GET", "/debug/pods/:namespace/:name", story),
        Route("GET", "/debug/explain/pods/:namespace/:name", explained),
        Route("GET", "/debug/scores", scores),
        Route("GET", "/debug/filters", filters),
        Route("PUT", "/debug/flags/s", lambda asked: HttpAnswer(200, debugging.set_scores(asked.body).encode(), TEXT)),
        Route("PUT", "/debug/flags/f", lambda asked: HttpAnswer(200, debugging.set_filters(asked.body).encode(), TEXT)),
        Route(
            "PUT", "/debug/flags/v", lambda asked: HttpAnswer(200, debugging.set_verbosity(asked.body).encode(), TEXT)
        ),
        Route("GET", "/apis/v1/nodes/:nodeName", node),
    )


def _with_scores(answer: PodAnswer, debugging: Debugging) -> PodAnswer:
    """The answer with the terms of its scores, where they were kept at the decision."""
    record = answer.record
    if record is None or not debugging.top_scores:
        return answer
    kept = next((table for table in reversed(debugging.tables(answer.pod)) if table.at_s == record.at_s), None)
    return answer if kept is None else replace(answer, record=replace(record, candidates=kept.best))


def _unknown_pod(key: str, schedulers: tuple[str, ...]) -> UnknownName:
    names = " or ".join(schedulers)
    return UnknownName(
        f"pod {key} is not known to this scheduler: it does not exist, has ended, or waits for another one than "
        f"{names} (spec.schedulerName)"
    )
