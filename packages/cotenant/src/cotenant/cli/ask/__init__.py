"""Commands that ask: why a pod, node or service stands as it does, what a program spends its time on, what was done and
may be undone.

Belongs here: flags, help texts, and how answers are shown. Not here: the answers (services).
"""
