"""The command line.  Each command parses its arguments, makes one call and renders the answer."""
