/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_add_file: three ways for a file into a sandbox. A link by which a person uploads it; an address,
 * which a program in the sandbox fetches, so that its own network policy decides; a file of the server's
 * machine, where the operator permits it. */
#include "tools/extras.h"
#include "tools/program.h"

#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"
#include "sandbox/upload.h"

#include <string.h>
#include <sys/stat.h>

#define LINK_MAX    1300u /* bytes of a link */
#define ADDRESS_MAX 4096u /* bytes of an address */
#define SAID_MAX    400u  /* bytes of what the program says */
#define NAME_MAX_   255

struct add_call {
	struct tool_call base;
	char id[SANDBOX_ID_MAX + 1]; /* "" = none was given */
	char path[ENGINE_PATH_MAX];  /* "" = the file keeps its name */
	char *url, *local;           /* owned; NULL: not given */
	bool overwrite;
	bool made; /* this call made its session */
	int fd;
	uint64_t size;
	/* How it failed: an error, or what the program said. */
	struct err error;
	char said[SAID_MAX + 1];
	bool open; /* the network of the sandbox */
};

static void add_call_free(struct add_call *c)
{
	workers_close(mcp_call_principal(c->base.call), c->fd);
	free(c->url);
	free(c->local);
	tool_call_free(&c->base);
}

static void answer_failure(void *user)
{
	struct add_call *c = user;

	if (c->error.code != ERR_NONE)
		extras_fail_open(c->base.tools, c->base.call, &c->error);
	else
		extras_fail(
		    c->base.call, "fetch_failed",
		    c->open
			? "Check the address, or ask the person for the file: leave url out to get "
			  "an upload link."
			: "The sandbox may reach only what its network permits (sandbox_info). "
			  "Leave url out to get an upload link for the person.",
		    "The address could not be fetched: %s", c->said);
	add_call_free(c);
}

/* A session that was made for nothing is ended before the answer, so that nobody sees it. */
static void give_up(struct add_call *c)
{
	if (c->made && c->base.sandbox)
		sandbox_undo(c->base.sandbox, answer_failure, c);
	else
		answer_failure(c);
}

static void fail(struct add_call *c, const struct err *e)
{
	c->error = *e;
	if (e->code == ERR_FILE_EXISTS)
		(void)err_set(&c->error, ERR_FILE_EXISTS, 0, "/mnt/data/%s already exists",
			      c->path);
	give_up(c);
}

static void finish_file(struct add_call *c)
{
	extras_finish(c->base.call, extras_json_answer(c->base.tools, c->base.call, c->base.sandbox,
						       c->path, c->size));
	add_call_free(c);
}

/* ---- a link ---- */

static void make_link(struct add_call *c)
{
	const struct tools_config *config = &c->base.tools->config;
	char link[LINK_MAX];
	struct err e = ERR_INIT;
	_cleanup_(buf_done) struct buf b = BUF_INIT(3 * LINK_MAX + 8 * ENGINE_PATH_MAX);

	if (config->upload_link(config->link_user, mcp_call_principal_data(c->base.call),
				mcp_call_base(c->base.call), c->base.sandbox, c->path, c->overwrite,
				link, sizeof(link), &e) < 0) {
		fail(c, &e);
		return;
	}
	int r = buf_printf(
	    &b,
	    "Give the person this link; it takes one file of at most %ju MB, once, within %ju "
	    "minutes:\n%s\nIt opens in a browser. On a command line: curl -T FILE %s%s\nThe file "
	    "will "
	    "be in /mnt/data of session_id: %s; look with sandbox_list_files when the person is "
	    "done.\n",
	    (uintmax_t)(config->max_upload_bytes / 1000000),
	    (uintmax_t)(config->upload_link_s / 60), link, link, c->path[0] ? "" : "/",
	    sandbox_id(c->base.sandbox));
	json_t *object =
	    json_pack("{s:s, s:s, s:I, s:I}", "session_id", sandbox_id(c->base.sandbox),
		      "upload_url", link, "expires_in_s", (json_int_t)config->upload_link_s,
		      "max_bytes", (json_int_t)config->max_upload_bytes);
	extras_finish_text(c->base.call, r < 0 ? NULL : &b, object, NULL);
	add_call_free(c);
}

/* ---- an address ---- */

/* Every address goes through the proxy, also those that programs in the sandbox reach without it. The file
 * has no name until it is complete: what is there stays until then, and nothing is left of one that broke off. (Folders
 * on its path are left if the program is killed.) */
static const char program[] =
    "import http.client, os, sys, urllib.request\n"
    "def copy(answer, out):\n"
    "    if not isinstance(answer, http.client.HTTPResponse):\n"
    "        sys.exit('it leads to an address that is not http')\n"
    "    size, whole = 0, answer.length\n"
    "    while piece := answer.read(1 << 18):\n"
    "        size += len(piece)\n"
    "        if size > most:\n"
    "            sys.exit('it has more than %d bytes' % most)\n"
    "        out.write(piece)\n"
    "    if whole is not None and size != whole:\n"
    "        sys.exit('it broke off after %d of %d bytes' % (size, whole))\n"
    "    out.flush()\n"
    "def name(fd):\n"
    "    here = b'/proc/self/fd/%d' % fd\n"
    "    os.fchmod(fd, 0o644)\n"
    "    try:\n"
    "        os.link(here, path, src_dir_fd=fd, follow_symlinks=True)\n"
    "    except FileExistsError:\n"
    "        if not overwrite:\n"
    "            sys.exit('exists')\n"
    "        new = b'%s/.fetch-%s' % (os.path.dirname(path), os.urandom(8).hex().encode())\n"
    "        os.link(here, new, src_dir_fd=fd, follow_symlinks=True)\n"
    "        os.replace(new, path)\n"
    "def fetch():\n"
    "    if os.path.lexists(path) and not overwrite:\n"
    "        sys.exit('exists')\n"
    "    folder = os.path.dirname(path)\n"
    "    request = urllib.request.Request(url.decode(), headers={'User-Agent': 'caisson'})\n"
    "    answer = urllib.request.urlopen(request, timeout=30)\n"
    "    new, at = [], folder\n"
    "    while not os.path.isdir(at):\n"
    "        new, at = new + [at], os.path.dirname(at)\n"
    "    os.makedirs(folder, exist_ok=True)\n"
    "    try:\n"
    "        fd = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o644)\n"
    "        with open(fd, 'wb') as out:\n"
    "            copy(answer, out)\n"
    "            name(fd)\n"
    "    except BaseException:\n"
    "        for at in new:\n"
    "            os.rmdir(at)\n"
    "        raise\n"
    "for variable in 'no_proxy', 'NO_PROXY':\n"
    "    os.environ.pop(variable, None)\n"
    "try:\n"
    "    fetch()\n"
    "except Exception as e:\n"
    "    sys.exit(' '.join(str(e).split()))\n";

static void on_fetched_open(int fd, const struct engine_file *info, const struct err *e, void *user)
{
	struct add_call *c = user;

	workers_close(sandbox_owner(c->base.sandbox), fd);
	if (e) {
		fail(c, e);
		return;
	}
	c->size = info->size;
	finish_file(c);
}

/* The last line of what the program said; it comes from the sandbox. */
static void last_line(const struct program_result *r, struct buf *ret)
{
	const char *end = r->err + r->err_len, *start;

	while (end > r->err && (end[-1] == '\n' || end[-1] == '\r'))
		end--;
	for (start = end; start > r->err && start[-1] != '\n' && (size_t)(end - start) < SAID_MAX;)
		start--;
	for (const char *p = start; p < end; p++)
		if (buf_add_char(ret, *p >= ' ' && *p < 0x7F ? *p : '?') < 0)
			return;
}

static void on_fetched(const struct program_result *r, const struct err *e, void *user)
{
	struct add_call *c = user;
	_cleanup_(buf_done) struct buf said = BUF_INIT(SAID_MAX + 1);
	struct err error = ERR_INIT;

	if (!e && r->good) {
		if (sandbox_open_file(c->base.sandbox, c->path, on_fetched_open, c, &error) < 0)
			fail(c, &error);
		return;
	}
	if (e) {
		fail(c, e);
		return;
	}
	last_line(r, &said);
	if (streq(buf_str(&said), "exists")) {
		(void)err_set(&error, ERR_FILE_EXISTS, 0, "it exists");
		fail(c, &error);
		return;
	}
	(void)snprintf(c->said, sizeof(c->said), "%s",
		       r->reason == RUN_TIMEOUT ? "it took too long" : buf_str(&said));
	c->open = streq(sandbox_network(c->base.sandbox), "open");
	give_up(c);
}

/* The name of the file at URL: the last part of its path. */
static void name_of_url(const char *url, char ret[NAME_MAX_ + 1])
{
	const char *start = strstr(url, "://") + 3;
	const char *path = start + strcspn(start, "/?#");
	size_t len = strcspn(path, "?#"), at = len, n = 0;
	char raw[NAME_MAX_ + 1];

	while (at > 0 && path[at - 1] != '/')
		at--;
	(void)snprintf(raw, sizeof(raw), "%.*s", (int)MIN(len - at, (size_t)NAME_MAX_), path + at);
	/* A name that cannot be decoded, or would be another folder, is not used. */
	if (text_percent_decode(raw, strlen(raw), ret, &n) < 0 || n == 0 || strchr(ret, '/') ||
	    !text_is_utf8(ret, n) || streq(ret, ".") || streq(ret, ".."))
		(void)snprintf(ret, NAME_MAX_ + 1, "download");
}

static int make_program(struct add_call *c, struct buf *code)
{
	char full[ENGINE_PATH_MAX + sizeof(TOOLS_WORKSPACE)];
	int r = buf_printf(code, "most, overwrite = %ju, %s\n",
			   (uintmax_t)c->base.tools->config.max_upload_bytes,
			   c->overwrite ? "True" : "False");

	(void)snprintf(full, sizeof(full), TOOLS_WORKSPACE "%s", c->path);
	r = r < 0 ? r : program_add_bytes(code, "path", full, strlen(full));
	r = r < 0 ? r : program_add_bytes(code, "url", c->url, strlen(c->url));
	return r < 0 ? r : buf_add_str(code, program);
}

static void fail_network(struct add_call *c, const char *id)
{
	extras_fail(c->base.call, "network_not_permitted",
		    "Leave url out to get an upload link for the person, or make a sandbox with "
		    "a network by sandbox_create, if the operator permits one.",
		    "The sandbox %s has no network", id);
	add_call_free(c);
}

static void fetch(struct add_call *c)
{
	struct buf code = BUF_INIT(PROGRAM_MAX + 8 * ENGINE_PATH_MAX + 8 * ADDRESS_MAX);
	struct err e = ERR_INIT;

	if (streq(sandbox_network(c->base.sandbox), "none")) {
		fail_network(c, sandbox_id(c->base.sandbox));
		return;
	}
	if (!c->path[0])
		name_of_url(c->url, c->path);
	int r = make_program(c, &code);
	if (r < 0) {
		buf_done(&code);
		(void)err_set(&e, ERR_OUT_OF_MEMORY, -r, "fetching an address");
	} else {
		r = program_run(c->base.sandbox, &code, 1, 0, on_fetched, c, &e);
	}
	if (r < 0)
		fail(c, &e);
}

/* ---- a file of this machine ---- */

static void on_copied(uint64_t written, const struct err *e, void *user)
{
	struct add_call *c = user;

	if (e) {
		fail(c, e);
		return;
	}
	c->size = written;
	finish_file(c);
}

static void copy_local(struct add_call *c)
{
	const struct upload_request request = {
	    .path = c->path,
	    .overwrite = c->overwrite,
	    .source = {.fd = c->fd, .len = c->size},
	    .on_done = on_copied,
	    .user = c,
	};
	struct err e = ERR_INIT;

	if (sandbox_upload(c->base.sandbox, &request, &e) < 0)
		fail(c, &e);
}

static void open_session(struct add_call *c);

static void on_local(int fd, const struct err *e, void *user)
{
	struct add_call *c = user;
	const uint64_t max = c->base.tools->config.max_upload_bytes;
	struct err error = ERR_INIT;
	struct stat st;

	c->fd = fd;
	if (!e && fstat(fd, &st) < 0)
		(void)err_set(&error, ERR_SYSTEM, errno, "%s", c->local);
	else if (!e && (uint64_t)st.st_size > max)
		(void)err_set(&error, ERR_UPLOAD_TOO_LARGE, 0,
			      "%s has %jd bytes, the limit is %ju (SANDBOX_MAX_UPLOAD_BYTES)",
			      c->local, (intmax_t)st.st_size, (uintmax_t)max);
	if (e || error.code != ERR_NONE) {
		fail(c, e ? e : &error);
		return;
	}
	c->size = (uint64_t)st.st_size;
	open_session(c);
}

/* The file is opened before a session is made for it. */
static void open_local(struct add_call *c)
{
	const struct tools_config *config = &c->base.tools->config;
	const char *slash = strrchr(c->local, '/');
	const char *name = slash ? slash + 1 : c->local;
	struct err e = ERR_INIT;

	if (!config->open_local ||
	    !(config->local_for_others || mcp_call_is_on_stdio(c->base.call)))
		(void)err_set(
		    &e, ERR_FORBIDDEN, 0,
		    "This server reads no files of its own machine for this client "
		    "(upload.local_roots, SANDBOX_UPLOAD_LOCAL_ROOTS). Leave local_path out "
		    "to get an upload link");
	else if (c->path[0] || workspace_path(name, strlen(name), true, c->path, &e) == 0)
		(void)config->open_local(config->local_user_data, c->local, on_local, c, &e);
	if (e.code != ERR_NONE)
		fail(c, &e);
}

/* ---- the call ---- */

static void on_session(struct sandbox *s, const struct err *e, void *user)
{
	struct add_call *c = user;

	if (e) {
		fail(c, e);
		return;
	}
	c->base.sandbox = sandbox_ref(s);
	if (c->url)
		fetch(c);
	else if (c->local)
		copy_local(c);
	else
		make_link(c);
}

/* A text argument, owned. False: it cannot be used, and the call is finished. */
static bool take_text(struct mcp_call *call, const json_t *arguments, const char *name, char **ret)
{
	const char *text = mcp_text_arg(call, arguments, name);

	if (!json_is_string(json_object_get(arguments, name)))
		return true;
	*ret = text && *text && strlen(text) < ADDRESS_MAX ? strdup(text) : NULL;
	if (*ret)
		return true;
	extras_fail(call, "invalid_argument", "Give a short text.", "%s cannot be used", name);
	return false;
}

/* False: the call is finished. */
static bool take_arguments(struct add_call *c, const json_t *arguments)
{
	struct mcp_call *call = c->base.call;

	if (!take_text(call, arguments, "url", &c->url) ||
	    !take_text(call, arguments, "local_path", &c->local))
		return false;
	if (c->url && c->local) {
		extras_fail(call, "invalid_argument", "Give one of the two, or neither for a link.",
			    "url and local_path cannot both be given");
		return false;
	}
	if (c->url && !text_starts_with(c->url, "http://") &&
	    !text_starts_with(c->url, "https://")) {
		extras_fail(call, "invalid_argument", "Give the whole address.",
			    "url must begin with http:// or https://");
		return false;
	}
	return !json_is_string(json_object_get(arguments, "path")) ||
	       extras_path(call, arguments, c->path);
}

/* Whether this call would make a session. */
static bool is_new(const struct add_call *c)
{
	struct manager *m = c->base.tools->config.manager;
	const char *owner = mcp_call_principal(c->base.call);
	struct err ignored = ERR_INIT;

	return !c->id[0] || (!manager_find(m, owner, c->id) &&
			     manager_get_stored(m, owner, c->id, NULL, &ignored) == 0);
}

static void open_session(struct add_call *c)
{
	c->made = is_new(c);
	manager_open(c->base.tools->config.manager, mcp_call_principal(c->base.call),
		     c->id[0] ? c->id : NULL, on_session, c);
}

/* What can be refused is refused before a session is made for it, so that a refusal leaves no empty one. */
void extras_add_file(struct mcp_call *call, json_t *arguments, void *user)
{
	struct tools *t = user;
	const struct tools_config *config = &t->config;
	struct err e = ERR_INIT;
	char id[SANDBOX_ID_MAX + 1];

	if (!extras_session_id(call, arguments, true, id))
		return;
	struct add_call *c = tool_call_new(t, call, NULL, sizeof(*c));
	if (!c)
		return;
	c->fd = -1;
	memcpy(c->id, id, sizeof(c->id));
	c->overwrite = args_bool(arguments, "overwrite", true);
	if (!take_arguments(c, arguments)) {
		add_call_free(c);
	} else if (c->local) {
		open_local(c);
	} else if (c->url && is_new(c) &&
		   streq(manager_network(config->manager, NULL, NULL, NULL), "none")) {
		fail_network(c, c->id[0] ? c->id : "that would be made for it");
	} else if (!c->url && !config->upload_link) {
		(void)err_set(&e, ERR_FORBIDDEN, 0, "This server serves no links");
		fail(c, &e);
	} else {
		open_session(c);
	}
}
