/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: every default, every refusal, sources and their order, the file, the page about them.
 */
#include "base/buf.h"
#include "base/fdio.h"
#include "base/text.h"
#include "config/config_file.h"
#include "config/paths.h"
#include "config/reload.h"
#include "config/settings.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
/* cmocka wants those before it */
#include <cmocka.h>

static int setup(void **state)
{
	struct settings *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	assert_int_equal(settings_init(s), 0);
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	settings_done(*state);
	free(*state);
	return 0;
}

static enum setting_id id_of(const char *env)
{
	enum setting_id id = 0;

	while (id < SETTING_ID_MAX_ && !streq(setting_rows[id].env, env))
		id++;
	assert_true(id < SETTING_ID_MAX_);
	return id;
}

static const char *value_of(const struct settings *s, const char *env)
{
	static char value[512];

	settings_format(s, id_of(env), value, sizeof(value));
	return value;
}

/* The first family's table, with the values as its users write them (A07). */
static const char *const defaults[][2] = {
    {"SANDBOX_IMAGE", "llm-sandbox:latest"},
    {"SANDBOX_MEMORY_LIMIT", "512m"},
    {"SANDBOX_CPU_LIMIT", "1.0"},
    {"SANDBOX_EXEC_TIMEOUT_S", "60"},
    {"SANDBOX_SESSION_TTL_M", "30"},
    {"SANDBOX_MAX_SESSIONS", "10"},
    {"SANDBOX_CLEANUP_INTERVAL_M", "5"},
    {"SANDBOX_MAX_UPLOAD_BYTES", "52428800"},
    {"SANDBOX_MAX_ARTIFACT_READ_BYTES", "10485760"},
    {"SANDBOX_MAX_OUTPUT_BYTES", "102400"},
    {"SANDBOX_MAX_CODE_BYTES", "102400"},
    {"SANDBOX_HTTP_HOST", "127.0.0.1"},
    {"SANDBOX_HTTP_PORT", "8080"},
    {"SANDBOX_LOG_LEVEL", "INFO"},
    {"SANDBOX_LOG_FILE", "logs/sandbox.log"},
    {"SANDBOX_LOG_FORMAT", "console"},
    {"SANDBOX_PROFILE", "full"},
    {"SANDBOX_KILL_GRACE_MS", "1000"},
    {"SANDBOX_LISTEN", "127.0.0.1:8181"},
};

static void test_defaults(void **state)
{
	struct settings *s = *state;

	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++) {
		assert_string_equal(value_of(s, defaults[i][0]), defaults[i][1]);
		assert_false(settings_is_explicit(s, id_of(defaults[i][0])));
	}
	assert_int_equal(s->memory_limit, 536870912);
	assert_int_equal(s->cpu_limit, 1000);
}

static void test_environment(void **state)
{
	struct settings *s = *state;
	struct err e = ERR_INIT;
	char *const environment[] = {(char[]){"SANDBOX_EXEC_TIMEOUT_S= 5\t"},
				     (char[]){"sandbox_max_sessions=3"},
				     (char[]){"SANDBOX_MAX_SESSIONS=4"},
				     (char[]){"Sandbox_Image=base"},
				     (char[]){"SANDBOX_LOG_FORMAT=json"},
				     (char[]){"SANDBOX_UNKNOWN=1"},
				     (char[]){"SANDBOX_HTTP_PORT=off"},
				     (char[]){"SANDBOX_LOG_LEVEL=chatty"},
				     (char[]){"SANDBOX_CPU_LIMIT=.5"},
				     (char[]){"SANDBOX_WARM=No"},
				     (char[]){"SANDBOX_IMAGE_DEFS=x"},
				     (char[]){"SANDBOX_PROFILE="},
				     (char[]){"SANDBOX_POOL= "},
				     (char[]){"SANDBOX_MEMORY_LIMIT="},
				     (char[]){"SANDBOX_LOG_FILE="},
				     NULL};

	assert_int_equal(settings_read_env(s, environment, &e), 0);
	assert_int_equal(s->exec_timeout_s, 5);
	assert_int_equal(s->max_sessions, 4); /* capitals win */
	assert_string_equal(s->image, "base");
	assert_string_equal(s->log_format, "json");
	assert_int_equal(s->http_port, SETTING_PORT_OFF);
	assert_string_equal(value_of(s, "SANDBOX_HTTP_PORT"), "off");
	assert_int_equal(s->cpu_limit, 500);
	assert_false(s->warm);
	assert_int_equal(s->source[SETTING_ID_image], SETTING_FROM_ENV);
	assert_true(settings_is_explicit(s, SETTING_ID_image));
	assert_false(settings_is_explicit(s, SETTING_ID_memory_limit));
	assert_false(settings_is_explicit(s, SETTING_ID_profile));
	assert_string_equal(s->log_file, ""); /* nothing is one of its values */
	assert_int_equal(settings_read_empty_limits(s, environment, &e), 0);
	assert_true(settings_is_explicit(s, SETTING_ID_memory_limit));
}

static void test_refusals(void **state)
{
	struct settings *s = *state;
	static const struct {
		const char *env;
		const char *value;
	} rows[] = {
	    {"SANDBOX_EXEC_TIMEOUT_S", "3.5"},
	    {"SANDBOX_EXEC_TIMEOUT_S", "-1"},
	    {"SANDBOX_EXEC_TIMEOUT_S", "99999999999999999999"},
	    {"SANDBOX_MAX_SESSIONS", "0"},
	    {"SANDBOX_MAX_SESSIONS", "ten"},
	    {"SANDBOX_MAX_OUTPUT_BYTES", "1e5"},
	    {"SANDBOX_MEMORY_LIMIT", "lots"},
	    {"SANDBOX_MEMORY_LIMIT", "1m"},
	    {"SANDBOX_MEMORY_LIMIT", "-1m"},
	    {"SANDBOX_MAX_SESSIONS", "1__0"},
	    {"SANDBOX_MAX_SESSIONS", "_1"},
	    {"SANDBOX_MAX_SESSIONS", "1_"},
	    {"SANDBOX_MAX_SESSIONS", "5."},
	    {"SANDBOX_MAX_SESSIONS", "5.01"},
	    {"SANDBOX_MAX_SESSIONS", "."},
	    {"SANDBOX_CPU_LIMIT", "-1"},
	    {"SANDBOX_CPU_LIMIT", "nan"},
	    {"SANDBOX_CPU_LIMIT", "0.0001"},
	    {"SANDBOX_HTTP_PORT", "65536"},
	    {"SANDBOX_HTTP_PORT", "http"},
	    {"SANDBOX_LOG_FORMAT", "JSON"},
	    {"SANDBOX_LOG_FORMAT", "console|json"},
	    {"SANDBOX_PROFILE", "everything"},
	    {"SANDBOX_WARM", "maybe"},
	    {"SANDBOX_LISTEN", ":"},
	    {"SANDBOX_LISTEN", "nowhere"},
	    {"SANDBOX_API_KEY", "short"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err e = ERR_INIT;
		char variable[200], quoted[100];
		char *const environment[] = {variable, NULL};

		(void)snprintf(variable, sizeof(variable), "%s=%s", rows[i].env, rows[i].value);
		assert_true(settings_read_env(s, environment, &e) < 0);
		assert_int_equal(e.code, ERR_SETTING_INVALID);
		assert_true(text_starts_with(e.text, rows[i].env));
		(void)snprintf(quoted, sizeof(quoted), "'%s'",
			       streq(rows[i].env, "SANDBOX_API_KEY") ? "(secret)" : rows[i].value);
		assert_non_null(strstr(e.text, quoted));
		assert_non_null(strstr(e.text, "give "));
		assert_null(strchr(e.text, '\n'));
	}
	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++)
		assert_string_equal(value_of(s, defaults[i][0]), defaults[i][1]);
}

static void test_original_forms(void **state)
{
	struct settings *s = *state;
	static const struct {
		const char *env, *text, *value;
	} rows[] = {
	    {"SANDBOX_MEMORY_LIMIT", "0", "16777216m"}, {"SANDBOX_MEMORY_LIMIT", "", "16777216m"},
	    {"SANDBOX_CPU_LIMIT", "0", "1024.0"},       {"SANDBOX_MAX_SESSIONS", "1_000", "1000"},
	    {"SANDBOX_EXEC_TIMEOUT_S", " 5.0 ", "5"},   {"SANDBOX_HTTP_PORT", "8_081.00", "8081"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err e = ERR_INIT;

		assert_int_equal(settings_set(s, id_of(rows[i].env), rows[i].text, SETTING_FROM_ENV,
					      rows[i].env, &e),
				 0);
		assert_string_equal(value_of(s, rows[i].env), rows[i].value);
	}
}

static void test_unknown_variables(void **state)
{
	struct settings *s = *state;
	struct err e = ERR_INIT;
	char *const known[] = {(char[]){"sandbox_image=x"}, (char[]){"SANDBOX_IMAGE_DEFS=x"},
			       (char[]){"CAISSON_X=1"}, (char[]){"SANDBOX"}, NULL};
	char *const unknown[] = {(char[]){"SANDBOX_MEMROY_LIMIT=1"}, (char[]){"SANDBOX_QQ=1"},
				 NULL};

	assert_int_equal(settings_check_env(s, known, true, &e), 0);
	assert_int_equal(s->warnings.len, 0);
	assert_int_equal(settings_check_env(s, unknown, false, &e), 0);
	assert_string_equal(s->warnings.data,
			    "there is no setting SANDBOX_MEMROY_LIMIT, so it is ignored; did you "
			    "mean 'SANDBOX_MEMORY_LIMIT'?\n"
			    "there is no setting SANDBOX_QQ, so it is ignored\n");
	assert_true(settings_check_env(s, unknown, true, &e) < 0);
	assert_int_equal(e.code, ERR_SETTING_INVALID);
}

static void ignore_change(enum setting_id id, bool applied, void *user)
{
	unsigned *n = user;

	assert_int_equal(applied, settings_can_reload(id));
	n[applied]++;
}

static void test_reload(void **state)
{
	struct settings *s = *state;
	struct settings fresh;
	struct err e = ERR_INIT;
	unsigned n[2] = {0};
	static const char text[] = "[server]\nallowed_hosts = \"a.org\"\nmax_connections = 9\n"
				   "[log]\nlevel = \"debug\"\n";
	char *const environment[] = {(char[]){"SANDBOX_LOG_LEVEL=ERROR"}, NULL};

	assert_int_equal(settings_read_env(s, environment, &e), 0);
	assert_int_equal(settings_init(&fresh), 0);
	assert_int_equal(config_file_parse(&fresh, text, strlen(text), "c", &e), 0);
	assert_int_equal(settings_reload(s, &fresh, ignore_change, n), 0);
	settings_done(&fresh);
	assert_string_equal(s->allowed_hosts, "a.org");
	assert_string_equal(s->log_level, "ERROR"); /* the environment has set it */
	assert_int_equal(s->max_connections, 0);    /* used at the start only */
	assert_int_equal(n[true], 1);
	assert_int_equal(n[false], 1);
	/* What nobody has set has not changed, although the server made more of it. */
	s->max_sessions = 47;
	/* A key that was removed from the file gets its default again. */
	assert_int_equal(settings_init(&fresh), 0);
	assert_int_equal(settings_reload(s, &fresh, ignore_change, n), 0);
	settings_done(&fresh);
	assert_string_equal(s->allowed_hosts, "");
	assert_int_equal(n[true], 2);
	assert_int_equal(n[false], 1);
}

static void test_flags(void **state)
{
	struct settings *s = *state;
	struct err e = ERR_INIT;
	char *argv[] = {(char[]){"verb"},
			(char[]){"file"},
			(char[]){"--memory-limit"},
			(char[]){"1g"},
			(char[]){"--out"},
			(char[]){"d"},
			(char[]){"--max-sessions=7"},
			(char[]){"--"},
			(char[]){"--image=x"},
			NULL};
	char *const environment[] = {(char[]){"SANDBOX_MAX_SESSIONS=8"}, NULL};
	int argc = 9;

	assert_int_equal(settings_read_flags(s, &argc, argv, &e), 0);
	assert_int_equal(argc, 6);
	assert_string_equal(argv[1], "file");
	assert_string_equal(argv[2], "--out");
	assert_string_equal(argv[3], "d");
	assert_string_equal(argv[4], "--");
	assert_string_equal(argv[5], "--image=x");
	assert_null(argv[6]);
	assert_int_equal(s->memory_limit, 1073741824);
	/* A lower source does not overwrite a higher one, whatever the order of reading. */
	assert_int_equal(settings_read_env(s, environment, &e), 0);
	assert_int_equal(s->max_sessions, 7);
	char *bad[] = {(char[]){"verb"}, (char[]){"--image"}, NULL};
	argc = 2;
	assert_true(settings_read_flags(s, &argc, bad, &e) < 0);
	assert_true(text_starts_with(e.text, "--image"));
}

static int parse(struct settings *s, const char *text, struct err *e)
{
	return config_file_parse(s, text, strlen(text), "c.toml", e);
}

static void test_file(void **state)
{
	struct settings *s = *state;
	struct err e = ERR_INIT;
	static const char text[] = "# a comment\r\n"
				   "server.profile = 'code' # and one here\n"
				   "\n"
				   "  [ session ]\n"
				   "max = 1_0\n"
				   "cpu_limit = 2.5\n"
				   "image = \"b\\u0061se\"\n"
				   "warm = false\n"
				   "[log]\n"
				   "file = 'a # b\\n'\n"
				   "[limits]\n"
				   "max_code_bytes = +5";

	assert_int_equal(parse(s, text, &e), 0);
	assert_string_equal(s->profile, "code");
	assert_int_equal(s->max_sessions, 10);
	assert_int_equal(s->source[SETTING_ID_max_sessions], SETTING_FROM_FILE);
	assert_int_equal(s->cpu_limit, 2500);
	assert_string_equal(s->image, "base");
	assert_false(s->warm);
	assert_string_equal(s->log_file, "a # b\\n");
	assert_int_equal(s->max_code_bytes, 5);
}

/* The file of the second family, as its users have it. */
static void test_foreign_file(void **state)
{
	struct settings *s = *state;
	struct err e = ERR_INIT;
	static const char text[] =
	    "[server]\nhost = \"0.0.0.0\"\nport = 8181\n\n[auth]\nrequire_auth = false\n"
	    "default_user_id = \"root\"\nuser_sandbox_limit = 3\n\n[docker]\n"
	    "default_image = \"python-sandbox:latest\"\ndockerfile_path = "
	    "\"sandbox_images/Dockerfile\"\n"
	    "check_dockerfile_changes = true\nbuild_info_file = "
	    "\".docker_build_info\"\n\n[logging]\n"
	    "level = \"DEBUG\"\nformat = \"%(asctime)s - %(name)s - %(message)s\"\n"
	    "log_file = \"mcp_sandbox.log\"\n\n[mirror]\npypi_index_url = "
	    "\"https://example.org/simple\"\n";

	assert_int_equal(parse(s, text, &e), 0);
	assert_string_equal(s->app_host, "0.0.0.0");
	assert_int_equal(s->app_port, 8181);
	assert_string_equal(s->log_level, "DEBUG");
	assert_string_equal(s->log_file, "mcp_sandbox.log");
	assert_string_equal(s->image, "python-sandbox:latest");
	assert_int_equal(s->user_sandbox_limit, 3);
	assert_false(s->require_auth);
	assert_int_equal(s->warnings.len, 0);
}

/* What it allowed and we do not know is a warning; in our own file it is an error. */
static void test_foreign_values(void **state)
{
	struct settings *s = *state;
	struct err e = ERR_INIT;

	assert_int_equal(parse(s,
			       "auth.user_sandbox_limit = 0\nsession.mx = 1\n [docker] # x\n"
			       "dockerfile_path = \"mine\"\ndefault_image = \"mine:latest\"\n",
			       &e),
			 0);
	assert_int_equal(s->user_sandbox_limit, -1);
	assert_string_equal(s->image, "mine:latest");
	assert_non_null(strstr(s->warnings.data, "c.toml:2: session.mx: there is no such setting, "
						 "so it is ignored; did you mean 'session.max'?"));
	assert_non_null(strstr(s->warnings.data, "c.toml:4: docker.dockerfile_path has no effect"));
	assert_int_equal(parse(s, "auth.user_sandbox_limit = 0\n", &e), 0);
	assert_int_equal(s->user_sandbox_limit, 0);
	assert_true(parse(s, "dockers.x = 1\n", &e) < 0);
	assert_true(parse(s, "[dockers]\nx = 1\n", &e) < 0);
}

static void test_bad_files(void **state)
{
	struct settings *s = *state;
	static const struct {
		const char *text;
		const char *where;
	} rows[] = {
	    {"[session]\nmax = 3\nthis is no TOML\n", "c.toml:3:"},
	    {"[session\n", "c.toml:1:"},
	    {"[[session]]\n", "c.toml:1:"},
	    {"[session] max = 3\n", "c.toml:1:"},
	    {"\n\nmax\n", "c.toml:3:"},
	    {"session.max = 1\n[session]\nmax = 2\n", "c.toml:3: session.max"},
	    {"session.maximum = 1\n", "c.toml:1: session.maximum"},
	    {"session.max = \"zero\"\n", "c.toml:1: session.max: 'zero'"},
	    {"session.max = [1]\n", "c.toml:1:"},
	    {"session.max = 1__0\n", "c.toml:1:"},
	    {"session.max = 1_\n", "c.toml:1:"},
	    {"session.max = 0x10\n", "c.toml:1:"},
	    {"session.max = 1 2\n", "c.toml:1:"},
	    {"session..max = 1\n", "c.toml:1:"},
	    {"session.max. = 1\n", "c.toml:1:"},
	    {"= 1\n", "c.toml:1:"},
	    {"session.image = \"a\n", "c.toml:1:"},
	    {"session.image = \"\"\"a\"\"\"\n", "c.toml:1:"},
	    {"session.image = \"\\q\"\n", "c.toml:1:"},
	    {"session.image = \"\\u12\"\n", "c.toml:1:"},
	    {"session.image = \"\\ud800\"\n", "c.toml:1:"},
	    {"session.image = \"\\u0000\"\n", "c.toml:1:"},
	    {"session.image = 'a\x01'\n", "c.toml:1:"},
	    {"session.image = a\n", "c.toml:1:"},
	    {"session.image = \n", "c.toml:1:"},
	    {"session.image = '\xFF'\n", "c.toml:1:"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err e = ERR_INIT;
		assert_true(parse(s, rows[i].text, &e) < 0);
		assert_int_equal(e.code, ERR_SETTING_INVALID);
		if (!text_starts_with(e.text, rows[i].where))
			fail_msg("%s: %s", rows[i].text, e.text);
	}
	struct err e = ERR_INIT;
	assert_true(config_file_parse(s, "a\0b", 3, "c.toml", &e) < 0);
}

static void test_file_must_be_safe(void **state)
{
	struct settings *s = *state;
	struct err e = ERR_INIT;
	char dir[] = "/tmp/caisson-config-XXXXXX", path[64], link_path[64];
	bool refused;

	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/config.toml", dir);
	(void)snprintf(link_path, sizeof(link_path), "%s/link.toml", dir);
	assert_int_equal(config_file_read_if_safe(s, path, &refused, &e), 0);
	assert_false(refused);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs("session.max = 5\n", f) >= 0);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(path, 0646), 0);
	assert_int_equal(config_file_read_if_safe(s, path, &refused, &e), 0);
	assert_true(refused);
	assert_int_equal(s->max_sessions, 10);
	assert_int_equal(chmod(path, 0644), 0);
	assert_int_equal(symlink(path, link_path), 0);
	assert_int_equal(config_file_read_if_safe(s, link_path, &refused, &e), 0);
	assert_true(refused);
	assert_int_equal(config_file_read_if_safe(s, path, &refused, &e), 1);
	assert_int_equal(s->max_sessions, 5);
	assert_int_equal(unlink(path), 0);
	assert_true(config_file_read(s, path, &e) < 0);
	assert_int_equal(unlink(link_path), 0);
	assert_int_equal(rmdir(dir), 0);
}

static void test_image_names(void **state)
{
	struct settings *s = *state;
	static const struct {
		const char *given;
		const char *want; /* NULL = refused */
	} rows[] = {
	    {"llm-sandbox:latest", "science"},
	    {"python-sandbox:latest", "science"},
	    {"llm-sandbox", "science"},
	    {"science", "science"},
	    {"base:latest", "base"},
	    {"my.image-2", "my.image-2"},
	    {"../etc", NULL},
	    {"a/b", NULL},
	    {"a:1", NULL},
	    {"Base", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err e = ERR_INIT;
		char name[208];

		assert_int_equal(settings_set(s, SETTING_ID_image, rows[i].given, SETTING_FROM_FLAG,
					      "--image", &e),
				 0);
		int r = config_image_name(s, name, &e);
		assert_int_equal(r == 0, rows[i].want != NULL);
		if (r == 0)
			assert_string_equal(name, rows[i].want);
		else
			assert_int_equal(e.code, ERR_SETTING_INVALID);
	}
}

static void test_image_references(void **state)
{
	struct settings *s = *state;
	static const struct {
		const char *source, *want; /* NULL: it is refused */
	} rows[] = {
	    {"registry.example/caisson", "registry.example/caisson/base:latest"},
	    {"registry.example/caisson:1.2", "registry.example/caisson/base:1.2"},
	    {"localhost:5000/a/b", "localhost:5000/a/b/base:latest"},
	    {"localhost:5000/a/b:v1", "localhost:5000/a/b/base:v1"},
	    {"registry.example", NULL},
	    {"localhost:5000", NULL},
	    {"registry.example/", NULL},
	    {"/caisson", NULL},
	    {"registry.example/caisson:", NULL},
	    {"registry.example/:1", NULL},
	    {"registry.example/caisson@sha256:00", NULL},
	};
	char reference[64], small[16];
	struct err e = ERR_INIT;

	assert_int_equal(config_image_reference(s, "base", reference, sizeof(reference), &e) < 0,
			 1);
	assert_int_equal(e.code, ERR_NOT_FOUND);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		e = (struct err)ERR_INIT;
		assert_int_equal(settings_set(s, SETTING_ID_image_source, rows[i].source,
					      SETTING_FROM_FLAG, "--image-source", &e),
				 0);
		int r = config_image_reference(s, "base", reference, sizeof(reference), &e);

		assert_int_equal(r == 0, rows[i].want != NULL);
		if (r == 0)
			assert_string_equal(reference, rows[i].want);
		else
			assert_int_equal(e.code, ERR_SETTING_INVALID);
		assert_true(config_image_reference(s, "base", small, sizeof(small), &e) < 0);
	}
}

/* Every row can be found by its key, and no two rows share a name. */
static void test_rows_are_distinct(void **state UNUSED)
{
	for (enum setting_id i = 0; i < SETTING_ID_MAX_; i++) {
		assert_int_equal(
		    settings_find_key(setting_rows[i].key, strlen(setting_rows[i].key)), i);
		assert_true(strlen(setting_rows[i].doc) > 10);
		for (enum setting_id j = 0; j < i; j++) {
			assert_string_not_equal(setting_rows[i].env, setting_rows[j].env);
			assert_string_not_equal(setting_rows[i].key, setting_rows[j].key);
		}
	}
}

static void test_page(void **state UNUSED)
{
	_cleanup_(buf_done) struct buf page = BUF_INIT(1 << 20);
	_cleanup_fd_ int fd = open(CONFIGURATION_PAGE, O_RDONLY | O_CLOEXEC);
	char *made = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&made, &len);

	assert_non_null(f);
	assert_int_equal(settings_write_markdown(f), 0);
	assert_int_equal(fclose(f), 0);
	assert_true(fd >= 0);
	assert_int_equal(fd_read_file(fd, &page), 0);
	if (!streq(buf_str(&page), made))
		fail_msg("make it anew: caisson config --markdown > docs/configuration.md");
	free(made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	    T(test_defaults),
	    T(test_environment),
	    T(test_refusals),
	    T(test_flags),
	    T(test_original_forms),
	    T(test_unknown_variables),
	    T(test_reload),
	    T(test_file),
	    T(test_foreign_file),
	    T(test_foreign_values),
	    T(test_bad_files),
	    T(test_file_must_be_safe),
	    T(test_image_names),
	    T(test_image_references),
	    T(test_rows_are_distinct),
	    T(test_page),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
