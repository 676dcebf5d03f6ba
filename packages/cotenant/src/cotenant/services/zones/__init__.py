"""Control Zones on a node: their files, back ends, loops and states, the socket at which they are created, and its
client; the link to virtual machines (`vm_*`), and the cluster's objects and metrics for the agent.

Belongs here: carrying out what engine/zones asks for. Not here: which change to make (policy/zone), or kernel
interfaces (drivers).
"""
