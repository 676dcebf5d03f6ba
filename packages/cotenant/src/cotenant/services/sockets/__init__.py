"""Unix sockets that only authorised users can reach.

Belongs here: making one, and who may connect. Not here: protocols on them (services/keeper, services/zones).
"""
