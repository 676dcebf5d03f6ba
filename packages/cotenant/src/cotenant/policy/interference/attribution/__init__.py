"""Attribution of a service's trouble to a co-located pod, to the service itself, or to nothing that is known, with a
confidence for each candidate.

Belongs here: samples of the node, detection of trouble, evidence per signal, the combined answer. Not here: what is
done about it (engine/node/recovery), or the published search with its fixed cap (`interference/antagonist.py`).
"""
