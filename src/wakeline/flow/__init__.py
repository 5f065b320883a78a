"""The verbs, in the order of one message: post, ack, sweep, and what surrounds them."""
