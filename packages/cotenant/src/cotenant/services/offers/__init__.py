"""What a node offers beyond its own, and why: one question to the API server, answered with the manager's engine; for
`cotenant explain node` and the console.

Belongs here: the answer and its reading. Not here: the process that writes offers (services/manager).
"""
