"""List/watch: the objects of one kind as last received, kept up to date whatever the server does.

Belongs here: the list/watch conversation and its state. Not here: the meaning of the objects (drivers/kube/kinds).
"""
