"""Docker's Engine API over its Unix socket, of dockerd or podman.

Belongs here: requests, errors, and containers as values. Not here: which containers are to run (engine/fleet,
services/fleet).
"""
