/* SPDX-License-Identifier: Apache-2.0 */
/* install_package_in_sandbox and check_package_installation_status of the second tool family. */
#include "tools/classic.h"

#include "base/rand.h"

#include <string.h>
#include <time.h>

#define TIME_SIZE 32

struct package_call {
	struct classic_call base;
	char *spec;
	bool check;
};

static void package_end(struct package_call *c)
{
	free(c->spec);
	classic_call_free(&c->base);
}

/* Local time as ISO 8601 without a zone: this is what clients of the family get. */
static void format_time(uint64_t wall_ns, char ret[TIME_SIZE])
{
	time_t seconds = (time_t)(wall_ns / NS_PER_S);
	struct tm tm;
	char whole[TIME_SIZE] = "";

	if (localtime_r(&seconds, &tm))
		(void)strftime(whole, sizeof(whole), "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(ret, TIME_SIZE, "%.19s.%06u", whole,
		       (unsigned)(wall_ns % NS_PER_S / NS_PER_US));
}

static void set_time(json_t *object, const char *name, uint64_t wall_ns)
{
	char text[TIME_SIZE];

	if (wall_ns == 0)
		return;
	format_time(wall_ns, text);
	(void)!json_object_set_new(object, name, json_string(text));
}

/* The members that packages.h lists for each status, in the order that clients of the family
 * know. */
static json_t *status_object(const struct package_status *s)
{
	json_t *o = json_object();
	bool installing = s->word == PACKAGE_INSTALLING;
	int r = 0;

	if (installing && !s->from_check)
		r = json_object_set_new(o, "success", json_null());
	r |= json_object_set_new(o, "status", json_string(package_word_name(s->word)));
	if (installing && s->from_check)
		set_time(o, "start_time", s->start_wall_ns);
	r |= json_object_set_new(o, "message", tools_json_bytes(s->message, strlen(s->message)));
	if (s->word == PACKAGE_FAILED)
		r |= json_object_set_new(o, "stderr",
					 tools_json_bytes(s->errors, strlen(s->errors)));
	if (!installing || s->from_check)
		r |= json_object_set_new(o, "complete", json_boolean(s->complete));
	if (!installing && s->has_success)
		r |= json_object_set_new(o, "success", json_boolean(s->success));
	if (!installing)
		set_time(o, "end_time", s->end_wall_ns);
	if (installing && s->from_check)
		r |= json_object_set_new(o, "elapsed_seconds",
					 json_real((double)s->elapsed_ns / (double)NS_PER_S));
	if (r < 0) {
		json_decref(o);
		return NULL;
	}
	return o;
}

static void on_status(const struct package_status *status, void *user)
{
	struct package_call *c = user;

	classic_finish(c->base.call, status_object(status));
	package_end(c);
}

static void on_progress(const char *text, unsigned done, unsigned total, void *user)
{
	struct package_call *c = user;

	mcp_call_progress(c->base.call, (double)done, (double)total, text);
}

/* A refusal in the shape of a status. */
static void refuse(struct package_call *c, const char *text)
{
	classic_finish(c->base.call, json_pack("{s:s, s:s, s:s, s:b, s:b}", "status",
					       c->check ? "error" : "failed", "message", text,
					       "stderr", text, "complete", true, "success", false));
	package_end(c);
}

static void on_ready(struct classic_call *base, const struct err *e)
{
	struct package_call *c = (struct package_call *)base;
	struct packages *p = base->tools->config.packages;
	struct packages_request request = {.spec = c->spec,
					   .wait_ns = TOOLS_INSTALL_WAIT_NS,
					   .cb = on_status,
					   .progress = on_progress,
					   .user = c};
	struct err error = ERR_INIT;

	if (e && classic_is_denied(e)) {
		classic_finish_denied(base->call);
		package_end(c);
	} else if (e) {
		refuse(c, e->text);
	} else if (!p) {
		refuse(c, "Packages cannot be installed on this server");
	} else {
		int r = (c->check ? packages_check : packages_install)(p, base->sandbox, &request,
								       &error);
		if (r < 0)
			refuse(c, error.text);
	}
}

static void start(struct mcp_call *call, const json_t *arguments, struct tools *t, bool check)
{
	const char *id = classic_arg(call, arguments, "sandbox_id");
	const char *spec = classic_arg(call, arguments, "package_name");
	struct package_call *c = classic_call_new(call, t, sizeof(*c));
	if (!c)
		return;
	c->check = check;
	c->spec = strdup(spec ? spec : "");
	c->base.ready = on_ready;
	if (!c->spec) {
		refuse(c, "no memory");
		return;
	}
	classic_open(&c->base, id ? id : "");
}

void classic_install(struct mcp_call *call, json_t *arguments, void *user)
{
	start(call, arguments, user, false);
}

void classic_check(struct mcp_call *call, json_t *arguments, void *user)
{
	start(call, arguments, user, true);
}
