"""Report what the MCP tools cost every agent in tokens, and fail when it is too much.

The count is an estimate on the safe side (`wakeline.faces.mcp.schemas.count_tokens`) of all that a client is told of
the tools: names, texts, schemas, and the server's introduction.
"""

import sys

from wakeline.faces.mcp import schemas

LIMIT = 2_000


def main() -> int:
    costs = schemas.cost()
    total = sum(costs.values())
    for name, cost in sorted(costs.items(), key=lambda item: -item[1]):
        print(f"  {cost:>5}  {name}")
    print(f"MCP tools: {total} of {LIMIT} tokens")
    return 0 if total <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
