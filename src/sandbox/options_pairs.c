/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/options_pairs.h"

#include "base/text.h"

#include <sodium.h>
#include <string.h>

static void line_free(char *line)
{
	if (line)
		sodium_memzero(line, strlen(line));
	free(line);
}

/* The line of NAME, or NULL. */
static char **find(const struct sandbox_pairs *p, const char *name)
{
	const size_t len = strlen(name);

	for (size_t i = 0; i < p->n; i++)
		if (strncmp(p->list[i], name, len) == 0 && p->list[i][len] == '=')
			return &p->list[i];
	return NULL;
}

static int append(struct sandbox_pairs *p, char *line)
{
	char **list = reallocarray(p->list, p->n + 2, sizeof(*list));

	if (!list)
		return -ENOMEM;
	list[p->n++] = line;
	list[p->n] = NULL;
	p->list = list;
	return 0;
}

int pairs_set(struct sandbox_pairs *p, const char *name, const char *value)
{
	const size_t size = strlen(name) + strlen(value) + 2;
	char *line = malloc(size);
	char **old = find(p, name);

	if (!line)
		return -ENOMEM;
	(void)snprintf(line, size, "%s=%s", name, value);
	if (old) {
		line_free(*old);
		*old = line;
		return 0;
	}
	if (append(p, line) == 0)
		return 0;
	line_free(line);
	return -ENOMEM;
}

static void remove_line(struct sandbox_pairs *p, char **line)
{
	line_free(*line);
	/* The NULL at the end moves, too. */
	memmove(line, line + 1, (size_t)(p->list + p->n - line) * sizeof(*line));
	p->n--;
}

void pairs_remove(struct sandbox_pairs *p, const char *name)
{
	char **line = find(p, name);

	if (line)
		remove_line(p, line);
}

int pairs_keep(struct sandbox_pairs *p, const char *line, size_t max, size_t bytes)
{
	for (size_t i = 0; i < p->n; i++)
		if (streq(p->list[i], line))
			return 0;
	char *copy = strdup(line);

	if (!copy || append(p, copy) < 0) {
		line_free(copy);
		return -ENOMEM;
	}
	while (p->n > max || pairs_bytes(p) > bytes)
		remove_line(p, p->list);
	return 0;
}

void pairs_done(struct sandbox_pairs *p)
{
	for (size_t i = 0; i < p->n; i++)
		line_free(p->list[i]);
	free(p->list);
	*p = (struct sandbox_pairs){0};
}

int pairs_copy(const struct sandbox_pairs *from, struct sandbox_pairs *ret)
{
	struct sandbox_pairs copy = {0};

	for (size_t i = 0; i < from->n; i++) {
		char *line = strdup(from->list[i]);

		if (!line || append(&copy, line) < 0) {
			line_free(line);
			pairs_done(&copy);
			return -ENOMEM;
		}
	}
	*ret = copy;
	return 0;
}

size_t pairs_bytes(const struct sandbox_pairs *p)
{
	size_t bytes = 0;

	for (size_t i = 0; i < p->n; i++)
		bytes += strlen(p->list[i]) + 1;
	return bytes;
}

int pairs_add_json(const struct sandbox_pairs *p, json_t *object)
{
	for (size_t i = 0; i < p->n; i++) {
		const char *equal = strchr(p->list[i], '=');

		if (json_object_setn_new(object, p->list[i], (size_t)(equal - p->list[i]),
					 json_string(equal + 1)) < 0)
			return -ENOMEM;
	}
	return 0;
}

json_t *pairs_names(const struct sandbox_pairs *p)
{
	json_t *names = json_array();

	for (size_t i = 0; i < p->n; i++)
		(void)json_array_append_new(names,
					    json_stringn(p->list[i], strcspn(p->list[i], "=")));
	return names;
}
