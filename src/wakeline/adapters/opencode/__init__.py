"""opencode behind its own server: sessions are found, prompted through its API and followed by its events."""
