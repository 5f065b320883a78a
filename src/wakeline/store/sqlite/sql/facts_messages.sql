-- The plus keeps the planner from walking the workspace: the keys are few, their rows are found by them.
-- Without bodies and metadata: no decision reads them.
SELECT json_group_array(json_array(
  message_id, workspace_id, thread_id, seq, log_id, sender, session_id, kind, subject, '', recipients, priority,
  wake_policy, tags, in_reply_to, idempotency_key, expires_at, supersedes, NULL, schema_version, created_at,
  superseded_by, retracted_at, chain, answer_by, awaited))
FROM messages
WHERE +workspace_id = :workspace_id AND message_id IN (SELECT value FROM json_each(:messages))
