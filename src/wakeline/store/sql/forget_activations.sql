DELETE FROM activations WHERE settled_at < :before
