# SPDX-License-Identifier: Apache-2.0
# The smallest FastMCP server: one tool. Usage: `server.py stdio` or `server.py PORT` (Streamable HTTP on /mcp).
import sys

from fastmcp import FastMCP

mcp = FastMCP("bench")


@mcp.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if sys.argv[1] == "stdio":
    mcp.run(show_banner=False)
else:
    mcp.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="error")
