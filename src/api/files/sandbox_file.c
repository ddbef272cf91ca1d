/* SPDX-License-Identifier: Apache-2.0 */
/* GET and HEAD /sandbox/file?sandbox_id=ID&file_path=PATH: the second family's form of a link.
 * Errors are {"detail": TEXT}. A stored sandbox that is not active is activated. */
#include "api/files/links.h"

#include "base/jsonio.h"
#include "base/text.h"
#include "base/workers.h"

#include <jansson.h>
#include <string.h>

struct fetch {
	struct links *links;
	struct http_request *req; /* NULL: the client has disconnected */
	char path[ENGINE_PATH_MAX];
	char owner[SANDBOX_OWNER_MAX + 1];
};

static void refuse(struct http_request *req, int status, const char *text)
{
	json_t *object = json_pack("{s:s}", "detail", text);
	size_t len = 0;
	char *body = jsonio_text(object, JSON_COMPACT, &len);

	json_decref(object);
	if (body)
		http_respond(req, status, "application/json", body, len);
	else
		http_respond_text(req, status, "application/json", "{\"detail\":\"\"}");
	free(body);
}

static void not_found(struct http_request *req)
{
	refuse(req, 404, "Error fetching file from sandbox: there is no such file");
}

static void on_gone(void *user)
{
	struct fetch *f = user;

	f->req = NULL;
}

static void on_file(int fd, const struct engine_file *info, const struct err *e, void *user)
{
	struct fetch *f = user;

	if (!f->req)
		workers_close(f->owner, fd);
	else if (e)
		not_found(f->req);
	else
		files_respond(f->req, fd, info, f->owner);
	free(f);
}

static void on_sandbox(struct sandbox *s, const struct err *e, void *user)
{
	struct fetch *f = user;
	struct err error = ERR_INIT;

	if (f->req && s && sandbox_open_file(s, f->path, on_file, f, &error) == 0)
		return;
	if (f->req && e && e->code != ERR_SESSION_NOT_FOUND && e->code != ERR_INVALID_SESSION_ID)
		refuse(f->req, 503, e->text);
	else if (f->req)
		not_found(f->req);
	free(f);
}

void links_get_sandbox_file(struct http_request *req, void *user)
{
	struct links *l = user;
	const char *id = http_request_query(req, "sandbox_id");
	const char *name = http_request_query(req, "file_path");
	char owner[SANDBOX_OWNER_MAX + 1] = "";
	char path[ENGINE_PATH_MAX];
	struct err e = ERR_INIT;

	if (!id || !name) {
		refuse(req, 422, "sandbox_id and file_path are required");
		return;
	}
	if (name[0] != '/' || workspace_path(name, strlen(name), true, path, &e) < 0) {
		not_found(req);
		return;
	}
	if (!links_find_owner(l, req, id, path, owner)) {
		if (http_request_query(req, "s"))
			refuse(req, 403, "This link has expired, or is not complete.");
		else
			refuse(req, 401, "Authentication required");
		return;
	}
	struct fetch *f = calloc(1, sizeof(*f));
	if (!f) {
		refuse(req, 503, "no memory");
		return;
	}
	f->links = l;
	f->req = req;
	memcpy(f->path, path, sizeof(path));
	memcpy(f->owner, owner, sizeof(owner));
	http_request_on_gone(req, on_gone, f);
	manager_activate(links_manager(l), owner, id, on_sandbox, f);
}
