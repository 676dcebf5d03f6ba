"""Several schedulers of one cluster that all act: what each may decide at a moment, and how that changes hands.

Belongs here: the state machine of one member, and what follows for its engine. Not here: the object on which they
agree (model/shards), and the requests (services/scheduler/shards).
"""
