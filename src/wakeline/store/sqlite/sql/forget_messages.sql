-- The newest message of the store stays: SQLite would give its number to the next one, and the search index, which goes
-- by the number, would never see that.
DELETE FROM messages WHERE thread_id = :thread_id AND number < (SELECT max(number) FROM messages)
