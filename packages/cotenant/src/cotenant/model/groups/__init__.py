"""What several pods share: gangs, elastic quotas, reservations, and the labels and annotations that users write for
them.

Belongs here: values of groups. Not here: decisions about them (policy) or their state over time (engine/plugins).
"""
