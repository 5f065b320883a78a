-- Takes a whole thread row, of which only the end moved: the seq and the time of the change.  A row has to be used whole.
UPDATE threads SET last_seq = max(last_seq, ?10), updated_at = ?12
WHERE thread_id = ?1 AND closed_at IS ?13 AND role IS ?14
