/* SPDX-License-Identifier: Apache-2.0 */
/* caisson image build|list|import|export|rm */
#include "app/read_settings.h"
#include "cmd/cmd.h"
#include "cmd/progress_line.h"

#include "base/fdio.h"
#include "base/jsonio.h"
#include "base/rand.h"
#include "base/text.h"
#include "config/paths.h"
#include "image/image.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define VERB         "image"
#define OPERANDS_MAX 2

struct image_args {
	struct image_store store;
	char state_dir[PATH_MAX];
	const char *operands[OPERANDS_MAX];
	int n_operands;
	const char *mirror;
	const char *defs;
	bool json;
	bool packages;
	bool if_missing;
	bool if_changed;
};

struct subverb {
	const char *name;
	int min_operands;
	int max_operands;
	int (*fn)(struct image_args *a, struct err *e);
	const char *usage;
};

static int do_build(struct image_args *a, struct err *e);
static int do_list(struct image_args *a, struct err *e);
static int do_import(struct image_args *a, struct err *e);
static int do_export(struct image_args *a, struct err *e);
static int do_remove(struct image_args *a, struct err *e);

static const struct subverb subverbs[] = {
    {"build", 0, 1, do_build,
     "build [NAME] [--mirror URL] [--if-missing|--if-changed]   (NAME: science)"},
    {"list", 0, 1, do_list, "list [NAME] [--packages] [--json]"},
    {"import", 2, 2, do_import, "import NAME FILE.tar[.gz|.zst|.xz]"},
    {"export", 2, 2, do_export, "export NAME FILE.tar[.gz|.zst]"},
    {"rm", 1, 1, do_remove, "rm NAME"},
};

static int find_state_dir(const struct settings *s, char ret[PATH_MAX], struct err *e)
{
	char path[PATH_MAX];
	int r = config_state_dir(s, path, sizeof(path), e);

	if (r < 0)
		return r;
	r = fd_make_dirs(path, 0755);

	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "cannot make %s (see --state-dir)", path);
	return realpath(path, ret) ? 0 : err_set(e, ERR_SYSTEM, errno, "cannot open %s", path);
}

/* Folder of the image definitions. A program that is not installed uses those of its source tree. */
static const char *find_defs(void)
{
	const char *given = getenv("SANDBOX_IMAGE_DEFS");
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (given && given[0])
		return given;
	self[n > 0 ? n : 0] = '\0';
	bool installed = text_starts_with(self, IMAGE_DEFS_PREFIX "/");

	return installed || access(IMAGE_DEFS_SOURCE, R_OK) < 0 ? IMAGE_DEFS_INSTALLED
								: IMAGE_DEFS_SOURCE;
}

/* Returns a descriptor that becomes readable on Ctrl-C and similar signals, so that a build can clean
 * up. */
static int watch_signals(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	int fd = signalfd(-1, &set, SFD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static void print_size(char ret[32], uint64_t bytes)
{
	if (bytes == 0)
		(void)snprintf(ret, 32, "?");
	else
		(void)snprintf(ret, 32, "%" PRIu64 " MB", (bytes + 500000) / 1000000);
}

static void print_ready(const struct image_manifest *m, uint64_t started)
{
	char size[32];

	print_size(size, image_manifest_u64(m, "size_bytes"));
	(void)printf("Image '%s' is ready: %s, Python %s, %zu packages, made in %" PRIu64 " s.\n",
		     image_manifest_str(m, "name"), size, image_manifest_str(m, "python_version"),
		     image_manifest_n_packages(m), (now_ns() - started) / NS_PER_S);
}

static struct image_watch watch_for(struct progress_line *line, int cancel_fd)
{
	progress_line_init(line, stderr, isatty(STDERR_FILENO) != 0);
	return (struct image_watch){.step = progress_line_step,
				    .tick = progress_line_tick,
				    .warn = progress_line_warn,
				    .user = line,
				    .cancel_fd = cancel_fd};
}

/* Is the image there, and built from the definition with DIGEST? NULL: from any. */
static bool is_there(struct image_args *a, const char *name, const char *digest)
{
	struct image_manifest m = {0};
	struct err ignored = ERR_INIT;
	bool there = image_manifest_load(&a->store, name, &m, &ignored) >= 0;

	if (there && digest)
		there = streq(image_manifest_str(&m, "definition"), digest);

	image_manifest_done(&m);
	return there;
}

static int do_build(struct image_args *a, struct err *e)
{
	const char *name = a->n_operands > 0 ? a->operands[0] : "science";
	_cleanup_(image_def_done) struct image_def def = {0};
	_cleanup_(image_manifest_done) struct image_manifest m = {0};
	struct progress_line line;

	if (a->if_missing && is_there(a, name, NULL))
		return 0;
	int r = image_def_load(a->defs, name, &def, e);

	if (r < 0 || (a->if_changed && is_there(a, name, def.digest)))
		return r;
	_cleanup_fd_ int cancel = watch_signals();
	const struct image_watch w = watch_for(&line, cancel);
	const struct image_build_options o = {.mirror = a->mirror};

	(void)fprintf(stderr, "Building image '%s' (Debian %s) in %s\n", name, def.suite,
		      a->store.path);
	r = image_build(&a->store, &def, &o, &w, &m, e);
	progress_line_end(&line, r >= 0);
	if (r >= 0)
		print_ready(&m, line.began);
	return r;
}

static int do_import(struct image_args *a, struct err *e)
{
	_cleanup_(image_manifest_done) struct image_manifest m = {0};
	_cleanup_fd_ int cancel = watch_signals();
	struct progress_line line;
	const struct image_watch w = watch_for(&line, cancel);
	int r = image_import(&a->store, a->operands[0], a->operands[1], &w, &m, e);

	progress_line_end(&line, r >= 0);
	if (r >= 0)
		print_ready(&m, line.began);
	return r;
}

static int do_export(struct image_args *a, struct err *e)
{
	_cleanup_fd_ int cancel = watch_signals();
	struct progress_line line;
	const struct image_watch w = watch_for(&line, cancel);
	int r = image_export(&a->store, a->operands[0], a->operands[1], &w, e);

	progress_line_end(&line, r >= 0);
	if (r >= 0)
		(void)printf("Image '%s' is in %s.\n", a->operands[0], a->operands[1]);
	return r;
}

static int do_remove(struct image_args *a, struct err *e)
{
	int r = image_store_remove(&a->store, a->operands[0], e);

	if (r >= 0)
		(void)printf("Image '%s' is removed.\n", a->operands[0]);
	return r;
}

static int print_row(void *user UNUSED, const struct image_manifest *m)
{
	char size[32];
	char built[32];

	print_size(size, image_manifest_u64(m, "size_bytes"));
	/* "2026-11-21T22:44:05Z" -> "2026-11-21 22:44" */
	(void)snprintf(built, sizeof(built), "%.16s", image_manifest_str(m, "built_at"));
	char *t = strchr(built, 'T');

	if (t)
		*t = ' ';
	(void)printf("%-20s %9s  %-8s %8zu  %-17s %s\n", image_manifest_str(m, "name"), size,
		     image_manifest_str(m, "python_version"), image_manifest_n_packages(m), built,
		     image_manifest_str(m, "description"));
	return 0;
}

static int add_json(void *user, const struct image_manifest *m)
{
	return json_array_append(user, m->json) < 0 ? -ENOMEM : 0;
}

static int print_json(const json_t *json, struct err *e)
{
	size_t len;
	_cleanup_free_ char *text = jsonio_text(json, JSON_INDENT(2), &len);

	if (!text)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "listing images");
	return puts(text) < 0 ? err_set(e, ERR_SYSTEM, errno, "cannot write") : 0;
}

static int list_one(struct image_args *a, struct err *e)
{
	_cleanup_(image_manifest_done) struct image_manifest m = {0};
	int r = image_manifest_load(&a->store, a->operands[0], &m, e);
	size_t i;
	json_t *p;

	if (r < 0)
		return r;
	if (a->json)
		return print_json(m.json, e);
	if (!a->packages)
		return print_row(NULL, &m);
	json_array_foreach(json_object_get(m.json, "packages"), i, p) {
		const char *name = json_string_value(json_object_get(p, "name"));
		const char *version = json_string_value(json_object_get(p, "version"));

		(void)printf("%s %s\n", name ? name : "?", version ? version : "?");
	}
	return 0;
}

static int do_list(struct image_args *a, struct err *e)
{
	if (a->n_operands > 0)
		return list_one(a, e);
	if (a->packages)
		return err_set(e, ERR_USAGE, 0, "list --packages needs the NAME of an image");
	json_t *all = json_array();

	if (!a->json)
		(void)printf("%-20s %9s  %-8s %8s  %-17s %s\n", "NAME", "SIZE", "PYTHON",
			     "PACKAGES", "BUILT (UTC)", "DESCRIPTION");
	int r = image_manifest_each(&a->store, a->json ? add_json : print_row, all, e);

	if (r >= 0 && a->json)
		r = print_json(all, e);
	json_decref(all);
	return r;
}

void cmd_image_usage(FILE *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(subverbs); i++)
		cmd_usage_line(f, i == 0, VERB, subverbs[i].usage);
}

static int refuse(void)
{
	cmd_image_usage(stderr);
	return err_code_exit(ERR_USAGE);
}

static int parse_args(struct image_args *a, int argc, char **argv, struct err *e)
{
	for (int i = 2; i < argc; i++) {
		if (streq(argv[i], "--json"))
			a->json = true;
		else if (streq(argv[i], "--packages"))
			a->packages = true;
		else if (streq(argv[i], "--if-missing"))
			a->if_missing = true;
		else if (streq(argv[i], "--if-changed"))
			a->if_changed = true;
		else if (streq(argv[i], "--mirror") && i + 1 < argc)
			a->mirror = argv[++i];
		else if (argv[i][0] == '-' && argv[i][1])
			return err_set(e, ERR_USAGE, 0,
				       "unknown option %s (see 'caisson image --help')", argv[i]);
		else if (a->n_operands < OPERANDS_MAX)
			a->operands[a->n_operands++] = argv[i];
		else
			return err_set(e, ERR_USAGE, 0,
				       "too many arguments (see 'caisson image --help')");
	}
	return 0;
}

static int run(const struct subverb *v, const struct settings *settings, int argc, char **argv,
	       struct err *e)
{
	struct image_args a = {.store = {.dir = -1}, .defs = find_defs()};
	int r = parse_args(&a, argc, argv, e);

	if (r >= 0 && (a.n_operands < v->min_operands || a.n_operands > v->max_operands))
		r = err_set(e, ERR_USAGE, 0, "usage: caisson image %s", v->usage);
	if (r >= 0)
		r = find_state_dir(settings, a.state_dir, e);
	if (r >= 0)
		r = image_store_open(&a.store, a.state_dir, true, e);
	if (r >= 0)
		r = v->fn(&a, e);
	image_store_done(&a.store);
	return r;
}

int cmd_image(int argc, char **argv)
{
	_cleanup_(settings_done) struct settings settings = {0};
	struct err e = ERR_INIT;

	if (read_settings(&settings, true, &argc, argv, &e) < 0)
		return cmd_fail(VERB, &e);
	for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(subverbs); i++)
		if (streq(subverbs[i].name, argv[1]))
			return run(&subverbs[i], &settings, argc, argv, &e) < 0 ? cmd_fail(VERB, &e)
										: 0;
	return refuse();
}
