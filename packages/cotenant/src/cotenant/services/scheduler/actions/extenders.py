"""Calls to extenders on behalf of the engine: what is asked about pods, about victims, and binds.

Each pod's calls are a task of their own, and each extender has a number of calls at a time, so a slow extender holds up
only the pods that it is asked about. Everything that goes wrong is a reason: nothing an extender sends raises further.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

import msgspec

from cotenant.drivers.extender import wire
from cotenant.drivers.extender.client import ExtenderClient
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.engine.framework.instructions import Bind, Preempt, Victim
from cotenant.engine.plugins.extenders.plugin import Extenders
from cotenant.engine.plugins.extenders.question import AskExtenders, ExtenderAnswer
from cotenant.model.cluster.demands import NO_HOLDINGS
from cotenant.model.cluster.extender import MAX_PRIORITY, Extender
from cotenant.model.cluster.node import Node
from cotenant.model.errors import CotenantError, Permanent, Transient
from cotenant.services.scheduler.metrics import SchedulerMetrics

ExtenderBind = Callable[[Bind], Awaitable[None]]
_AT_ONCE = 16  # calls to one extender
_MAX_POINTS = 100  # of a node's score, on which an extender's 0 to 10 is scaled

_log = logging.getLogger(__name__)


class NoAnswer(Transient):
    """An extender was asked to bind a pod, and it is not known whether it did."""


class _Named(msgspec.Struct, frozen=True):
    uid: str = ""


class _Object(msgspec.Struct, frozen=True):
    metadata: _Named = _Named()


class ExtenderCalls:
    """Calls the extenders of one process."""

    def __init__(
        self,
        client: Client,
        plugin: Extenders,
        metrics: SchedulerMetrics,
        now: Callable[[], float],
        changed: Callable[[], None],
        node: Callable[[str], Node | None],
    ) -> None:
        """`changed` is called when the engine should be asked again. Raises `InvalidInput` for certificates that
        cannot be used.
        """
        self._client, self._plugin, self._metrics = client, plugin, metrics
        self._now, self._changed, self._node = now, changed, node
        self._clients = tuple(ExtenderClient(extender) for extender in plugin.extenders)
        self._turns = tuple(asyncio.Semaphore(_AT_ONCE) for _ in plugin.extenders)
        self._tasks: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Cancel what is under way."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Close every connection."""
        for client in self._clients:
            await client.close()

    # ---- filters and scores

    def ask(self, question: AskExtenders) -> None:
        """Begin to ask."""
        task = asyncio.create_task(self._ask(question))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, question: AskExtenders) -> None:
        try:
            answer = await self._answer(question)
        except CotenantError as error:
            self._plugin.failed(question.uid, question.number, str(error), self._now())
        except Exception:  # a defect with one pod must not leave it waiting
            self._metrics.loop_errors.inc()
            _log.exception("extenders about %s", question.key)
            self._plugin.failed(question.uid, question.number, "extenders: unforeseen error", self._now())
        else:
            self._plugin.answered(question.uid, question.number, answer, self._now())
        finally:
            self._changed()

    async def _answer(self, question: AskExtenders) -> ExtenderAnswer:
        pod = await self._pod(question.key, question.uid)
        left, refused = question.nodes, dict[str, str]()
        for i in question.extenders:
            if not left:
                break
            if self._plugin.extenders[i].filter_verb:
                left, why = await self._filter(i, pod, left)
                refused |= why
        points: dict[str, float] = {}
        if len(left) > 1:  # a single node needs no score
            scoring = [i for i in question.extenders if self._plugin.extenders[i].prioritize_verb]
            for scores in await asyncio.gather(*(self._prioritize(i, pod, left) for i in scoring)):
                for name, value in scores.items():
                    points[name] = points.get(name, 0.0) + value
        return ExtenderAnswer(frozenset(left), points, refused)

    async def _filter(self, i: int, pod: bytes, names: tuple[str, ...]) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """What an extender leaves of these nodes; all of them where it fails and may be ignored."""
        extender = self._plugin.extenders[i]
        try:
            body = await self._call(i, extender.filter_verb, self._arguments(extender, pod, names))
            found = wire.read_filtered(body, frozenset(names))
        except CotenantError as error:
            if not extender.is_ignorable:
                raise Permanent(f"extender {extender.url}: {error}") from None
            _log.warning("extender %s is ignored: %s", extender.url, error)
            return names, {}
        return found.nodes, found.refused

    async def _prioritize(self, i: int, pod: bytes, names: tuple[str, ...]) -> Mapping[str, float]:
        """What an extender adds to scores; nothing where it fails, as upstream has it."""
        extender = self._plugin.extenders[i]
        try:
            body = await self._call(i, extender.prioritize_verb, self._arguments(extender, pod, names))
            scores = wire.read_scores(body, frozenset(names))
        except CotenantError as error:
            _log.warning("scores of extender %s are ignored: %s", extender.url, error)
            return {}
        factor = extender.weight * _MAX_POINTS // MAX_PRIORITY
        return {name: float(score * factor) for name, score in scores.items()}

    def _arguments(self, extender: Extender, pod: bytes, names: tuple[str, ...]) -> bytes:
        if extender.caches_nodes:
            return wire.arguments(pod, names, None)
        nodes = [node for name in names if (node := self._node(name)) is not None]
        return wire.arguments(pod, names, nodes)

    # ---- victims

    async def agreed(self, preempt: Preempt) -> Preempt | None:
        """The victims on which all extenders agree; None where one spares them, and room is to be made elsewhere.
        Those of a gang are on several nodes, and no extender is asked.
        """
        if self._plugin.is_in_gang(preempt.uid):
            return preempt
        for i in self._plugin.interested(preempt.uid):
            extender = self._plugin.extenders[i]
            if not (extender.preempt_verb and preempt.victims):
                continue
            try:
                uids = await self._proposed(i, preempt)
            except CotenantError as error:
                if extender.is_ignorable:
                    _log.warning("extender %s is ignored: %s", extender.url, error)
                    continue
                self._plugin.spared(preempt.uid, preempt.node, self._now())
                _log.warning("victims for %s on %s: extender %s: %s", preempt.key, preempt.node, extender.url, error)
                return None
            ours = {victim.uid: victim for victim in preempt.victims}
            if uids is None or not ours.keys() <= set(uids):
                self._plugin.spared(preempt.uid, preempt.node, self._now())
                return None
            more = set(uids) - ours.keys()
            if more:
                preempt = replace(preempt, victims=(*preempt.victims, *await self._victims(preempt.node, more)))
        return preempt

    async def _proposed(self, i: int, preempt: Preempt) -> tuple[str, ...] | None:
        extender = self._plugin.extenders[i]
        pod = await self._pod(preempt.key, preempt.uid)
        victims: dict[str, bytes] = {}
        for victim in preempt.victims:
            victims[victim.uid] = b"" if extender.caches_nodes else await self._pod(victim.key, victim.uid)
        body = wire.preemption(pod, preempt.node, victims, preempt.breaks_budgets, extender.caches_nodes)
        return wire.read_victims(await self._call(i, extender.preempt_verb, body), preempt.node)

    async def _victims(self, node: str, uids: set[str]) -> tuple[Victim, ...]:
        """Victims that an extender proposes besides; those that are not on the node are left out."""
        pods = await self._client.all_of(PODS, fields=f"spec.nodeName={node}")
        return tuple(
            Victim(pod.metadata.uid or "", f"{pod.metadata.namespace}/{pod.metadata.name}", node)
            for pod in pods
            if pod.metadata.uid in uids
        )

    # ---- binds

    def binder(self, uid: str) -> ExtenderBind | None:
        """Who binds a pod in our place."""
        for i in self._plugin.interested(uid):
            if self._plugin.extenders[i].bind_verb:
                return lambda bind: self._bind(i, bind)
        return None

    async def _bind(self, i: int, bind: Bind) -> None:
        """Raises `Permanent` where it is not bound, `NoAnswer` where that is not known."""
        extender = self._plugin.extenders[i]
        if bind.holds != NO_HOLDINGS:
            raise Permanent(f"extender {extender.url} binds it, and does not write which CPUs or devices it was given")
        namespace, _, name = bind.key.partition("/")
        try:
            body = await self._call(i, extender.bind_verb, wire.binding(namespace, name, bind.uid, bind.node))
        except Transient as error:
            raise NoAnswer(f"extender {extender.url}: {error}") from None
        except CotenantError as error:
            raise Permanent(f"extender {extender.url}: {error}") from None
        wire.check_bound(body)

    # ---- calls

    async def _call(self, i: int, verb: str, body: bytes) -> bytes:
        extender = self._plugin.extenders[i]
        async with self._turns[i]:
            begun_s, result = time.monotonic(), "failed"
            try:
                found = await self._clients[i].call(verb, body)
                result = "answered"
            finally:
                labels = (extender.url, verb, "ignored" if result == "failed" and extender.is_ignorable else result)
                self._metrics.extender_duration.labels(*labels).observe(time.monotonic() - begun_s)
        return found

    async def _pod(self, key: str, uid: str) -> bytes:
        """The pod as the API server has it now. Raises `Permanent` where it is gone."""
        namespace, _, name = key.partition("/")
        try:
            found = await self._client.request("GET", PODS.path(namespace, name))
        except NotFound:
            raise Permanent("the pod is gone") from None
        if msgspec.json.decode(found, type=_Object).metadata.uid != uid:
            raise Permanent("another pod has its name")
        return found
