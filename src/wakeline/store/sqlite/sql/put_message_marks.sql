-- Takes a whole message row; its text never changes, only what happened to it afterwards.  What it came from stays too,
-- and stands here because every value that is given must be named.
UPDATE messages SET superseded_by = ?22, retracted_at = ?23, chain = coalesce(chain, ?24) WHERE message_id = ?1
