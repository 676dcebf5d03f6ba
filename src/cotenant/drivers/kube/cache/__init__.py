"""List/watch: the objects of one kind as last heard of, kept up to date whatever the server does.

Belongs here: conversations and their state. Not here: what the objects mean (drivers/kube/kinds).
"""
