"""For each harness: where its configuration is, and what must stand in it."""
