"""A change that a zone measures, and whether it is kept."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.machine.node_decision import Reason
from cotenant.model.zones.setting import ZoneMode, ZoneSetting
from cotenant.model.zones.state import ZoneChange
from cotenant.model.zones.table import ZoneRow
from cotenant.model.zones.zone_reading import ZoneReading
from cotenant.policy.zone.canary import judge, judge_reclaim
from cotenant.policy.zone.deciding import ZoneConfig
from cotenant.policy.zone.reclaiming import RECLAIM_RULE


@dataclass(slots=True)
class Trial:
    """A change that is being measured. `rows_before`: what to restore; None for a change of setting. `early`: made
    when services had just become late, so the reading before it is of another load. `after`: measured until now.
    """

    change: ZoneChange
    rows_before: tuple[tuple[str, ZoneRow], ...] | None = None
    early: bool = False
    after: ZoneReading | None = None

    def verdict(self, setting: ZoneSetting, config: ZoneConfig, *, returning: bool) -> tuple[bool, Reason]:
        """Whether to keep it, once it was measured. `setting`: in force; `returning`: it proved itself before."""
        before = self.change.before
        if self.early:
            return True, Reason("zone-canary", "kept: services had just become late: nothing to compare it with")
        if setting.mode is ZoneMode.APART and self.rows_before is None:
            # what it costs was asked for: rules that were given up for a gain would keep nothing apart
            return True, Reason("zone-canary", "kept: what its rules keep apart is not weighed against speed")
        if before is None or self.after is None or (self.rows_before is None and returning):
            return True, Reason("zone-canary", "kept: nothing to compare it with")
        kept, reason = judge(before, self.after, config.late_per_s, burn_limit=config.burn)
        if kept and self.change.reason.rule == RECLAIM_RULE:
            return judge_reclaim(before, self.after)
        return kept, reason
