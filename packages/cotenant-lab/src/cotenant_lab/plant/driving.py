"""Runs the agent's engine on the plant, as its process does on a real node, in virtual time.

Plant and engine each have a clock. In each period of the agent services report, watched knobs are read, a sample is
taken, instructions go to the keeper and its answers back; PSI triggers are checked in every step of the plant and go to
the engine at once.
Limits: reading, deciding and writing take no time; discovery answers once, at the start, and when `show` is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cotenant.engine.node.agent import Agent
from cotenant.engine.node.instructions import Instructions
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.machine.knob import Knob, KnobTarget, Vanished
from cotenant.model.machine.node_pod import NodePod
from cotenant_lab.plant.keeping import PlantKeeper
from cotenant_lab.plant.loads import PPM, PlantService
from cotenant_lab.plant.machine import Plant
from cotenant_lab.plant.recording import EngineRecorder


@dataclass(slots=True)
class StallTrigger:
    """A PSI trigger on CPU: fires when `stall_us` are lost within `window_us`, once per window.

    Source: Linux, Documentation/accounting/psi.rst.
    """

    group: str
    stall_us: int = 150_000
    window_us: int = 1_000_000
    began_us: int = 0
    at_begin_us: int = 0
    fired: bool = False

    def raised(self, now_us: int, stalled_us: int) -> bool:
        """Whether it fires now."""
        if now_us - self.began_us >= self.window_us:
            self.began_us, self.at_begin_us, self.fired = now_us, stalled_us, False
        if self.fired or stalled_us - self.at_begin_us < self.stall_us:
            return False
        self.fired = True
        return True


@dataclass(slots=True)
class Drive:
    """One run. `services`: the `PlantService` that runs in each pod, by pod key."""

    plant: Plant
    settings: AgentSettings
    pods: tuple[NodePod, ...]
    services: dict[str, PlantService] = field(default_factory=dict)
    triggers: Sequence[StallTrigger] = ()
    issued: list[tuple[int, Instructions]] = field(default_factory=list)  # non-empty ones
    engine: EngineRecorder = field(init=False)
    keeper: PlantKeeper = field(init=False)

    def __post_init__(self) -> None:
        self.engine = EngineRecorder(Agent(self.settings, "plant"))
        self.keeper = PlantKeeper(self.plant.knobs, lambda: self.plant.now_us)
        self.engine.machine_seen(frozenset(knob for knob in Knob if self.plant.knobs.supported(knob) is None))
        self.engine.found(self.keeper.leases(), self.plant.now_us)
        self.show(self.pods)

    def show(self, pods: Sequence[NodePod]) -> None:
        """Report these pods, as discovery does."""
        self.pods = tuple(pods)
        self.engine.pods_seen(self.pods, self.plant.now_us)

    def run(self, until_us: int) -> None:
        """Run until `until_us`, tick by tick."""
        while self.plant.now_us < until_us:
            self._wait(min(until_us, self.plant.now_us + self.settings.period_us))
            self._tick()

    def stop(self) -> None:
        """Stop cleanly: all knobs are restored."""
        self._carry_out(self.engine.stopping(self.plant.now_us))

    def _wait(self, until_us: int) -> None:
        if not self.triggers:
            self.plant.advance(until_us)
        while self.plant.now_us < until_us:
            self.plant.advance(self.plant.now_us + self.plant.step_us)
            now = self.plant.now_us
            for trigger in self.triggers:
                if trigger.raised(now, self.plant.stalled_us(trigger.group)):
                    min_ppm = trigger.stall_us * PPM // trigger.window_us
                    self._carry_out(self.engine.pressed(now, trigger.group, "cpu", min_ppm))

    def _tick(self) -> None:
        now = self.plant.now_us
        self.keeper.tick()
        for pod, service in self.services.items():
            health = service.health(now, self.settings.period_us)
            if health is not None:
                self.engine.health_reported(pod, health, now)
        knobs: dict[KnobTarget, str] = {}
        for target in self.engine.knobs_to_read():
            try:
                knobs[target] = self.plant.knobs.read(target)
            except Vanished:
                continue
        sample = self.plant.sample(self.engine.groups())
        self._carry_out(self.engine.sampled(sample, knobs, self.plant.topology()))

    def _carry_out(self, instructions: Instructions) -> None:
        if not instructions:
            return
        now = self.plant.now_us
        self.issued.append((now, instructions))
        answers = (*self.keeper.give_back(instructions.give_back), *self.keeper.hold(instructions.hold))
        self.engine.answered(answers, now)
        for pod in instructions.evict:
            self.engine.evicted(pod.uid, False, "the plant does not evict pods", now)
