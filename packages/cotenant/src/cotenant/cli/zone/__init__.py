"""`cotenant zone`: Control Zones of this host.

Belongs here: signatures, help and output. Not here: what a zone does (services/zones, engine/zones).
"""
