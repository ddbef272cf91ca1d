/* SPDX-License-Identifier: Apache-2.0 */
/* Builds an image from a Dockerfile: reads and judges it, copies the build context, has buildah fetch the images that it begins with and
 * do its steps, and imports the result as an image from anywhere is imported. */
#include "image/image.h"

#include "base/fdio.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "image/builder.h"
#include "image/dockerfile_input.h"
#include "image/ref.h"
#include "image/scratch.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define LOGIN_MAX (1u << 20)
#define ARGS_MAX  100 /* as those that are read have */

struct making {
	const struct image_store *store;
	const char *name;
	const struct image_dockerfile_options *o;
	const struct image_watch *watch;
	struct dockerfile_input in;
	struct builder builder;
	int log; /* owned */
};

/* The here-documents of COPY and ADD. */
static int write_here(struct making *m, int to, struct err *e)
{
	for (size_t i = 0; i < m->in.d.n; i++) {
		const struct dockerfile_step *s = &m->in.d.steps[i];

		for (size_t h = 0; s->kind != DOCKERFILE_RUN && h < s->n_here; h++) {
			char path[DOCKERFILE_NAME_MAX + 64], folder[64];
			const uid_t owner = space_owner();

			dockerfile_here_path(&m->in.d, i, h, path, sizeof(path));
			(void)snprintf(folder, sizeof(folder), "%.*s",
				       (int)(strrchr(path, '/') - path), path);
			char all[PATH_MAX];

			builder_path(&m->builder, "context", all);
			(void)snprintf(all + strlen(all), sizeof(all) - strlen(all), "/%s", folder);
			int r = fd_make_dirs(all, 0755);
			_cleanup_fd_ int fd =
			    r < 0 ? r
				  : fd_open_beneath(to, path, O_WRONLY | O_CREAT | O_EXCL, 0644);

			r = fd < 0 ? fd
				   : fd_write_all(fd, s->here[h].text, strlen(s->here[h].text));
			if (r >= 0 && owner != (uid_t)-1 && fchown(fd, owner, owner) < 0)
				r = -errno;
			if (r < 0)
				return err_set(e, ERR_SYSTEM, -r,
					       "cannot write a here-document of line %u", s->line);
		}
	}
	return 0;
}

static bool has_here(const struct dockerfile *d)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->steps[i].kind != DOCKERFILE_RUN && d->steps[i].n_here > 0)
			return true;
	return false;
}

static int write_context(struct making *m, struct err *e)
{
	_cleanup_fd_ int to = builder_folder(&m->builder, "context", e);
	int r = to < 0 ? to : dockerfile_input_take(&m->in, to, NULL, e);

	if (r < 0 || !has_here(&m->in.d))
		return r;
	if (mkdirat(to, DOCKERFILE_HERE_FOLDER, 0755) < 0) /* a link of that name would lead out */
		return err_set(e, ERR_INVALID_ARGUMENT, errno,
			       "the build context has '%s', which here-documents of COPY need",
			       DOCKERFILE_HERE_FOLDER);
	return write_here(m, to, e);
}

/* Loopback is asked without TLS, and so is every registry with --plain-http: as for `caisson image pull`. */
static int write_registries(struct making *m, struct err *e)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(1u << 20);
	int r = buf_add_str(&b, "unqualified-search-registries = []\nshort-name-mode = "
				"\"disabled\"\n");

	for (size_t i = 0; r >= 0 && i < m->in.d.images.n; i++) {
		const char *image = m->in.d.images.v[i];
		char host[REF_HOST_MAX + 1];

		(void)snprintf(host, sizeof(host), "%.*s", (int)strcspn(image, "/"), image);
		bool seen = !m->o->plain_http && !ref_is_loopback(host);

		for (size_t k = 0; k < i && !seen; k++)
			seen = strncmp(m->in.d.images.v[k], image, strlen(host) + 1) == 0;
		if (!seen)
			r = buf_printf(&b, "\n[[registry]]\nlocation = \"%s\"\ninsecure = true\n",
				       host);
	}
	return r < 0 ? err_set(e, ERR_OUT_OF_MEMORY, -r, "preparing the build")
		     : builder_file(&m->builder, "registries.conf", buf_str(&b), b.len, false, e);
}

/* Signatures of images are looked for nowhere: root's folder of them is closed to the builder's account, which would be an error. */
static int write_lookaside(struct making *m, struct err *e)
{
	static const char *const parts[] = {"home/.config", "home/.config/containers",
					    "home/.config/containers/registries.d"};
	char folder[PATH_MAX], text[PATH_MAX + 64];
	int n;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		_cleanup_fd_ int fd = builder_folder(&m->builder, parts[i], e);

		if (fd < 0)
			return fd;
	}
	builder_path(&m->builder, parts[ARRAY_SIZE(parts) - 1], folder);
	n = snprintf(text, sizeof(text), "default-docker:\n  lookaside: file://%s/none\n", folder);
	return builder_file(&m->builder, "home/.config/containers/registries.d/default.yaml", text,
			    (size_t)n, false, e);
}

/* The login of `docker login` and `podman login`. It is there while images are fetched, and gone before the first step. */
static int write_login(struct making *m, struct err *e)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(LOGIN_MAX);
	const char *podman = getenv("REGISTRY_AUTH_FILE"), *docker = getenv("DOCKER_CONFIG");
	const char *home = getenv("HOME");
	char path[PATH_MAX];

	if (podman && podman[0])
		(void)snprintf(path, sizeof(path), "%s", podman);
	else if (docker && docker[0])
		(void)snprintf(path, sizeof(path), "%s/config.json", docker);
	else
		(void)snprintf(path, sizeof(path), "%s/.docker/config.json", home ? home : "");
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0 || fd_read_file(fd, &text) < 0)
		return builder_file(&m->builder, "auth.json", "{}", 2, true, e);
	return builder_file(&m->builder, "auth.json", buf_str(&text), text.len, true, e);
}

static int write_files(struct making *m, struct err *e)
{
	static const char *const folders[] = {"storage", "run", "home", "tmp", "layout"};
	static const char policy[] = "{\"default\":[{\"type\":\"insecureAcceptAnything\"}]}";
	static const char storage[] = "[storage]\ndriver = \"overlay\"\n";
	_cleanup_(buf_done) struct buf text = BUF_INIT(4 * DOCKERFILE_BYTES_MAX);
	int r = dockerfile_print(&m->in.d, &text);

	if (r < 0)
		return err_set(e, ERR_INVALID_ARGUMENT, -r, "%s is too long", m->in.d.name);
	r = builder_file(&m->builder, "Dockerfile", buf_str(&text), text.len, false, e);
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(folders); i++) {
		_cleanup_fd_ int fd = builder_folder(&m->builder, folders[i], e);

		r = fd;
	}
	if (r >= 0)
		r = builder_file(&m->builder, "containers.conf", "", 0, false, e);
	if (r >= 0)
		r = builder_file(&m->builder, "ignore", "", 0, false, e);
	if (r >= 0)
		r = builder_file(&m->builder, "storage.conf", storage, strlen(storage), false, e);
	if (r >= 0)
		r = builder_file(&m->builder, "policy.json", policy, strlen(policy), false, e);
	if (r >= 0)
		r = write_registries(m, e);
	if (r >= 0)
		r = write_lookaside(m, e);
	return r < 0 ? r : write_login(m, e);
}

static int fetch_images(struct making *m, struct err *e)
{
	char policy[PATH_MAX], login[PATH_MAX], source[1024], step[64];
	int r = 0;

	builder_path(&m->builder, "policy.json", policy);
	builder_path(&m->builder, "auth.json", login);
	for (size_t i = 0; r >= 0 && i < m->in.d.images.n; i++) {
		(void)snprintf(step, sizeof(step), "fetching %.50s", m->in.d.images.v[i]);
		m->watch->step(m->watch->user, step);
		(void)snprintf(source, sizeof(source), "docker://%s", m->in.d.images.v[i]);
		const char *const argv[] = {"pull", "--quiet",    "--signature-policy",
					    policy, "--authfile", login,
					    source, NULL};

		r = builder_run(&m->builder, argv, false, e);
		if (r < 0 && e->code == ERR_SOURCE_UNREACHABLE)
			r = err_wrap(e, "%s: FROM %.100s", m->in.d.name, m->in.d.images.v[i]);
	}
	if (unlinkat(m->builder.dir, "auth.json", 0) < 0 && r >= 0)
		r = err_set(e, ERR_SYSTEM, errno, "cannot remove the login");
	return r;
}

static int do_steps(struct making *m, struct err *e)
{
	char policy[PATH_MAX], file[PATH_MAX], ignore[PATH_MAX], context[PATH_MAX], id[PATH_MAX];
	const char *argv[2 * ARGS_MAX + 32] = {"build",
					       "--isolation=chroot",
					       "--layers=false",
					       "--pull=never",
					       "--format=oci",
					       "--signature-policy",
					       policy,
					       "--file",
					       file,
					       "--ignorefile",
					       ignore,
					       "--iidfile",
					       id};
	size_t n = 13;

	builder_path(&m->builder, "policy.json", policy);
	builder_path(&m->builder, "Dockerfile", file);
	builder_path(&m->builder, "ignore", ignore);
	builder_path(&m->builder, "context", context);
	builder_path(&m->builder, "home/id", id);
	for (size_t i = 0; i < m->o->args.n; i++) {
		argv[n++] = "--build-arg";
		argv[n++] = m->o->args.v[i];
	}
	if (m->o->target) {
		argv[n++] = "--target";
		argv[n++] = m->o->target;
	}
	argv[n++] = context;
	m->watch->step(m->watch->user, "starting the build");
	m->builder.building = true;
	int r = builder_run(&m->builder, argv, m->o->no_network, e);

	m->builder.building = false;
	return r;
}

/* The result as an OCI layout, which is imported. */
static int write_layout(struct making *m, struct err *e)
{
	_cleanup_(buf_done) struct buf id = BUF_INIT(256);
	char policy[PATH_MAX], layout[PATH_MAX], target[PATH_MAX + 16];
	int r = dockerfile_read_beneath(m->builder.dir, "home/id", &id);

	while (id.len > 0 && (id.data[id.len - 1] == '\n'))
		id.data[--id.len] = '\0';
	if (r < 0 || !oci_is_digest(buf_str(&id)))
		return err_set(e, ERR_IMAGE_BUILD_FAILED, r < 0 ? -r : 0,
			       BUILDER " did not say which image it made");
	builder_path(&m->builder, "policy.json", policy);
	builder_path(&m->builder, "layout", layout);
	(void)snprintf(target, sizeof(target), "oci:%s:latest", layout);
	m->watch->step(m->watch->user, "writing the image");
	const char *const argv[] = {
	    "push", "--quiet", "--disable-compression", "--signature-policy", policy, buf_str(&id),
	    target, NULL};

	return builder_run(&m->builder, argv, true, e);
}

static int import(struct making *m, struct image_manifest *ret, struct err *e)
{
	const struct image_import_options o = {.source_name = "dockerfile"};
	char layout[PATH_MAX];

	builder_path(&m->builder, "layout", layout);
	return image_import(m->store, m->name, layout, &o, m->watch, ret, e);
}

static void log_name(const struct making *m, char ret[IMAGE_NAME_MAX + 8])
{
	(void)snprintf(ret, IMAGE_NAME_MAX + 8, ".%.*s.log", IMAGE_NAME_MAX, m->name);
}

static int make(struct making *m, struct image_manifest *ret, struct err *e)
{
	char log[IMAGE_NAME_MAX + 8];
	int r = space_check(e);

	if (r >= 0 && !image_has_buildah())
		r = err_set(
		    e, ERR_IMAGE_BUILD_FAILED, ENOENT,
		    BUILDER
		    " is not installed, which builds from Dockerfiles need here (apt-get "
		    "install buildah); as root this command builds without it, in sandboxes");
	if (r >= 0)
		r = scratch_check_space(m->store->path, UINT64_C(1) << 30, e);
	if (r >= 0)
		r = builder_open(&m->builder, e);
	if (r < 0)
		return r;
	log_name(m, log);
	m->log =
	    openat(m->store->dir, log, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	m->builder.log = m->log;
	m->builder.deadline = now_ns() + m->o->timeout_s * NS_PER_S;
	r = write_context(m, e);
	if (r >= 0)
		r = write_files(m, e);
	if (r >= 0)
		r = fetch_images(m, e);
	if (r >= 0)
		r = do_steps(m, e);
	if (r < 0 && e->code != ERR_CANCELLED && m->builder.step != SIZE_MAX)
		(void)snprintf(m->o->ret_tail, IMAGE_STEP_TAIL + 1, "%s", m->builder.tail);
	if (r >= 0)
		r = write_layout(m, e);
	if (r >= 0)
		r = import(m, ret, e);
	if (r >= 0 || e->code == ERR_CANCELLED)
		(void)unlinkat(m->store->dir, log, 0);
	return r;
}

int image_build_dockerfile(const struct image_store *s, const char *name,
			   const struct image_dockerfile_options *o, const struct image_watch *w,
			   struct image_manifest *ret, struct image_dockerfile_facts *facts,
			   struct err *e)
{
	struct making m = {.store = s, .name = name, .o = o, .watch = w, .log = -1};
	int r = dockerfile_input_open(&m.in, name, o, w, false, e);

	m.builder = (struct builder){.watch = w, .options = o, .d = &m.in.d, .dir = -1, .log = -1};
	if (r >= 0)
		r = o->check_only ? dockerfile_input_take(&m.in, -1, NULL, e) : make(&m, ret, e);
	if (o->check_only)
		dockerfile_input_facts(&m.in, facts);
	builder_close(&m.builder);
	m.log = fd_close(m.log);
	dockerfile_input_done(&m.in);
	return r;
}
