"""Control Zones in the keeper: their files, back ends, loops and states, the socket at which they are created, and its client.

Belongs here: carrying out what engine/zones asks for. Not here: which change to make (policy/zone), or kernel interfaces (drivers).
"""
