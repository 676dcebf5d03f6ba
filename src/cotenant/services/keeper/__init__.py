"""The keeper: the process that may turn knobs, holds their leases, and puts everything back."""
