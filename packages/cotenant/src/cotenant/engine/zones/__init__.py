"""Control Zones over time: states, canaries with roll-back, dwell, bans after ejections, and the ladder of back ends.

Belongs here: what one zone's events lead to, as instructions. Not here: single decisions (policy/zone), kernel
interfaces (drivers), processes (services).
"""
