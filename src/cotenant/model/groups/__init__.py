"""What several pods share: gangs, elastic quotas, reservations, with the names users write them with.

Belongs here: values of groups. Not here: how they are judged (policy) or kept (engine/plugins).
"""
