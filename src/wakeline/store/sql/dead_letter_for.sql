SELECT {dead_letter} FROM dead_letters WHERE workspace_id = :workspace_id AND dead_letter_id = :dead_letter_id
