"""The MCP face: one table of tools, over stdio and over Streamable HTTP, in both eras of the protocol."""
