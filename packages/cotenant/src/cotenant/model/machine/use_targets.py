"""How much of a node's CPU is meant to be used.

An agent gives best-effort work what is left of its node up to a share, and a rebalancer that calls the same share too
much moves pods for ever. One figure for both; what is too much begins a band above what is meant.
Limits: the defaults only; who sets the agent's share by a NodeSLO sets the rebalancer's thresholds too.
"""

from __future__ import annotations

BEST_EFFORT_TARGET_PERCENT = 65  # best-effort work is suppressed above it: Koordinator's cpuSuppressThresholdPercent
OVERLOAD_BAND_PERCENT = 10  # a node is overloaded from so much above the target on
