"""What nodes answer to the claims of a pod, one search for all nodes whose devices are alike and used alike.

An ask is the specs of the claims that a pod needs allocated. For an ask, each inventory has a *form*: of each device
whether it matches each request, and what else the search looks at. The search has one result for each form and use, by
positions, so that ten thousand nodes of eight devices cost a few hundred searches. Selectors and searches have a limit
for each decision: what is left over is judged in later rounds, and the ask is refused until then.

Source of the limit: docs/adr/0040.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from sys import maxsize

import numpy as np

from cotenant.engine.rules.claims.diagnosis import Why, diagnose
from cotenant.engine.rules.claims.inventories import Inventories, PoolInventory
from cotenant.engine.rules.claims.selecting import Selectors
from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.claims.requests import MAX_ALTERNATIVES, ClaimSpec, DeviceClass, ExactRequest
from cotenant.model.errors import InvalidInput
from cotenant.policy.claims.allocator import (
    CannotAllocate,
    ClaimRefusal,
    DeviceSearch,
    DeviceUsage,
    Matches,
    Pick,
    Steps,
    allocate,
    tolerated,
)
from cotenant.policy.claims.constraints import attribute_of
from cotenant.policy.claims.pools import PoolDevice, PoolState

WORK = 16_000  # a decision's limit, about 25 ms: steps of selectors and of searches, and what follows
_LITTLE = WORK // 4
_OF_DEVICE = 4  # work to look at a device
_OF_ANSWER = 1  # whether it matches one request, and one selector of it that is known already
_OF_STEP = 8  # of an evaluation, which is that much slower than a step of a search
_OF_SEARCH = 10
_MAX_ASKS = 128
_MAX_RESULTS = 20_000
UNJUDGED = "node(s) that are still judged: claims or selectors that cost more than one decision may"

Choice = tuple[tuple[Pick, ...], ...]  # by claim


@dataclass(slots=True)
class VerdictFacts:
    """What verdicts are made of."""

    inventories: Inventories
    usage: DeviceUsage
    selectors: Selectors
    classes: dict[str, DeviceClass]
    search: type[DeviceSearch] = DeviceSearch


@dataclass(slots=True)
class Work:
    """What is left of a decision's limit."""

    left: int = WORK


@dataclass(slots=True, eq=False)
class _Partial:
    """The form of an inventory, as far as it is known. `stamp`: the inventory's when it was begun."""

    stamp: int
    key: list[Hashable] = field(default_factory=list)  # of pools and devices, in order
    answers: list[tuple[bool | str, ...]] = field(default_factory=list)  # by device and request: a match, or why none


@dataclass(slots=True, eq=False)
class ClaimVerdicts:
    """The answers to one ask. `codes`, by inventory: the position in `reasons`, 0 = it fits."""

    claims: tuple[ClaimSpec, ...]
    codes: Int = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    worths: Float = field(default_factory=lambda: np.zeros(0))
    reasons: list[tuple[str, bool]] = field(default_factory=lambda: [("", False)])
    is_complete: bool = False
    _marks: Int = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    _forms: dict[int, tuple[int, int]] = field(default_factory=dict)  # inventory -> its stamp, and its form
    _known_forms: dict[Hashable, int] = field(default_factory=dict)
    _answers: list[list[tuple[bool | str, ...]]] = field(default_factory=list)  # by form
    _partial: dict[int, _Partial] = field(default_factory=dict)  # inventory -> as far as the limit reached
    _results: dict[tuple[int, Hashable], tuple[Choice | None, Why | None]] = field(default_factory=dict)

    def refresh(self, facts: VerdictFacts, work: Work) -> None:
        """Judge the inventories that changed, as far as the limit reaches."""
        facts.inventories.by_row()
        count = len(facts.inventories.all)
        marks = facts.inventories.marks
        if len(self.codes) < count:
            more = max(64, 2 * count) - len(self.codes)
            self.codes = np.concatenate([self.codes, np.zeros(more, dtype=np.int64)])
            self.worths = np.concatenate([self.worths, np.zeros(more)])
            self._marks = np.concatenate([self._marks, np.full(more, -1, dtype=np.int64)])
        changed = np.flatnonzero(self._marks[:count] != marks[:count])
        self.is_complete = True
        for index in changed.tolist():
            if work.left <= 0:
                self.is_complete = False
                return
            judged = self._judged(facts, index, work)
            if judged is None:
                self.is_complete = False
                return
            choice, why = judged
            self.codes[index] = 0 if why is None else self._code(why)
            self.worths[index] = _worth(self.claims, choice) if choice is not None else 0.0
            self._marks[index] = marks[index]

    def choice(self, facts: VerdictFacts, index: int) -> Choice | Why:
        """The devices that the claims get of an inventory, or why none."""
        choice, why = self._judged(facts, index, Work()) or (None, Why(UNJUDGED))
        return choice if choice is not None else why or Why("")

    def why(self, facts: VerdictFacts, index: int) -> Why:
        """Why an inventory is refused."""
        _, why = self._judged(facts, index, Work()) or (None, Why(UNJUDGED))
        return why or Why("")

    def figures(self, facts: VerdictFacts, code: int, among: Mask) -> str:
        """What the nearest of these rows lacks, of those that are refused for this reason."""
        by_row = facts.inventories.by_row()
        rows = np.flatnonzero(among & (self.codes[by_row] == code))
        indexes, first = np.unique(by_row[rows], return_index=True)
        nearest: tuple[int, int, str] | None = None
        for index, at in zip(indexes[:64].tolist(), first.tolist(), strict=False):
            why = self.why(facts, index)
            if why.figures and (nearest is None or (why.missing, int(rows[at])) < nearest[:2]):
                nearest = why.missing, int(rows[at]), why.figures
        return f"{facts.inventories.name_of(nearest[1])}: {nearest[2]}" if nearest is not None else ""

    def _judged(self, facts: VerdictFacts, index: int, work: Work) -> tuple[Choice | None, Why | None] | None:
        """What the search finds; None = the limit ends within the inventory, and the next call goes on from there."""
        inventory = facts.inventories.all[index]
        form = self._form(facts, index, inventory, work)
        if form is None:
            return None
        key = form, inventory.use(facts.usage)
        known = self._results.get(key)
        if known is None:
            steps = Steps()
            before, answers = steps.left, self._answers[form]
            known = self.search(facts, inventory, facts.usage, steps, self._known_matches(inventory, form))
            looks = len(answers) * len(answers[0]) if answers else 0
            work.left -= before - steps.left + _OF_SEARCH + _OF_ANSWER * looks
            if len(self._results) >= _MAX_RESULTS:
                self._results.clear()
            self._results[key] = known
        return known

    def search(
        self,
        facts: VerdictFacts,
        inventory: PoolInventory,
        usage: DeviceUsage,
        steps: Steps,
        matches: Matches | None = None,
    ) -> tuple[Choice | None, Why | None]:
        """One search, whatever is known."""
        matches = matches or _Matching(facts)
        found = allocate(self.claims, inventory.pools, usage, matches, steps, facts.search)
        if not isinstance(found, ClaimRefusal):
            return found, None
        try:
            return None, diagnose(found, self.claims, inventory.pools, usage, matches, _selecting(facts), facts.classes)
        except CannotAllocate as error:
            return None, Why(str(error))

    def _form(self, facts: VerdictFacts, index: int, inventory: PoolInventory, work: Work) -> int | None:
        known = self._forms.get(index)
        if known is not None and known[0] == inventory.stamp:
            work.left -= _OF_DEVICE * sum(len(pool.devices) for pool in inventory.pools)
            return known[1]
        begun = self._partial.pop(index, None)
        if begun is None or begun.stamp != inventory.stamp:
            begun = _Partial(inventory.stamp)
        if not self._look(facts, inventory, begun, work):
            self._partial[index] = begun
            return None
        form = self._known_forms.setdefault(tuple(begun.key), len(self._known_forms))
        if form == len(self._answers):
            self._answers.append(begun.answers)
        self._forms[index] = inventory.stamp, form
        return form

    def _known_matches(self, inventory: PoolInventory, form: int) -> Matches:
        """What was found out for the form, by the devices of one inventory."""
        answers = self._answers[form]
        places = {device: at for at, device in enumerate(d for pool in inventory.pools for d in pool.devices)}
        requests = {exact: at for at, exact in enumerate(self._requests())}

        def matches(request: ExactRequest, device: PoolDevice) -> bool:
            answer = answers[places[device]][requests[request]]
            if isinstance(answer, str):
                raise CannotAllocate(answer)
            return answer

        return matches

    def _requests(self) -> list[ExactRequest]:
        return [exact for claim in self.claims for request in claim.requests for exact in request.alternatives]

    def _look(self, facts: VerdictFacts, inventory: PoolInventory, begun: _Partial, work: Work) -> bool:
        """Look at the pools and devices that are left; False = the limit ended before the last."""
        matches = _Matching(facts)
        requests = self._requests()
        tolerates_all = (True,) * len(requests)
        attributes = [constraint.attribute for claim in self.claims for constraint in claim.constraints]
        at = 0
        for pool in inventory.pools:
            first, at = at, at + 1 + len(pool.devices)
            if at <= len(begun.key):
                continue
            if first == len(begun.key):
                begun.key.append(
                    (pool.counters, () if pool.state is PoolState.USABLE else (pool.state, pool.id, pool.why))
                )
            for device in pool.devices[len(begun.key) - first - 1 :]:
                if work.left <= 0:
                    return False
                spent, looked = facts.selectors.spent, matches.looked
                matches.until = spent + work.left // _OF_STEP
                values = [(type(value), value) for value in (attribute_of(device, name) for name in attributes)]
                offered = device.device
                try:
                    answers = tuple([matches.answer(request, device) for request in requests])
                except _OutOfWork:  # what was found out so far is known next time
                    work.left = 0
                    return False
                begun.answers.append(answers)
                tolerates = (
                    tuple([tolerated(request, device) for request in requests]) if device.taints else tolerates_all
                )
                begun.key.append((*answers, *tolerates, *values, offered.capacity, offered.uses, offered.is_shared))
                work.left -= (
                    _OF_DEVICE
                    + _OF_ANSWER * (len(requests) + len(attributes) + matches.looked - looked)
                    + _OF_STEP * (facts.selectors.spent - spent)
                )
        return True

    def _code(self, why: Why) -> int:
        reason = (why.reason, why.yields)
        if reason not in self.reasons:
            self.reasons.append(reason)
        return self.reasons.index(reason)


def _worth(claims: tuple[ClaimSpec, ...], choice: Choice) -> float:
    """More for earlier alternatives of prioritised lists, as in kube-scheduler."""
    found = 0
    for claim, picks in zip(claims, choice, strict=True):
        chosen = {pick.request for pick in picks}
        for request in claim.requests:
            if request.is_list:
                found += sum(
                    MAX_ALTERNATIVES - place for place, exact in enumerate(request.alternatives) if exact in chosen
                )
    return float(found)


def _selecting(facts: VerdictFacts) -> Callable[[str, PoolDevice], bool]:
    selectors = facts.selectors
    return lambda expression, device: selectors.matches(expression, device.id.driver, device.device)


class _OutOfWork(Exception):
    """One device's selectors cost more than is left."""


class _Matching:
    """Whether class and selectors of a request permit a device. `looked`: selectors that were asked for that.
    `until`: steps of all selectors, after which no further one is asked.
    """

    def __init__(self, facts: VerdictFacts) -> None:
        self.looked = 0
        self.until = maxsize
        self._selectors = facts.selectors
        self._classes: Mapping[str, DeviceClass] = facts.classes
        self._matches = facts.selectors.matches

    def __call__(self, request: ExactRequest, device: PoolDevice) -> bool:
        """Raises `CannotAllocate` where a selector fails, `_OutOfWork` where the limit ends before the last."""
        found = self._classes.get(request.device_class)
        if found is None:
            return False
        expressions, before = (*found.selectors, *request.selectors), self.looked
        try:
            for expression in expressions:
                if self._selectors.spent > self.until:
                    raise _OutOfWork
                self.looked += 1
                if not self._matches(expression, device.id.driver, device.device):
                    return False
        except InvalidInput as error:
            at, of_class = self.looked - before - 1, len(found.selectors)
            whose, position = (
                (f"class {found.name}", at) if at < of_class else (f"request {request.full_name}", at - of_class)
            )
            what = f"{whose}, selector {position}: {error.hint or error.expected}"
            raise CannotAllocate(f"node(s) with devices on which a selector fails: {what}") from None
        return True

    def answer(self, request: ExactRequest, device: PoolDevice) -> bool | str:
        """The same, with the words of a failure."""
        try:
            return self(request, device)
        except CannotAllocate as error:
            return str(error)


class ClaimVerdictCache:
    """Verdicts by ask, the least recently used dropped first."""

    def __init__(self) -> None:
        self._by_ask: dict[tuple[ClaimSpec, ...], ClaimVerdicts] = {}
        self.left_over: dict[tuple[ClaimSpec, ...], None] = {}  # asks that are not judged on every node yet

    def is_judged(self, claims: tuple[ClaimSpec, ...], facts: VerdictFacts) -> bool:
        """Whether every node was judged once for an ask, or can be at little cost; if not, that is left over."""
        if claims in self.left_over:
            return False
        return claims in self._by_ask or self.of(claims, facts, Work(_LITTLE)).is_complete

    def of(self, claims: tuple[ClaimSpec, ...], facts: VerdictFacts, work: Work) -> ClaimVerdicts:
        """The verdicts on one ask, up to date as far as the limit reaches."""
        found = self._by_ask.pop(claims, None) or ClaimVerdicts(claims)
        self._by_ask[claims] = found  # most recently used last
        if len(self._by_ask) > _MAX_ASKS:
            oldest = next(iter(self._by_ask))
            del self._by_ask[oldest]
            self.left_over.pop(oldest, None)
        found.refresh(facts, work)
        if found.is_complete:
            self.left_over.pop(claims, None)
        else:
            self.left_over[claims] = None
        return found

    def clear(self) -> None:
        """Drop everything: classes or rows changed."""
        self._by_ask.clear()
        self.left_over.clear()
