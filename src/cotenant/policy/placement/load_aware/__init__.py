"""Placement by what nodes use now, and by what pods that were just placed are expected to use."""
