"""The companion of Claude Code: a plugin whose MCP server also speaks for the session to the bridge."""
