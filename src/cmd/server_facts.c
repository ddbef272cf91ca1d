/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/server_facts.h"

#include "app/image_builder.h"
#include "base/jsonio.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"
#include "cmd/cmd.h"
#include "image/image.h"
#include "image/pulls.h"

#include <dirent.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>

#define VALUE_MAX       512
#define DEFINITIONS_MAX 64
#define DEFINITION_END  ".conf"

/* A hash of the manifest, which differs for each image that is ever made. "" = no memory. */
static void identify(const struct image_manifest *m, char ret[2 * crypto_hash_sha256_BYTES + 1])
{
	unsigned char sum[crypto_hash_sha256_BYTES];
	size_t len = 0;
	_cleanup_free_ char *text = jsonio_text(m->json, JSON_COMPACT | JSON_SORT_KEYS, &len);

	ret[0] = '\0';
	if (!text)
		return;
	(void)crypto_hash_sha256(sum, (const unsigned char *)text, len);
	text_hex(sum, sizeof(sum), ret);
}

struct look {
	struct server_facts *facts;
	const struct image_store *store;
	struct timespec looked_at;
	json_t *images; /* owned; NULL: nothing has changed, or it cannot be read now */
	void (*fn)(void *user);
	void *user;
};

/* When an image that a build has downloaded was looked up last; 0: it is none of these. */
static json_int_t pulled_at(const struct image_store *s, const struct image_manifest *m)
{
	char path[IMAGE_NAME_MAX + sizeof(MANIFEST_FILE) + 2];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/" MANIFEST_FILE, image_manifest_str(m, "name"));
	return image_is_pulled(m) && fstatat(s->dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0
		   ? MAX((json_int_t)st.st_mtime, 1)
		   : 0;
}

static int add_image(void *user, const struct image_manifest *m)
{
	const struct look *l = user;
	char identity[2 * crypto_hash_sha256_BYTES + 1];

	identify(m, identity);
	json_t *row = json_pack(
	    "{s:s, s:I, s:s, s:s, s:I, s:s, s:s, s:b, s:s, s:I}", "name",
	    image_manifest_str(m, "name"), "bytes", (json_int_t)image_manifest_u64(m, "size_bytes"),
	    "built_at", image_manifest_str(m, "built_at"), "python",
	    image_manifest_str(m, "python_version"), "packages",
	    (json_int_t)image_manifest_n_packages(m), "description",
	    image_manifest_str(m, "description"), "origin", image_manifest_str(m, "origin"),
	    "of_sandbox", (int)image_is_of_sandbox(m), "identity", identity, "pulled",
	    pulled_at(l->store, m));

	return json_array_append_new(l->images, row) < 0 ? -ENOMEM : 0;
}

static int add_note(void *user, const struct image_manifest *m)
{
	json_t *row = json_pack("{s:s, s:O?, s:I, s:I}", "name", image_manifest_str(m, "name"),
				"note", json_object_get(m->json, "note"), "bytes",
				(json_int_t)image_manifest_u64(m, "layer_bytes"), "folders",
				(json_int_t)image_manifest_u64(m, "folder_bytes"));

	return json_array_append_new(user, row) < 0 ? -ENOMEM : 0;
}

static bool is_older(struct timespec a, struct timespec b)
{
	return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

/* ---- a look at the images ---- */

/* Reads the images again if names in their folder changed. Those that are one user's are left out: they may be many, and come
 * and go. On a thread. */
static void read_images(void *user)
{
	struct look *l = user;
	struct stat st;
	struct err ignored = ERR_INIT;

	if (l->store->dir < 0 || fstat(l->store->dir, &st) < 0 ||
	    !is_older(l->looked_at, st.st_mtim))
		return;
	l->images = json_array();
	l->looked_at = st.st_mtim;
	if (image_manifest_each(l->store, IMAGES_SHARED, add_image, l, &ignored) < 0) {
		json_decref(l->images);
		l->images = NULL;
	}
}

static void on_images(void *user)
{
	struct look *l = user;
	struct server_facts *f = l->facts;

	if (l->images && is_older(f->looked_at, l->looked_at)) {
		json_decref(f->images);
		f->images = TAKE_PTR(l->images);
		f->looked_at = l->looked_at;
	}
	if (l->fn)
		l->fn(l->user);
	json_decref(l->images);
	free(l);
}

/* If no thread is free for it, what is known must do. */
static void look_at_images(void (*fn)(void *fn_user), void *fn_user, void *user)
{
	struct server_facts *f = user;
	struct look *l = calloc(1, sizeof(*l));

	if (l) {
		*l = (struct look){.facts = f,
				   .store = &f->store,
				   .looked_at = f->looked_at,
				   .fn = fn,
				   .user = fn_user};
		if (workers_run("", read_images, on_images, l) >= 0)
			return;
	}
	free(l);
	if (fn)
		fn(fn_user);
}

/* One that cannot be read is left out: `caisson image build` says what is wrong with it. */
static void add_definition(struct server_facts *f, const char *folder, const char *file, size_t len)
{
	_cleanup_(image_def_done) struct image_def def = {0};
	char name[IMAGE_NAME_MAX + 1];
	struct err ignored = ERR_INIT;

	if (len >= sizeof(name))
		return;
	memcpy(name, file, len);
	name[len] = '\0';
	if (image_def_load(folder, name, &def, &ignored) >= 0)
		(void)json_array_append_new(
		    f->definitions,
		    json_pack("{s:s, s:s}", "name", name, "description", def.description));
}

static int is_definition(const struct dirent *de)
{
	return de->d_name[0] != '.' && text_ends_with(de->d_name, DEFINITION_END);
}

static void gather_definitions(struct server_facts *f)
{
	const char *folder = cmd_image_defs();
	struct dirent **files;
	int n = scandir(folder, &files, is_definition, alphasort);
	size_t i;
	json_t *row;

	for (int k = 0; k < n; k++) {
		if (k < DEFINITIONS_MAX)
			add_definition(f, folder, files[k]->d_name,
				       strlen(files[k]->d_name) - strlen(DEFINITION_END));
		free(files[k]);
	}
	if (n >= 0)
		free(files);
	f->names = calloc(DEFINITIONS_MAX, sizeof(*f->names));
	if (!f->names)
		return;
	json_array_foreach(f->definitions, i, row)
		f->names[f->n_names++] = json_string_value(json_object_get(row, "name"));
}

json_t *server_facts_images(const struct image_store *s)
{
	struct err ignored = ERR_INIT;
	struct look l = {.store = s, .images = json_array()};

	(void)!image_manifest_each(s, IMAGES_SHARED, add_image, &l, &ignored);
	return l.images;
}

void server_facts_open(struct server_facts *f, const struct app *a)
{
	struct err ignored = ERR_INIT;

	*f = (struct server_facts){
	    .app = a, .store = {.dir = -1}, .images = json_array(), .definitions = json_array()};
	if (image_store_open(&f->store, a->state_dir, false, &ignored) >= 0)
		look_at_images(NULL, NULL, f); /* there are no threads yet */
}

void server_facts_gather(struct server_facts *f, const struct app *a)
{
	server_facts_open(f, a);
	gather_definitions(f);
	f->doctor = cmd_doctor_rows(&a->settings);
}

void server_facts_done(struct server_facts *f)
{
	image_store_done(&f->store);
	json_decref(f->images);
	json_decref(f->definitions);
	json_decref(f->doctor);
	free(f->names);
	*f = (struct server_facts){.store = {.dir = -1}};
}

static json_t *images_json(struct server_facts *f)
{
	json_t *all = json_deep_copy(f->images), *row;
	size_t i;

	json_array_foreach(all, i, row) {
		const char *name = json_string_value(json_object_get(row, "name"));

		(void)json_object_del(row, "origin");
		(void)json_object_del(row, "identity");
		(void)json_object_del(row, "pulled");
		if (json_object_set_new(row, "default",
					json_boolean(name && streq(name, f->app->image))) < 0) {
			json_decref(all);
			return NULL;
		}
	}
	return all;
}

static json_t *settings_json(const struct settings *s)
{
	json_t *all = json_array();
	char value[VALUE_MAX];

	for (enum setting_id id = 0; id < SETTING_ID_MAX_; id++) {
		const struct setting_row *row = &setting_rows[id];
		const bool secret = row->type == SETTING_SECRET;

		settings_format(s, id, value, sizeof(value));
		if (json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:b, s:s}", "name",
							 row->env, "value", secret ? "" : value,
							 "from", setting_source_name(s->source[id]),
							 "secret", secret, "help", row->doc)) < 0) {
			json_decref(all);
			return NULL;
		}
	}
	return all;
}

json_t *server_facts_json(bool admin, void *user)
{
	struct server_facts *f = user;
	const struct settings *s = &f->app->settings;
	json_t *doc = json_pack("{s:s, s:s, s:o}", "profile", s->profile, "engine", s->engine,
				"images", images_json(f));

	const struct fleet_member *m = app_fleet(f->app);

	if (doc && admin &&
	    ((m && json_object_set_new(doc, "worker", json_string(m->worker)) < 0) ||
	     json_object_set_new(doc, "settings", settings_json(s)) < 0 ||
	     json_object_set_new(doc, "doctor",
				 f->doctor ? json_deep_copy(f->doctor) : json_array()) < 0)) {
		json_decref(doc);
		return NULL;
	}
	return doc;
}

/* ---- images, for rest_images.c ---- */

static const char *why_no_builds(const struct server_facts *f)
{
	const struct settings *s = &f->app->settings;

	if (app_is_worker(f->app))
		return "each worker of a fleet has images of its own";
	if (!streq(s->engine, "native"))
		return "the container daemon has the images of this server";
	if (!s->image_builds)
		return "SANDBOX_IMAGE_BUILDS is off on this server";
	return f->n_names > 0 && f->app->image_builder
		   ? ""
		   : "this machine has no definitions of images (SANDBOX_IMAGE_DEFS)";
}

/* May an image of that name be made of a sandbox, or changed? Templates are of one worker, and a router knows which one. */
static int may_change(const struct server_facts *f, const char *name, struct err *e)
{
	const struct settings *s = &f->app->settings;

	if (app_is_worker(f->app) && !text_starts_with(name, IMAGE_OWN_PREFIX))
		return err_set(e, ERR_FORBIDDEN, 0, "%s", why_no_builds(f));
	return s->image_builds && s->root && f->app->image_builder
		   ? 0
		   : err_set(e, ERR_FORBIDDEN, 0,
			     "this server makes no images of sandboxes: that takes "
			     "SANDBOX_IMAGE_BUILDS=on and SANDBOX_ROOT=on");
}

static int may_commit(void *user, struct err *e)
{
	return may_change(user, "", e);
}

static json_t *list_images(void *user)
{
	struct server_facts *f = user;
	struct image_builder *b = f->app->image_builder; /* it may be there for downloads alone */
	const char *why_not = why_no_builds(f);
	struct err ignored = ERR_INIT;

	return json_pack("{s:o, s:o, s:s, s:b, s:o}", "images", images_json(f), "definitions",
			 why_not[0] ? json_array() : json_deep_copy(f->definitions), "why_not",
			 why_not, "of_sandboxes", (int)(may_commit(f, &ignored) >= 0), "build",
			 b ? image_builder_json(b) : json_null());
}

static json_t *build_image(const char *name, void *user, struct err *e)
{
	const struct server_facts *f = user;

	const char *why_not = why_no_builds(f);

	if ((why_not[0] ? err_set(e, ERR_FORBIDDEN, 0, "%s", why_not)
			: image_builder_build(f->app->image_builder, name, e)) < 0)
		return NULL;
	return image_builder_json(f->app->image_builder);
}

static json_t *cancel_build(void *user, struct err *e)
{
	const struct server_facts *f = user;

	struct image_builder *b = f->app->image_builder;

	if ((b ? image_builder_cancel(b, e)
	       : err_set(e, ERR_FORBIDDEN, 0, "%s", why_no_builds(f))) < 0)
		return NULL;
	return image_builder_json(b);
}

static bool is_pulled(const struct server_facts *f, const char *name)
{
	json_t *row;
	size_t i;

	json_array_foreach(f->images, i, row)
		if (streq(json_string_value(json_object_get(row, "name")), name))
			return json_integer_value(json_object_get(row, "pulled")) > 0;
	return false;
}

/* Whether BASE has been replaced since a sandbox of that age was made. */
static bool is_newer(struct server_facts *f, const char *base, uint64_t age_ns)
{
	const time_t made = time(NULL) - (time_t)(age_ns / NS_PER_S);
	char text[32];
	struct tm tm;
	json_t *row;
	size_t i;

	if (text_starts_with(base, IMAGE_OWN_PREFIX))
		return false; /* each has a name of its own */
	if (text_starts_with(base, IMAGE_PULL_PREFIX) && is_pulled(f, base))
		return false; /* so do these */
	if (!gmtime_r(&made, &tm) || strftime(text, sizeof(text), "%FT%TZ", &tm) == 0)
		return true;
	json_array_foreach(f->images, i, row) {
		const char *name = json_string_value(json_object_get(row, "name"));
		const char *built = json_string_value(json_object_get(row, "built_at"));

		if (name && built && streq(name, base))
			return strcmp(built, text) > 0;
	}
	return true;
}

static json_t *change_image(const char *name, const char *note, void *user, struct err *e)
{
	struct server_facts *f = user;
	int r = may_change(f, name, e);

	r = r < 0 ? r : image_builder_change(f->app->image_builder, name, note, e);
	return r < 0 ? NULL : image_builder_json(f->app->image_builder);
}

static const json_t *shared_images(void *user)
{
	return ((const struct server_facts *)user)->images;
}

static json_t *image_notes(void *user)
{
	const struct server_facts *f = user;
	struct err ignored = ERR_INIT;
	json_t *rows = json_array();

	if (f->store.dir >= 0)
		(void)!image_manifest_each(&f->store, IMAGES_OWN, add_note, rows, &ignored);
	return rows;
}

struct measuring {
	const struct image_store *store;
	char image[IMAGE_NAME_MAX + 1];
	struct build_image_size size;
	bool known;
	void (*fn)(const struct build_image_size *size, void *user);
	void *user;
};

/* On a thread. */
static void read_size(void *user)
{
	struct measuring *g = user;
	_cleanup_(image_manifest_done) struct image_manifest m = {0};
	struct err ignored = ERR_INIT;

	if (g->store->dir < 0 || image_manifest_load(g->store, g->image, &m, &ignored) < 0)
		return;
	g->size.bytes = image_manifest_u64(&m, "layer_bytes");
	g->size.folders = image_manifest_u64(&m, "folder_bytes");
	g->known = true;
}

static void on_size(void *user)
{
	struct measuring *g = user;

	g->fn(g->known ? &g->size : NULL, g->user);
	free(g);
}

static void measure_image(const char *name,
			  void (*fn)(const struct build_image_size *size, void *fn_user),
			  void *fn_user, void *user)
{
	const struct server_facts *f = user;
	struct measuring *g = calloc(1, sizeof(*g));

	if (g) {
		*g = (struct measuring){.store = &f->store, .fn = fn, .user = fn_user};
		if (text_copy(g->image, sizeof(g->image), name) == 0 &&
		    workers_run("", read_size, on_size, g) >= 0)
			return;
	}
	free(g);
	fn(NULL, fn_user);
}

static json_t *commit_image(const char *name, const char *base, uint64_t age_ns, int pipe,
			    const char *note, void *user, struct err *e)
{
	struct server_facts *f = user;
	int r = may_change(f, name, e);

	if (r < 0)
		return NULL;
	if (is_newer(f, base, age_ns))
		r = err_set(e, ERR_ALREADY_EXISTS, 0,
			    "the image '%s' was replaced after the sandbox was made; make a new "
			    "sandbox",
			    base);
	else
		r = image_builder_commit(f->app->image_builder, name, base, pipe, note, e);
	return r < 0 ? NULL : image_builder_json(f->app->image_builder);
}

static json_t *build_of(void *user)
{
	const struct server_facts *f = user;

	return f->app->image_builder ? image_builder_json(f->app->image_builder) : json_null();
}

static int download(const char *reference, void *user, struct err *e)
{
	const struct server_facts *f = user;

	return image_builder_pull_base(f->app->image_puller, reference, e);
}

static void stop_download(void *user)
{
	const struct server_facts *f = user;
	struct err ignored = ERR_INIT;

	(void)!image_builder_cancel(f->app->image_puller, &ignored);
}

static void on_download_line(void *user, const char *image UNUSED, const char *text)
{
	const struct server_facts *f = user;

	f->downloads.line(text, f->downloads.user);
}

static void on_download_ended(void *user, const char *image UNUSED, bool is_there,
			      const char *reason)
{
	const struct server_facts *f = user;

	f->downloads.ended(is_there ? NULL : reason, f->downloads.user);
}

static void watch_downloads(void (*line)(const char *text, void *fn_user),
			    void (*ended)(const char *reason, void *fn_user), void *fn_user,
			    void *user)
{
	static const struct image_builder_watch none;
	struct server_facts *f = user;
	const struct image_builder_watch w = {
	    .line = on_download_line, .ended = on_download_ended, .user = f};

	f->downloads.line = line;
	f->downloads.ended = ended;
	f->downloads.user = fn_user;
	image_builder_set_watch(f->app->image_puller, line ? &w : &none);
}

int server_facts_builds(struct server_facts *f, struct builds **ret, struct err *e)
{
	struct builds_config config = {.loop = f->app->loop,
				       .manager = f->app->manager,
				       .pulls = f->app->settings.pulls,
				       .images = {.look = look_at_images,
						  .list = list_images,
						  .shared = shared_images,
						  .build = build_image,
						  .cancel = cancel_build,
						  .may_commit = may_commit,
						  .commit = commit_image,
						  .change = change_image,
						  .notes = image_notes,
						  .measure = measure_image,
						  .build_of = build_of,
						  .user = f}};

	if (f->app->image_puller) {
		config.images.download = download;
		config.images.stop_download = stop_download;
		config.images.watch_downloads = watch_downloads;
	}
	const int r = image_pulls_check(config.pulls, e);

	return r < 0 ? r : builds_new(&config, ret, e);
}
