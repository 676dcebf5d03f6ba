"""Calls to extenders over HTTP: the protocol of kube-scheduler's extenders, as a client.

Belongs here: what goes over the wire, and what of an answer can be believed. Not here: who is asked when.
"""
