"""Servers of language models: their `/metrics`, read by each server's own names.

Belongs here: the names by server and version, and reading within bounds. Not here: what is new since the last reading,
and what it means for an objective (engine/traces).
"""
