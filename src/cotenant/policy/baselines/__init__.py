"""The rivals, each validated against its own paper's example before it is compared."""
