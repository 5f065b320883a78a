"""The shared store: PostgreSQL behind any number of Wakeline nodes."""
