-- Everything one batch must know, as one JSON document in one step: a step gives up and takes back the interpreter's
-- lock once, so a row at a time would cost one round of waiting per row while the event loop is busy.
-- Put together as text, because a subquery's result forgets that it is JSON.
-- Messages come without their bodies: no decision reads them.
WITH
asked_messages AS MATERIALIZED (
  SELECT * FROM messages
  WHERE workspace_id = :workspace_id AND message_id IN (
    SELECT value FROM json_each(:needs, '$.messages')
    UNION SELECT value FROM json_each(:needs, '$.receipts_of')
    UNION SELECT value ->> 0 FROM json_each(:needs, '$.receipts'))
),
asked_threads AS MATERIALIZED (
  SELECT value AS thread_id FROM json_each(:needs, '$.threads')
  UNION SELECT thread_id FROM asked_messages
  UNION SELECT t.thread_id FROM json_each(:needs, '$.audience_keys') k
    JOIN threads t ON t.workspace_id = :workspace_id AND t.audience_key = k.value
  UNION SELECT t.thread_id FROM json_each(:needs, '$.workflows_of') h
    JOIN members m ON m.workspace_id = :workspace_id AND m.handle = h.value AND m.left_at IS NULL
    JOIN threads t ON t.thread_id = m.thread_id AND t.type = 'workflow' AND t.status = 'active'
),
asked_holders AS MATERIALIZED (
  SELECT r.role, r.handle FROM json_each(:needs, '$.roles') a
  JOIN role_holders r ON r.workspace_id = :workspace_id AND r.role = a.value
),
asked_handles AS MATERIALIZED (
  SELECT value AS handle FROM json_each(:needs, '$.handles')
  UNION SELECT handle FROM asked_holders
  UNION SELECT handle FROM principals WHERE workspace_id = :workspace_id AND :needs ->> 'everyone'
),
asked_receipts AS MATERIALIZED (
  SELECT r.* FROM json_each(:needs, '$.receipts') a
    JOIN asked_messages m ON m.message_id = a.value ->> 0
    JOIN receipts r ON r.thread_id = m.thread_id AND r.seq = m.seq AND r.recipient = a.value ->> 1
  UNION SELECT r.* FROM json_each(:needs, '$.receipts_of') a
    JOIN asked_messages m ON m.message_id = a.value
    JOIN receipts r ON r.thread_id = m.thread_id AND r.seq = m.seq
  UNION SELECT r.* FROM json_each(:needs, '$.unread_until') a
    JOIN members k ON k.thread_id = a.value ->> 0 AND k.handle = a.value ->> 1
    JOIN receipts r ON r.thread_id = k.thread_id AND r.seq > k.last_read_seq AND r.seq <= a.value ->> 2
      AND r.recipient = k.handle AND r.read_at IS NULL
)
SELECT
  '{"now":' || :now
  || ',"workspace":' || (SELECT json_array({workspace}) FROM workspaces WHERE workspace_id = :workspace_id)
  || ',"principals":' || (SELECT json_group_array(json_array({principal p})) FROM asked_handles a
    JOIN principals p ON p.workspace_id = :workspace_id AND p.handle = a.handle)
  || ',"role_holders":' || (SELECT json_group_array(json_array(role, handle)) FROM asked_holders)
  || ',"threads":' || (SELECT json_group_array(json_array({thread t})) FROM asked_threads a
    JOIN threads t ON t.thread_id = a.thread_id AND t.workspace_id = :workspace_id)
  || ',"members":' || (SELECT json_group_array(json_array({member m})) FROM asked_threads a
    JOIN members m ON m.thread_id = a.thread_id AND m.workspace_id = :workspace_id)
  || ',"messages":' || (SELECT json_group_array(json_array({message m}))
    FROM (SELECT message_id, workspace_id, thread_id, seq, log_id, sender, session_id, kind, subject, '' AS body,
      recipients, priority, wake_policy, tags, in_reply_to, idempotency_key, expires_at, supersedes, NULL AS metadata,
      schema_version, created_at, superseded_by, retracted_at FROM asked_messages) m)
  || ',"receipts":' || (SELECT json_group_array(json_array({receipt})) FROM asked_receipts)
  || ',"idempotency":' || (SELECT json_group_array(json_array({idempotency i})) FROM json_each(:needs, '$.idempotency') a
    JOIN idempotency i ON i.workspace_id = :workspace_id AND i.sender = a.value ->> 0
      AND i.operation = a.value ->> 1 AND i.key = a.value ->> 2)
  || ',"grants":' || (SELECT json_group_array(json_array({grant g})) FROM json_each(:needs, '$.senders') a
    JOIN grants g ON g.workspace_id = :workspace_id AND g.grantee = a.value)
  || ',"blocks":' || (SELECT json_group_array(json_array({block b})) FROM json_each(:needs, '$.senders') a
    JOIN blocks b ON b.workspace_id = :workspace_id AND b.blocked = a.value)
  || ',"buckets":' || (SELECT json_group_array(json_array({bucket b})) FROM json_each(:needs, '$.senders') a
    JOIN buckets b ON b.workspace_id = :workspace_id AND b.sender = a.value)
  || ',"tokens":' || (SELECT json_group_array(json_array({token t})) FROM json_each(:needs, '$.tokens') a
    JOIN tokens t ON t.jti = a.value)
  || ',"dead_letters":' || (SELECT json_group_array(json_array({dead_letter d})) FROM json_each(:needs, '$.dead_letters') a
    JOIN dead_letters d ON d.dead_letter_id = a.value AND d.workspace_id = :workspace_id)
  || '}'
