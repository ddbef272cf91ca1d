/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an image from the Docker or Podman of this machine: GET /images/NAME/get. The daemon
 * is the operator's, so what it says about itself is believed; what it sends is judged afterwards. */
#include "image/fetch.h"

#include "base/fdio.h"
#include "base/libcurl.h"
#include "base/text.h"
#include "image/http_get.h"
#include "image/worker.h"

#include <fcntl.h>
#include <string.h>

#define DEFAULT_SOCKET "/var/run/docker.sock"

struct export
{
	const struct image_ref *ref;
	const struct image_watch *watch;
	int folder; /* borrowed */
	char socket[108];
};

static int take(void *user, const void *data, size_t len)
{
	return fd_write_all(*(int *)user, data, len);
}

/* Runs in the worker. */
static int get_archive(void *ctx, void *report UNUSED, struct err *e)
{
	struct export *x = ctx;
	char url[REF_NAME_MAX + 64];
	_cleanup_fd_ int fd =
	    openat(x->folder, FETCH_ARCHIVE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot keep what is fetched");
	(void)snprintf(url, sizeof(url), "http://127.0.0.1/images/%s/get", x->ref->name);
	struct http_get g = {.url = url,
			     .socket = x->socket,
			     .max = OCI_BLOB_MAX,
			     .sink = take,
			     .sink_user = &fd,
			     .watch = x->watch};
	int r = http_get(&g, e);

	if (r < 0)
		return err_wrap(e, "the Docker daemon");
	if (g.status == 200)
		return 0;
	return err_set(e, g.status == 404 ? ERR_NOT_FOUND : ERR_SOURCE_UNREACHABLE, 0,
		       "the Docker daemon answered %ld (%.150s)", g.status, g.problem);
}

int fetch_daemon(const struct image_ref *ref, int folder, const struct image_watch *w,
		 struct err *e)
{
	struct export x = {.ref = ref, .watch = w, .folder = folder};
	const char *host = getenv("DOCKER_HOST");
	char report[1];

	if (host && host[0] && !text_starts_with(host, "unix://"))
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "DOCKER_HOST is no unix:// address; 'docker save IMAGE' makes a "
			       "file that can be imported");
	const char *path = host && host[0] ? host + strlen("unix://") : DEFAULT_SOCKET;

	if (text_copy(x.socket, sizeof(x.socket), path) < 0)
		return err_set(e, ERR_SETTING_INVALID, ENAMETOOLONG, "DOCKER_HOST");
	const struct worker work = {
	    .kind = WORKER_LOCAL, .write = folder, .source = -1, .fn = get_archive, .ctx = &x};

	w->step(w->user, "asking the Docker daemon");
	int r = libcurl_load(e);

	if (r >= 0)
		r = worker_run(&work, w, report, sizeof(report), e);

	return r == -EIO && e->code == ERR_SOURCE_UNREACHABLE
		   ? err_wrap(e, "%s (DOCKER_HOST)", x.socket)
		   : r;
}
