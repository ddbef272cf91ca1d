/* SPDX-License-Identifier: Apache-2.0 */
/* Imports images. Up to two processes without rights do the work (worker.h): one fetches, if the
 * image is elsewhere, into the draft's folder `fetched`; one reads that, or what the caller named,
 * and unpacks it into the draft's root. Of a registry's image both work at once: a layer is unpacked while the next ones come. This
 * process only makes folders and records the result. */
#include "image/image.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/parse.h"
#include "base/text.h"
#include "base/tree.h"
#include "image/arrival.h"
#include "image/bundle.h"
#include "image/fetch.h"
#include "image/python.h"
#include "image/root.h"
#include "image/scratch.h"
#include "image/worker.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define FETCHED "fetched" /* folder of the draft: what the network gave */
#define KEPT    ".fetch"  /* folder of the store: the same, if the next attempt may go on with it */
#define BUNDLE  "bundle"  /* folder of the draft: an image archive, unpacked */
#define NOBODY  65534
#define ENTRIES 20000 /* at the top of an image archive: Docker's older ones have one a layer */

struct job {
	const struct image_watch *watch;
	const char *tag;
	const char *digest; /* what the layout of a registry begins with; "" = anything */
	int draft;          /* the draft's folder; all borrowed */
	int root;
	int file;           /* an archive; -1 = FOLDER */
	int folder;         /* a layout, an unpacked archive or a root file system; -1 = FILE */
	int ready;          /* a pipe: the layout is still coming (fetch.h); -1 = all is there */
	uint64_t max_bytes; /* of files; 0 = what every image has at most */
};

/* What the worker says. The caller checks every member. */
struct report {
	uint32_t kind;  /* enum bundle_kind */
	uint32_t use;   /* enum python_use */
	uint32_t minor; /* of a Python that is too old; 0 = none */
	char digest[OCI_DIGEST_LEN + 1];
	char created[OCI_TIME_MAX + 1];
	struct unpack_stats stats;
};

/* An image archive was unpacked into the root, because only its content tells what it is. */
static int move_bundle(const struct job *j, struct err *e)
{
	unsigned n = 0;

	if (mkdirat(j->draft, BUNDLE, 0755) < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot make a folder");
	_cleanup_fd_ int to = openat(j->draft, BUNDLE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int from = openat(j->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *dir = from >= 0 ? fdopendir(from) : NULL;

	if (to < 0 || !dir) {
		int saved = errno;

		(void)fd_close(dir ? -1 : from);
		return err_set(e, ERR_SYSTEM, saved, "cannot open a folder");
	}
	for (struct dirent *de; (de = readdir(dir)) != NULL;) {
		if (streq(de->d_name, ".") || streq(de->d_name, ".."))
			continue;
		if (++n > ENTRIES)
			return err_set(e, ERR_IMAGE_INVALID, E2BIG, "the archive's top folder");
		if (renameat(j->root, de->d_name, to, de->d_name) < 0)
			return err_set(e, ERR_SYSTEM, errno, "cannot move '%.200s'", de->d_name);
	}
	return TAKE_FD(to);
}

static int unpack_bundle(const struct job *j, int folder, enum bundle_kind kind,
			 struct bundle_facts *facts, struct err *e)
{
	struct arrival arrival = {.pipe = j->ready, .shown = j->watch};
	const struct bundle_arrival coming = {.wait = arrival_wait, .user = &arrival};
	const struct image_watch watch = arrival_watch(&arrival);
	const struct bundle_source source = {.folder = folder,
					     .kind = kind,
					     .tag = j->tag,
					     .digest = j->digest,
					     .arrival = j->ready >= 0 ? &coming : NULL};

	return bundle_unpack(&source, j->root, j->ready >= 0 ? &watch : j->watch, facts, e);
}

static int unpack_archive(const struct job *j, struct report *ret, struct bundle_facts *facts,
			  struct err *e)
{
	j->watch->step(j->watch->user, "unpacking");
	int r = bundle_unpack_file(j->file, NULL, false, j->root, j->watch, &facts->stats, e);
	const enum bundle_kind kind = r < 0 ? BUNDLE_NONE : bundle_kind_of(j->root);

	if (r < 0 || kind == BUNDLE_NONE)
		return r;
	_cleanup_fd_ int folder = move_bundle(j, e);

	if (folder < 0)
		return folder;
	ret->kind = kind;
	facts->stats = (struct unpack_stats){0};
	r = unpack_bundle(j, folder, kind, facts, e);
	return r < 0 ? r : tree_remove(j->draft, BUNDLE);
}

static int copy_folder(const struct job *j, struct bundle_facts *facts, struct err *e)
{
	struct archive *disk = archive_read_disk_new();
	char top[64];
	int r = 0;

	(void)snprintf(top, sizeof(top), "/proc/self/fd/%d", j->folder);
	if (!disk || archive_read_disk_set_symlink_hybrid(disk) != ARCHIVE_OK ||
	    archive_read_disk_set_behavior(
		disk, ARCHIVE_READDISK_NO_TRAVERSE_MOUNTS | ARCHIVE_READDISK_NO_XATTR |
			  ARCHIVE_READDISK_NO_ACL | ARCHIVE_READDISK_NO_FFLAGS) != ARCHIVE_OK ||
	    archive_read_disk_open(disk, top) != ARCHIVE_OK)
		r = err_set(e, ERR_SYSTEM, EIO, "cannot read the folder");
	j->watch->step(j->watch->user, "copying");
	if (r >= 0)
		r = image_unpack_folder(disk, top, j->root, j->watch, &facts->stats, e);
	(void)archive_read_free(disk);
	return r;
}

/* Runs in the worker. */
static int unpack(void *ctx, void *report, struct err *e)
{
	const struct job *j = ctx;
	struct report *ret = report;
	struct python python = {0};
	enum python_use use = PYTHON_NONE;
	_cleanup_free_ struct bundle_facts *facts = calloc(1, sizeof(*facts));
	int r;

	if (!facts)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "reading the image");
	facts->stats.max = j->max_bytes;
	if (j->file >= 0) {
		r = unpack_archive(j, ret, facts, e);
	} else {
		ret->kind = j->ready >= 0 ? BUNDLE_OCI : bundle_kind_of(j->folder);
		/* Nothing but a layout is bound to the digest that was asked for, or signed. */
		if (j->digest[0] && ret->kind != BUNDLE_OCI)
			return err_set(e, ERR_IMAGE_INVALID, EBADMSG, "what was fetched");
		r = ret->kind == BUNDLE_NONE
			? copy_folder(j, facts, e)
			: unpack_bundle(j, j->folder, (enum bundle_kind)ret->kind, facts, e);
	}
	if (r >= 0)
		r = image_root_finish(j->root, true, e);
	if (r >= 0)
		r = python_place(j->root, facts->path, &python, &use, e);
	ret->use = use;
	ret->minor = python.minor;
	ret->stats = facts->stats;
	(void)snprintf(ret->digest, sizeof(ret->digest), "%s", facts->digest);
	(void)snprintf(ret->created, sizeof(ret->created), "%s", facts->created);
	return r;
}

/* The folder that the network's process writes, for whoever that is. */
static int make_fetched(const struct image_draft *d, bool for_nobody, struct err *e)
{
	_cleanup_fd_ int fd = -1;

	if (mkdirat(d->dir, FETCHED, 0700) == 0)
		fd = openat(d->dir, FETCHED, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || (for_nobody && fchown(fd, NOBODY, NOBODY) < 0))
		return err_set(e, ERR_SYSTEM, errno, "cannot make a folder");
	return TAKE_FD(fd);
}

/* The folder that outlives an attempt which was interrupted. -1: another import uses it, or it is
 * another user's. */
static int open_kept(const struct image_store *s, bool for_nobody)
{
	struct stat st, now;

	for (int attempt = 0; attempt < 3; attempt++) {
		if (mkdirat(s->dir, KEPT, 0700) < 0 && errno != EEXIST)
			return -1;
		_cleanup_fd_ int fd =
		    openat(s->dir, KEPT, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0)
			return -1;
		/* Whoever had it may have removed it before we had the lock. */
		if (fstatat(s->dir, KEPT, &now, AT_SYMLINK_NOFOLLOW) < 0 ||
		    now.st_ino != st.st_ino || now.st_dev != st.st_dev)
			continue;
		if (!for_nobody || st.st_uid == NOBODY ||
		    (st.st_uid == 0 && fchown(fd, NOBODY, NOBODY) == 0))
			return TAKE_FD(fd);
		if (tree_remove(s->dir, KEPT) < 0)
			return -1;
	}
	return -1;
}

static bool has_bytes(int folder)
{
	int fd = openat(folder, "blobs/sha256", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_dir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	bool found = false;
	struct stat st;

	if (!dir) {
		(void)fd_close(fd);
		return false;
	}
	for (struct dirent *de; !found && (de = readdir(dir)) != NULL;)
		found = fstatat(dirfd(dir), de->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			S_ISREG(st.st_mode) && st.st_size > 0;
	return found;
}

struct import {
	const struct image_store *store;
	const struct image_import_options *options;
	const struct image_watch *watch;
	struct image_ref ref;
	struct image_draft draft;
	int source; /* owned: file or folder */
	int ready;  /* owned: what the fetcher tells the unpacker by; -1 = all is there */
	struct worker_process fetcher;
	int kept; /* owned: KEPT, locked; -1 = not used */
	bool is_folder;
	char digest[OCI_DIGEST_LEN + 1]; /* of a registry's name */
};

static int open_path(struct import *i, const char *path, struct err *e)
{
	struct stat st;

	i->source = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (i->source < 0 || fstat(i->source, &st) < 0)
		return err_set(e, ERR_NOT_FOUND, errno, "cannot open %s", path);
	i->is_folder = S_ISDIR(st.st_mode);
	/* The tree needs at least as much room as the archive. If it needs more, unpacking reports
	 * it. */
	return scratch_check_space(i->store->path, S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0,
				   e);
}

static int fetch(struct import *i, struct err *e)
{
	int ends[2] = {-1, -1};
	struct fetch_options o = {.plain_http = i->options->plain_http,
				  .ca_file = i->options->ca_file};
	const bool for_nobody = i->ref.kind == REF_REGISTRY && geteuid() == 0;
	const struct image_import_rules *rules = i->options->rules;
	const struct fetch_rules strict = {.inside = rules && rules->inside,
					   .max_bytes = rules ? rules->max_bytes : 0,
					   .known = rules ? rules->known : NULL};

	o.rules = rules ? &strict : NULL;
	i->kept = i->ref.kind == REF_REGISTRY && !rules ? open_kept(i->store, for_nobody) : -1;
	_cleanup_fd_ int folder =
	    i->kept >= 0 ? fd_dup(i->kept) : make_fetched(&i->draft, for_nobody, e);
	int r = folder;

	if (r >= 0)
		r = signature_parse_keys(i->options->keys ? i->options->keys : "", &o.keys, e);
	if (r >= 0 && pipe2(ends, O_CLOEXEC) < 0)
		r = err_set(e, ERR_SYSTEM, errno, "cannot make a pipe");
	i->ready = ends[0];
	_cleanup_fd_ UNUSED int theirs = ends[1]; /* the fetcher's alone, so that its end is seen */
	if (r >= 0 && i->ref.kind == REF_REGISTRY)
		r = fetch_registry(&i->ref, &o, folder, ends[1], i->watch, &i->fetcher, i->digest,
				   e);
	else if (r >= 0)
		r = fetch_daemon(&i->ref, folder, i->watch, e);
	if (r < 0)
		return r;
	i->is_folder = i->ref.kind == REF_REGISTRY;
	i->source = i->is_folder ? TAKE_FD(folder)
				 : openat(folder, FETCH_ARCHIVE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return i->source < 0 ? err_set(e, ERR_SYSTEM, errno, "cannot open what was fetched") : 0;
}

static const char *source_name(const struct import *i, uint32_t kind)
{
	if (i->options->source_name)
		return i->options->source_name;
	if (i->ref.kind != REF_PATH)
		return i->ref.kind == REF_REGISTRY ? "registry" : "docker-daemon";
	return kind == BUNDLE_OCI      ? "oci"
	       : kind == BUNDLE_DOCKER ? "docker-archive"
	       : i->is_folder          ? "folder"
				       : "tar";
}

static void warn_none(const struct import *i, const struct report *report)
{
	char text[200], found[32] = "no python3";

	if (report->minor)
		(void)snprintf(found, sizeof(found), "Python 3.%u", MIN(report->minor, 99u));
	(void)snprintf(
	    text, sizeof(text),
	    "the image has %s: its sandboxes run commands and programs, and refuse Python "
	    "code, which needs 3.%d or newer",
	    found, PYTHON_MINOR_MIN);
	i->watch->warn(i->watch->user, text);
}

static int record(struct import *i, const char *name, const char *from, const struct report *report,
		  struct image_manifest *ret, struct err *e)
{
	_cleanup_(image_origin_done) struct image_origin origin = {0};

	if (image_origin_read(i->draft.root, &origin) < 0)
		i->watch->warn(i->watch->user,
			       "the image's own description is damaged and is left out");
	if (report->use == PYTHON_NONE)
		warn_none(i, report);
	else if (report->use != PYTHON_WARM)
		i->watch->warn(i->watch->user,
			       "the image's Python is not made for glibc: every run starts it "
			       "anew, without a warm interpreter");
	const struct image_facts facts = {
	    .name = name,
	    .source = source_name(i, report->kind),
	    .origin = i->ref.kind == REF_PATH ? "" : from,
	    .digest = i->digest[0] ? i->digest : report->digest,
	    .created = report->created,
	    .description = origin.description,
	    .suite = origin.suite,
	    .definition = origin.definition,
	    .preload = origin.preload.v,
	    .n_preload = origin.preload.n,
	    .setid_dropped = report->stats.setid,
	    .devices_dropped = report->stats.skipped,
	};

	i->watch->step(i->watch->user, "recording and putting in place");
	int r = tree_remove(i->draft.dir, FETCHED);

	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "cannot remove what was fetched");
	r = image_manifest_write(&i->draft, &facts, ret, e);
	if (r < 0)
		return r;
	const struct image_import_rules *rules = i->options->rules;

	/* Folders and the ends of blocks count here, too. */
	if (rules && image_manifest_u64(ret, "size_bytes") > rules->max_bytes) {
		image_manifest_done(ret);
		return err_set(
		    e, ERR_IMAGE_INVALID, EFBIG,
		    "the image is larger than builds have room for (SANDBOX_PULL_CACHE)");
	}
	r = image_draft_commit(i->store, &i->draft, name, e);
	if (r < 0)
		image_manifest_done(ret);
	return r;
}

static bool has_said(const struct worker_process *p)
{
	struct pollfd poll_for = {.fd = p->pipe, .events = POLLIN};

	return poll(&poll_for, 1, 0) > 0;
}

static int end_fetch(struct import *i, struct err *e)
{
	char nothing;
	const int r = worker_next(&i->fetcher, i->watch, &nothing, sizeof(nothing), e);

	return r > 0 ? err_set(e, ERR_IMAGE_INVALID, EBADMSG, "what was fetched") : r;
}

/* The unpacker and, if there is one, the fetcher, which began before. If one fails, the other one is of no use. */
static int run_workers(struct import *i, const struct worker *work, struct report *ret,
		       struct err *e)
{
	struct worker_process unpacker = WORKER_PROCESS_INIT;
	int r = worker_begin(work, &unpacker, e);

	if (r >= 0 && i->fetcher.pid) {
		struct pollfd p[] = {{.fd = i->fetcher.pipe, .events = POLLIN},
				     {.fd = unpacker.pipe, .events = POLLIN},
				     {.fd = i->watch->cancel_fd, .events = POLLIN}};

		while (poll(p, ARRAY_SIZE(p), -1) < 0 && errno == EINTR)
			;
		/* An unpacker that waits in vain fails after the fetcher, whose reason is the right one. */
		if (!p[1].revents || has_said(&i->fetcher))
			r = end_fetch(i, e);
	}
	if (r >= 0)
		r = worker_next(&unpacker, i->watch, ret, sizeof(*ret), e);
	if (r > 0)
		r = err_set(e, ERR_IMAGE_INVALID, EBADMSG, "what was unpacked");
	if (r < 0 && i->fetcher.pid && has_said(&i->fetcher)) {
		struct err other = ERR_INIT;

		const int fetched = end_fetch(i, &other);

		if (fetched < 0) {
			*e = other;
			r = fetched;
		}
	}
	if (r >= 0 && i->fetcher.pid)
		r = end_fetch(i, e);
	worker_end(&unpacker);
	worker_end(&i->fetcher);
	return r;
}

static int run_job(struct import *i, struct report *ret, struct err *e)
{
	struct job j = {.watch = i->watch,
			.tag = i->ref.kind == REF_PATH ? i->options->tag : NULL,
			.digest = i->digest,
			.draft = i->draft.dir,
			.root = i->draft.root,
			.file = i->is_folder ? -1 : i->source,
			.folder = i->is_folder ? i->source : -1,
			.max_bytes = i->options->rules ? i->options->rules->max_bytes : 0,
			.ready = i->fetcher.pid ? i->ready : -1};
	const struct worker work = {.kind = WORKER_LOCAL,
				    .write = i->draft.dir,
				    .source = j.folder,
				    .fn = unpack,
				    .ctx = &j};
	int r = run_workers(i, &work, ret, e);

	if (r < 0)
		return r;
	ret->digest[OCI_DIGEST_LEN] = '\0';
	ret->created[OCI_TIME_MAX] = '\0';
	if (ret->created[0] && !oci_is_time(ret->created))
		return err_set(e, ERR_IMAGE_INVALID, EBADMSG, "the image's time");
	if (ret->digest[0] && !oci_is_digest(ret->digest))
		return err_set(e, ERR_IMAGE_INVALID, EBADMSG, "the image's digest");
	return 0;
}

/* What was fetched stays for the next attempt if the network, a login or the user ended this one. */
static void settle_kept(struct import *i, int result, const struct err *e)
{
	const bool resumable =
	    result < 0 && (e->code == ERR_SOURCE_UNREACHABLE || e->code == ERR_CANCELLED ||
			   e->code == ERR_UNAUTHORIZED || e->code == ERR_NOT_FOUND);

	if (i->kept < 0)
		return;
	if (resumable && has_bytes(i->kept))
		i->watch->warn(i->watch->user, "what came is kept; the same command goes on there");
	else if (tree_remove(i->store->dir, KEPT) < 0)
		i->watch->warn(i->watch->user, "cannot remove what was fetched");
	i->kept = fd_close(i->kept);
}

int image_import(const struct image_store *s, const char *name, const char *source,
		 const struct image_import_options *o, const struct image_watch *w,
		 struct image_manifest *ret, struct err *e)
{
	struct import i = {.store = s,
			   .options = o,
			   .watch = w,
			   .draft = IMAGE_DRAFT_INIT,
			   .source = -1,
			   .ready = -1,
			   .fetcher = WORKER_PROCESS_INIT,
			   .kept = -1};
	char named[IMAGE_NAME_MAX + 1];
	struct report report = {0};

	_Static_assert(sizeof(report) <= WORKER_REPORT_MAX, "a report is one message");
	int r = parse_is_image_name(name, strlen(name))
		    ? image_ref_parse(source, &i.ref, e)
		    : err_set(e, ERR_INVALID_ARGUMENT, 0,
			      "'%.64s' is no name for an image: small letters, digits, '.', '_' "
			      "and '-'",
			      image_is_text(name, strlen(name)) ? name : "?");

	image_store_clean(s);
	if (r >= 0 && i.ref.kind == REF_PATH)
		r = open_path(&i, source, e);
	if (r >= 0)
		r = image_draft_new(s, name, &i.draft, e);
	if (r >= 0 && i.ref.kind != REF_PATH)
		r = fetch(&i, e);
	if (r >= 0 && o->rules) {
		r = o->rules->name(o->rules->user, i.digest, named);
		name = named;
		KILL_POINT(PULL_ASKED);
	}
	if (r == 0)
		r = run_job(&i, &report, e);
	KILL_POINT(PULL_UNPACKED);
	if (r == 0)
		r = record(&i, name, source, &report, ret, e);
	worker_end(&i.fetcher); /* before its folder goes */
	i.source = fd_close(i.source);
	i.ready = fd_close(i.ready);
	settle_kept(&i, r, e);
	image_draft_drop(s, &i.draft);
	return r;
}
