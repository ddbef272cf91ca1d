/* SPDX-License-Identifier: Apache-2.0 */
#include "web/page.h"

#include "base/buf.h"
#include "base/text.h"

#include <string.h>

#define PAGE_MAX 32768

static const char head[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<title>Caisson</title>\n<style>\n"
    ":root{color-scheme:light dark}\n"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem}\n"
    "pre{padding:1rem;overflow:auto;border:1px solid #8886;border-radius:6px}\n"
    "code{font:14px/1.4 ui-monospace,monospace}\n"
    "</style>\n</head>\n<body>\n<main>\n<h1>Caisson</h1>\n"
    "<p>A sandbox server for language models. It is running. Connect an MCP client with one of "
    "these.</p>\n";

static int add_html(struct buf *b, const char *text)
{
	return text_add_html(b, text, strlen(text), true);
}

/* A heading, and a block of text for copying. */
static int add_block(struct buf *b, const char *title, const char *text)
{
	int r = buf_printf(b, "<h2>%s</h2>\n<pre><code>", title);

	r = r < 0 ? r : add_html(b, text);
	return r < 0 ? r : buf_add_str(b, "</code></pre>\n");
}

static int add_blocks(struct buf *b, const char *base, bool needs_key)
{
	const char *claude_key = needs_key ? " --header \"Authorization: Bearer $KEY\"" : "";
	const char *json_key =
	    needs_key ? ",\n      \"headers\": {\"Authorization\": \"Bearer KEY\"}" : "";
	char text[2048];
	int r;

	(void)snprintf(text, sizeof(text), "claude mcp add --transport http caisson %s/mcp%s", base,
		       claude_key);
	r = add_block(b, "Claude Code", text);
	(void)snprintf(text, sizeof(text),
		       "{\n  \"mcpServers\": {\n    \"caisson\": {\n      \"type\": \"http\",\n"
		       "      \"url\": \"%s/mcp\"%s\n    }\n  }\n}",
		       base, json_key);
	r = r < 0 ? r : add_block(b, "Cursor and others (mcp.json)", text);
	(void)snprintf(text, sizeof(text),
		       "{\n  \"servers\": {\n    \"caisson\": {\n      \"type\": \"http\",\n"
		       "      \"url\": \"%s/mcp\"%s\n    }\n  }\n}",
		       base, json_key);
	r = r < 0 ? r : add_block(b, "VS Code (.vscode/mcp.json)", text);
	(void)snprintf(text, sizeof(text), "npx -y supergateway@4.0.0 --streamableHttp %s/mcp%s",
		       base, needs_key ? " --oauth2Bearer KEY" : "");
	return r < 0 ? r : add_block(b, "Clients that speak stdio alone", text);
}

char *page_make(const char *base, const char *profile, bool needs_key, const char *why)
{
	struct buf b = BUF_INIT(PAGE_MAX);
	int r = buf_add_str(&b, head);

	r = r < 0 ? r : buf_add_str(&b, "<p>The page was left out of this build: ");
	r = r < 0 ? r : add_html(&b, why);
	r = r < 0 ? r
		  : buf_add_str(&b,
				". To have it, install npm and build again. Everything else works "
				"without it.</p>\n");

	r = r < 0 ? r : add_blocks(&b, base, needs_key);
	r = r < 0 ? r : buf_add_str(&b, "<p>Profile: <code>");
	r = r < 0 ? r : add_html(&b, profile);
	r = r < 0 ? r : buf_add_str(&b, "</code></p>\n</main>\n</body>\n</html>\n");
	if (r < 0) {
		buf_done(&b);
		return NULL;
	}
	return buf_take(&b);
}
