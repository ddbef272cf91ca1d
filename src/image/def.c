/* SPDX-License-Identifier: Apache-2.0 */
#include "image/def.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/parse.h"
#include "base/text.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

typedef bool (*word_check)(const char *s, size_t len);

static bool is_lower_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool all_of(const char *s, size_t len, const char *extra)
{
	for (size_t i = 0; i < len; i++)
		if (!is_lower_alnum(s[i]) && !strchr(extra, s[i]))
			return false;
	return true;
}

/* Debian policy 5.6.1. apt's own patterns start with '?' or '~', so they are no package names. */
static bool is_package(const char *s, size_t len)
{
	return len > 0 && is_lower_alnum(s[0]) && all_of(s, len, "+-.");
}

/* A requirement of PEP 508 without blanks, markers and addresses: name[extra]>=1.0,<2. It starts
 * with a letter or digit, so pip does not take it for an option. */
static bool is_requirement(const char *s, size_t len)
{
	if (len == 0 || !(is_lower_alnum(s[0]) || (s[0] >= 'A' && s[0] <= 'Z')))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!is_lower_alnum(s[i]) && !(s[i] >= 'A' && s[i] <= 'Z') &&
		    !strchr("._-[],<>=!~*+", s[i]))
			return false;
	return s[len - 1] != ',';
}

static bool is_suite(const char *s, size_t len)
{
	return len > 0 && is_lower_alnum(s[0]) && all_of(s, len, "-.");
}

static bool is_glob(const char *s, size_t len)
{
	if (len < 2 || s[0] != '/')
		return false;
	for (size_t i = 0; i < len; i++)
		if (s[i] <= ' ' || s[i] > '~' || strchr("\"'\\;{}#", s[i]))
			return false;
	return true;
}

bool image_is_module(const char *s, size_t len)
{
	bool start = true;

	for (size_t i = 0; i < len; i++) {
		bool alpha =
		    (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || s[i] == '_';
		bool digit = s[i] >= '0' && s[i] <= '9';

		if (s[i] == '.' && !start)
			start = true;
		else if (alpha || (digit && !start))
			start = false;
		else
			return false;
	}
	return len > 0 && !start;
}

bool image_is_text(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)s[i] < ' ' || s[i] == 0x7f || (i + 1 < len && text_is_c1(s + i)))
			return false;
	return text_is_utf8(s, len);
}

static bool is_hook(const char *s, size_t len)
{
	return parse_is_filename(s, len) && s[0] != '.' && s[0] != '-';
}

struct def_key {
	const char *name;
	size_t offset;
	size_t max_words; /* 0: one plain value */
	word_check check;
	const char *form; /* for the error message */
};

static const struct def_key keys[] = {
    {"description", offsetof(struct image_def, description), 0, image_is_text, "one line of text"},
    {"suite", offsetof(struct image_def, suite), 0, is_suite, "a Debian suite such as 'forky'"},
    {"variant", offsetof(struct image_def, variant), 0, is_suite,
     "a mmdebstrap variant such as 'essential'"},
    {"hook", offsetof(struct image_def, hook), 0, is_hook, "a file name beside the definition"},
    {"wheels", offsetof(struct image_def, wheels), 0, is_hook, "a file name beside the definition"},
    {"components", offsetof(struct image_def, components), IMAGE_DEF_COMPONENTS, is_suite,
     "components such as 'main'"},
    {"packages", offsetof(struct image_def, packages), IMAGE_DEF_PACKAGES, is_package,
     "Debian package names"},
    {"index", offsetof(struct image_def, index), IMAGE_DEF_INDEX, is_requirement,
     "names of the package index, with a version (polars==2.1.0) or without"},
    {"exclude", offsetof(struct image_def, excludes), IMAGE_DEF_EXCLUDES, is_glob,
     "absolute paths with * and ?"},
    {"preload", offsetof(struct image_def, preloads), IMAGE_DEF_PRELOADS, image_is_module,
     "Python module names"},
};

void image_words_done(struct image_words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->v[i]);
	free(w->v);
	*w = (struct image_words){0};
}

int image_words_add(struct image_words *w, const char *word, size_t len)
{
	char **more = realloc(w->v, (w->n + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	w->v = more;
	w->v[w->n] = strndup(word, len);
	if (!w->v[w->n])
		return -ENOMEM;
	w->n++;
	return 0;
}

char *image_words_join(const struct image_words *w, char sep)
{
	struct buf b = BUF_INIT(IMAGE_DEF_FILE_MAX);

	for (size_t i = 0; i < w->n; i++) {
		if ((i > 0 && buf_add_char(&b, sep) < 0) || buf_add_str(&b, w->v[i]) < 0) {
			buf_done(&b);
			return NULL;
		}
	}
	return w->n > 0 ? buf_take(&b) : strdup("");
}

void image_def_done(struct image_def *d)
{
	image_words_done(&d->components);
	image_words_done(&d->packages);
	image_words_done(&d->index);
	image_words_done(&d->excludes);
	image_words_done(&d->preloads);
	free(d->folder);
	*d = (struct image_def){0};
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Removes blanks from both ends of the slice *S of *LEN bytes. */
static void trim(const char **s, size_t *len)
{
	while (*len > 0 && is_blank(**s)) {
		(*s)++;
		(*len)--;
	}
	while (*len > 0 && is_blank((*s)[*len - 1]))
		(*len)--;
}

struct place {
	const char *name;
	unsigned line; /* 0: NAME is an option of the command line */
};

static const char *place_text(const struct place *at, char ret[IMAGE_NAME_MAX + 32])
{
	(void)snprintf(ret, IMAGE_NAME_MAX + 32, at->line ? "%s.conf:%u" : "%s", at->name,
		       at->line);
	return ret;
}

static int bad_value(const struct place *at, const struct def_key *key, const char *s, size_t len,
		     struct err *e)
{
	char shown[64];
	char where[IMAGE_NAME_MAX + 32];
	size_t n = text_utf8_cut(s, len, sizeof(shown) - 1);

	for (size_t i = 0; i < n; i++)
		shown[i] = s[i] >= ' ' && s[i] <= '~' ? s[i] : '?';
	shown[n] = '\0';
	return err_set(e, ERR_SETTING_INVALID, 0, "%s: '%s' is no value of '%s', which takes %s",
		       place_text(at, where), shown, key->name, key->form);
}

static int set_plain(struct image_def *d, const struct def_key *key, const struct place *at,
		     const char *s, size_t len, struct err *e)
{
	char *field = (char *)d + key->offset;

	if (field[0])
		return err_set(e, ERR_SETTING_INVALID, 0, "%s.conf:%u: '%s' is given twice",
			       at->name, at->line, key->name);
	if (len > IMAGE_DEF_VALUE_MAX || !key->check(s, len))
		return bad_value(at, key, s, len, e);
	memcpy(field, s, len);
	field[len] = '\0';
	return 0;
}

static int add_words(struct image_def *d, const struct def_key *key, const struct place *at,
		     const char *s, size_t len, struct err *e)
{
	struct image_words *words = (void *)((char *)d + key->offset);
	char where[IMAGE_NAME_MAX + 32];

	while (len > 0) {
		size_t n = 0;

		while (n < len && !is_blank(s[n]))
			n++;
		if (n > IMAGE_DEF_WORD_MAX || !key->check(s, n))
			return bad_value(at, key, s, n, e);
		if (words->n >= key->max_words)
			return err_set(e, ERR_SETTING_INVALID, E2BIG,
				       "%s: more than %zu words for '%s'", place_text(at, where),
				       key->max_words, key->name);
		if (image_words_add(words, s, n) < 0)
			return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "reading %s.conf", at->name);
		s += n;
		len -= n;
		trim(&s, &len);
	}
	return 0;
}

static int parse_line(struct image_def *d, const struct place *at, const char *s, size_t len,
		      struct err *e)
{
	trim(&s, &len);
	if (len == 0 || *s == '#')
		return 0;
	const char *eq = memchr(s, '=', len);

	if (!eq)
		return err_set(e, ERR_SETTING_INVALID, 0, "%s.conf:%u: expected 'key = value'",
			       at->name, at->line);
	const char *key = s;
	size_t key_len = (size_t)(eq - s);
	const char *value = eq + 1;
	size_t value_len = len - key_len - 1;

	trim(&key, &key_len);
	trim(&value, &value_len);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strlen(keys[i].name) != key_len || memcmp(keys[i].name, key, key_len) != 0)
			continue;
		if (value_len == 0)
			return bad_value(at, &keys[i], "", 0, e);
		return keys[i].max_words ? add_words(d, &keys[i], at, value, value_len, e)
					 : set_plain(d, &keys[i], at, value, value_len, e);
	}
	return err_set(e, ERR_SETTING_INVALID, 0,
		       "%s.conf:%u: unknown key (keys are description, suite, variant, hook, "
		       "wheels, components, "
		       "packages, index, exclude, preload)",
		       at->name, at->line);
}

static int parse_all(struct image_def *d, const char *text, size_t len, struct err *e)
{
	struct place at = {.name = d->name, .line = 0};

	while (len > 0) {
		const char *end = memchr(text, '\n', len);
		size_t n = end ? (size_t)(end - text) : len;

		at.line++;
		int r = parse_line(d, &at, text, n, e);

		if (r < 0)
			return r;
		n += end ? 1 : 0;
		text += n;
		len -= n;
	}
	if (!d->suite[0])
		return err_set(e, ERR_SETTING_INVALID, 0, "%s.conf: 'suite' is missing", d->name);
	if (d->packages.n == 0)
		return err_set(e, ERR_SETTING_INVALID, 0, "%s.conf: 'packages' is missing",
			       d->name);
	if (d->components.n == 0 && image_words_add(&d->components, "main", strlen("main")) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "reading %s.conf", d->name);
	if (!d->variant[0])
		(void)snprintf(d->variant, sizeof(d->variant), "%s", "essential");
	return 0;
}

int image_def_parse(const char *name, const char *text, size_t len, struct image_def *ret,
		    struct err *e)
{
	*ret = (struct image_def){0};
	if (!parse_is_image_name(name, strlen(name)))
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "'%.64s' is no image name ([a-z0-9._-], at most %d)", name,
			       IMAGE_NAME_MAX);
	if (text_copy(ret->name, sizeof(ret->name), name) < 0)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "the name of the image is too long");
	int r = parse_all(ret, text, len, e);

	if (r < 0)
		image_def_done(ret);
	return r;
}

static const struct def_key *find_key(const char *name)
{
	const struct def_key *key = keys;

	while (!streq(key->name, name))
		key++;
	return key;
}

int image_def_extend(struct image_def *d, const struct image_def_more *more, struct err *e)
{
	const struct {
		const char *key, *option, *words;
	} rows[] = {{"index", "--packages", more->index},
		    {"packages", "--debian", more->debian},
		    {"preload", "--preload", more->preload}};
	char from[IMAGE_NAME_MAX + 1];

	if (!parse_is_image_name(more->name, strlen(more->name)))
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "'%.64s' is no image name", more->name);
	memcpy(from, d->name, sizeof(from));
	(void)snprintf(d->name, sizeof(d->name), "%s", more->name);
	(void)snprintf(d->description, sizeof(d->description), "%s%s", from,
		       more->index || more->debian || more->preload ? " and" : "");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct place at = {.name = rows[i].option};
		const char *s = rows[i].words ? rows[i].words : "";
		size_t len = strlen(s), used = strlen(d->description);

		trim(&s, &len);
		int r = add_words(d, find_key(rows[i].key), &at, s, len, e);

		if (r < 0)
			return r;
		if (len > 0)
			(void)snprintf(d->description + used, sizeof(d->description) - used,
				       " %.*s", (int)len, s);
	}
	return image_def_digest_words(d) < 0
		   ? err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the definition of image '%s'", d->name)
		   : 0;
}

int image_def_load(const char *folder, const char *name, struct image_def *ret, struct err *e)
{
	char path[PATH_MAX];
	_cleanup_(buf_done) struct buf text = BUF_INIT(IMAGE_DEF_FILE_MAX);

	if (!parse_is_image_name(name, strlen(name)))
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "'%.64s' is no image name ([a-z0-9._-], at most %d)", name,
			       IMAGE_NAME_MAX);
	if ((size_t)snprintf(path, sizeof(path), "%s/%s.conf", folder, name) >= sizeof(path))
		return err_set(e, ERR_INVALID_ARGUMENT, ENAMETOOLONG,
			       "folder of image definitions");
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND, ENOENT,
			       "there is no definition of image '%s' in %s", name, folder);
	if (fd < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot open %s", path);
	int r = fd_read_file(fd, &text);

	if (r < 0)
		return err_set(e, ERR_SETTING_INVALID, -r, "cannot read %s (at most %u bytes)",
			       path, IMAGE_DEF_FILE_MAX);
	r = image_def_parse(name, buf_str(&text), text.len, ret, e);
	if (r < 0)
		return r;
	ret->folder = strdup(folder);
	r = ret->folder ? image_def_digest(folder, ret) : -ENOMEM;
	if (r < 0) {
		image_def_done(ret);
		return err_set(e, ERR_SYSTEM, -r, "cannot read the files beside %s", path);
	}
	return 0;
}
