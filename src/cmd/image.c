/* SPDX-License-Identifier: Apache-2.0 */
/* caisson image build|list|pull|import|commit|export|rm */
#include "app/pip_config.h"
#include "app/read_settings.h"
#include "cmd/cmd.h"
#include "cmd/image_verb.h"

#include "base/fdio.h"
#include "base/jsonio.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "config/paths.h"
#include "image/image.h"
#include "image/ref.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define VERB         "image"
#define OPERANDS_MAX 2
#define DIGEST       "sha256:"

struct image_args {
	struct image_store store;
	char state_dir[PATH_MAX];
	const char *operands[OPERANDS_MAX];
	int n_operands;
	struct settings *settings;
	const char *mirror;
	const char *architecture;
	const char *defs;
	const char *from;    /* build: the definition that the new image begins with */
	const char *index;   /* build: words, packages of the package index */
	const char *debian;  /* build: words, Debian packages */
	const char *preload; /* build: words, modules to import ahead of need */
	const char *name;    /* pull: of the image; NULL = the last part of the reference's name */
	struct image_import_options import;
	struct image_export_options export;
	struct image_dockerfile_args dockerfile;
	bool json;
	bool packages;
	bool if_missing;
	bool if_changed;
	bool of_sandbox;
	bool own; /* commit: struct image_commit_options */
	bool for_build;
	const char *note; /* commit, note: a file */
};

struct subverb {
	const char *name;
	int min_operands;
	int max_operands;
	int (*fn)(struct image_args *a, struct err *e);
	const char *usage;
	bool makes; /* the state folder is made if it does not exist */
};

static int do_build(struct image_args *a, struct err *e);
static int do_list(struct image_args *a, struct err *e);
static int do_pull(struct image_args *a, struct err *e);
static int do_import(struct image_args *a, struct err *e);
static int do_commit(struct image_args *a, struct err *e);
static int do_note(struct image_args *a, struct err *e);
static int do_export(struct image_args *a, struct err *e);
static int do_remove(struct image_args *a, struct err *e);

static const struct subverb subverbs[] = {
    {"build", 0, 1, do_build,
     "build [NAME] [--from NAME [--packages WORDS] [--debian WORDS] [--preload MODULES]] "
     "[--mirror URL] [--architecture amd64|arm64] [--if-missing|--if-changed]   (NAME: science)",
     true},
    /* The row above is found for it; this one is its usage line. */
    {"build", 1, 1, do_build, "build NAME --dockerfile DIR " IMAGE_DOCKERFILE_USAGE, true},
    {"list", 0, 1, do_list, "list [NAME] [--packages] [--json]"},
    {"pull", 0, 1, do_pull,
     "pull [[HOST/]NAME[:TAG|@DIGEST]] [--name NAME] [--plain-http] [--if-missing]   (without a "
     "reference: SANDBOX_IMAGE from SANDBOX_IMAGE_SOURCE)",
     true},
    {"pull", 1, 1, do_pull,
     "pull REFERENCE --for-build   (what a build begins with, by SANDBOX_PULLS: the server does "
     "this)",
     true},
    {"import", 2, 2, do_import,
     "import NAME FILE.tar[.gz|.zst|.xz]|FOLDER|docker://[HOST/]IMAGE|docker-daemon:IMAGE "
     "[--tag TAG] [--plain-http]",
     true},
    {"commit", 2, 2, do_commit,
     "commit NAME BASE [--note FILE] [--own] < LAYER   (NAME is BASE and what a sandbox has "
     "changed: the "
     "server does this)",
     true},
    {"note", 1, 1, do_note, "note NAME --note FILE   (a JSON object, of an image of a sandbox)"},
    {"export", 2, 2, do_export,
     "export NAME FILE.tar[.gz|.zst] [--format tar|docker|oci] [--compression gzip|zstd] [--tag "
     "NAME:TAG] [--start FILE]"},
    {"rm", 1, 1, do_remove, "rm NAME [--of-sandbox]"},
};

/* A verb that only looks must not make the folder: its name may be mistyped. */
static int find_state_dir(const struct settings *s, bool make, char ret[PATH_MAX], struct err *e)
{
	char path[PATH_MAX];
	int r = config_state_dir(s, path, sizeof(path), e);

	if (r < 0)
		return r;
	r = make ? fd_make_dirs(path, 0755) : 0;
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "cannot make %s (see --state-dir)", path);
	if (realpath(path, ret))
		return 0;
	if (errno == ENOENT)
		return err_set(
		    e, ERR_NOT_FOUND, 0,
		    "there is no state folder %s (see --state-dir); 'caisson image build' "
		    "makes it",
		    path);
	return err_set(e, ERR_SYSTEM, errno, "cannot open %s", path);
}

int image_watch_signals(void)
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

void image_print_ready(const struct image_manifest *m, uint64_t started)
{
	char size[32];

	print_size(size, image_manifest_u64(m, "size_bytes"));
	const char *python = image_manifest_str(m, "python_version");

	(void)printf("Image '%s' is ready: %s, %s%s, %zu packages, made in %" PRIu64 " s.\n",
		     image_manifest_str(m, "name"), size, python[0] ? "Python " : "no Python",
		     python, image_manifest_n_packages(m), (now_ns() - started) / NS_PER_S);
}

struct image_watch image_watch_for(struct progress_line *line, int cancel_fd)
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

/* Where this machine gets Python packages from: the same place as for the server's sandboxes. */
static void find_index(const struct settings *s, struct pip_config *pip, struct image_index *ret)
{
	bool own;

	pip_config_read(pip);
	*ret = (struct image_index){.url = s->pip_index_url[0] ? s->pip_index_url
					   : pip->index_url[0] ? pip->index_url
							       : PIP_DEFAULT_INDEX,
				    .wheel_dir = s->pip_wheel_dir,
				    .ca_fd = pip_config_open_ca(pip, s->pip_ca_file, &own)};
}

static int load_def(const struct image_args *a, const char *name, struct image_def *ret,
		    struct err *e)
{
	const struct image_def_more more = {
	    .name = name, .index = a->index, .debian = a->debian, .preload = a->preload};
	int r = image_def_load(a->defs, a->from ? a->from : name, ret, e);

	return r < 0 || !a->from ? r : image_def_extend(ret, &more, e);
}

static int import(struct image_args *a, const char *name, const char *source, struct err *e);

static int pull_for_build(void *user, const char *name, const char *source, struct err *e)
{
	return import(user, name, source, e);
}

static int build_dockerfile(struct image_args *a, struct err *e)
{
	if (!a->dockerfile.o.context)
		return err_set(e, ERR_USAGE, 0,
			       "build: this option is one of 'build NAME --dockerfile DIR'");
	if (a->n_operands == 0 || a->from || a->mirror || a->if_changed)
		return err_set(e, ERR_USAGE, 0,
			       "usage: caisson image build NAME --dockerfile DIR [--if-missing] %s",
			       IMAGE_DOCKERFILE_USAGE);
	if (a->if_missing && is_there(a, a->operands[0], NULL))
		return 0;
	a->dockerfile.o.plain_http = a->import.plain_http;
	a->dockerfile.settings = a->settings;
	a->dockerfile.pull = pull_for_build;
	a->dockerfile.pull_user = a;
	return image_dockerfile_build(&a->store, a->operands[0], &a->dockerfile, e);
}

static int do_build(struct image_args *a, struct err *e)
{
	const char *name = a->n_operands > 0 ? a->operands[0] : "science";
	_cleanup_(image_def_done) struct image_def def = {0};
	_cleanup_(image_manifest_done) struct image_manifest m = {0};
	struct progress_line line;
	struct pip_config pip;
	struct image_build_options o = {.mirror = a->mirror, .architecture = a->architecture};

	if (a->dockerfile.o.context || a->dockerfile.other)
		return build_dockerfile(a, e);
	if ((a->index || a->debian || a->preload) && !a->from)
		return err_set(e, ERR_USAGE, 0,
			       "build --packages, --debian and --preload need --from NAME");
	if (a->if_missing && is_there(a, name, NULL))
		return 0;
	int r = load_def(a, name, &def, e);

	if (r < 0 || (a->if_changed && is_there(a, name, def.digest)))
		return r;
	_cleanup_fd_ int cancel = image_watch_signals();
	const struct image_watch w = image_watch_for(&line, cancel);

	find_index(a->settings, &pip, &o.index);
	_cleanup_fd_ UNUSED int ca = o.index.ca_fd;

	(void)fprintf(stderr, "Building image '%s' (Debian %s) in %s\n", name, def.suite,
		      a->store.path);
	r = image_build(&a->store, &def, &o, &w, &m, e);
	progress_line_end(&line, r >= 0);
	if (r >= 0)
		image_print_ready(&m, line.began);
	return r;
}

/* A key that somebody set holds for every registry, one that the program has for its own folder of images. */
const char *image_keys_for(const struct settings *s, const char *source)
{
	char own[PATH_MAX];
	struct err ignored = ERR_INIT;

	if (settings_is_explicit(s, SETTING_ID_image_key))
		return s->image_key;
	if (config_image_reference(s, "", own, sizeof(own), &ignored) < 0)
		return "";
	own[strrchr(own, '/') + 1 - own] = '\0';
	source += text_starts_with(source, REF_REGISTRY_PREFIX) ? strlen(REF_REGISTRY_PREFIX) : 0;
	return text_starts_with(source, own) ? s->image_key : "";
}

static int import(struct image_args *a, const char *name, const char *source, struct err *e)
{
	_cleanup_(image_manifest_done) struct image_manifest m = {0};
	_cleanup_fd_ int cancel = image_watch_signals();
	struct progress_line line;
	const struct image_watch w = image_watch_for(&line, cancel);
	a->import.ca_file = getenv("SSL_CERT_FILE");
	a->import.keys = image_keys_for(a->settings, source);
	int r = image_import(&a->store, name, source, &a->import, &w, &m, e);

	progress_line_end(&line, r >= 0);
	if (r >= 0)
		image_print_ready(&m, line.began);
	return r;
}

static int do_import(struct image_args *a, struct err *e)
{
	return import(a, a->operands[0], a->operands[1], e);
}

static int do_commit(struct image_args *a, struct err *e)
{
	return image_commit_verb(&a->store, a->operands[0], a->operands[1], a->note, a->own, e);
}

/* A name that nobody chose replaces an image of the same repository and no other. */
static int check_name(struct image_args *a, const char *name, const struct image_ref *ref,
		      struct err *e)
{
	_cleanup_(image_manifest_done) struct image_manifest m = {0};
	struct image_ref old = {0};
	struct err ignored = ERR_INIT;

	if (image_manifest_load(&a->store, name, &m, &ignored) < 0)
		return 0;
	if (image_ref_parse(image_manifest_str(&m, "origin"), &old, &ignored) >= 0 &&
	    old.kind == REF_REGISTRY && streq(old.host, ref->host) && streq(old.name, ref->name))
		return 0;
	return err_set(e, ERR_INVALID_ARGUMENT, EEXIST,
		       "there is an image '%s' from elsewhere; choose a name with --name ('--name "
		       "%s' replaces that one)",
		       name, name);
}

/* The image that this server's sandboxes have, or that --name says, from the registry of the settings. */
static int find_own(struct image_args *a, char image[CONFIG_IMAGE_SIZE], char reference[PATH_MAX],
		    struct err *e)
{
	int r = a->name ? 0 : config_image_name(a->settings, image, e);

	if (r >= 0 && !a->settings->image_source[0])
		r = err_set(
		    e, ERR_USAGE, 0,
		    "usage: caisson image pull REFERENCE; without one, SANDBOX_IMAGE_SOURCE "
		    "must name a registry");
	return r < 0 ? r
		     : config_image_reference(a->settings, a->name ? a->name : image, reference,
					      PATH_MAX, e);
}

static int do_pull(struct image_args *a, struct err *e)
{
	char own[PATH_MAX], image[CONFIG_IMAGE_SIZE];
	const char *given = a->operands[0];
	char source[PATH_MAX];
	struct image_ref ref;

	if (a->for_build)
		return a->n_operands == 1 && !a->name && !a->import.plain_http
			   ? image_pull_for_build(&a->store, a->settings, given, e)
			   : err_set(e, ERR_USAGE, 0,
				     "usage: caisson image pull REFERENCE --for-build");
	if (a->n_operands == 0 && find_own(a, image, own, e) < 0)
		return -EINVAL;
	if (a->n_operands == 0)
		given = own;
	if ((size_t)snprintf(source, sizeof(source), "%s%s",
			     text_starts_with(given, REF_REGISTRY_PREFIX) ? ""
									  : REF_REGISTRY_PREFIX,
			     given) >= sizeof(source))
		return err_set(e, ERR_INVALID_ARGUMENT, ENAMETOOLONG, "the image's name");
	int r = image_ref_parse(source, &ref, e);

	if (r < 0)
		return r;
	const char *slash = strrchr(ref.name, '/');
	const char *name = a->name ? a->name : slash ? slash + 1 : ref.name;

	if (!parse_is_image_name(name, strlen(name)))
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "'%.64s' is no name for an image; choose one with --name", name);
	if (a->if_missing && is_there(a, name, NULL))
		return 0;
	r = a->name ? 0 : check_name(a, name, &ref, e);
	return r < 0 ? r : import(a, name, source, e);
}

static int do_export(struct image_args *a, struct err *e)
{
	_cleanup_fd_ int cancel = image_watch_signals();
	struct progress_line line;
	const struct image_watch w = image_watch_for(&line, cancel);
	int r = image_export(&a->store, a->operands[0], a->operands[1], &a->export, &w, e);

	progress_line_end(&line, r >= 0);
	if (r >= 0)
		(void)printf("Image '%s' is in %s.\n", a->operands[0], a->operands[1]);
	return r;
}

static int do_note(struct image_args *a, struct err *e)
{
	return image_note_verb(&a->store, a->operands[0], a->note, e);
}

static int do_remove(struct image_args *a, struct err *e)
{
	int r = a->of_sandbox ? image_check_of_sandbox(&a->store, a->operands[0], e) : 0;

	r = r < 0           ? r
	    : a->of_sandbox ? image_store_retire(&a->store, a->operands[0], e)
			    : image_store_remove(&a->store, a->operands[0], e);

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
	const char *digest = image_manifest_str(m, "digest");
	const char *python = image_manifest_str(m, "python_version");

	(void)printf("%-20s %9s  %-8s %8zu  %-17s %-14s %-12.12s  %s\n",
		     image_manifest_str(m, "name"), size, python[0] ? python : "-",
		     image_manifest_n_packages(m), built, image_manifest_str(m, "source"),
		     text_starts_with(digest, DIGEST) ? digest + strlen(DIGEST) : "-",
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
		(void)printf("%-20s %9s  %-8s %8s  %-17s %-14s %-12s  %s\n", "NAME", "SIZE",
			     "PYTHON", "PACKAGES", "BUILT (UTC)", "SOURCE", "DIGEST",
			     "DESCRIPTION");
	int r = image_manifest_each(&a->store, IMAGES_ALL, a->json ? add_json : print_row, all, e);

	if (r >= 0 && a->json)
		r = print_json(all, e);
	json_decref(all);
	return r;
}

const char *cmd_image_command(size_t i)
{
	return i < ARRAY_SIZE(subverbs) ? subverbs[i].usage : NULL;
}

/* How many words of ARGV the option at its beginning is; 0 = it is none. */
static int take_option(struct image_args *a, bool build, int argc, char **argv)
{
	const struct {
		const char *name;
		const char **text;
		bool *flag;
	} options[] = {
	    {"--json", NULL, &a->json},
	    {"--if-missing", NULL, &a->if_missing},
	    {"--if-changed", NULL, &a->if_changed},
	    {"--of-sandbox", NULL, &a->of_sandbox},
	    {"--own", NULL, &a->own},
	    {"--for-build", NULL, &a->for_build},
	    {"--plain-http", NULL, &a->import.plain_http},
	    {"--note", &a->note},
	    {"--tag", &a->import.tag},
	    {"--tag", &a->export.tag},
	    {"--format", &a->export.format},
	    {"--compression", &a->export.compression},
	    {"--start", &a->export.start},
	    {"--mirror", &a->mirror},
	    {"--architecture", &a->architecture},
	    {"--from", &a->from},
	    {"--packages", build ? &a->index : NULL, &a->packages},
	    {"--debian", &a->debian},
	    {"--name", &a->name},
	    {"--preload", &a->preload},
	};
	int taken = 0;

	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		if (!streq(argv[0], options[i].name) || (options[i].text && argc < 2))
			continue;
		if (options[i].text)
			*options[i].text = argv[1];
		else
			*options[i].flag = true;
		taken = options[i].text ? 2 : 1;
	}
	return taken;
}

static int parse_args(struct image_args *a, int argc, char **argv, struct err *e)
{
	for (int i = 2; i < argc; i++) {
		const bool build = streq(argv[1], "build");
		int taken =
		    build ? image_dockerfile_option(&a->dockerfile, argc - i, argv + i, e) : 0;

		if (taken == 0)
			taken = take_option(a, build, argc - i, argv + i);
		if (taken < 0)
			return taken;
		if (taken > 0)
			i += taken - 1;
		else if (argv[i][0] == '-' && argv[i][1])
			return cmd_unknown(VERB, argv[i], e);
		else if (a->n_operands < OPERANDS_MAX)
			a->operands[a->n_operands++] = argv[i];
		else
			return err_set(e, ERR_USAGE, 0,
				       "too many arguments (see 'caisson image --help')");
	}
	return 0;
}

static int run(const struct subverb *v, struct settings *settings, int argc, char **argv,
	       struct err *e)
{
	struct image_args a = {
	    .store = {.dir = -1}, .defs = cmd_image_defs(), .settings = settings};
	int r = parse_args(&a, argc, argv, e);

	if (r >= 0 && (a.n_operands < v->min_operands || a.n_operands > v->max_operands))
		r = err_set(e, ERR_USAGE, 0, "usage: caisson image %s", v->usage);
	if (r >= 0)
		r = find_state_dir(settings, v->makes, a.state_dir, e);
	if (r >= 0)
		r = image_store_open(&a.store, a.state_dir, v->makes, e);
	if (r >= 0)
		r = v->fn(&a, e);
	image_store_done(&a.store);
	image_dockerfile_done(&a.dockerfile);
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
	return cmd_no_command(VERB, argc > 1 ? argv[1] : NULL);
}
