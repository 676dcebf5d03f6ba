"""What platforms' documents say of a virtual machine, which verbs fit its state, and when a verb is done.

Belongs here: KubeVirt's and Nova's states and fields. Not here: values (model/vms), calls (services/vms).
"""
