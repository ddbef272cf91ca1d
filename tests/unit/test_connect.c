/* SPDX-License-Identifier: Apache-2.0 */
/* What `caisson connect` makes of the text of a configuration: every byte that is not the entry's stays. */
#include "connect/connect.h"
#include "connect/jsonc.h"

#include "base/attr.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define TEXT_MAX (1u << 20)

/* The entry as it is in rows whose indentation is two spaces, inside an object. */
#define ENTRY(indent)                                                                              \
	"{\n" indent "  \"command\": \"/bin/caisson\",\n" indent "  \"args\": [\n" indent          \
	"    \"stdio\"\n" indent "  ]\n" indent "}"
#define SERVERS "\"mcpServers\": {\n    \"caisson\": " ENTRY("    ") "\n  }"
#define TABLE   "[mcp_servers.caisson]\ncommand = \"/bin/caisson\"\nargs = [\"stdio\"]\n"

static const struct connect_target stdio = {
    .name = "caisson", .command = "/bin/caisson", .args = {"stdio"}};

static const struct {
	const char *what, *client, *before;
	const char *after; /* NULL: refused */
} rows[] = {
    {"no text", "gemini", "", "{\n  " SERVERS "\n}\n"},
    {"blank", "gemini", "\n", "\n{\n  " SERVERS "\n}\n"},
    {"a comment", "gemini", "// mine", "// mine\n{\n  " SERVERS "\n}\n"},
    {"a short comment", "gemini", "//", "//\n{\n  " SERVERS "\n}\n"},
    {"a byte order mark", "gemini", "\xef\xbb\xbf", "\xef\xbb\xbf{\n  " SERVERS "\n}\n"},
    {"a byte order mark and an object", "gemini", "\xef\xbb\xbf{}",
     "\xef\xbb\xbf{\n  " SERVERS "\n}"},
    {"{}", "gemini", "{}", "{\n  " SERVERS "\n}"},
    {"an object in two lines", "gemini", "{\n}\n", "{\n  " SERVERS "\n}\n"},
    {"a comment in an object", "gemini", "{ // c\n}\n", "{ // c\n  " SERVERS "\n}\n"},
    {"another member", "gemini", "{\n  \"a\": 1\n}\n", "{\n  \"a\": 1,\n  " SERVERS "\n}\n"},
    {"comments behind the last member", "gemini", "{\n  \"a\": 1 // one, }\n  /* two\n \" */\n}\n",
     "{\n  \"a\": 1, // one, }\n  /* two\n \" */\n  " SERVERS "\n}\n"},
    {"a trailing comma", "gemini", "{\n  \"a\": [1, 2,],\n}\n",
     "{\n  \"a\": [1, 2,],\n  " SERVERS ",\n}\n"},
    {"a trailing comma, then a comment", "gemini", "{\n  \"a\": 1, // one\n}\n",
     "{\n  \"a\": 1, // one\n  " SERVERS ",\n}\n"},
    {"commas and braces in strings", "gemini", "{\n  \"a\": \"},]\\\",//\"\n}\n",
     "{\n  \"a\": \"},]\\\",//\",\n  " SERVERS "\n}\n"},
    {"one line", "gemini", "{\"a\": 1}",
     "{\"a\": 1, \"mcpServers\": {\"caisson\": {\"command\": \"/bin/caisson\", \"args\": "
     "[\"stdio\"]}}}"},
    {"other servers", "gemini", "{\n  \"mcpServers\": {\n    \"a\": {}\n  },\n  \"b\": 2\n}\n",
     "{\n  \"mcpServers\": {\n    \"a\": {},\n    \"caisson\": " ENTRY(
	 "    ") "\n  },\n  \"b\": 2\n}\n"},
    {"no servers yet", "gemini", "{\n  \"mcpServers\": {},\n  \"b\": 2\n}\n",
     "{\n  " SERVERS ",\n  \"b\": 2\n}\n"},
    {"a key with an escape", "gemini", "{\n  \"mcp\\u0053ervers\": {}\n}\n",
     "{\n  \"mcp\\u0053ervers\": {\n    \"caisson\": " ENTRY("    ") "\n  }\n}\n"},
    {"the same keys deeper", "gemini",
     "{\n  \"p\": {\"mcpServers\": {\"caisson\": 1}},\n  \"d\": [[[[{\"x\": [{}]}]]]]\n}\n",
     "{\n  \"p\": {\"mcpServers\": {\"caisson\": 1}},\n  \"d\": [[[[{\"x\": [{}]}]]]],\n  " SERVERS
     "\n}\n"},
    {"our entry with another program", "gemini",
     "{\n  \"mcpServers\": {\n    // why\n    \"caisson\": {\"command\": \"/old/caisson\", "
     "\"trust\": true}, // on\n    \"z\": {}\n  }\n}\n",
     "{\n  \"mcpServers\": {\n    // why\n    \"caisson\": {\n      \"command\": "
     "\"/bin/caisson\",\n      \"args\": [\n        \"stdio\"\n      ],\n      \"trust\": true\n   "
     " }, // on\n    \"z\": {}\n  }\n}\n"},
    {"our entry by URL", "gemini",
     "{\n  \"mcpServers\": {\n    \"caisson\": {\"httpUrl\": \"http://h/mcp\", \"headers\": {}}\n  "
     "}\n}\n",
     "{\n  " SERVERS "\n}\n"},
    {"our entry, equal", "gemini",
     "{\"mcpServers\":{\"caisson\":{\"args\":[\"stdio\"],\"command\":\"/bin/caisson\"}}}",
     "{\"mcpServers\":{\"caisson\":{\"args\":[\"stdio\"],\"command\":\"/bin/caisson\"}}}"},
    {"lines of Windows", "gemini", "{\r\n  \"a\": 1\r\n}\r\n",
     "{\r\n  \"a\": 1,\r\n  \"mcpServers\": {\r\n    \"caisson\": {\r\n      \"command\": "
     "\"/bin/caisson\",\r\n      \"args\": [\r\n        \"stdio\"\r\n      ]\r\n    }\r\n  "
     "}\r\n}\r\n"},
    {"tabs", "gemini", "{\n\t\"a\": 1\n}\n",
     "{\n\t\"a\": 1,\n\t\"mcpServers\": {\n\t\t\"caisson\": {\n\t\t\t\"command\": "
     "\"/bin/caisson\",\n\t\t\t\"args\": [\n\t\t\t\t\"stdio\"\n\t\t\t]\n\t\t}\n\t}\n}\n"},
    {"a list as command, and a type", "opencode", "{}",
     "{\n  \"mcp\": {\n    \"caisson\": {\n      \"type\": \"local\",\n      \"command\": [\n      "
     "  \"/bin/caisson\",\n        \"stdio\"\n      ]\n    }\n  }\n}"},
    {"opencode with servers one level deeper", "opencode",
     "{\n  \"mcp\": {\n    \"servers\": {\n    }\n  }\n}\n",
     "{\n  \"mcp\": {\n    \"servers\": {\n      \"caisson\": {\n        \"type\": \"local\",\n    "
     "    \"command\": [\n          \"/bin/caisson\",\n          \"stdio\"\n        ]\n      }\n   "
     " }\n  }\n}\n"},
    {"a list", "gemini", "[]", NULL},
    {"a word", "gemini", "true", NULL},
    {"cut", "gemini", "{\n  \"a\": 1", NULL},
    {"two values", "gemini", "{} {}", NULL},
    {"an open comment", "gemini", "{} /* ", NULL},
    {"a comma alone", "gemini", "{,}", NULL},
    {"two commas", "gemini", "{\"a\": 1,,}", NULL},
    {"single quotes", "gemini", "{'a': 1}", NULL},
    {"servers that are no object", "gemini", "{\"mcpServers\": []}", NULL},
    {"servers that are null", "gemini", "{\"mcpServers\": null}", NULL},
    {"not UTF-8", "gemini", "{\"a\": \"\xff\"}", NULL},
    {"not UTF-8 in a comment", "gemini", "// \xff\n{}", NULL},

    {"TOML: no text", "codex", "", TABLE},
    {"TOML: other things", "codex", "model = \"o3\" # why\n", "model = \"o3\" # why\n\n" TABLE},
    {"TOML: no line end", "codex", "a = 1", "a = 1\n\n" TABLE},
    {"TOML: lines of Windows", "codex", "a = 1\r\n",
     "a = 1\r\n\r\n[mcp_servers.caisson]\r\ncommand = \"/bin/caisson\"\r\nargs = [\"stdio\"]\r\n"},
    {"TOML: ours in the middle", "codex",
     "a = 1\n[ mcp_servers . \"caisson\" ] # here\ncommand = \"/old/caisson\"\n# "
     "slow\nstartup_timeout_sec = 30\nargs = [\n  \"x\", # ]\n]\n\n# next\n[b]\nc = 1\n",
     "a = 1\n[ mcp_servers . \"caisson\" ] # here\ncommand = \"/bin/caisson\"\nargs = "
     "[\"stdio\"]\n# slow\nstartup_timeout_sec = 30\n\n# next\n[b]\nc = 1\n"},
    {"TOML: ours with tables inside", "codex",
     "[mcp_servers.caisson]\nurl = \"http://h/mcp\"\n[mcp_servers.caisson.http_headers]\nx = "
     "\"1\"\n[mcp_servers.caisson.tools.run]\nmode = \"auto\"\n[z]\n",
     TABLE "[mcp_servers.caisson.tools.run]\nmode = \"auto\"\n[z]\n"},
    {"TOML: a comment before our keys", "codex",
     "[mcp_servers.caisson]\n# mine\n\ncommand = \"/old/caisson\"", TABLE "# mine\n\n"},
    {"TOML: headers in strings and lists", "codex",
     "a = '''\n[mcp_servers.caisson]\n'''\nb = [\n[1], # [\n]\nc = "
     "\"\"\"\n[mcp_servers.caisson]\\\"\"\"\"\"\"\n",
     "a = '''\n[mcp_servers.caisson]\n'''\nb = [\n[1], # [\n]\nc = "
     "\"\"\"\n[mcp_servers.caisson]\\\"\"\"\"\"\"\n\n" TABLE},
    {"TOML: another server", "codex", "[mcp_servers.caisson2]\nurl = \"x\"\n",
     "[mcp_servers.caisson2]\nurl = \"x\"\n\n" TABLE},
    {"TOML: an inline table of servers", "codex", "mcp_servers = {}\n", NULL},
    {"TOML: ours as an inline table", "codex", "[mcp_servers]\ncaisson = {command = \"x\"}\n",
     NULL},
    {"TOML: ours as dotted keys", "codex", "mcp_servers.caisson.command = \"x\"\n", NULL},
    {"TOML: a table inside ours, without ours", "codex", "[mcp_servers.caisson.env]\nA = \"1\"\n",
     NULL},
    {"TOML: ours twice", "codex", TABLE TABLE, NULL},
    {"TOML: a list of tables", "codex", "[[mcp_servers]]\nx = 1\n", NULL},
    {"TOML: a carriage return alone", "codex", "a = 1 # \r", NULL},
    {"TOML: an open string", "codex", "a = \"x\n", NULL},
    {"TOML: an open list", "codex", "a = [1\n[b]\n", NULL},
    {"TOML: no value", "codex", "a =\n", NULL},
    {"TOML: two values", "codex", "[a] b\n", NULL},
    {"TOML: JSON", "codex", "{}\n", NULL},
};

static struct buf text_of(const char *s)
{
	struct buf b = BUF_INIT(TEXT_MAX);

	assert_int_equal(buf_add_str(&b, s), 0);
	return b;
}

static void changes(void **state UNUSED)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct client *c = client_by_name(rows[i].client);
		_cleanup_(buf_done) struct buf out = BUF_INIT(TEXT_MAX), again = BUF_INIT(TEXT_MAX);
		enum entry_state is;
		int r = connect_text_set(c, &stdio, rows[i].before, strlen(rows[i].before), &out);

		if (!rows[i].after) {
			if (r != -EBADMSG)
				fail_msg("%s: %d, %s", rows[i].what, r, buf_str(&out));
			continue;
		}
		if (r != 0 || !streq(buf_str(&out), rows[i].after))
			fail_msg("%s: %d\n%s---\n%s", rows[i].what, r, buf_str(&out),
				 rows[i].after);
		assert_int_equal(connect_text_state(c, &stdio, out.data, out.len, &is), 0);
		assert_int_equal(is, ENTRY_OURS);
		assert_int_equal(connect_text_set(c, &stdio, out.data, out.len, &again), 0);
		assert_string_equal(buf_str(&again), buf_str(&out));
	}
}

static void undo_is_exact(void **state UNUSED)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct client *c = client_by_name(rows[i].client);
		_cleanup_(buf_done) struct buf backup = text_of(rows[i].before),
					       out = BUF_INIT(TEXT_MAX);
		bool whole = false;

		if (!rows[i].after)
			continue;
		assert_int_equal(connect_text_undo(c, "caisson", rows[i].after,
						   strlen(rows[i].after), &backup, &out, &whole),
				 0);
		if (!whole || !streq(buf_str(&out), rows[i].before))
			fail_msg("%s: %s", rows[i].what, buf_str(&out));
	}
}

/* The text was changed since, or there is no backup. */
static const struct {
	const char *what, *client, *backup, *text, *after;
} undos[] = {
    {"no backup", "gemini", NULL,
     "{\n  \"mcpServers\": {\n    \"a\": {},\n    \"caisson\": {}\n  }\n}\n",
     "{\n  \"mcpServers\": {\n    \"a\": {}\n  }\n}\n"},
    {"the first one", "gemini", NULL,
     "{\n  \"mcpServers\": {\n    \"caisson\": {},\n    \"a\": {}\n  }\n}\n",
     "{\n  \"mcpServers\": {\n    \"a\": {}\n  }\n}\n"},
    {"the only one", "gemini", NULL, "{\n  \"mcpServers\": {\n    \"caisson\": {}\n  }\n}\n",
     "{\n  \"mcpServers\": {\n  }\n}\n"},
    {"with trailing commas", "gemini", NULL,
     "{\"mcpServers\": {\n  \"a\": {},\n  \"caisson\": {},\n}}",
     "{\"mcpServers\": {\n  \"a\": {},\n}}"},
    {"comments stay", "gemini", NULL,
     "{\"mcpServers\": {\n  \"a\": {}, // of a\n  // of ours\n  \"caisson\": {} // ours\n}}",
     "{\"mcpServers\": {\n  \"a\": {} // of a\n  // of ours\n   // ours\n}}"},
    {"in one line", "gemini", NULL, "{\"mcpServers\": {\"a\": 1, \"caisson\": {}, \"b\": 2}}",
     "{\"mcpServers\": {\"a\": 1, \"b\": 2}}"},
    {"lines of Windows", "gemini", NULL,
     "{\"mcpServers\": {\r\n  \"caisson\": {},\r\n  \"b\": 2\r\n}}",
     "{\"mcpServers\": {\r\n  \"b\": 2\r\n}}"},
    {"changed since", "gemini", "{\n  \"a\": 1\n}\n",
     "{\n  \"a\": 2,\n  \"mcpServers\": {\n    \"caisson\": {}\n  }\n}\n",
     "{\n  \"a\": 2,\n  \"mcpServers\": {\n  }\n}\n"},
    {"changed since, and it had one", "gemini",
     "{\"mcpServers\": {\"caisson\": {\"command\": \"mine\"}}}",
     "{\"a\": 1, \"mcpServers\": {\"caisson\": {\"command\": \"x\"}}}",
     "{\"a\": 1, \"mcpServers\": {\"caisson\": {\"command\": \"mine\"}}}"},
    {"TOML: no backup", "codex", NULL, "a = 1\n\n" TABLE "\n[b]\n", "a = 1\n\n\n[b]\n"},
    {"TOML: tables inside", "codex", NULL,
     TABLE "[mcp_servers.caisson.env]\nA = \"1\"\n# of b\n[b]\n", "# of b\n[b]\n"},
    {"TOML: changed since", "codex", "a = 1\n[mcp_servers.caisson]\r\ncommand = \"mine\"\r\n",
     "a = 2\n" TABLE "[b]\n", "a = 2\n[mcp_servers.caisson]\ncommand = \"mine\"\n[b]\n"},
};

static void undo_after_changes(void **state UNUSED)
{
	for (size_t i = 0; i < ARRAY_SIZE(undos); i++) {
		const struct client *c = client_by_name(undos[i].client);
		_cleanup_(buf_done) struct buf backup =
		    text_of(undos[i].backup ? undos[i].backup : "");
		_cleanup_(buf_done) struct buf out = BUF_INIT(TEXT_MAX);
		bool whole = true;
		int r = connect_text_undo(c, "caisson", undos[i].text, strlen(undos[i].text),
					  undos[i].backup ? &backup : NULL, &out, &whole);

		if (r != 0 || whole || !streq(buf_str(&out), undos[i].after))
			fail_msg("%s: %d\n%s", undos[i].what, r, buf_str(&out));
	}
}

static void states(void **state UNUSED)
{
	static const struct {
		const char *client, *text;
		enum entry_state is;
	} cases[] = {
	    {"gemini", "{\"mcpServers\": {\"a\": {}}}", ENTRY_NONE},
	    {"gemini",
	     "{\"mcpServers\": {\"caisson\": {\"command\": \"uvx\", \"args\": [\"caisson-mcp\"]}}}",
	     ENTRY_OURS},
	    {"gemini", "{\"mcpServers\": {\"caisson\": {\"command\": \"other\"}}}", ENTRY_OTHER},
	    {"gemini", "{\"mcpServers\": {\"caisson\": 1}}", ENTRY_OTHER},
	    {"opencode", "{\"mcp\": {\"caisson\": {\"command\": [\"/bin/caisson\", \"stdio\"]}}}",
	     ENTRY_OURS},
	    {"codex", "[mcp_servers.caisson]\ncommand = \"other\"\n", ENTRY_OTHER},
	    {"codex", TABLE, ENTRY_OURS},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		enum entry_state is = ENTRY_NONE;

		assert_int_equal(connect_text_state(client_by_name(cases[i].client), &stdio,
						    cases[i].text, strlen(cases[i].text), &is),
				 0);
		if (is != cases[i].is)
			fail_msg("%s: %d", cases[i].text, (int)is);
	}
}

/* What each client is told about a server by URL, in one line. */
static void by_url(void **state UNUSED)
{
	static const char *const entries[][2] = {
	    {"claude-code", "{\"mcpServers\":{\"caisson\":{\"type\":\"http\",\"url\":\"http://h/"
			    "mcp\",\"headers\":{\"Authorization\":\"Bearer ${KEY}\"}}}}"},
	    {"cursor", "{\"mcpServers\":{\"caisson\":{\"type\":\"http\",\"url\":\"http://h/"
		       "mcp\",\"headers\":{\"Authorization\":\"Bearer ${env:KEY}\"}}}}"},
	    {"vscode", "{\"servers\":{\"caisson\":{\"type\":\"http\",\"url\":\"http://h/"
		       "mcp\",\"headers\":{\"Authorization\":\"Bearer ${env:KEY}\"}}}}"},
	    {"windsurf", "{\"mcpServers\":{\"caisson\":{\"serverUrl\":\"http://h/"
			 "mcp\",\"headers\":{\"Authorization\":\"Bearer ${env:KEY}\"}}}}"},
	    {"zed", "{\"context_servers\":{\"caisson\":{\"source\":\"custom\",\"url\":\"http://h/"
		    "mcp\",\"headers\":{\"Authorization\":\"Bearer s3cret\"}}}}"},
	    {"gemini", "{\"mcpServers\":{\"caisson\":{\"httpUrl\":\"http://h/"
		       "mcp\",\"headers\":{\"Authorization\":\"Bearer ${KEY}\"}}}}"},
	    {"opencode", "{\"mcp\":{\"caisson\":{\"type\":\"remote\",\"url\":\"http://h/"
			 "mcp\",\"headers\":{\"Authorization\":\"Bearer {env:KEY}\"}}}}"},
	    {"lmstudio", "{\"mcpServers\":{\"caisson\":{\"url\":\"http://h/"
			 "mcp\",\"headers\":{\"Authorization\":\"Bearer s3cret\"}}}}"},
	};
	const struct connect_target t = {
	    .name = "caisson", .url = "http://h/mcp", .key_variable = "KEY", .key = "s3cret"};
	_cleanup_(buf_done) struct buf toml = BUF_INIT(TEXT_MAX);
	struct err e = ERR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
		_cleanup_(buf_done) struct buf out = BUF_INIT(TEXT_MAX);
		json_auto_t *all = NULL;

		assert_int_equal(connect_snippet(client_by_name(entries[i][0]), &t, &out), 0);
		assert_int_equal(jsonc_read(out.data, out.len, &all), 0);
		char *text = json_dumps(all, JSON_COMPACT);
		assert_string_equal(text, entries[i][1]);
		free(text);
	}
	assert_int_equal(connect_snippet(client_by_name("codex"), &t, &toml), 0);
	assert_string_equal(
	    buf_str(&toml),
	    "[mcp_servers.caisson]\nurl = \"http://h/mcp\"\nbearer_token_env_var = \"KEY\"\n");
	assert_true(connect_check(client_by_name("claude-desktop"), &t, &e) < 0);
}

/* Every beginning of a text, and every text with a byte too few: never a crash, and never an entry twice. */
static void damaged(void **state UNUSED)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct client *c = client_by_name(rows[i].client);
		const char *text = rows[i].after ? rows[i].after : rows[i].before;
		const size_t len = strlen(text);

		for (size_t cut = 0; cut < 2 * len; cut++) {
			_cleanup_(buf_done) struct buf damaged = BUF_INIT(TEXT_MAX),
						       out = BUF_INIT(TEXT_MAX);
			const size_t n = cut < len ? cut : cut - len;
			bool whole;

			assert_int_equal(buf_add(&damaged, text, n), 0);
			if (cut >= len)
				assert_int_equal(buf_add(&damaged, text + n + 1, len - n - 1), 0);
			if (connect_text_set(c, &stdio, buf_str(&damaged), damaged.len, &out) < 0)
				continue;
			_cleanup_(buf_done) struct buf back = BUF_INIT(TEXT_MAX);
			assert_int_equal(connect_text_undo(c, "caisson", out.data, out.len,
							   &damaged, &back, &whole),
					 0);
			if (!whole)
				fail_msg("%s, cut %zu:\n%s\n--- %s\n--- %s", rows[i].what, cut,
					 buf_str(&damaged), buf_str(&out), buf_str(&back));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(changes),
	    cmocka_unit_test(undo_is_exact),
	    cmocka_unit_test(undo_after_changes),
	    cmocka_unit_test(states),
	    cmocka_unit_test(by_url),
	    cmocka_unit_test(damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
