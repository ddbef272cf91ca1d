/* SPDX-License-Identifier: Apache-2.0 */
/* The tools for packages in the profile `full`. An installation reports its progress and can be
 * cancelled. If it takes long, it goes on as a task for clients that know tasks. */
#include "tools/extras.h"
#include "tools/signs.h"

#include "base/rand.h"
#include "base/text.h"

#include <string.h>

#define HEARTBEAT_US (3u * 1000000u)
#define ACCURACY_US  10000u
#define TASK_POLL_MS 1000
#define TASK_TTL_MS  3600000
#define STEPS        4.0 /* steps of an installation, for its progress */
#define MORE_MAX     200u

enum package_tool { INSTALL, UNINSTALL, LIST };

struct package_call {
	struct tools *tools;
	struct mcp_call *call;
	enum package_tool tool;
	struct sandbox *sandbox; /* reference, once there is one */
	char *spec;              /* owned */
	bool all;
	char step[64]; /* the current step, for people */
	unsigned done;
	uint64_t start_ns;
	sd_event_source *heartbeat;
};

static void call_free(struct package_call *c)
{
	(void)sd_event_source_disable_unref(c->heartbeat);
	(void)sandbox_unref(c->sandbox);
	free(c->spec);
	free(c);
}

static void fail(struct package_call *c, const struct err *e)
{
	mcp_call_on_cancel(c->call, NULL, NULL);
	extras_fail_open(c->tools, c->call, e);
	call_free(c);
}

/* ---- the answers ---- */

static json_t *names(const struct package_status *status)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < status->n_installed && i < MORE_MAX; i++)
		if (json_array_append_new(list, json_string(status->installed[i])) < 0)
			break;
	return list;
}

/* What to do about a failure. The words come from the index and from programs in a sandbox, and choose among these texts only. */
static const char *failure_hint(const char *message)
{
	if (signs_in(message, SIGN_TOO_LARGE))
		return "Nothing is wrong with the names. Choose smaller packages (of torch the "
		       "build without CUDA, if the "
		       "index has it), or tell the person who runs this server: "
		       "SANDBOX_INSTALL_MAX_BYTES raises the "
		       "limit, SANDBOX_PIP_EXTRA_INDEX_URL adds an index.";
	if (signs_in(message, SIGN_NO_SPACE))
		return "Nothing is wrong with the names: the disk of the sandbox is too small for "
		       "them. Remove files or "
		       "packages, or make a sandbox with a larger disk_mb; SANDBOX_WORKSPACE_LIMIT "
		       "is the default of "
		       "this server.";
	if (signs_in(message, SIGN_NO_INDEX))
		return "The package index cannot be reached: that is for the person who runs this "
		       "server "
		       "(SANDBOX_PIP_INDEX_URL, `caisson doctor`). Go on without the package.";
	return "Check the names and versions; packages without a wheel for this Python cannot be "
	       "installed here.";
}

static void on_status(const struct package_status *status, void *user)
{
	struct package_call *c = user;
	_cleanup_(buf_done) struct buf text = BUF_INIT(c->tools->config.result_chars * 3 + 1024);

	mcp_call_on_cancel(c->call, NULL, NULL);
	int r = extras_add_cut(&text, status->message, strlen(status->message),
			       c->tools->config.result_chars, "the rest is the installer's output");
	if (status->word == PACKAGE_FAILED || status->word == PACKAGE_ERROR)
		extras_fail_lines(c->call, "package_failed", failure_hint(status->message),
				  r < 0 ? "it failed" : buf_str(&text));
	else
		extras_finish(
		    c->call,
		    json_pack("{s:s, s:s, s:s, s:o, s:I}", "session_id", sandbox_id(c->sandbox),
			      "status", package_word_name(status->word), "message",
			      r < 0 ? "" : buf_str(&text), "installed", names(status),
			      "duration_ms", (json_int_t)((now_ns() - c->start_ns) / NS_PER_MS)));
	call_free(c);
}

static void on_list(const struct package_row *rows, size_t n, const struct err *e, void *user)
{
	struct package_call *c = user;
	json_t *here = json_array();
	json_t *image = json_array();

	if (e) {
		json_decref(here);
		json_decref(image);
		fail(c, e);
		return;
	}
	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(rows[i].from_image ? image : here,
					  json_pack("{s:s, s:s}", "name", rows[i].name, "version",
						    rows[i].version)) < 0)
			break;
	json_t *object =
	    json_pack("{s:s, s:o}", "session_id", sandbox_id(c->sandbox), "installed", here);
	if (object && c->all)
		(void)json_object_set(object, "of_image", image);
	json_decref(image);
	extras_finish(c->call, object);
	call_free(c);
}

/* ---- while it is at work ---- */

static void tell_progress(struct package_call *c)
{
	char text[128];
	unsigned seconds = (unsigned)((now_ns() - c->start_ns) / NS_PER_S);

	(void)snprintf(text, sizeof(text), "%s (%us)", c->step, seconds);
	/* The figure also grows with time, but reaches the next step only when that begins. */
	mcp_call_progress(c->call, (double)c->done + 0.9 * (double)seconds / (double)(seconds + 30),
			  STEPS, text);
	if (mcp_call_is_task(c->call))
		mcp_call_task_status(c->call, text);
	else if (c->tools->config.task_after_s > 0 && seconds >= c->tools->config.task_after_s &&
		 mcp_call_can_be_task(c->call))
		(void)(mcp_call_become_task(c->call, TASK_POLL_MS, TASK_TTL_MS, text) < 0);
}

static int on_heartbeat(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	tell_progress(user);
	(void)sd_event_source_set_time_relative(source, HEARTBEAT_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static void on_progress(const char *text, unsigned done, unsigned total UNUSED, void *user)
{
	struct package_call *c = user;

	(void)snprintf(c->step, sizeof(c->step), "%s", text);
	c->done = done;
	tell_progress(c);
}

static void on_cancel(struct mcp_call *call UNUSED, void *user)
{
	struct package_call *c = user;
	struct err e = ERR_INIT;

	/* The end of a cancelled installation is reported as a status. If cancelling fails, it
	 * has ended already. */
	if (packages_cancel(c->tools->config.packages, c->sandbox, c->spec, &e) < 0)
		return;
}

/* ---- the calls ---- */

static int begin_install(struct package_call *c, struct err *e)
{
	const struct packages_request request = {.spec = c->spec,
						 .wait_ns = UINT64_MAX,
						 .cb = on_status,
						 .progress = on_progress,
						 .user = c};
	int r = packages_install(c->tools->config.packages, c->sandbox, &request, e);

	if (r < 0)
		return r;
	(void)snprintf(c->step, sizeof(c->step), "Waiting");
	mcp_call_on_cancel(c->call, on_cancel, c);
	/* Without the timer only the progress reports are missing. */
	(void)sd_event_add_time_relative(c->tools->config.loop, &c->heartbeat, CLOCK_MONOTONIC,
					 HEARTBEAT_US, ACCURACY_US, on_heartbeat, c);
	return 0;
}

static void begin(struct package_call *c, struct sandbox *s)
{
	struct packages *p = c->tools->config.packages;
	const struct packages_request request = {
	    .spec = c->spec, .wait_ns = UINT64_MAX, .cb = on_status, .user = c};
	struct err e = ERR_INIT;
	int r;

	c->sandbox = sandbox_ref(s);
	c->start_ns = now_ns();
	if (mcp_call_is_cancelled(c->call))
		r = err_set(&e, ERR_CANCELLED, 0, "cancelled");
	else if (c->tool == INSTALL)
		r = begin_install(c, &e);
	else if (c->tool == UNINSTALL)
		r = packages_uninstall(p, s, &request, &e);
	else
		r = packages_list(p, s, c->all, on_list, c, &e);
	if (r < 0)
		fail(c, &e);
}

static void on_open(struct sandbox *s, const struct err *e, void *user)
{
	if (e)
		fail(user, e);
	else
		begin(user, s);
}

#define SPEC_TAKEN_MAX (PACKAGES_SPEC_MAX * 2) /* more than the grammar allows */

/* The argument `packages`: words, or a list of them. NULL: no memory. A list that is too long gives a
 * text that the check of the grammar refuses. */
static char *spec_of(struct mcp_call *call, const json_t *arguments)
{
	const json_t *list = json_object_get(arguments, "packages"), *item;
	_cleanup_(buf_done) struct buf b = BUF_INIT(SPEC_TAKEN_MAX);
	size_t i;

	if (!json_is_array(list)) {
		struct mcp_text_ref text = tools_text_arg(call, arguments, "packages");
		text.len = MIN(text.len, (size_t)SPEC_TAKEN_MAX);
		return tools_text_take(&text);
	}
	json_array_foreach(list, i, item) {
		struct mcp_text_ref ref = {.fd = -1};

		if (b.len > PACKAGES_SPEC_MAX || mcp_call_text(call, item, &ref) < 0)
			break;
		ref.len = MIN(ref.len, (size_t)SPEC_TAKEN_MAX);
		_cleanup_free_ char *word = tools_text_take(&ref);
		if (!word)
			return NULL;
		word[MIN(strlen(word), (size_t)PACKAGES_SPEC_MAX - 1)] = '\0';
		/* A comment in an item ends with it. */
		if (buf_printf(&b, "%s%s",
			       b.len == 0                 ? ""
			       : strchr(buf_str(&b), '#') ? "\n"
							  : " ",
			       word) < 0)
			return NULL;
	}
	return strdup(buf_str(&b));
}

static struct package_call *new_call(struct tools *t, struct mcp_call *call,
				     const json_t *arguments, enum package_tool tool)
{
	struct package_call *c = calloc(1, sizeof(*c));

	if (c)
		c->spec = tool == LIST ? strdup("") : spec_of(call, arguments);
	if (!c || !c->spec) {
		free(c);
		mcp_call_finish_error(call, MCP_ERR_INTERNAL, "no memory", NULL);
		return NULL;
	}
	c->tools = t;
	c->call = call;
	c->tool = tool;
	return c;
}

static void start(struct tools *t, struct mcp_call *call, const json_t *arguments,
		  enum package_tool tool)
{
	char id[SANDBOX_ID_MAX + 1];
	struct manager *m = t->config.manager;
	const char *owner = mcp_call_principal(call);

	if (!extras_session_id(call, arguments, tool == INSTALL, id))
		return;
	struct package_call *c = new_call(t, call, arguments, tool);
	if (!c)
		return;
	c->all = args_bool(arguments, "all", false);
	struct err e = ERR_INIT;
	if (tool != LIST && packages_check_spec(c->spec, strlen(c->spec), &e) < 0) {
		fail(c, &e);
		return;
	}
	struct sandbox *s = id[0] ? manager_find(m, owner, id) : NULL;
	if (s)
		begin(c, s);
	else if (tool == INSTALL)
		manager_open(m, owner, id[0] ? id : NULL, on_open, c);
	else
		manager_activate(m, owner, id, on_open, c);
}

void extras_install(struct mcp_call *call, json_t *arguments, void *user)
{
	start(user, call, arguments, args_bool(arguments, "remove", false) ? UNINSTALL : INSTALL);
}

void extras_uninstall(struct mcp_call *call, json_t *arguments, void *user)
{
	start(user, call, arguments, UNINSTALL);
}

void extras_list_packages(struct mcp_call *call, json_t *arguments, void *user)
{
	start(user, call, arguments, LIST);
}
