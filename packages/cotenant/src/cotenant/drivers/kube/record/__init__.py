"""Events for users: which to write, and writing them in the background. Named as in client-go.

Belongs here: correlating and writing Events. Not here: conditions and statuses of objects (services).
"""
