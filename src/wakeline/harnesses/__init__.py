"""Companions: what sits inside a harness's session, reports of it, and lets the doorbell in."""
