-- Everything one batch must know, as one JSON document: one statement sees one moment.
-- What has an id of its own is found by one index scan with an array, everything else is looked up one by one.  The plan
-- may be made while the tables are empty, so it must not depend on guesses: OFFSET 0 keeps the planner from turning
-- lookups around into a scan, "+ 0" says that the id finds the row and the workspace only has to agree (the index of
-- active workflows is by the same expression), and BETWEEN with its ORDER BY asks for an order that only the index by
-- audience has, as ORDER BY does for the threads of roles and for open activations.  A test reads the plans.
-- Messages come without their bodies: no decision reads them.
-- facts.py leaves out what a batch does not ask for: by whole fields, and by the branches of a part, which begin with
-- UNION at its own indentation.
WITH
plan_subscriptions AS MATERIALIZED (
  SELECT * FROM subscriptions
  WHERE subscription_id = ANY (:plans::text[]) AND workspace_id + 0 = :workspace_id
),
plan_wakes AS MATERIALIZED (
  SELECT w.* FROM unnest(:plans::text[]) AS asked (subscription_id)
  CROSS JOIN LATERAL (
    SELECT * FROM wakes
    WHERE subscription_id = asked.subscription_id AND (state = 'waiting' OR state = 'held')
    OFFSET 0) w
  WHERE w.workspace_id = :workspace_id
),
asked_sessions AS MATERIALIZED (
  SELECT * FROM sessions WHERE session_id = ANY (:sessions::text[]) AND workspace_id + 0 = :workspace_id
  UNION SELECT s.*
    FROM (SELECT unnest(:sessions_of::text[] || :bridges_of::text[]) AS handle
      UNION SELECT handle FROM plan_subscriptions) AS asked
    CROSS JOIN LATERAL (
      SELECT * FROM sessions WHERE workspace_id = :workspace_id AND handle = asked.handle OFFSET 0) s
    WHERE s.ended_at IS NULL
),
asked_deliveries AS MATERIALIZED (
  SELECT * FROM deliveries WHERE delivery_id = ANY (:deliveries::text[]) AND workspace_id + 0 = :workspace_id
  UNION SELECT d.*
    FROM unnest(:plans::text[] || :subscriptions::text[]) AS asked (subscription_id)
    CROSS JOIN LATERAL (
      SELECT * FROM deliveries WHERE subscription_id = asked.subscription_id AND outcome IS NULL OFFSET 0) d
    WHERE d.workspace_id = :workspace_id
  UNION SELECT d.*
    FROM plan_wakes w
    CROSS JOIN LATERAL (SELECT * FROM deliveries WHERE delivery_id = w.delivery_id OFFSET 0) d
    WHERE w.delivery_id IS NOT NULL AND d.outcome = 'failed' AND d.target <> 'bridge-daemon'
  UNION SELECT d.*
    FROM plan_subscriptions k
    JOIN asked_sessions s ON s.handle = k.handle
    CROSS JOIN LATERAL (
      SELECT * FROM deliveries
      WHERE session_id = s.session_id AND outcome IS NULL AND session_id IS NOT NULL OFFSET 0) d
),
asked_subscriptions AS MATERIALIZED (
  SELECT * FROM plan_subscriptions
  UNION SELECT * FROM subscriptions
    WHERE subscription_id = ANY (:subscriptions::text[] || ARRAY(SELECT subscription_id FROM asked_deliveries))
      AND workspace_id + 0 = :workspace_id
  UNION SELECT k.*
    FROM unnest(:subscriptions_of::text[]) AS asked (handle)
    CROSS JOIN LATERAL (
      SELECT * FROM subscriptions WHERE workspace_id = :workspace_id AND handle = asked.handle OFFSET 0) k
    WHERE k.status <> 'retired'
),
asked_wakes AS MATERIALIZED (
  SELECT * FROM plan_wakes
  UNION SELECT w.*
    FROM unnest(:deliveries::text[]) AS asked (delivery_id)
    CROSS JOIN LATERAL (
      SELECT * FROM wakes WHERE delivery_id = asked.delivery_id AND delivery_id IS NOT NULL OFFSET 0) w
    WHERE w.workspace_id = :workspace_id
  UNION SELECT w.*
    FROM asked_deliveries d
    CROSS JOIN LATERAL (
      SELECT * FROM wakes WHERE delivery_id = d.delivery_id AND delivery_id IS NOT NULL OFFSET 0) w
    WHERE d.outcome IS NULL AND d.target = 'bridge-daemon' AND d.subscription_id = ANY (:plans::text[])
  UNION SELECT w.*
    FROM jsonb_array_elements(:wakes::jsonb) AS wanted (place)
    CROSS JOIN LATERAL (
      SELECT * FROM wakes
      WHERE subscription_id = place ->> 0 AND log_id = (place ->> 1)::bigint OFFSET 0) w
    WHERE w.workspace_id = :workspace_id
),
asked_messages AS MATERIALIZED (
  SELECT * FROM messages
  WHERE workspace_id + 0 = :workspace_id AND message_id = ANY (ARRAY(
    SELECT unnest(:messages::text[] || :receipts_of::text[])
    UNION SELECT pair ->> 0 FROM jsonb_array_elements(:receipts::jsonb) AS pairs (pair)))
),
changing_roles AS MATERIALIZED (
  SELECT pair ->> 1 AS role FROM jsonb_array_elements(:role_threads_of::jsonb) AS pairs (pair)
  UNION SELECT unnest(string_to_array(p.roles, ' '))
    FROM jsonb_array_elements(:role_threads_of::jsonb) AS pairs (pair)
    CROSS JOIN LATERAL (
      SELECT roles FROM principals WHERE workspace_id = :workspace_id AND handle = pair ->> 0 OFFSET 0) p
),
asked_threads AS MATERIALIZED (
  SELECT unnest(:threads::text[]) AS thread_id
  UNION SELECT thread_id FROM plan_wakes WHERE thread_id IS NOT NULL
  UNION SELECT thread_id FROM asked_messages
  UNION SELECT t.thread_id
    FROM unnest(:audience_keys::text[]) AS k (audience_key)
    CROSS JOIN LATERAL (
      SELECT thread_id FROM threads
      WHERE workspace_id = :workspace_id AND audience_key BETWEEN k.audience_key AND k.audience_key
      ORDER BY audience_key
      LIMIT 1) t
  UNION SELECT t.thread_id
    FROM threads t
    WHERE cardinality(:workflows_of::text[]) > 0
      AND t.workspace_id + 0 = :workspace_id AND t.type = 'workflow' AND t.status = 'active'
      AND (SELECT true FROM members m
        WHERE m.thread_id = t.thread_id AND m.handle = ANY (:workflows_of::text[]) AND m.left_at IS NULL
        LIMIT 1)
  UNION SELECT t.thread_id
    FROM changing_roles c
    CROSS JOIN LATERAL (
      SELECT thread_id FROM threads
      WHERE workspace_id + 0 = :workspace_id AND role BETWEEN c.role AND c.role AND role IS NOT NULL
      ORDER BY role
      OFFSET 0) t
),
asked_holders AS MATERIALIZED (
  SELECT h.role, h.handle FROM unnest(:roles::text[]) AS asked (role)
  CROSS JOIN LATERAL (
    SELECT role, handle FROM role_holders WHERE workspace_id = :workspace_id AND role = asked.role OFFSET 0) h
),
asked_handles AS MATERIALIZED (
  SELECT unnest(:handles::text[]) AS handle
  UNION SELECT handle FROM plan_subscriptions
  UNION SELECT handle FROM asked_holders
  UNION SELECT handle FROM principals WHERE workspace_id = :workspace_id AND :everyone::boolean
),
asked_receipts AS MATERIALIZED (
  SELECT r.*
    FROM jsonb_array_elements(:receipts::jsonb) AS pairs (pair)
    CROSS JOIN LATERAL (
      SELECT m.thread_id, m.seq, r.* FROM messages m
      CROSS JOIN LATERAL (
        SELECT * FROM receipts
        WHERE log_id = m.log_id AND workspace_id = :workspace_id AND recipient = pair ->> 1
        OFFSET 0) r
      WHERE m.message_id = pair ->> 0 AND m.workspace_id + 0 = :workspace_id
      OFFSET 0) r
  UNION SELECT m.thread_id, m.seq, r.*
    FROM asked_messages m
    CROSS JOIN LATERAL (
      SELECT * FROM receipts WHERE log_id = m.log_id AND workspace_id = :workspace_id OFFSET 0) r
    WHERE m.message_id = ANY (:receipts_of::text[])
  UNION SELECT r.*
    FROM jsonb_array_elements(:unread_until::jsonb) AS stretches (stretch)
    CROSS JOIN LATERAL (
      SELECT m.thread_id, m.seq, r.* FROM members k
      CROSS JOIN LATERAL (
        SELECT thread_id, seq, log_id FROM messages
        WHERE thread_id = k.thread_id AND seq > k.last_read_seq AND seq <= (stretch ->> 2)::bigint
        OFFSET 0) m
      CROSS JOIN LATERAL (
        SELECT * FROM receipts
        WHERE log_id = m.log_id AND workspace_id = :workspace_id AND recipient = k.handle
        OFFSET 0) r
      WHERE k.thread_id = stretch ->> 0 AND k.handle = stretch ->> 1 AND r.read_at IS NULL
      OFFSET 0) r
  UNION SELECT w.thread_id, w.seq, r.*
    FROM asked_wakes w
    CROSS JOIN LATERAL (
      SELECT * FROM receipts
      WHERE log_id = w.log_id AND workspace_id = :workspace_id AND recipient = w.handle
      OFFSET 0) r
  UNION SELECT r.*
    FROM jsonb_array_elements(:unread_until::jsonb) AS stretches (stretch)
    CROSS JOIN LATERAL (
      SELECT m.thread_id, m.seq, r.* FROM glimpses g
      CROSS JOIN LATERAL (
        SELECT thread_id, seq, log_id FROM messages WHERE thread_id = g.thread_id AND seq = g.last_seq OFFSET 0) m
      CROSS JOIN LATERAL (
        SELECT * FROM receipts
        WHERE log_id = m.log_id AND workspace_id = :workspace_id AND recipient = g.handle
        OFFSET 0) r
      WHERE g.thread_id = stretch ->> 0 AND g.handle = stretch ->> 1 AND g.last_seq <= (stretch ->> 2)::bigint
        AND g.workspace_id = :workspace_id AND r.read_at IS NULL
      OFFSET 0) r
)
SELECT json_build_object(
  'now', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
  'workspace', json_build_array({workspace w}),
  'principals', (SELECT coalesce(json_agg(json_build_array({principal p})), '[]') FROM asked_handles AS asked
    CROSS JOIN LATERAL (
      SELECT * FROM principals WHERE workspace_id = :workspace_id AND handle = asked.handle OFFSET 0) p),
  'role_holders', (SELECT coalesce(json_agg(json_build_array(role, handle)), '[]') FROM asked_holders),
  'threads', (SELECT coalesce(json_agg(json_build_array({thread})), '[]') FROM threads
    WHERE thread_id = ANY (ARRAY(SELECT thread_id FROM asked_threads)) AND workspace_id + 0 = :workspace_id),
  'members', (SELECT coalesce(json_agg(json_build_array({member})), '[]') FROM members
    WHERE thread_id = ANY (ARRAY(SELECT thread_id FROM asked_threads)) AND workspace_id + 0 = :workspace_id),
  'guests', (SELECT coalesce(json_agg(asked), '[]') FROM jsonb_array_elements(:guests::jsonb) AS pairs (asked)
    WHERE (SELECT true FROM glimpses g
      WHERE g.thread_id = asked ->> 0 AND g.handle = asked ->> 1 AND g.workspace_id = :workspace_id
      LIMIT 1)),
  'messages', (SELECT coalesce(json_agg(json_build_array({message m})), '[]')
    FROM (SELECT message_id, workspace_id, thread_id, seq, log_id, sender, session_id, kind, subject, '' AS body,
      recipients, priority, wake_policy, tags, in_reply_to, idempotency_key, expires_at, supersedes, NULL AS metadata,
      schema_version, created_at, superseded_by, retracted_at, chain, answer_by, awaited FROM asked_messages) m),
  'receipts', (SELECT coalesce(json_agg(json_build_array({receipt r of r})), '[]') FROM asked_receipts r),
  'idempotency', (SELECT coalesce(json_agg(json_build_array({idempotency i})), '[]')
    FROM jsonb_array_elements(:idempotency::jsonb) AS uses (used)
    CROSS JOIN LATERAL (
      SELECT * FROM idempotency
      WHERE workspace_id = :workspace_id AND sender = used ->> 0 AND operation = used ->> 1 AND key = used ->> 2
      OFFSET 0) i),
  'grants', (SELECT coalesce(json_agg(json_build_array({grant found})), '[]') FROM unnest(:senders::text[]) AS asked (sender)
    CROSS JOIN LATERAL (
      SELECT * FROM grants WHERE workspace_id = :workspace_id AND grantee = asked.sender OFFSET 0) found),
  'blocks', (SELECT coalesce(json_agg(json_build_array({block found})), '[]') FROM unnest(:senders::text[]) AS asked (sender)
    CROSS JOIN LATERAL (
      SELECT * FROM blocks WHERE workspace_id = :workspace_id AND blocked = asked.sender OFFSET 0) found),
  'buckets', (SELECT coalesce(json_agg(json_build_array({bucket found})), '[]')
    FROM (SELECT unnest(:senders::text[]) AS sender UNION SELECT 'wake:' || handle FROM plan_subscriptions) AS asked
    CROSS JOIN LATERAL (
      SELECT * FROM buckets WHERE workspace_id = :workspace_id AND sender = asked.sender OFFSET 0) found),
  'tokens', (SELECT coalesce(json_agg(json_build_array({token})), '[]') FROM tokens WHERE jti = ANY (:tokens::text[])),
  'dead_letters', (SELECT coalesce(json_agg(json_build_array({dead_letter})), '[]') FROM dead_letters
    WHERE dead_letter_id = ANY (:dead_letters::text[]) AND workspace_id + 0 = :workspace_id),
  'causes', (SELECT coalesce(json_agg(json_build_array({cause found})), '[]') FROM unnest(:senders::text[]) AS asked (sender)
    CROSS JOIN LATERAL (
      SELECT * FROM causes WHERE workspace_id = :workspace_id AND handle = asked.sender OFFSET 0) found),
  'sessions', (SELECT coalesce(json_agg(json_build_array({session})), '[]') FROM asked_sessions),
  'subscriptions', (SELECT coalesce(json_agg(json_build_array({subscription})), '[]') FROM asked_subscriptions),
  'wakes', (SELECT coalesce(json_agg(json_build_array({wake})), '[]') FROM asked_wakes),
  'deliveries', (SELECT coalesce(json_agg(json_build_array({delivery})), '[]') FROM asked_deliveries),
  'cursors', (SELECT coalesce(json_agg(json_build_array({cursor found})), '[]')
    FROM jsonb_array_elements(:cursors::jsonb) AS wanted (place)
    CROSS JOIN LATERAL (
      SELECT * FROM cursors
      WHERE workspace_id = :workspace_id AND consumer_id = place ->> 0 AND stream_name = place ->> 1
        AND subject_id = place ->> 2
      OFFSET 0) found),
  'consumers', (SELECT coalesce(json_agg(json_build_array({consumer found})), '[]')
    FROM unnest(:consumers::text[]) AS asked (name)
    CROSS JOIN LATERAL (
      SELECT * FROM consumers WHERE workspace_id = :workspace_id AND name = asked.name OFFSET 0) found),
  'bridges', (SELECT coalesce(json_agg(json_build_array({bridge found})), '[]')
    FROM (SELECT unnest(:bridges::text[]) AS host
      UNION SELECT s.host FROM asked_sessions s JOIN plan_subscriptions k ON k.handle = s.handle
      UNION SELECT host FROM asked_sessions WHERE handle = ANY (:bridges_of::text[])) AS asked
    CROSS JOIN LATERAL (
      SELECT * FROM bridges WHERE workspace_id = :workspace_id AND host = asked.host OFFSET 0) found),
  'proofs', (SELECT coalesce(json_agg(json_build_array({proof found})), '[]')
    FROM unnest(:proofs::text[]) AS asked (route)
    CROSS JOIN LATERAL (
      SELECT * FROM proofs WHERE workspace_id = :workspace_id AND route = asked.route OFFSET 0) found),
  'activations', (SELECT coalesce(json_agg(json_build_array({activation found})), '[]') FROM (
    SELECT * FROM activations WHERE activation_id = ANY (:activations::text[]) AND workspace_id + 0 = :workspace_id
    UNION SELECT * FROM (
      SELECT * FROM activations
      WHERE workspace_id + 0 = :workspace_id AND result IS NULL AND cardinality(:mandates::text[]) > 0
      ORDER BY created_at OFFSET 0) AS open) AS found),
  'mandates', (SELECT coalesce(json_agg(json_build_array({mandate found})), '[]')
    FROM unnest(:mandates::text[]) AS asked (handle)
    CROSS JOIN LATERAL (
      SELECT * FROM mandates WHERE workspace_id = :workspace_id AND handle = asked.handle OFFSET 0) found),
  'dormancies', (SELECT coalesce(json_agg(json_build_array({dormancy found})), '[]')
    FROM unnest(:mandates::text[]) AS asked (handle)
    CROSS JOIN LATERAL (
      SELECT * FROM dormancies WHERE workspace_id = :workspace_id AND handle = asked.handle OFFSET 0) found),
  'waits', (SELECT coalesce(json_agg(json_build_array({wait found})), '[]') FROM waits found
    WHERE found.workspace_id = :workspace_id AND :waits::boolean
      AND (SELECT true FROM messages m
        WHERE m.in_reply_to = found.message_id AND m.sender <> found.asker LIMIT 1) IS NULL)
)
FROM workspaces w WHERE w.workspace_id = :workspace_id
