"""What makes the parts run together: clock, settings, doorbell, listeners, sweeper, bootstrap."""
