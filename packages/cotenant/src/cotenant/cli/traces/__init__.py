"""`cotenant traces`: the receiver of spans, and questions to it.

Belongs here: arguments and what is printed. Not here: the process and its client (services/traces).
"""
