-- Takes a whole thread row, of which only the end moved: the seq, the time of the change, and what the guards count.  A
-- row has to be used whole.
UPDATE threads SET
  last_seq = max(last_seq, ?10), updated_at = ?12, turns = ?15, repeats = ?16, last_sender = ?17, last_digest = ?18,
  flips = ?19, changed_by = ?20, changed_from = ?21
WHERE thread_id = ?1 AND closed_at IS ?13 AND role IS ?14
