-- Takes a whole message row; its text never changes, only what happened to it afterwards.
UPDATE messages SET superseded_by = ?22, retracted_at = ?23, awaited = ?26 WHERE message_id = ?1
