"""`cotenant fleet`: hosts and containers of a fleet, found and commanded by guid over a bus.

Belongs here: flags, help texts, and how hosts, containers and groups are shown. Not here: what agents and controllers
do (services/fleet).
"""
