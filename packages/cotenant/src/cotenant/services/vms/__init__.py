"""The commands of `cotenant vm`: machines listed, told a verb, and watched until it has come about.

Belongs here: calls of KubeVirt and OpenStack, and their order. Not here: what their documents mean and which verbs fit
(engine/vms), what is printed (cli/applications).
"""
