"""An operator's own command, for whatever no adapter knows."""
