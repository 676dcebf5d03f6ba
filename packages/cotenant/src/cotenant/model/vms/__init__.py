"""Virtual machines that others run: what is known of one, what can be asked for, and what came of it.

Belongs here: values that KubeVirt's and OpenStack's machines share. Not here: how either says it (engine/vms), calls
(services/vms). Machines of Control Zones are ours, and elsewhere (services/zones).
"""
