"""A small MCP server that speaks revision 2026-07-28 without a handshake, for testing the clients here."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("stateless")


@server.tool()
def echo(message: str) -> str:
    """Returns the message."""
    return f"Echo: {message}"


if __name__ == "__main__":
    server.run("stdio")
