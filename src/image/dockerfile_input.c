/* SPDX-License-Identifier: Apache-2.0 */
#include "image/dockerfile_input.h"

#include "base/fdio.h"
#include "base/parse.h"
#include "base/text.h"
#include "base/walls.h"
#include "image/inside.h"
#include "image/space.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARGS_MAX    100
#define BLOCK_BYTES (256 << 10) /* of what is written to the archive at once */

int dockerfile_read_beneath(int folder, const char *name, struct buf *b)
{
	/* The folder may be a stranger's: a link in it stays in it. */
	const struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
				     .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
	_cleanup_fd_ int fd = fd_openat2(folder, name, &how);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return fd < 0 ? fd : -errno;
	return S_ISREG(st.st_mode) ? fd_read_file(fd, b) : -EINVAL;
}

static int read_dockerfile(struct dockerfile_input *in, bool in_sandbox, struct err *e)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(DOCKERFILE_BYTES_MAX + 1);
	const struct image_dockerfile_options *o = in->o;
	const char *file = o->file ? o->file : "Dockerfile";
	const char *slash = strrchr(file, '/');
	const struct dockerfile_options options = {.name = slash ? slash + 1 : file,
						   .args = &o->args,
						   .target = o->target,
						   .no_network = o->no_network,
						   .allow_inside = o->allow_inside || in_sandbox,
						   .in_sandbox = in_sandbox};

	in->context = open(o->context, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (in->context < 0)
		return err_set(e, ERR_NOT_FOUND, errno, "cannot open the folder %s", o->context);
	int r;

	if (o->file) { /* the operator chose it */
		_cleanup_fd_ int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

		r = fd < 0 ? -errno : fd_read_file(fd, &text);
	} else {
		r = dockerfile_read_beneath(in->context, file, &text);
	}
	if (r == -EXDEV && !o->file)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "%s/%s is a link that leads out of the folder; --file names a "
			       "Dockerfile anywhere",
			       o->context, file);
	if (r < 0 && r != -ENOBUFS)
		return err_set(e, ERR_NOT_FOUND, -r, "cannot read %s%s%s",
			       o->file ? "" : o->context, o->file ? "" : "/", file);
	if (r == -ENOBUFS)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "%s: the file is larger than %u KiB",
			       options.name, DOCKERFILE_BYTES_MAX >> 10);
	return dockerfile_parse(buf_str(&text), text.len, &options, &in->d, e);
}

/* What only the network knows: names in ADD that stand for addresses of this machine. */
static int check_remote(const struct dockerfile_input *in, struct err *e)
{
	char host[INSIDE_HOST_MAX];

	const bool judges =
	    !in->o->allow_inside && !in->d.in_sandbox && wall_stands(WALL_DOCKERFILE);

	for (size_t i = 0; judges && i < in->d.remote.n; i++)
		if (inside_host(in->d.remote.v[i], host) < 0 || inside_resolves(host))
			return err_set(
			    e, ERR_INVALID_ARGUMENT, 0,
			    "%s: ADD '%.200s' is an address of this machine or its cloud; "
			    "--allow-inside permits that",
			    in->d.name, in->d.remote.v[i]);
	for (size_t i = 0; i < in->d.unused.n; i++) {
		char text[256];

		(void)snprintf(text, sizeof(text), "no ARG takes --build-arg %.100s",
			       in->d.unused.v[i]);
		in->watch->warn(in->watch->user, text);
	}
	return 0;
}

static int read_ignore(struct dockerfile_input *in, struct err *e)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(IGNORE_BYTES_MAX + 1);
	char own[128];

	(void)snprintf(own, sizeof(own), "%.100s.dockerignore", in->d.name);
	int r = dockerfile_read_beneath(in->context, own, &text);

	if (r == -ENOENT) {
		(void)snprintf(own, sizeof(own), ".dockerignore");
		r = dockerfile_read_beneath(in->context, own, &text);
	}
	if (r == -ENOENT)
		return 0;
	if (r == -EXDEV)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "%s of the build context is a link that leads out of it", own);
	if (r < 0)
		return err_set(e, ERR_INVALID_ARGUMENT, -r, "cannot read %s of the build context",
			       own);
	return ignore_parse(own, buf_str(&text), text.len, &in->ignore, e);
}

int dockerfile_input_take(struct dockerfile_input *in, int to, struct archive *tar, struct err *e)
{
	in->taken = (struct context){.from = in->context,
				     .to = to,
				     .tar = tar,
				     .owner = space_owner(),
				     .ignore = &in->ignore,
				     .bytes_max = in->o->max_bytes,
				     .watch = in->watch};
	in->watch->step(in->watch->user, to < 0 && !tar ? "looking at the build context"
							: "copying the build context");
	int r = context_take(&in->taken, e);

	if (r >= 0 && in->taken.sockets > 0)
		in->watch->warn(in->watch->user, "sockets of the build context are left out");
	return r;
}

int dockerfile_input_open(struct dockerfile_input *in, const char *name,
			  const struct image_dockerfile_options *o, const struct image_watch *w,
			  bool in_sandbox, struct err *e)
{
	int r = 0;

	*in = (struct dockerfile_input){.o = o, .watch = w, .context = -1};
	if (!parse_is_image_name(name, strlen(name)))
		r = err_set(
		    e, ERR_INVALID_ARGUMENT, 0,
		    "'%.64s' is no name for an image: small letters, digits, '.', '_' and '-'",
		    image_is_text(name, strlen(name)) ? name : "?");
	else if (o->args.n > ARGS_MAX)
		r = err_set(e, ERR_INVALID_ARGUMENT, 0, "more than %d times --build-arg", ARGS_MAX);
	r = r < 0 ? r : read_dockerfile(in, in_sandbox, e);
	r = r < 0 ? r : check_remote(in, e);
	return r < 0 ? r : read_ignore(in, e);
}

void dockerfile_input_done(struct dockerfile_input *in)
{
	in->context = fd_close(in->context);
	ignore_done(&in->ignore);
	dockerfile_done(&in->d);
}

void dockerfile_input_facts(const struct dockerfile_input *in, struct image_dockerfile_facts *ret)
{
	*ret = (struct image_dockerfile_facts){.steps = in->d.n,
					       .stages = in->d.n_stages,
					       .images = in->d.images.n,
					       .files = in->taken.entries,
					       .bytes = in->taken.bytes};
}

/* ---- for a build in sandboxes ---- */

/* A file that has no name. */
static int open_unnamed(struct err *e)
{
	const char *tmp = getenv("TMPDIR");
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/caisson-context-XXXXXX",
		       tmp && tmp[0] ? tmp : "/var/tmp");
	const int fd = mkostemp(path, O_CLOEXEC);

	if (fd < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot make the file %s", path);
	(void)unlink(path);
	return fd;
}

static int pack(struct dockerfile_input *in, struct image_dockerfile_plan *ret, struct err *e)
{
	struct archive *tar = archive_write_new();
	struct stat st;
	int r = tar ? 0 : err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the build context");

	ret->context = r < 0 ? -1 : open_unnamed(e);
	if (ret->context < 0) {
		(void)archive_write_free(tar);
		return -EIO;
	}
	if (archive_write_set_format_pax_restricted(tar) != ARCHIVE_OK ||
	    archive_write_set_bytes_per_block(tar, BLOCK_BYTES) != ARCHIVE_OK ||
	    archive_write_open_fd(tar, ret->context) != ARCHIVE_OK)
		r = err_set(e, ERR_SYSTEM, 0, "cannot write the build context: %s",
			    archive_error_string(tar));
	r = r < 0 ? r : dockerfile_input_take(in, -1, tar, e);
	if (r >= 0 && archive_write_close(tar) != ARCHIVE_OK)
		r = err_set(e, ERR_SYSTEM, archive_errno(tar), "cannot write the build context");
	(void)archive_write_free(tar);
	if (r >= 0 && fstat(ret->context, &st) < 0)
		r = err_set(e, ERR_SYSTEM, errno, "cannot read the build context");
	ret->context_len = r < 0 ? 0 : (uint64_t)st.st_size;
	return r;
}

int image_plan_dockerfile(const char *name, const struct image_dockerfile_options *o,
			  const struct image_watch *w, struct image_dockerfile_plan *ret,
			  struct image_dockerfile_facts *facts, struct err *e)
{
	/* What .dockerignore leaves out is not in the archive, so the scripts have nothing to remove. */
	const struct ignore nothing = {0};
	struct dockerfile_input in;
	bool context = false;

	*ret = (struct image_dockerfile_plan){.context = -1};
	int r = dockerfile_input_open(&in, name, o, w, true, e);

	r = r < 0 ? r : dockerfile_plan_make(&in.d, o->target, &nothing, &ret->plan, e);
	for (size_t i = 0; r >= 0 && i < ret->plan.n; i++)
		context |= ret->plan.runs[i].context;
	if (r >= 0 && o->check_only)
		r = dockerfile_input_take(&in, -1, NULL, e);
	else if (r >= 0 && context)
		r = pack(&in, ret, e);
	dockerfile_input_facts(&in, facts);
	dockerfile_input_done(&in);
	return r;
}

void image_dockerfile_plan_done(struct image_dockerfile_plan *p)
{
	dockerfile_plan_done(&p->plan);
	p->context = fd_close(p->context);
}
