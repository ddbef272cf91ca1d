/* SPDX-License-Identifier: Apache-2.0 */
#include "config/settings.h"

#include "base/parse.h"
#include "base/suggest.h"
#include "base/text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define VALUE_MAX    4096  /* bytes of any one value */
#define NUMBER_MAX   64    /* characters of a whole number, with its underscores */
#define WARNINGS_MAX 16384 /* bytes of all warnings */
#define ENV_PREFIX   "SANDBOX_"

/* The column `needs`. */
#define NEEDS_NOTHING                                                                              \
	{                                                                                          \
		0                                                                                  \
	}
#define NEEDS_SESSION(c)                                                                           \
	{                                                                                          \
		.of = SETTING_OF_SESSION, .cap = SETTING_CAP_##c                                   \
	}
#define NEEDS_STORED(c)                                                                            \
	{                                                                                          \
		.of = SETTING_OF_STORED, .cap = SETTING_CAP_##c                                    \
	}
#define NEEDS_BOTH(c)                                                                              \
	{                                                                                          \
		.of = SETTING_OF_SESSION | SETTING_OF_STORED, .cap = SETTING_CAP_##c               \
	}
#define NEEDS_SERVER(c, v)                                                                         \
	{                                                                                          \
		.of = SETTING_OF_SERVER, .cap = SETTING_CAP_##c, .value = (v)                      \
	}

const struct setting_row setting_rows[SETTING_ID_MAX_] = {
#define S(t, f, n, k, v, d, lo, hi, a, m)                                                          \
	[SETTING_ID_##f] = {.field = #f,                                                           \
			    .key = k,                                                              \
			    .env = v,                                                              \
			    .def = d,                                                              \
			    .allowed = a,                                                          \
			    .doc = m,                                                              \
			    .min = lo,                                                             \
			    .max = hi,                                                             \
			    .offset = offsetof(struct settings, f),                                \
			    .type = SETTING_##t,                                                   \
			    .needs = NEEDS_##n},
#include "config/settings.tbl.h"
#undef S
};

static void *field_of(struct settings *s, enum setting_id id)
{
	return (char *)s + setting_rows[id].offset;
}

static const void *field_of_const(const struct settings *s, enum setting_id id)
{
	return (const char *)s + setting_rows[id].offset;
}

static bool is_text(enum setting_type type)
{
	return type == SETTING_STR || type == SETTING_PATH || type == SETTING_ADDR ||
	       type == SETTING_CHOICE || type == SETTING_SECRET;
}

static int set_text(char **field, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return -ENOMEM;
	free(*field);
	*field = copy;
	return 0;
}

static int set_str(const struct setting_row *row, const char *text, void *field)
{
	size_t len = strlen(text);

	if (len < (size_t)row->min || len > (size_t)row->max)
		return -ERANGE;
	return set_text(field, text);
}

static int set_secret(const struct setting_row *row, const char *text, void *field)
{
	if (*text != '\0' && strlen(text) < 16)
		return -ERANGE;
	return set_str(row, text, field);
}

/* The first tool family also takes 1_000 and 5.0 for whole numbers. RET gets the digits alone; -EINVAL
 * if an underscore is not between digits or a fraction is not zero. */
static int plain_number(const char *text, char ret[NUMBER_MAX])
{
	const char *point = strchr(text, '.');
	size_t len = point ? (size_t)(point - text) : strlen(text), n = 0;

	if (len >= NUMBER_MAX || (point && (point[1] == '\0' || point[1 + strspn(point + 1, "0")])))
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		bool between = i > 0 && isdigit((unsigned char)text[i - 1]) &&
			       isdigit((unsigned char)text[i + 1]);

		if (text[i] == '_' && !between)
			return -EINVAL;
		if (text[i] != '_')
			ret[n++] = text[i];
	}
	ret[n] = '\0';
	return 0;
}

static int set_int(const struct setting_row *row, const char *text, void *field)
{
	char number[NUMBER_MAX];
	int r = plain_number(text, number);

	return r < 0 ? r : parse_i64(number, row->min, row->max, field);
}

static int set_size(const struct setting_row *row, const char *text, void *field)
{
	return parse_size(text, (uint64_t)row->min, (uint64_t)row->max, field);
}

static int set_milli(const struct setting_row *row, const char *text, void *field)
{
	return parse_milli(text, (uint64_t)row->min, (uint64_t)row->max, field);
}

static int set_bool(const struct setting_row *row UNUSED, const char *text, void *field)
{
	return parse_bool(text, field);
}

static int set_port(const struct setting_row *row, const char *text, void *field)
{
	char number[NUMBER_MAX];
	uint64_t port;
	int *ret = field;

	if (strcasecmp(text, "off") == 0) {
		*ret = SETTING_PORT_OFF;
		return 0;
	}
	int r = plain_number(text, number);
	r = r < 0 ? r : parse_u64(number, (uint64_t)row->min, (uint64_t)row->max, &port);
	if (r == 0)
		*ret = (int)port;
	return r;
}

static int set_addr(const struct setting_row *row, const char *text, void *field)
{
	char host[256];
	uint16_t port;
	int r = parse_host_port(text, host, sizeof(host), &port);

	return r < 0 ? r : set_str(row, text, field);
}

static int set_choice(const struct setting_row *row, const char *text, void *field)
{
	return text_is_word(row->allowed, text) ? set_text(field, text) : -EINVAL;
}

static int (*const setters[])(const struct setting_row *row, const char *text, void *field) = {
    [SETTING_STR] = set_str,       [SETTING_PATH] = set_str,    [SETTING_INT] = set_int,
    [SETTING_SIZE] = set_size,     [SETTING_MILLI] = set_milli, [SETTING_BOOL] = set_bool,
    [SETTING_PORT] = set_port,     [SETTING_ADDR] = set_addr,   [SETTING_CHOICE] = set_choice,
    [SETTING_SECRET] = set_secret,
};

static int refuse(const struct setting_row *row, const char *where, const char *text, struct err *e)
{
	char allowed[256];

	(void)snprintf(allowed, sizeof(allowed), "%s", row->allowed);
	for (char *p = allowed; row->type == SETTING_CHOICE && *p; p++)
		if (*p == '|')
			*p = ' ';
	char shown[81];
	size_t n = 0;
	for (const char *p = text; *p && n < sizeof(shown) - 1; p++)
		shown[n++] = isprint((unsigned char)*p) ? *p : '?';
	shown[n] = '\0';
	(void)err_set(e, ERR_SETTING_INVALID, 0, "%s: '%s' is not allowed; give %s%s", where,
		      row->type == SETTING_SECRET ? "(secret)" : shown,
		      row->type == SETTING_CHOICE ? "one of: " : "", allowed);
	return -EINVAL;
}

/* The first tool family had no limit where one of these values was given. The table's maximum is as
 * good as none, and app/limits.c does not insist on it. */
static const struct {
	enum setting_id id;
	const char *value;
	const char *means;
} no_limit[] = {
    {SETTING_ID_memory_limit, "0", "16t"},
    {SETTING_ID_memory_limit, "", "16t"},
    {SETTING_ID_cpu_limit, "0", "1024"},
    {SETTING_ID_cpu_limit, "0.0", "1024"},
};

static const char *meant(enum setting_id id, const char *value)
{
	for (size_t i = 0; i < ARRAY_SIZE(no_limit); i++)
		if (no_limit[i].id == id && streq(no_limit[i].value, value))
			return no_limit[i].means;
	return value;
}

int settings_set(struct settings *s, enum setting_id id, const char *text,
		 enum setting_source source, const char *where, struct err *e)
{
	const struct setting_row *row = &setting_rows[id];
	char trimmed[VALUE_MAX];

	if (source < s->source[id])
		return 0;
	if (text_copy(trimmed, sizeof(trimmed), text) < 0)
		return refuse(row, where, text, e);
	const char *value = trimmed;
	if (!is_text(row->type)) {
		size_t len = strlen(trimmed);
		while (len > 0 && isspace((unsigned char)trimmed[len - 1]))
			trimmed[--len] = '\0';
		value += strspn(trimmed, " \t\r\n\v\f");
	}
	int r = setters[row->type](row, meant(id, value), field_of(s, id));
	if (r == -ENOMEM)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "%s", where);
	if (r < 0)
		return refuse(row, where, text, e);
	s->source[id] = source;
	return 0;
}

int settings_init(struct settings *s)
{
	struct err e = ERR_INIT;

	*s = (struct settings){0};
	for (enum setting_id id = 0; id < SETTING_ID_MAX_; id++) {
		int r =
		    settings_set(s, id, setting_rows[id].def, SETTING_FROM_DEFAULT, "default", &e);
		if (r < 0) {
			/* The defaults of the table are valid, so memory is all that can be missing. */
			ASSERT(e.code == ERR_OUT_OF_MEMORY);
			settings_done(s);
			return r;
		}
	}
	return 0;
}

void settings_done(struct settings *s)
{
	for (enum setting_id id = 0; id < SETTING_ID_MAX_; id++) {
		if (!is_text(setting_rows[id].type))
			continue;
		char **text = field_of(s, id);
		free(*text);
		*text = NULL;
	}
	buf_done(&s->warnings);
	free(s->file);
	s->file = NULL;
}

void settings_warn(struct settings *s, const char *fmt, ...)
{
	va_list ap;

	if (s->warnings.max == 0)
		buf_init(&s->warnings, WARNINGS_MAX);
	va_start(ap, fmt);
	/* More warnings than fit are dropped: they are all of the same kind by then. */
	if (buf_vprintf(&s->warnings, fmt, ap) == 0)
		(void)!buf_add_char(&s->warnings, '\n');
	va_end(ap);
}

/* Value of the variable NAME. Without it: the last variable whose name differs only in case. */
static const char *env_value(char *const *environment, const char *name)
{
	size_t len = strlen(name);
	const char *found = NULL;

	for (char *const *p = environment; p && *p; p++) {
		if (strncasecmp(*p, name, len) != 0 || (*p)[len] != '=')
			continue;
		found = *p + len + 1;
		if (strncmp(*p, name, len) == 0)
			break;
	}
	return found;
}

static bool is_blank(const char *text)
{
	return text[strspn(text, " \t\r\n\v\f")] == '\0';
}

/* May an empty variable mean something else than the default? Only text may be empty. */
static bool has_empty_value(const struct setting_row *row)
{
	return (row->type == SETTING_STR || row->type == SETTING_PATH) && row->min == 0 &&
	       row->def[0] != '\0';
}

int settings_read_env(struct settings *s, char *const *environment, struct err *e)
{
	for (enum setting_id id = 0; id < SETTING_ID_MAX_; id++) {
		const char *text = env_value(environment, setting_rows[id].env);
		/* Docker Compose and unit files pass variables on that nobody has set, as empty ones. */
		if (!text || (is_blank(text) && !has_empty_value(&setting_rows[id])))
			continue;
		int r = settings_set(s, id, text, SETTING_FROM_ENV, setting_rows[id].env, e);
		if (r < 0)
			return r;
	}
	return 0;
}

int settings_read_empty_limits(struct settings *s, char *const *environment, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(no_limit); i++) {
		const enum setting_id id = no_limit[i].id;
		const char *text = env_value(environment, setting_rows[id].env);

		if (text && is_blank(text) && streq(no_limit[i].value, ""))
			r = settings_set(s, id, "", SETTING_FROM_ENV, setting_rows[id].env, e);
	}
	return r;
}

/* Variables with our prefix that are no settings. */
static const char *const other_variables[] = {"SANDBOX_IMAGE_DEFS"};

static bool is_known_variable(const char *name)
{
	for (enum setting_id id = 0; id < SETTING_ID_MAX_; id++)
		if (strcasecmp(setting_rows[id].env, name) == 0)
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(other_variables); i++)
		if (streq(other_variables[i], name))
			return true;
	return false;
}

/* What other servers call a setting of ours; the nearest name by its letters would be a wrong one, or none. */
static const struct {
	const char *theirs;
	enum setting_id ours;
} other_names[] = {
    {"address", SETTING_ID_listen},
    {"bind", SETTING_ID_listen},
    {"host", SETTING_ID_listen},
    {"port", SETTING_ID_listen},
};

/* BARE: without dashes and prefix. */
static void take_other_name(struct suggest *near, const char *bare, bool flag)
{
	char text[SUGGEST_NAME_MAX], name[SETTING_FLAG_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(other_names); i++) {
		const struct setting_row *row = &setting_rows[other_names[i].ours];

		if (strcasecmp(bare, other_names[i].theirs) != 0)
			continue;
		settings_flag(other_names[i].ours, name);
		const int n = snprintf(text, sizeof(text), "%s%s%s", flag ? name : row->env,
				       flag ? " " : "=", row->allowed);

		if (n > 0 && (size_t)n < sizeof(text))
			suggest_take(near, text);
	}
}

int settings_check_env(struct settings *s, char *const *environment, bool refuse, struct err *e)
{
	for (char *const *p = environment; p && *p; p++) {
		char name[96];
		size_t len = strcspn(*p, "=");

		if (strncasecmp(*p, ENV_PREFIX, strlen(ENV_PREFIX)) != 0 || len >= sizeof(name))
			continue;
		memcpy(name, *p, len);
		name[len] = '\0';
		if (is_known_variable(name))
			continue;
		struct suggest near = suggest_for(name);
		/* The prefix is right already, so it must not make other words look near. */
		near.edits = suggest_for(name + strlen(ENV_PREFIX)).edits;
		for (enum setting_id id = 0; id < SETTING_ID_MAX_; id++)
			suggest_offer(&near, setting_rows[id].env);
		take_other_name(&near, name + strlen(ENV_PREFIX), false);
		if (refuse)
			return err_set(e, ERR_SETTING_INVALID, 0,
				       "there is no setting %s%s (unset it if it is meant for "
				       "another program)",
				       name, suggest_text(&near));
		settings_warn(s, "there is no setting %s, so it is ignored%s", name,
			      suggest_text(&near));
	}
	return 0;
}

/* Is ARG the flag of ROW? *VALUE is the part after '=', or NULL. */
static bool is_flag(const struct setting_row *row, const char *arg, const char **value)
{
	const char *p = arg + 2, *f = row->field;

	if (!text_starts_with(arg, "--"))
		return false;
	for (; *f; f++, p++)
		if (*p != (*f == '_' ? '-' : *f))
			return false;
	if (*p != '\0' && *p != '=')
		return false;
	*value = *p == '=' ? p + 1 : NULL;
	return true;
}

int settings_read_flags(struct settings *s, int *argc, char **argv, struct err *e)
{
	int kept = 1;
	bool only_words = false;

	for (int i = 1; i < *argc; i++) {
		enum setting_id id = 0;
		const char *value = NULL;

		only_words = only_words || streq(argv[i], "--");
		while (id < SETTING_ID_MAX_ && !is_flag(&setting_rows[id], argv[i], &value))
			id++;
		if (only_words || id == SETTING_ID_MAX_) {
			argv[kept++] = argv[i];
			continue;
		}
		const char *where = argv[i];
		char flag[64];
		(void)snprintf(flag, sizeof(flag), "%.*s", (int)strcspn(where, "="), where);
		if (!value && i + 1 >= *argc)
			return err_set(e, ERR_SETTING_INVALID, 0, "%s: a value is missing; give %s",
				       flag, setting_rows[id].allowed);
		if (!value)
			value = argv[++i];
		int r = settings_set(s, id, value, SETTING_FROM_FLAG, flag, e);
		if (r < 0)
			return r;
	}
	*argc = kept;
	argv[kept] = NULL;
	return 0;
}

bool settings_is_explicit(const struct settings *s, enum setting_id id)
{
	return s->source[id] != SETTING_FROM_DEFAULT;
}

void settings_suggest_flag(struct suggest *near)
{
	for (enum setting_id id = 0; id < SETTING_ID_MAX_; id++) {
		char flag[SUGGEST_NAME_MAX];

		settings_flag(id, flag);
		suggest_offer(near, flag);
	}
	take_other_name(near, near->word + strspn(near->word, "-"), true);
}

void settings_flag(enum setting_id id, char ret[SETTING_FLAG_SIZE])
{
	(void)snprintf(ret, SETTING_FLAG_SIZE, "--%s", setting_rows[id].field);
	for (char *p = ret; *p; p++)
		if (*p == '_')
			*p = '-';
}

enum setting_id settings_find_key(const char *key, size_t len)
{
	enum setting_id id = 0;

	while (id < SETTING_ID_MAX_ &&
	       (strlen(setting_rows[id].key) != len || memcmp(setting_rows[id].key, key, len) != 0))
		id++;
	return id;
}

const char *setting_source_name(enum setting_source source)
{
	static const char *const names[] = {
	    [SETTING_FROM_DEFAULT] = "default",
	    [SETTING_FROM_FILE] = "file",
	    [SETTING_FROM_ENV] = "environment",
	    [SETTING_FROM_FLAG] = "flag",
	};
	return names[source];
}

void settings_format(const struct settings *s, enum setting_id id, char *ret, size_t size)
{
	const void *field = field_of_const(s, id);
	char *const *text = field;
	const uint64_t *number = field;

	switch (setting_rows[id].type) {
	case SETTING_SECRET:
		(void)snprintf(ret, size, "%s", **text ? "(set)" : "");
		break;
	case SETTING_STR:
	case SETTING_PATH:
	case SETTING_ADDR:
	case SETTING_CHOICE:
		(void)snprintf(ret, size, "%s", *text);
		break;
	case SETTING_INT:
		(void)snprintf(ret, size, "%jd", (intmax_t) * (const int64_t *)field);
		break;
	case SETTING_SIZE:
		if (*number % 1048576 == 0)
			(void)snprintf(ret, size, "%jum", (uintmax_t)(*number / 1048576));
		else
			(void)snprintf(ret, size, "%ju", (uintmax_t)*number);
		break;
	case SETTING_MILLI:
		(void)snprintf(ret, size, "%ju.%03ju", (uintmax_t)(*number / 1000),
			       (uintmax_t)(*number % 1000));
		for (size_t n = strlen(ret); n > 2 && ret[n - 1] == '0' && ret[n - 2] != '.'; n--)
			ret[n - 1] = '\0';
		break;
	case SETTING_BOOL:
		(void)snprintf(ret, size, "%s", *(const bool *)field ? "on" : "off");
		break;
	case SETTING_PORT:
		if (*(const int *)field == SETTING_PORT_OFF)
			(void)snprintf(ret, size, "off");
		else
			(void)snprintf(ret, size, "%d", *(const int *)field);
		break;
	}
}
