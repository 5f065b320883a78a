-- Takes a whole thread row, of which only the end moved: the seq, the time of the change, and what the guards count.
UPDATE threads SET
  last_seq = max(last_seq, ?10), updated_at = ?12, turns = ?14, repeats = ?15, last_sender = ?16, last_digest = ?17,
  flips = ?18, changed_by = ?19, changed_from = ?20
WHERE thread_id = ?1 AND closed_at IS ?13
