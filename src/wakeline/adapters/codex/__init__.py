"""Codex: rings its sessions through the app server that Codex itself runs, or through `codex queue`."""
