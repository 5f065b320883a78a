-- The number grows with every message of the whole store, so it is a cursor.
SELECT number, coalesce(subject, ''), body FROM store.messages WHERE number > ? ORDER BY number LIMIT ?
