/* SPDX-License-Identifier: Apache-2.0 */
/* The clients whose configuration `caisson connect` writes.
 * C(name, title, base, variable, folder, file, other file, servers, format, type key, stdio type, http type, url key, before, after)
 *   base        HOME or CONFIG ($XDG_CONFIG_HOME): where folder and file are
 *   variable    names the folder of the file instead; NULL: none
 *   folder      if it exists, the client is on this machine
 *   other file  is written instead if it exists; NULL: none
 *   servers     the key of all servers; a table of TOML
 *   type key    holds stdio type or http type; NULL: an entry has no type
 *   url key     NULL: the client takes no server by URL
 *   before, after  what stands around the name of a variable that the client puts into a header;
 *               NULL: it takes none. TOML has a key for the variable's name.
 * Sources: docs/clients.md and the documentation of each client. */
/* clang-format off */
C("claude-code", "Claude Code", HOME, "CLAUDE_CONFIG_DIR", ".claude", ".claude.json", NULL, "mcpServers", JSON, "type", "stdio", "http", "url", "${", "}")
C("claude-desktop", "Claude Desktop", CONFIG, NULL, "Claude", "Claude/claude_desktop_config.json", NULL, "mcpServers", JSON, NULL, NULL, NULL, NULL, NULL, NULL)
C("cursor", "Cursor", HOME, NULL, ".cursor", ".cursor/mcp.json", NULL, "mcpServers", JSON, "type", "stdio", "http", "url", "${env:", "}")
C("vscode", "VS Code", CONFIG, NULL, "Code", "Code/User/mcp.json", NULL, "servers", JSON, "type", "stdio", "http", "url", "${env:", "}")
C("vscode-insiders", "VS Code Insiders", CONFIG, NULL, "Code - Insiders", "Code - Insiders/User/mcp.json", NULL, "servers", JSON, "type", "stdio", "http", "url", "${env:", "}")
C("windsurf", "Windsurf", HOME, NULL, ".codeium/windsurf", ".codeium/windsurf/mcp_config.json", NULL, "mcpServers", JSON, NULL, NULL, NULL, "serverUrl", "${env:", "}")
C("zed", "Zed", CONFIG, NULL, "zed", "zed/settings.json", NULL, "context_servers", JSON, "source", "custom", "custom", "url", NULL, NULL)
C("gemini", "Gemini CLI", HOME, NULL, ".gemini", ".gemini/settings.json", NULL, "mcpServers", JSON, NULL, NULL, NULL, "httpUrl", "${", "}")
C("codex", "Codex", HOME, "CODEX_HOME", ".codex", ".codex/config.toml", NULL, "mcp_servers", TOML, NULL, NULL, NULL, "url", "", "")
C("opencode", "opencode", CONFIG, NULL, "opencode", "opencode/opencode.json", "opencode/opencode.jsonc", "mcp", JSON_LIST, "type", "local", "remote", "url", "{env:", "}")
C("lmstudio", "LM Studio", HOME, NULL, ".lmstudio", ".lmstudio/mcp.json", NULL, "mcpServers", JSON, NULL, NULL, NULL, "url", NULL, NULL)
