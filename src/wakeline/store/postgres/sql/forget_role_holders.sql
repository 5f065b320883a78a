-- Only what the principal holds no more: a statement may not delete and insert the same row.
DELETE FROM role_holders h
USING guard, jsonb_array_elements(:batch -> 'principals') AS items (item)
WHERE h.workspace_id = (item ->> 0)::bigint AND h.handle = item ->> 1
  AND NOT (:batch -> 'role_holders') @> jsonb_build_array(jsonb_build_array(h.role, h.handle))
