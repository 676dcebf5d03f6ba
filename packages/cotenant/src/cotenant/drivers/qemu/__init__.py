"""Virtual machines by QEMU: a packaged kernel, an initial root, processes and the machine's control socket.

Belongs here: what starts, controls and ends a machine. Not here: what runs in it and why
(services/zones/vm_guest_agent.py).
"""
