"""Traffic classes of the host's uplink, through Linux' traffic control."""
