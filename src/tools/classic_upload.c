/* SPDX-License-Identifier: Apache-2.0 */
/* upload_file_to_sandbox of the second tool family: copies a file, or all files of a folder, of the
 * server's machine. The
 * opener process opens the file with the rights of whoever started the server, and only beneath
 * the folders in upload.local_roots. This process has no right to do that. */
#include "tools/classic.h"

#include "base/text.h"
#include "base/workers.h"
#include "sandbox/upload.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES_MAX (1u << 20) /* bytes of the names of a folder's files */

struct local_call {
	struct classic_call base;
	char *local; /* as given, without slashes at its end */
	char *dest;  /* as given */
	char folder[ENGINE_PATH_MAX];
	char path[ENGINE_PATH_MAX];
	int fd;
	char *names;      /* of a folder: those of its files, each with a NUL; owned */
	const char *next; /* in `names` */
	const char *end;  /* of `names` */
};

static void open_next(struct local_call *c);

static void close_local(struct local_call *c)
{
	workers_close(mcp_call_principal(c->base.call), c->fd);
	c->fd = -1;
}

static void local_end(struct local_call *c)
{
	close_local(c);
	free(c->names);
	free(c->local);
	free(c->dest);
	classic_call_free(&c->base);
}

static void local_fail(struct local_call *c, const struct err *e)
{
	classic_finish_err(c->base.call, e);
	local_end(c);
}

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void local_succeed(struct local_call *c)
{
	char text[2 * ENGINE_PATH_MAX];

	(void)snprintf(text, sizeof(text), "Uploaded %s to %s in sandbox %s", name_of(c->local),
		       c->dest, sandbox_id(c->base.sandbox));
	classic_finish(c->base.call, json_pack("{s:b, s:o}", "success", true, "message",
					       tools_json_bytes(text, strlen(text))));
	local_end(c);
}

static void on_uploaded(uint64_t written UNUSED, const struct err *e, void *user)
{
	struct local_call *c = user;

	close_local(c);
	if (e)
		local_fail(c, e);
	else if (c->names)
		open_next(c);
	else
		local_succeed(c);
}

/* The names of a folder's files, as the opener wrote them. */
static void on_names_read(char *data, ssize_t n, void *user)
{
	struct local_call *c = user;
	struct err e = ERR_INIT;

	c->names = data;
	if (n < 0 || n > NAMES_MAX || (n > 0 && data[n - 1] != '\0')) {
		(void)err_set(&e, ERR_SYSTEM, n < 0 ? (int)-n : 0,
			      "cannot read the names of the files in %s", c->local);
		local_fail(c, &e);
		return;
	}
	c->next = c->names;
	c->end = c->names + n;
	open_next(c);
}

static void on_names(int fd, const struct err *e, void *user)
{
	struct local_call *c = user;

	if (e)
		local_fail(c, e);
	else
		workers_read(mcp_call_principal(c->base.call), fd, 0, NAMES_MAX + 1, on_names_read,
			     c);
}

static void on_opened(int fd, const struct err *e, void *user)
{
	struct local_call *c = user;
	const struct tools_config *config = &c->base.tools->config;
	struct err error = ERR_INIT;
	struct stat st;

	c->fd = fd;
	if (e && e->errnum == EISDIR && !c->names) {
		if (config->list_local(config->local_user_data, c->local, on_names, c, &error) < 0)
			local_fail(c, &error);
		return;
	}
	if (e && e->code == ERR_NOT_FOUND && c->names) { /* it has just been removed */
		open_next(c);
		return;
	}
	if (e && e->code == ERR_NOT_FOUND) {
		classic_finish_error(c->base.call, "Local file not found: %s", c->local);
		local_end(c);
		return;
	}
	if (!e && fstat(fd, &st) < 0) {
		(void)err_set(&error, ERR_SYSTEM, errno, "%s", c->local);
	} else if (!e && (uint64_t)st.st_size > config->max_upload_bytes) {
		(void)err_set(&error, ERR_UPLOAD_TOO_LARGE, 0,
			      "%s has %jd bytes, the limit is %ju (SANDBOX_MAX_UPLOAD_BYTES)",
			      name_of(c->local), (intmax_t)st.st_size,
			      (uintmax_t)config->max_upload_bytes);
	} else if (!e) {
		struct upload_request request = {
		    .path = c->path,
		    .overwrite = true,
		    .source = {.fd = fd, .len = (uint64_t)st.st_size},
		    .on_done = on_uploaded,
		    .user = c,
		};
		if (sandbox_upload(c->base.sandbox, &request, &error) == 0)
			return;
	}
	local_fail(c, e ? e : &error);
}

/* Uploads the next file of the folder, or ends with success after the last one. */
static void open_next(struct local_call *c)
{
	const struct tools_config *config = &c->base.tools->config;
	const char *name = c->next;
	_cleanup_free_ char *local = NULL;
	struct err error = ERR_INIT;

	if (name == c->end) {
		local_succeed(c);
		return;
	}
	c->next += strlen(name) + 1;
	if ((size_t)snprintf(c->path, sizeof(c->path), "%s%s%s/%s", c->folder,
			     c->folder[0] ? "/" : "", name_of(c->local), name) >= sizeof(c->path) ||
	    asprintf(&local, "%s/%s", c->local, name) < 0) {
		local = NULL;
		(void)err_set(&error, ERR_INVALID_PATH, ENAMETOOLONG, "%s", name);
		local_fail(c, &error);
	} else if (config->open_local(config->local_user_data, local, on_opened, c, &error) < 0) {
		local_fail(c, &error);
	}
}

/* The folder must exist: a typing error must not make a new one. */
static void on_folder(const struct engine_file *files UNUSED, size_t n UNUSED, bool more UNUSED,
		      const struct err *e, void *user)
{
	struct local_call *c = user;
	const struct tools_config *config = &c->base.tools->config;
	struct err error = ERR_INIT;

	if (e && e->code == ERR_NOT_FOUND) {
		classic_finish_error(c->base.call, "No folder %s in sandbox %s", c->dest,
				     sandbox_id(c->base.sandbox));
		local_end(c);
	} else if (e) {
		local_fail(c, e);
	} else if (config->open_local(config->local_user_data, c->local, on_opened, c, &error) <
		   0) {
		local_fail(c, &error);
	}
}

/* Checks that DEST is a folder of the workspace, under either of its names or relative to it. */
static int take_folder(struct local_call *c, struct err *e)
{
	static const char *const tops[] = {"/app/results", "/mnt/data"};
	size_t len = strlen(c->dest);

	while (len > 1 && c->dest[len - 1] == '/')
		len--;
	for (size_t i = 0; i < ARRAY_SIZE(tops); i++)
		if (len == strlen(tops[i]) && memcmp(c->dest, tops[i], len) == 0)
			return 0;
	int r = workspace_path(c->dest, len, true, c->folder, e);
	return r < 0 ? err_set(e, ERR_INVALID_PATH, 0,
			       "%s is not a folder of the sandbox's files: give one below %s",
			       c->dest, CLASSIC_FOLDER)
		     : 0;
}

static void on_ready(struct classic_call *base, const struct err *e)
{
	struct local_call *c = (struct local_call *)base;
	struct err error = ERR_INIT;

	if (e) {
		local_fail(c, e);
		return;
	}
	int r = take_folder(c, &error);
	if (r == 0 &&
	    (size_t)snprintf(c->path, sizeof(c->path), "%s%s%s", c->folder, c->folder[0] ? "/" : "",
			     name_of(c->local)) >= sizeof(c->path))
		r = err_set(&error, ERR_INVALID_PATH, ENAMETOOLONG, "%s", c->dest);
	if (r == 0)
		r = sandbox_list(base->sandbox, c->folder, on_folder, c, &error);
	if (r < 0)
		local_fail(c, &error);
}

void classic_upload(struct mcp_call *call, json_t *arguments, void *user)
{
	struct tools *t = user;

	const char *id = classic_arg(call, arguments, "sandbox_id");
	const char *local = classic_arg(call, arguments, "local_file_path");
	const char *dest = classic_arg(call, arguments, "dest_path");
	struct local_call *c = classic_call_new(call, t, sizeof(*c));
	if (!c)
		return;
	c->fd = -1;
	c->base.ready = on_ready;
	c->local = strdup(local ? local : "");
	for (size_t n = c->local ? strlen(c->local) : 0; n > 1 && c->local[n - 1] == '/'; n--)
		c->local[n - 1] = '\0';
	c->dest = strdup(dest ? dest : CLASSIC_FOLDER);
	bool may =
	    t->config.open_local && (t->config.local_for_others || mcp_call_is_on_stdio(call));
	if (!c->local || !c->dest || !c->local[0] || !may) {
		classic_finish_error(
		    call, "%s",
		    !c->local || !c->dest ? "no memory"
		    : !may
			? "This server reads no files of its own machine for this client: over "
			  "HTTP it does so only where other machines cannot reach it and "
			  "upload.local_roots (SANDBOX_UPLOAD_LOCAL_ROOTS) names folders; over "
			  "stdio not if that is empty, or the server was started in /. Write the "
			  "file with execute_python_code, or upload it over HTTP."
			: "Local file not found: ");
		local_end(c);
		return;
	}
	classic_open(&c->base, id ? id : "");
}
