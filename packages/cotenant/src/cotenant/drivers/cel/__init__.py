"""Expressions in CEL that select devices.

Belongs here: the language as Kubernetes has it for devices. Not here: what the result decides.
"""
