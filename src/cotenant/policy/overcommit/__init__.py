"""What may be lent safely: how much pods will really use."""
