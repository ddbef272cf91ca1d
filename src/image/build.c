/* SPDX-License-Identifier: Apache-2.0 */
/* Builds an image.
 *
 * Two processes take part. mmdebstrap makes the tree in a scratch folder of its own (as root, or in
 * a user namespace for a plain user) and writes it as a tar stream to its standard output. This
 * process reads mmdebstrap's standard error to show progress, and unpacks the stream into the draft
 * with the rules of unpack.h. So both kinds of build give the same tree, and it belongs to the user
 * who builds. */
#include "image/image.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/text.h"
#include "image/child.h"
#include "image/oci.h"
#include "image/progress.h"
#include "image/root.h"
#include "image/scratch.h"
#include "image/source.h"
#include "image/subuids.h"
#include "image/unpack.h"
#include "image/wheels.h"

#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <string.h>

#define BLOCK_SIZE (256u << 10)
/* Stay, whatever a definition excludes: who passes an image on must pass them on, too. */
#define LICENCES     "/usr/share/doc/*/copyright"
#define STOP_WAIT_MS 20000 /* time for mmdebstrap to unmount and remove what it made */

struct build {
	const struct image_store *store;
	const struct image_def *def;
	const struct image_watch *watch;
	struct image_index index; /* borrowed parts */
	struct image_draft draft;
	struct scratch scratch;
	char mirror[SOURCE_URL_MAX];
	const char *architecture; /* borrowed; NULL = this machine's */
	struct child child;
	struct progress progress;
	const char *shown; /* the step that is on the screen; borrowed */
	int log;           /* owned: raw messages of the package tools */
	uint64_t received; /* bytes of the stream */
	bool stopped;
	bool stale;
	char *block; /* owned, BLOCK_SIZE */
};

bool image_cancelled(const struct image_watch *w)
{
	struct pollfd p = {.fd = w->cancel_fd, .events = POLLIN};

	return w->cancel_fd >= 0 && poll(&p, 1, 0) > 0;
}

static int add(struct image_words *w, const char *prefix, const char *text)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(IMAGE_DEF_FILE_MAX);
	int r = buf_printf(&b, "%s%s", prefix, text);

	return r < 0 ? r : image_words_add(w, buf_str(&b), b.len);
}

static int add_joined(struct image_words *w, const char *prefix, const struct image_words *list)
{
	_cleanup_free_ char *joined = image_words_join(list, ',');

	return joined ? add(w, prefix, joined) : -ENOMEM;
}

static int add_proxy(struct image_words *w, const char *scheme)
{
	char url[SOURCE_URL_MAX];
	char option[SOURCE_URL_MAX + 64];

	source_find_proxy(scheme, url);
	if (!url[0])
		return 0;
	(void)snprintf(option, sizeof(option), "Acquire::%s::Proxy \"%s\";", scheme, url);
	return add(w, "--aptopt=", option);
}

static int add_hook(const struct build *b, struct image_words *w, const char *name)
{
	char path[PATH_MAX + 256];

	(void)snprintf(path, sizeof(path), "%s/%s", b->scratch.path, name);
	return add(w, "--customize-hook=", path);
}

/* Ends a list of words with the NULL that execvp(3) needs. */
static int end_list(struct image_words *w)
{
	int r = image_words_add(w, "", 0);

	if (r < 0)
		return r;
	free(w->v[--w->n]);
	w->v[w->n] = NULL;
	return 0;
}

static int add_arguments(const struct build *b, struct image_words *w)
{
	static const char *const fixed[] = {
	    "--verbose",
	    "--format=tar",
	    "--aptopt=APT::Install-Recommends \"false\"",
	    "--aptopt=Acquire::Languages \"none\"",
	    /* If a mirror fails once, apt asks it again: a build takes minutes. */
	    "--aptopt=Acquire::Retries \"3\"",
	};
	const struct image_def *d = b->def;
	int r = add(w, "", "mmdebstrap");

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(fixed); i++)
		r = add(w, "", fixed[i]);
	if (r >= 0)
		r = add(w, "--mode=", geteuid() == 0 ? "root" : "unshare");
	if (r >= 0 && b->architecture)
		r = add(w, "--architectures=", b->architecture);
	if (r >= 0)
		r = add(w, "--variant=", d->variant);
	if (r >= 0)
		r = add_joined(w, "--components=", &d->components);
	if (r >= 0)
		r = add_joined(w, "--include=", &d->packages);
	for (size_t i = 0; r >= 0 && i < d->excludes.n; i++)
		r = add(w, "--dpkgopt=path-exclude=", d->excludes.v[i]);
	if (r >= 0) /* the last pattern that matches is the one that counts */
		r = add(w, "--dpkgopt=path-include=", LICENCES);
	if (r >= 0 && b->stale)
		r = add(w, "", "--aptopt=Acquire::Check-Valid-Until \"false\"");
	if (r >= 0)
		r = add_proxy(w, "http");
	if (r >= 0)
		r = add_proxy(w, "https");
	if (r >= 0 && wheels_wanted(d))
		r = add_hook(b, w, WHEELS_HOOK);
	if (r >= 0 && d->hook[0])
		r = add_hook(b, w, d->hook);
	if (r >= 0)
		r = add(w, "", d->suite);
	if (r >= 0)
		r = add(w, "", "-");
	return r < 0 ? r : add(w, "", b->mirror);
}

static int start(struct build *b, struct err *e)
{
	_cleanup_(image_words_done) struct image_words args = {0};
	_cleanup_(image_words_done) struct image_words env = {0};
	_cleanup_free_ char *preload = image_words_join(&b->def->preloads, ' ');
	int r = preload ? add_arguments(b, &args) : -ENOMEM;

	if (r >= 0)
		r = add(&env, "CAISSON_PRELOAD=", preload);
	if (r >= 0)
		r = add(&env, "TMPDIR=", b->scratch.path);
	if (r >= 0)
		r = add(&env, "", "LC_ALL=C.UTF-8");
	if (r >= 0)
		r = add(&env, "",
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	if (r >= 0 && wheels_wanted(b->def))
		r = wheels_environment(&b->index, &env);
	if (r >= 0)
		r = end_list(&args);
	if (r >= 0)
		r = end_list(&env);
	if (r < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, -r, "preparing the build");
	const struct child_options o = {.cwd = "/", .env = (const char *const *)env.v};

	r = child_start((const char *const *)args.v, &o, &b->child);
	if (r == -ENOENT)
		return err_set(
		    e, ERR_IMAGE_BUILD_FAILED, ENOENT,
		    "mmdebstrap is not installed (make setup, or apt-get install mmdebstrap)");
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "cannot start mmdebstrap") : 0;
}

static void show(struct build *b)
{
	uint64_t done, total;
	const char *step = progress_step(&b->progress);
	char item[128];

	if (step != b->shown) {
		b->shown = step;
		b->watch->step(b->watch->user, step);
	}
	progress_count(&b->progress, &done, &total);
	progress_item(&b->progress, item, sizeof(item));
	b->watch->tick(b->watch->user, item, done, total);
}

static void read_messages(struct build *b)
{
	char text[8192];
	ssize_t n = read(b->child.err, text, sizeof(text));

	if (n <= 0) {
		if (n == 0 || errno != EINTR)
			b->child.err = fd_close(b->child.err);
		return;
	}
	if (b->log >= 0 && fd_write_all(b->log, text, (size_t)n) < 0)
		b->log = fd_close(b->log); /* if the disk is full, the step that needs room reports
					    * it */
	if (progress_feed(&b->progress, text, (size_t)n))
		show(b);
}

/* Shows progress from the messages until the stream has bytes or has ended. */
static void pump(struct build *b)
{
	for (;;) {
		struct pollfd p[] = {
		    {.fd = b->child.out, .events = POLLIN},
		    {.fd = b->child.err, .events = POLLIN},
		    {.fd = b->stopped ? -1 : b->watch->cancel_fd, .events = POLLIN},
		};
		int n = poll(p, ARRAY_SIZE(p), b->stopped ? STOP_WAIT_MS : -1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) { /* it did not stop when it was asked to */
			child_kill(&b->child);
			return;
		}
		if (p[2].revents) {
			b->stopped = true;
			child_stop(&b->child);
		}
		if (p[1].revents)
			read_messages(b);
		if (p[0].revents || (b->child.out < 0 && b->child.err < 0))
			return;
	}
}

static la_ssize_t read_stream(struct archive *a, void *user, const void **ret)
{
	struct build *b = user;

	for (;;) {
		pump(b);
		ssize_t n = read(b->child.out, b->block, BLOCK_SIZE);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			archive_set_error(a, errno, "cannot read what mmdebstrap sends");
		else
			b->received += (uint64_t)n;
		*ret = b->block;
		return n;
	}
}

/* Reads the stream to its end, because the child would fail if its reader left early. */
static void drain(struct build *b)
{
	while (b->child.out >= 0 || b->child.err >= 0) {
		pump(b);
		if (b->child.out < 0)
			continue;
		ssize_t n = read(b->child.out, b->block, BLOCK_SIZE);

		if (n == 0 || (n < 0 && errno != EINTR))
			b->child.out = fd_close(b->child.out);
	}
}

static int unpack_stream(struct build *b, struct unpack_stats *stats, struct err *e)
{
	struct archive *a = archive_read_new();
	int r = 0;

	if (!a || archive_read_support_format_tar(a) != ARCHIVE_OK)
		r = err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "preparing to unpack");
	else if (archive_read_open(a, b, NULL, read_stream, NULL) != ARCHIVE_OK)
		r = err_set(e, ERR_IMAGE_BUILD_FAILED, EBADMSG, "mmdebstrap sent no file system");
	if (r >= 0)
		r = image_unpack(a, b->draft.root, b->watch, stats, e);
	(void)archive_read_free(a);
	return r;
}

/* Says why the build failed, and where the log is. */
static int explain(const struct build *b, struct err *e)
{
	static const struct {
		enum err_code code;
		const char *advice;
	} advice[PROGRESS_FAIL_MAX_] = {
	    [PROGRESS_FAIL_NONE] = {ERR_IMAGE_BUILD_FAILED, "mmdebstrap failed without saying why"},
	    [PROGRESS_FAIL_STALE] = {ERR_SOURCE_UNREACHABLE, "the package source is out of date"},
	    [PROGRESS_FAIL_UNREACHABLE] = {ERR_SOURCE_UNREACHABLE,
					   "the package source cannot be reached; 'apt-get update' "
					   "says whether this machine reaches its own"},
	    [PROGRESS_FAIL_SIGNATURE] =
		{ERR_IMAGE_BUILD_FAILED,
		 "the package source is not signed by a key of debian-archive-keyring"},
	    [PROGRESS_FAIL_DISK] =
		{ERR_IMAGE_BUILD_FAILED,
		 "the disk is full; free some space or move the state directory (--state-dir)"},
	    [PROGRESS_FAIL_PACKAGE] = {ERR_IMAGE_BUILD_FAILED,
				       "the suite lacks a package of the definition"},
	    [PROGRESS_FAIL_USERNS] =
		{ERR_IMAGE_BUILD_FAILED,
		 "a plain user needs sub-uids and user namespaces to build an image; build "
		 "as root, or import one (caisson image import)"},
	    [PROGRESS_FAIL_CHECK] = {ERR_IMAGE_BUILD_FAILED, "the new image does not work"},
	    [PROGRESS_FAIL_WHEELS] =
		{ERR_SOURCE_UNREACHABLE,
		 "the image's wheels of the package index cannot be had; without a network, name a "
		 "folder that has them (SANDBOX_PIP_WHEEL_DIR)"},
	    [PROGRESS_FAIL_OTHER] = {ERR_IMAGE_BUILD_FAILED, "mmdebstrap failed"},
	};
	enum progress_failure why = progress_reason(&b->progress);

	if (b->stopped)
		return err_set(e, ERR_CANCELLED, 0, "stopped; nothing was changed");
	return err_set(e, advice[why].code, 0, "%s (%.200s). The whole log: %s/.%s.log",
		       advice[why].advice, b->progress.last_error[why], b->store->path,
		       b->def->name);
}

static int attempt(struct build *b, struct unpack_stats *stats, struct err *e)
{
	b->progress = (struct progress){0};
	b->received = 0;
	b->shown = NULL;
	show(b);
	int r = start(b, e);

	if (r < 0)
		return r;
	r = unpack_stream(b, stats, e);
	if (r < 0 && e->code == ERR_CANCELLED)
		b->stopped = true;
	if (r < 0 && b->received > 0)
		child_stop(&b->child);
	drain(b);
	int status = child_wait(&b->child);

	child_done(&b->child);
	/* The child's own reason comes first: a broken stream is then only the consequence. */
	if (b->stopped || b->received == 0 || (r >= 0 && status != 0))
		return explain(b, e);
	return r;
}

static void log_name(const struct build *b, char ret[IMAGE_NAME_MAX + 8])
{
	(void)snprintf(ret, IMAGE_NAME_MAX + 8, ".%s.log", b->def->name);
}

static int open_log(const struct build *b)
{
	char name[IMAGE_NAME_MAX + 8];

	log_name(b, name);
	return openat(b->store->dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		      0644);
}

/* A plain user without a range of sub-uids is told before anything is downloaded. */
static int check_subuids(struct err *e)
{
	struct passwd *pw = getpwuid(geteuid());
	_cleanup_file_ FILE *f = fopen("/etc/subuid", "re");
	char line[512];

	if (geteuid() == 0)
		return 0;
	while (f && fgets(line, sizeof(line), f)) {
		char uid[16];
		size_t n = strcspn(line, ":");

		line[n] = '\0';
		(void)snprintf(uid, sizeof(uid), "%u", geteuid());
		if ((pw && streq(line, pw->pw_name)) || streq(line, uid))
			return 0;
	}
	char command[SUBUIDS_COMMAND_MAX];

	subuids_command("/etc", pw ? pw->pw_name : "NAME", command);
	return err_set(e, ERR_IMAGE_BUILD_FAILED, 0,
		       "user '%s' has no range in /etc/subuid, which building without root needs. "
		       "Ask an administrator for '%s', build as root, or import an image (caisson "
		       "image import)",
		       pw ? pw->pw_name : "?", command);
}

static int prepare(struct build *b, const struct image_build_options *o, struct err *e)
{
	int r = check_subuids(e);

	if (r >= 0)
		r = scratch_check_space(b->store->path, IMAGE_BUILD_SPACE, e);
	if (r < 0)
		return r;
	if (o->mirror &&
	    (!source_is_url(o->mirror) || text_copy(b->mirror, sizeof(b->mirror), o->mirror) < 0))
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "'%.100s' is no URL of a package source",
			       o->mirror);
	if (o->architecture && !oci_is_architecture(o->architecture))
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "--architecture is amd64 or arm64, as Debian names them");
	b->architecture = o->architecture;
	if (!o->mirror)
		r = source_find_mirror(b->mirror, e);
	b->block = malloc(BLOCK_SIZE);
	if (r >= 0 && !b->block)
		r = err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "preparing the build");
	if (r >= 0)
		r = image_draft_new(b->store, b->def->name, &b->draft, e);
	if (r >= 0)
		r = scratch_make(b->store, &b->draft, b->def->folder, &b->scratch, e);
	if (r >= 0 && wheels_wanted(b->def))
		r = wheels_prepare(b->def, &o->index, b->scratch.path, e);
	b->log = open_log(b);
	return r;
}

static int build_tree(struct build *b, struct unpack_stats *stats, struct err *e)
{
	int r = attempt(b, stats, e);

	if (r >= 0 || b->stopped || progress_reason(&b->progress) != PROGRESS_FAIL_STALE)
		return r;
	b->watch->warn(
	    b->watch->user,
	    "the mirror's release file is past its date (signatures are checked all the same); "
	    "going on without the check of the date");
	b->stale = true;
	*e = ERR_INIT;
	return attempt(b, stats, e);
}

static int finish(struct build *b, const struct unpack_stats *stats, struct image_manifest *ret,
		  struct err *e)
{
	const struct image_facts facts = {
	    .name = b->def->name,
	    .source = "build",
	    .description = b->def->description,
	    .suite = b->def->suite,
	    .architecture = b->architecture,
	    .definition = b->def->digest,
	    .preload = b->def->preloads.v,
	    .n_preload = b->def->preloads.n,
	    .excludes = b->def->excludes.v,
	    .n_excludes = b->def->excludes.n,
	    .release_was_stale = b->stale,
	    .setid_dropped = stats->setid,
	    .devices_dropped = stats->skipped,
	};

	b->watch->step(b->watch->user, "recording and putting in place");
	scratch_remove(&b->scratch);
	int r = image_root_finish(b->draft.root, true, e);

	if (r >= 0)
		r = image_manifest_write(&b->draft, &facts, ret, e);
	if (r < 0)
		return r;
	r = image_draft_commit(b->store, &b->draft, b->def->name, e);
	if (r < 0) {
		image_manifest_done(ret);
		return r;
	}
	char log[IMAGE_NAME_MAX + 8];

	log_name(b, log);
	(void)unlinkat(b->store->dir, log, 0);
	return 0;
}

int image_build(const struct image_store *s, const struct image_def *def,
		const struct image_build_options *o, const struct image_watch *w,
		struct image_manifest *ret, struct err *e)
{
	struct build b = {.store = s,
			  .def = def,
			  .watch = w,
			  .index = o->index,
			  .draft = IMAGE_DRAFT_INIT,
			  .child = CHILD_INIT,
			  .log = -1};
	struct unpack_stats stats = {0};

	image_store_clean(s);
	int r = prepare(&b, o, e);

	if (r >= 0)
		r = build_tree(&b, &stats, e);
	if (r >= 0)
		r = finish(&b, &stats, ret, e);
	scratch_remove(&b.scratch);
	image_draft_drop(s, &b.draft);
	b.log = fd_close(b.log);
	free(b.block);
	return r;
}
