"""`cotenant node experiment`: measures the agent's effect on real cgroups of this machine.

Rooms: site (cgroups, children, disturbance), loads (the measured and the batch programs), measures (histograms,
windows, statistics), studies (one experiment each). Beside them the harness that runs rounds, the registry, the outcome
and its page. Not here: the agent itself (services/agent).
"""
