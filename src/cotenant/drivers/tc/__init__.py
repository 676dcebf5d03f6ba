"""Traffic classes of the host's uplink, by Linux' traffic control."""
