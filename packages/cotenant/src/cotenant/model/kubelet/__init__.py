"""What a kubelet, its runtime and systemd own on a node: the names of their groups, and for each knob who else writes
it.

Belongs here: facts about other writers as data, and what follows from them for a hold of ours. Not here: reading any of
it from a machine (drivers/kubelet, drivers/systemd), or writing (services/keeper).
"""
