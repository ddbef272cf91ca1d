/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the options of a sandbox from JSON, one member after the other, and refuses what is not valid
 * with an error that names the member. No error text has a value of `env`. */
#include "base/parse.h"
#include "base/text.h"
#include "sandbox/options_pairs.h"
#include "sandbox/sandbox.h"

#include <string.h>

#define WORKSPACE "/mnt/data"

const struct sandbox_option_row sandbox_option_rows[SANDBOX_OPTION_MAX_] = {
#define O(NAME, member, TYPE, min, max, LATER, setting, doc)                                       \
	[SANDBOX_OPTION_##                                                                         \
	    NAME] = {member, SANDBOX_OPTION_TYPE_##TYPE, min, max, LATER, setting, doc},
#include "sandbox/sandbox_options.tbl.h"
#undef O
};

/* Variables that may not be set: with them Python or the shell would no longer work, or
 * programs would be told wrongly what the sandbox may do. Code in the sandbox may still set them for
 * the programs that it starts itself. */
static const struct {
	const char *name;
	bool prefix;
	const char *why;
} refused_names[] = {
    {"PATH", false, "commands would not be found; extend it inside a command instead"},
    {"HOME", false, "the sandbox sets it"},
    {"USER", false, "the sandbox sets it"},
    {"LOGNAME", false, "the sandbox sets it"},
    {"VIRTUAL_ENV", false, "the sandbox sets it"},
    {"CAISSON_", true, "names that begin with CAISSON_ are the sandbox's own"},
    {"LD_", true, "it changes how every program in the sandbox is loaded"},
    {"GLIBC_TUNABLES", false, "it changes how every program in the sandbox is loaded"},
    {"PYTHONHOME", false, "Python would not find its own modules"},
    {"PYTHONPLATLIBDIR", false, "Python would not find its own modules"},
    {"PYTHONEXECUTABLE", false, "Python would not find its own modules"},
    {"HTTP_PROXY", false, "the network policy of the sandbox sets it"},
    {"HTTPS_PROXY", false, "the network policy of the sandbox sets it"},
    {"ALL_PROXY", false, "the network policy of the sandbox sets it"},
    {"NO_PROXY", false, "the network policy of the sandbox sets it"},
    {"http_proxy", false, "the network policy of the sandbox sets it"},
    {"https_proxy", false, "the network policy of the sandbox sets it"},
    {"all_proxy", false, "the network policy of the sandbox sets it"},
    {"no_proxy", false, "the network policy of the sandbox sets it"},
};

/* ---- names and values ---- */

static bool is_word(const char *s, size_t max, const char *more)
{
	const size_t len = strlen(s);

	for (size_t i = 0; i < len; i++) {
		const bool letter = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z');
		const bool digit = s[i] >= '0' && s[i] <= '9';

		if (!letter && !digit && !strchr(more, s[i]))
			return false;
	}
	return len > 0 && len <= max;
}

static bool is_env_name(const char *s)
{
	return is_word(s, SANDBOX_ENV_NAME_MAX, "_") && !(s[0] >= '0' && s[0] <= '9');
}

static bool is_label_name(const char *s)
{
	return is_word(s, SANDBOX_LABEL_NAME_MAX, "._/-") && !strchr("._/-", s[0]);
}

static const char *why_refused(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(refused_names); i++)
		if (refused_names[i].prefix ? text_starts_with(name, refused_names[i].name)
					    : streq(name, refused_names[i].name))
			return refused_names[i].why;
	return NULL;
}

/* Whether V is a text of MIN to MAX bytes without NUL. LINES: line ends and other control
 * characters are allowed. */
static bool is_text(const json_t *v, size_t min, size_t max, bool lines)
{
	const char *s = json_string_value(v);
	const size_t len = json_string_length(v);

	if (!s || strlen(s) != len || len < min || len > max)
		return false;
	for (size_t i = 0; i < len && !lines; i++)
		if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
			return false;
	return true;
}

/* ---- members ---- */

static const char *member_of(enum sandbox_option x)
{
	return sandbox_option_rows[x].member;
}

static int bad(struct err *e, enum sandbox_option x, const char *why)
{
	const struct sandbox_option_row *row = &sandbox_option_rows[x];
	(void)err_set(e, ERR_INVALID_ARGUMENT, 0, "'%s' is not valid: %s", row->member, why);
	return err_set_member(e, row->member);
}

static int read_number(enum sandbox_option x, const json_t *v, struct sandbox_options *o,
		       struct err *e)
{
	const struct sandbox_option_row *row = &sandbox_option_rows[x];
	const bool whole = row->type == SANDBOX_OPTION_TYPE_INT;
	const double scale = whole ? 1 : 1000;
	char why[96];

	(void)snprintf(why, sizeof(why), "it must be a %s from %.10g to %.10g",
		       whole ? "whole number" : "number", (double)row->min / scale,
		       (double)row->max / scale);
	if (whole ? !json_is_integer(v) : !json_is_number(v))
		return bad(e, x, why);
	/* A double is compared, because an integer of 19 digits does not fit times 1000. */
	const double number = json_number_value(v) * scale;
	if (!(number >= (double)row->min && number <= (double)row->max))
		return bad(e, x, why);
	o->number[x] = (int64_t)number;
	if (!whole && number - (double)o->number[x] >= 0.5)
		o->number[x]++;
	return 0;
}

static int read_bool(enum sandbox_option x, const json_t *v, struct sandbox_options *o,
		     struct err *e)
{
	if (!json_is_boolean(v))
		return bad(e, x, "it must be true or false");
	o->number[x] = json_is_true(v);
	return 0;
}

static int read_workdir(const json_t *v, struct sandbox_options *o, struct err *e)
{
	const char *path = json_string_value(v);
	char below[ENGINE_PATH_MAX] = "";
	struct err wrong = ERR_INIT;
	size_t len = strlen(path);

	while (len > 1 && path[len - 1] == '/')
		len--;
	const bool root = len == strlen(WORKSPACE) && memcmp(path, WORKSPACE, len) == 0;
	if (!root && workspace_path(path, len, true, below, &wrong) < 0)
		return bad(e, SANDBOX_OPTION_WORKDIR,
			   "it must be /mnt/data or a folder below it, without '..'");
	if (snprintf(o->workdir, sizeof(o->workdir), "%s%s%s", WORKSPACE, root ? "" : "/", below) >=
	    (int)sizeof(o->workdir))
		return bad(e, SANDBOX_OPTION_WORKDIR, "the path is too long");
	return 0;
}

static int read_text(enum sandbox_option x, const json_t *v, struct sandbox_options *o,
		     struct err *e)
{
	const struct sandbox_option_row *row = &sandbox_option_rows[x];
	const char *text = json_string_value(v);
	char why[96];

	/* A name may have any characters: whoever shows it on a terminal replaces some of them. */
	const bool name = x == SANDBOX_OPTION_NAME;

	(void)snprintf(why, sizeof(why), "it must be a text of %d to %d bytes%s", (int)row->min,
		       (int)row->max, name ? "" : " without control characters");
	if (!is_text(v, (size_t)row->min, (size_t)row->max, name))
		return bad(e, x, why);
	if (x == SANDBOX_OPTION_WORKDIR)
		return read_workdir(v, o, e);
	if (x == SANDBOX_OPTION_LEVEL) { /* manager_check_options() knows which levels there are */
		(void)!text_copy(o->level, sizeof(o->level), text);
		return 0;
	}
	if (x == SANDBOX_OPTION_IMAGE) {
		if (!parse_is_image_name(text, strlen(text)))
			return bad(e, x, "it must be the name of an image, such as science");
		(void)!text_copy(o->image, sizeof(o->image), text);
		return 0;
	}
	(void)!text_copy(o->name, sizeof(o->name), text);
	return 0;
}

static int read_env(const char *name, const json_t *v, bool change, struct sandbox_options *o,
		    struct err *e)
{
	char why[256];

	if (!is_env_name(name))
		return bad(e, SANDBOX_OPTION_ENV,
			   "a name has letters, digits and '_', no digit first, and at most 128 "
			   "bytes");
	const char *refused = why_refused(name);
	if (refused) {
		(void)snprintf(why, sizeof(why), "%s cannot be set, because %s", name, refused);
		return bad(e, SANDBOX_OPTION_ENV, why);
	}
	if (change && json_is_null(v))
		return pairs_set(&o->gone_env, name, "");
	if (!is_text(v, 0, SANDBOX_ENV_VALUE_MAX, true)) {
		(void)snprintf(why, sizeof(why),
			       "the value of %s is a text of at most %d bytes without NUL", name,
			       SANDBOX_ENV_VALUE_MAX);
		return bad(e, SANDBOX_OPTION_ENV, why);
	}
	return pairs_set(&o->env, name, json_string_value(v));
}

static int read_label(const char *name, const json_t *v, bool change, struct sandbox_options *o,
		      struct err *e)
{
	if (!is_label_name(name))
		return bad(e, SANDBOX_OPTION_LABELS,
			   "the name of a label has letters, digits and '._/-', begins with a "
			   "letter or digit, and has at most 63 bytes");
	if (change && json_is_null(v))
		return pairs_set(&o->gone_labels, name, "");
	if (!is_text(v, 0, SANDBOX_LABEL_VALUE_MAX, false))
		return bad(e, SANDBOX_OPTION_LABELS,
			   "a label is a text of at most 128 bytes without control characters");
	return pairs_set(&o->labels, name, json_string_value(v));
}

static int read_pairs(enum sandbox_option x, json_t *v, bool change, struct sandbox_options *o,
		      struct err *e)
{
	const struct sandbox_option_row *row = &sandbox_option_rows[x];
	const char *name;
	json_t *value;
	char why[64];

	(void)snprintf(why, sizeof(why), "it must be an object of at most %d members",
		       (int)row->max);
	if (!json_is_object(v) || (int64_t)json_object_size(v) > row->max)
		return bad(e, x, why);
	json_object_foreach(v, name, value) {
		const int r = x == SANDBOX_OPTION_ENV ? read_env(name, value, change, o, e)
						      : read_label(name, value, change, o, e);

		if (r == -ENOMEM)
			return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "'%s'", row->member);
		if (r < 0)
			return r;
	}
	return x == SANDBOX_OPTION_ENV ? sandbox_options_check_env(&o->env, e) : 0;
}

int sandbox_options_check_env(const struct sandbox_pairs *env, struct err *e)
{
	if (env->n <= SANDBOX_ENV_MAX && pairs_bytes(env) <= SANDBOX_ENV_BYTES_MAX)
		return 0;
	return bad(e, SANDBOX_OPTION_ENV,
		   "there may be at most 64 variables with 49152 bytes together");
}

int sandbox_option_read(enum sandbox_option x, json_t *v, bool change, struct sandbox_options *o,
			struct err *e)
{
	const enum sandbox_option_type type = sandbox_option_rows[x].type;
	const int r = type == SANDBOX_OPTION_TYPE_PAIRS  ? read_pairs(x, v, change, o, e)
		      : type == SANDBOX_OPTION_TYPE_TEXT ? read_text(x, v, o, e)
		      : type == SANDBOX_OPTION_TYPE_BOOL ? read_bool(x, v, o, e)
							 : read_number(x, v, o, e);

	if (r == 0)
		o->given |= UINT32_C(1) << x;
	return r;
}

int sandbox_options_read(const json_t *object, bool change, struct sandbox_options *ret,
			 struct err *e)
{
	struct sandbox_options o = {0};

	for (unsigned x = 0; x < SANDBOX_OPTION_MAX_; x++) {
		json_t *v = json_object_get(object, member_of(x));
		int r = 0;

		if (!v || (json_is_null(v) && !change))
			continue;
		if (change && !sandbox_option_rows[x].later) {
			(void)err_set(
			    e,
			    x == SANDBOX_OPTION_DISK ? ERR_LIMIT_NOT_CHANGEABLE
						     : ERR_INVALID_ARGUMENT,
			    0, "'%s' cannot be changed in a sandbox that exists.%s", member_of(x),
			    x == SANDBOX_OPTION_DISK ? "" : " Make a new sandbox with it.");
			r = err_set_member(e, member_of(x));
		} else {
			r = sandbox_option_read(x, v, change, &o, e);
		}
		if (r < 0) {
			sandbox_options_done(&o);
			return r;
		}
	}
	*ret = o;
	return 0;
}
