"""The container runtime's plugin interface (NRI): what a plugin is told about containers before they start, and how it
changes them.

Belongs here: the wire (mux, ttrpc, messages), one connection, and the translation of values. Not here: what a container
starts with (engine/node/first_values.py), reconnecting (services/nri).
"""
