"""Events for people: which to write, and writing them beside the work. Named as in client-go.

Belongs here: correlating and writing Events. Not here: conditions and statuses of objects (services).
"""
