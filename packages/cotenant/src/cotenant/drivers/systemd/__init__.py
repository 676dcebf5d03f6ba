"""systemd as the owner of groups: properties of its units over D-Bus, so that its own writes are ours.

Belongs here: the calls to its manager, and knobs as properties. Not here: which knobs go this way
(model/kubelet/ruling.py), or units' life cycle.
"""
