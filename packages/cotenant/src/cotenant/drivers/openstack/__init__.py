"""OpenStack's compute API, by openstacksdk.

Belongs here: requests, pages, refusals. Not here: what a server's fields mean (engine/vms).
"""
