"""Wiring a harness to Wakeline: what is written into its configuration, and how it is taken out again."""
