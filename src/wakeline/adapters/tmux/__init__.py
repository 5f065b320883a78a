"""Keystrokes into a tmux pane: the last resort, for a harness that offers no way in."""
