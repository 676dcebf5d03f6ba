"""The fleet's bus: NATS by nats-py, and a bus within one process with the same contract, which other processes reach
over loopback by NATS's own protocol.

Belongs here: messages, requests, subjects, stored values with revisions, keys, the server's configuration. Not here:
what is said (model/fleet) and by whom (services/fleet).
"""
