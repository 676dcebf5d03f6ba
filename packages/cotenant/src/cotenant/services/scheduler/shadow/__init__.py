"""`cotenant scheduler --shadow`: a process that decides beside another scheduler, and only reads.

Belongs here: the process around the shadow engine, its metrics, its page. Not here: what it judges and how it compares
(engine/shadow).
"""
