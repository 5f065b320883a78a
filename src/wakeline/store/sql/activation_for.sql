SELECT {activation} FROM activations WHERE activation_id = :activation_id AND workspace_id = :workspace_id
