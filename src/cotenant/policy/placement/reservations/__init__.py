"""Who may draw from a reservation, how much, from which of several, and what becomes of it."""
