-- All of them: a thread is known with its members or not at all.
SELECT json_group_array(json_array({member}))
FROM members
WHERE +workspace_id = :workspace_id AND thread_id IN (
  SELECT thread_id FROM wakes INDEXED BY wakes_open
  WHERE subscription_id IN (SELECT value FROM json_each(:plans))
    AND (state = 'waiting' OR state = 'held'))
