-- Only what the principals hold no more: a statement may not delete and insert the same row.
DELETE FROM role_holders h
USING guard
WHERE h.workspace_id = (:batch ->> 'workspace_id')::bigint
  AND h.handle = ANY (ARRAY(SELECT item ->> 1 FROM jsonb_array_elements(:batch -> 'principals') AS items (item)))
  AND NOT (:batch -> 'role_holders') @> jsonb_build_array(jsonb_build_array(h.role, h.handle))
