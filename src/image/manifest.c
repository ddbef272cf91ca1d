/* SPDX-License-Identifier: Apache-2.0 */
#include "image/manifest.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/jsonio.h"
#include "base/parse.h"
#include "base/text.h"
#include "image/inventory.h"
#include "image/oci.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define MANIFEST_NEW "manifest.new"

const char *image_manifest_str(const struct image_manifest *m, const char *key)
{
	const char *s = json_string_value(json_object_get(m->json, key));

	return s ? s : "";
}

uint64_t image_manifest_u64(const struct image_manifest *m, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(m->json, key));

	return v > 0 ? (uint64_t)v : 0;
}

size_t image_manifest_n_packages(const struct image_manifest *m)
{
	return json_array_size(json_object_get(m->json, "packages"));
}

void image_manifest_done(struct image_manifest *m)
{
	json_decref(m->json);
	m->json = NULL;
}

static int load_json(int dir, const char *name, json_t **ret)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(MANIFEST_FILE_MAX);
	_cleanup_fd_ int fd = fd_open_beneath(dir, name, O_RDONLY, 0);

	if (fd < 0)
		return fd;
	int r = fd_read_file(fd, &text);

	if (r < 0)
		return r;
	r = jsonio_read(buf_str(&text), text.len, JSON_REJECT_DUPLICATES, ret, NULL);
	return r < 0 ? r : json_is_object(*ret) ? 0 : -EBADMSG;
}

int image_manifest_load(const struct image_store *s, const char *name, struct image_manifest *ret,
			struct err *e)
{
	if (!parse_is_image_name(name, strlen(name)))
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "'%.64s' is no image name", name);
	_cleanup_fd_ int dir = openat(s->dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (dir < 0 || fstatat(dir, "root", &st, 0) < 0 || !S_ISDIR(st.st_mode))
		return err_set(e, ERR_IMAGE_MISSING, ENOENT,
			       "there is no image '%s' in %s (see 'caisson image list')", name,
			       s->path);
	json_t *json = NULL;
	int r = load_json(dir, MANIFEST_FILE, &json);

	if (r == -ENOENT) {
		json = json_pack("{s:s, s:[]}", "name", name, "packages");
		r = json ? 0 : -ENOMEM;
	}
	if (r < 0) {
		json_decref(json);
		return err_set(e, ERR_SYSTEM, -r, "cannot read the manifest of image '%s'", name);
	}
	/* The name of the folder is the name of the image, whatever the manifest says. */
	(void)json_object_set_new(json, "name", json_string(name));
	ret->json = json;
	return 0;
}

static bool is_wanted(const char *name, enum image_whose whose)
{
	const bool own = text_starts_with(name, IMAGE_OWN_PREFIX);

	return parse_is_image_name(name, strlen(name)) &&
	       (whose == IMAGES_ALL || own == (whose == IMAGES_OWN));
}

int image_manifest_each(const struct image_store *s, enum image_whose whose,
			int (*fn)(void *user, const struct image_manifest *m), void *user,
			struct err *e)
{
	struct dirent **names = NULL;
	int n = scandirat(s->dir, ".", &names, NULL, alphasort);
	int r = n < 0 ? err_set(e, ERR_SYSTEM, errno, "cannot read %s", s->path) : 0;

	for (int i = 0; i < n; i++) {
		struct image_manifest m = {0};
		struct err ignored = ERR_INIT;

		if (r >= 0 && is_wanted(names[i]->d_name, whose) &&
		    image_manifest_load(s, names[i]->d_name, &m, &ignored) >= 0)
			r = fn(user, &m);
		image_manifest_done(&m);
		free(names[i]);
	}
	free(names);
	return r;
}

static json_t *string_array(char *const *v, size_t n)
{
	json_t *array = json_array();

	for (size_t i = 0; array && i < n; i++)
		(void)json_array_append_new(array, json_string(v[i]));
	return array;
}

static void utc_now(char ret[32])
{
	time_t now = time(NULL);
	struct tm tm;

	(void)strftime(ret, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
}

static int write_file(int dir, const char *name, const char *text, size_t len)
{
	_cleanup_fd_ int fd =
	    openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

	if (fd < 0 || fchmod(fd, 0644) < 0)
		return -errno;
	return fd_write_all(fd, text, len);
}

static int write_preload(int dir, const struct image_facts *f)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(MANIFEST_FILE_MAX);

	for (size_t i = 0; i < f->n_preload; i++) {
		int r = buf_printf(&b, "%s\n", f->preload[i]);

		if (r < 0)
			return r;
	}
	return write_file(dir, MANIFEST_PRELOAD, buf_str(&b), b.len);
}

static bool is_plain_text(const json_t *row, const char *key)
{
	const char *s = json_string_value(json_object_get(row, key));

	return s && strlen(s) <= IMAGE_DEF_VALUE_MAX && image_is_text(s, strlen(s));
}

/* The wheels of the image with their hashes, as the build recorded them inside. The file comes with
 * the image and may have anything in it: entries of another form are left out. */
static json_t *read_wheels(int root)
{
	static const char *const members[] = {"name", "version", "file", "sha256"};
	_cleanup_fd_ int dir = fd_open_beneath(root, "opt/caisson", O_RDONLY | O_DIRECTORY, 0);
	json_t *json = NULL;
	json_t *wheels = json_array();
	size_t i;
	json_t *row;

	if (dir >= 0 && load_json(dir, IMAGE_WHEELS_FILE, &json) >= 0) {
		json_array_foreach(json_object_get(json, "wheels"), i, row) {
			json_t *kept = i < MANIFEST_WHEELS ? json_object() : NULL;

			for (size_t m = 0; kept && m < ARRAY_SIZE(members); m++)
				if (is_plain_text(row, members[m]))
					(void)json_object_set(kept, members[m],
							      json_object_get(row, members[m]));
			if (json_object_size(kept) == ARRAY_SIZE(members))
				(void)json_array_append(wheels, kept);
			json_decref(kept);
		}
	}
	json_decref(json);
	return wheels;
}

static json_t *describe(const struct image_facts *f, const struct inventory *inv, json_t *wheels,
			json_t *packages)
{
	char built_at[32];

	utc_now(built_at);
	return json_pack(
	    "{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:b, "
	    "s:o, s:o, s:o, s:o}",
	    "format_version", MANIFEST_FORMAT, "name", f->name, "source", f->source, "origin",
	    f->origin ? f->origin : "", "digest", f->digest ? f->digest : "", "description",
	    f->description, "suite", f->suite, "architecture",
	    f->architecture ? f->architecture : oci_architecture(), "definition", f->definition,
	    "built_at", built_at, "created", f->created && f->created[0] ? f->created : built_at,
	    "python_version", inv->python, "size_bytes", (json_int_t)inv->bytes, "files",
	    (json_int_t)inv->files, "setid_dropped", (json_int_t)f->setid_dropped,
	    "devices_dropped", (json_int_t)f->devices_dropped, "release_was_stale",
	    f->release_was_stale, "preload", string_array(f->preload, f->n_preload), "excludes",
	    string_array(f->excludes, f->n_excludes), "wheels", wheels, "packages", packages);
}

int image_manifest_note(const struct image_store *s, const char *name, const json_t *note,
			struct err *e)
{
	_cleanup_(image_manifest_done) struct image_manifest m = {0};
	int r = image_manifest_load(s, name, &m, e);
	size_t len;

	if (r < 0)
		return r;
	_cleanup_fd_ int dir = openat(s->dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)json_object_set(m.json, "note", (json_t *)(uintptr_t)note);
	_cleanup_free_ char *text = jsonio_text(m.json, JSON_INDENT(1) | JSON_ENSURE_ASCII, &len);
	r = !text ? -ENOMEM : dir < 0 ? -errno : write_file(dir, MANIFEST_NEW, text, len);
	if (r >= 0 && renameat(dir, MANIFEST_NEW, dir, MANIFEST_FILE) < 0)
		r = -errno;
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "cannot write the manifest of image '%s'", name)
		     : 0;
}

/* Keys of the manifest that say what an image was made from. The other keys are computed anew. */
static const char *const origin_keys[] = {"format_version", "description", "suite",
					  "definition",     "preload",     "excludes"};

static int write_origin(int root, const json_t *manifest)
{
	_cleanup_fd_ int dir = fd_open_beneath(root, "opt/caisson", O_RDONLY | O_DIRECTORY, 0);
	json_t *origin = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(origin_keys); i++)
		(void)json_object_set(origin, origin_keys[i],
				      json_object_get(manifest, origin_keys[i]));
	size_t len;
	_cleanup_free_ char *text = jsonio_text(origin, JSON_INDENT(1) | JSON_ENSURE_ASCII, &len);

	json_decref(origin);
	if (!text)
		return -ENOMEM;
	return dir < 0 ? dir : write_file(dir, IMAGE_ORIGIN_FILE, text, len);
}

static bool is_digest(const char *s)
{
	return strspn(s, "0123456789abcdef") == strlen(s) &&
	       strlen(s) < sizeof(((struct image_def *)0)->digest);
}

static const char *origin_str(const json_t *json, const char *key)
{
	const char *s = json_string_value(json_object_get(json, key));

	return s && strlen(s) <= IMAGE_DEF_VALUE_MAX && image_is_text(s, strlen(s)) ? s : "";
}

static int take_preload(const json_t *json, struct image_origin *ret)
{
	const json_t *list = json_object_get(json, "preload");
	size_t i;
	json_t *name;

	json_array_foreach(list, i, name) {
		const char *s = json_string_value(name);

		if (!s || i >= IMAGE_DEF_PRELOADS || strlen(s) > IMAGE_DEF_WORD_MAX ||
		    !image_is_module(s, strlen(s)))
			return -EBADMSG;
		int r = image_words_add(&ret->preload, s, strlen(s));

		if (r < 0)
			return r;
	}
	return 0;
}

int image_origin_read(int root, struct image_origin *ret)
{
	struct image_origin o = {0};
	_cleanup_fd_ int dir = fd_open_beneath(root, "opt/caisson", O_RDONLY | O_DIRECTORY, 0);
	json_t *json = NULL;
	int r = dir < 0 ? dir : load_json(dir, IMAGE_ORIGIN_FILE, &json);

	if (r >= 0)
		r = take_preload(json, &o);
	if (r < 0) {
		json_decref(json);
		image_origin_done(&o);
		*ret = o;
		return r == -ENOENT ? 0 : r;
	}
	(void)snprintf(o.description, sizeof(o.description), "%s", origin_str(json, "description"));
	(void)snprintf(o.suite, sizeof(o.suite), "%s", origin_str(json, "suite"));
	const char *digest = origin_str(json, "definition");

	if (is_digest(digest))
		(void)snprintf(o.definition, sizeof(o.definition), "%.64s", digest);
	json_decref(json);
	*ret = o;
	return 0;
}

void image_origin_done(struct image_origin *o)
{
	image_words_done(&o->preload);
	*o = (struct image_origin){0};
}

int image_manifest_write(const struct image_draft *d, const struct image_facts *f,
			 struct image_manifest *ret, struct err *e)
{
	struct inventory inv = {0};
	json_t *packages = json_array();
	int r = packages ? inventory_take(d->root, &inv, packages) : -ENOMEM;

	if (r < 0) {
		json_decref(packages);
		return err_set(
		    e, ERR_IMAGE_BUILD_FAILED, -r,
		    r == -ENOENT ? "the root file system has no python3 in usr/bin or usr/local/bin"
				 : "cannot read the new image");
	}
	json_t *json = describe(f, &inv, read_wheels(d->root), packages);
	if (f->layer_bytes)
		(void)json_object_set_new(json, "layer_bytes",
					  json_integer((json_int_t)f->layer_bytes));
	if (f->folder_bytes)
		(void)json_object_set_new(json, "folder_bytes",
					  json_integer((json_int_t)f->folder_bytes));
	if (f->note)
		(void)json_object_set(json, "note", (json_t *)(uintptr_t)f->note);
	size_t len;
	_cleanup_free_ char *text = jsonio_text(json, JSON_INDENT(1) | JSON_ENSURE_ASCII, &len);

	r = text ? write_file(d->dir, MANIFEST_FILE, text, len) : -ENOMEM;
	if (r >= 0)
		r = write_preload(d->dir, f);
	if (r >= 0 && streq(f->source, "build"))
		r = write_origin(d->root, json);
	if (r < 0) {
		json_decref(json);
		return err_set(e, ERR_IMAGE_BUILD_FAILED, -r, "cannot write the manifest");
	}
	ret->json = json;
	return 0;
}
