/* SPDX-License-Identifier: Apache-2.0 */
/* REST: several files in one form (api/files/form_upload.h). Every part must be a file: a part without a filename is
 * refused. */
#include "api/files/form_upload.h"
#include "api/rest/rest.h"

#include "base/text.h"

#include <errno.h>
#include <string.h>

struct form_call {
	struct rest_call *call;
	char folder[ENGINE_PATH_MAX]; /* "" = the top of the workspace */
};

/* Makes the path FOLDER/FILENAME of the workspace. Refuses a name that leads out of it. */
static int path_of(const struct multipart_part *part, char *ret, void *user, struct err *e)
{
	const struct form_call *f = user;
	char name[ENGINE_PATH_MAX], path[2 * ENGINE_PATH_MAX];

	if (!part->filename || !*part->filename)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "the part '%.100s' has no filename",
			       part->name);
	int r = workspace_path(part->filename, strlen(part->filename), true, name, e);
	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "%s%s%s", f->folder, *f->folder ? "/" : "", name);
	return workspace_path(path, strlen(path), true, ret, e);
}

static void on_gone(void *user)
{
	const struct form_call *f = user;

	f->call->req = NULL;
}

static void on_done(const struct form_written *files, unsigned n, const struct err *e, void *user)
{
	struct form_call *f = user;
	struct rest_call *c = f->call;
	json_t *written = json_array();

	free(f);
	for (unsigned i = 0; i < n; i++)
		(void)json_array_append_new(written, json_pack("{s:o, s:I}", "path",
							       rest_name(files[i].path), "size",
							       (json_int_t)files[i].size));
	if (!e) {
		rest_reply(c, 201, json_pack("{s:o}", "files", written));
		return;
	}
	if (n > 0)
		c->done = json_pack("{s:O}", "files", written);
	json_decref(written);
	rest_fail(c, e);
}

static void post_files(struct rest_call *c)
{
	struct form_call *f = calloc(1, sizeof(*f));
	const char *folder = http_request_query(c->req, "path");
	struct err e = ERR_INIT;
	const struct form_upload_request q = {
	    .req = c->req,
	    .sandbox = c->sandbox,
	    .how = rest_query_bool(c, "overwrite") ? ENGINE_FILE_OVERWRITE : 0,
	    .max_bytes = c->api->config.max_upload_bytes,
	    .path = path_of,
	    .gone = on_gone,
	    .done = on_done,
	    .user = f,
	};
	int r = f ? 0 : err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "a form");

	c->action = "file.put";
	if (f)
		f->call = c;
	if (r == 0 && folder && *folder)
		r = workspace_path(folder, strlen(folder), true, f->folder, &e);
	r = r < 0 ? r : form_upload_begin(&q, &e);
	if (r < 0) {
		free(f);
		rest_fail(c, &e);
	}
}

void rest_post_files(struct rest_call *c)
{
	rest_sandbox(c, post_files);
}
