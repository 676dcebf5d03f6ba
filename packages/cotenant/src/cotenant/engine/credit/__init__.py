"""Accounts of credit over time: facts in, journal entries out, each booked once.

Belongs here: balances and which facts were booked. Not here: prices and decay (policy/credit), storage
(drivers/journal), what reads a cluster (services/credit).
"""
