/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson ps`: lists the sandboxes of the server that the settings name, with an administrator's key those of all users.
 * `caisson ps SANDBOX`: its background processes.
 * `--health`: the health check of a container, which then needs no HTTP client. */
#include "app/read_settings.h"
#include "cmd/cmd.h"
#include "cmd/server_client.h"

#include "base/buf.h"
#include "base/parse.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERB           "ps"
#define SANDBOXES_PATH "/api/v1/sandboxes"
#define READY_PATH     "/readyz" /* for everybody, without a key */
#define PATH_BYTES     256u
#define LINE_BYTES     8192u

/* A duration in its largest unit, such as "3h". */
static const char *span(json_int_t s, char ret[24])
{
	static const struct {
		json_int_t s;
		char unit;
	} units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}};

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (s < units[i].s)
			continue;
		(void)snprintf(ret, 24, "%lld%c", (long long)(s / units[i].s), units[i].unit);
		return ret;
	}
	(void)snprintf(ret, 24, "%llds", (long long)s);
	return ret;
}

/* OWNERS: there are sandboxes of other users than the local one. */
static void print_row(const json_t *b, bool owners)
{
	const char *name = json_string_value(json_object_get(b, "name"));
	const json_t *idle = json_object_get(b, "idle_s");
	bool busy = json_is_true(json_object_get(b, "busy"));
	char age[24];
	char rest[24];

	(void)printf("%-36s  %-7s  %-7s  %5s  %5s  ", json_string_value(json_object_get(b, "id")),
		     json_string_value(json_object_get(b, "kind")),
		     busy ? "running" : json_string_value(json_object_get(b, "state")),
		     span(json_integer_value(json_object_get(b, "age_s")), age),
		     idle ? span(json_integer_value(idle), rest) : "-");
	if (owners) {
		const char *owner = json_string_value(json_object_get(b, "owner"));
		(void)printf("%-36s  ", owner && *owner ? owner : "-");
	}
	server_print_line(name ? name : "");
}

/* Whether a row belongs to somebody with an account. */
static bool has_owners(const json_t *rows)
{
	json_t *row;
	size_t i;

	json_array_foreach(rows, i, row) {
		const char *owner = json_string_value(json_object_get(row, "owner"));

		if (owner && *owner)
			return true;
	}
	return false;
}

static int health(const struct settings *s, struct err *e)
{
	unsigned status = 0;
	json_t *doc = NULL;
	int r = server_call(s, "GET", READY_PATH, NULL, &status, &doc, e);

	json_decref(doc);
	if (r == 0 && status != 200)
		r = err_set(e, ERR_ENGINE_UNAVAILABLE, 0, "the server cannot make sandboxes");
	if (r == 0)
		(void)puts("ready");
	return r;
}

static void print_sandboxes(const json_t *doc)
{
	const json_t *rows = json_object_get(doc, "sandboxes");
	const bool owners = has_owners(rows);
	json_t *row;
	size_t i;

	(void)printf("%-36s  %-7s  %-7s  %5s  %5s  %s%s\n", "ID", "KIND", "STATE", "AGE", "IDLE",
		     owners ? "OWNER                                 " : "", "NAME");
	json_array_foreach(rows, i, row)
		print_row(row, owners);
}

static void print_processes(const json_t *doc)
{
	json_t *row;
	size_t i;

	(void)printf("%-6s  %-8s  %5s  %-12s  %s\n", "ID", "STATE", "AGE", "NAME", "COMMAND");
	json_array_foreach(json_object_get(doc, "processes"), i, row) {
		const char *name = json_string_value(json_object_get(row, "name"));
		const json_t *status = json_object_get(row, "exit_code");
		const json_int_t ms = json_integer_value(json_object_get(row, "duration_ms"));
		char state[24], age[24];

		if (status)
			(void)snprintf(state, sizeof(state), "exit %lld",
				       (long long)json_integer_value(status));
		else
			(void)snprintf(state, sizeof(state), "%s",
				       json_object_get(row, "error")
					   ? "failed"
					   : json_string_value(json_object_get(row, "state")));
		_cleanup_(buf_done) struct buf line = BUF_INIT(LINE_BYTES);
		/* Only a row that does not fit has no line. */
		if (buf_printf(&line, "%-6s  %-8s  %5s  %-12s  %s",
			       json_string_value(json_object_get(row, "id")), state,
			       span(ms / 1000, age), name ? name : "",
			       json_string_value(json_object_get(row, "command"))) == 0)
			server_print_line(buf_str(&line));
	}
}

/* SANDBOX NULL: all sandboxes. */
static int list(const struct settings *s, const char *sandbox, bool json, struct err *e)
{
	char path[PATH_BYTES];
	json_t *doc = NULL;

	if (sandbox && !parse_is_session_id(sandbox, strlen(sandbox)))
		return err_set(e, ERR_USAGE, 0, "'%s' is no id of a sandbox", sandbox);
	if (sandbox)
		(void)snprintf(path, sizeof(path), SANDBOXES_PATH "/%s/processes", sandbox);
	else
		(void)snprintf(path, sizeof(path), SANDBOXES_PATH "?all=true");
	int r = server_ask(s, "GET", path, NULL, &doc, e);
	if (r < 0)
		return r;
	if (json)
		r = server_print_json(doc);
	else if (sandbox)
		print_processes(doc);
	else
		print_sandboxes(doc);
	json_decref(doc);
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "standard output") : 0;
}

int cmd_ps(int argc, char **argv)
{
	_cleanup_(settings_done) struct settings settings = {0};
	struct err e = ERR_INIT;
	bool only_health = false, json = false;
	const char *sandbox = NULL;

	if (read_settings(&settings, true, &argc, argv, &e) < 0)
		return cmd_fail(VERB, &e);
	for (int i = 1; i < argc; i++) {
		if (streq(argv[i], "--health"))
			only_health = true;
		else if (streq(argv[i], "--json"))
			json = true;
		else if (argv[i][0] != '-' && !sandbox)
			sandbox = argv[i];
		else
			return cmd_unknown(VERB, argv[i], &e) < 0 ? cmd_fail(VERB, &e) : 0;
	}
	if (only_health && health(&settings, &e) < 0) {
		(void)cmd_fail(VERB, &e);
		return EXIT_FAILURE; /* the only failure that Docker defines for a health check */
	}
	if (only_health)
		return 0;
	return list(&settings, sandbox, json, &e) < 0 ? cmd_fail(VERB, &e) : 0;
}
