"""Terminals into containers of this host: sessions and their records.

Belongs here: what an agent does for them. Not here: Docker's exec (drivers/docker), who may (the controller).
"""
