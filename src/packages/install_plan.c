/* SPDX-License-Identifier: Apache-2.0 */
#include "packages/install_plan.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"
#include "packages/url.h"

#include <string.h>

#define PLANS_MAX 256u

/* ---- one plan ---- */

void plan_done(struct plan *p)
{
	for (size_t i = 0; i < p->n; i++)
		workers_close("packages", p->wheels[i].fd); /* the cache may have removed it */
	free(p->wheels);
	*p = (struct plan){0};
}

static int take_text(const json_t *row, const char *key, char *ret, size_t size)
{
	const json_t *value = json_object_get(row, key);
	const char *text = json_string_value(value);

	if (!text || strlen(text) != json_string_length(value))
		return -EINVAL;
	return text_copy(ret, size, text) < 0 ? -EINVAL : 0;
}

static int parse_wheel(const json_t *row, bool sources, struct wheel *w)
{
	*w = (struct wheel){.fd = -1};
	if (take_text(row, "name", w->name, sizeof(w->name)) < 0 ||
	    take_text(row, "version", w->version, sizeof(w->version)) < 0 ||
	    take_text(row, "url", w->url, sizeof(w->url)) < 0 ||
	    take_text(row, "sha256", w->sha256, sizeof(w->sha256)) < 0)
		return -EINVAL;
	w->requested = json_is_true(json_object_get(row, "requested"));
	if (!spec_is_word(w->name) || !spec_is_word(w->version))
		return -EINVAL;
	for (const char *s = w->url; *s; s++)
		if (*s <= 0x20 || *s >= 0x7f || *s == '#')
			return -EINVAL;
	if (w->sha256[0] && (strlen(w->sha256) != SHA256_HEX - 1 ||
			     strspn(w->sha256, "0123456789abcdef") != SHA256_HEX - 1))
		return -EINVAL;
	return url_wheel_name(w->url, w->file) || sources ? 0 : -EINVAL;
}

int plan_parse(const json_t *rows, bool sources, struct plan *ret)
{
	size_t n = json_array_size(rows);
	struct plan plan = {0};

	if (!json_is_array(rows) || n > PLAN_WHEELS_MAX)
		return -EINVAL;
	plan.wheels = calloc(n + 1, sizeof(*plan.wheels));
	if (!plan.wheels)
		return -ENOMEM;
	for (; plan.n < n; plan.n++) {
		if (parse_wheel(json_array_get(rows, plan.n), sources, &plan.wheels[plan.n]) == 0)
			continue;
		plan_done(&plan);
		return -EINVAL;
	}
	*ret = plan;
	return 0;
}

int plan_copy(const struct plan *from, struct plan *ret)
{
	struct plan plan = {.wheels = calloc(from->n + 1, sizeof(*plan.wheels)), .n = from->n};

	if (!plan.wheels)
		return -ENOMEM;
	memcpy(plan.wheels, from->wheels, from->n * sizeof(*plan.wheels));
	for (size_t i = 0; i < plan.n; i++)
		plan.wheels[i].fd = -1;
	*ret = plan;
	return 0;
}

/* ---- memory ---- */

struct known {
	char key[SHA256_HEX];
	struct plan plan;
	uint64_t made_ns; /* 0 = the slot is free */
};

struct plans {
	uint64_t ttl_ns;
	struct known known[PLANS_MAX];
};

struct plans *plans_new(uint64_t ttl_ns)
{
	struct plans *p = calloc(1, sizeof(*p));

	if (p)
		p->ttl_ns = ttl_ns;
	return p;
}

struct plans *plans_free(struct plans *p)
{
	for (size_t i = 0; p && i < PLANS_MAX; i++)
		plan_done(&p->known[i].plan);
	free(p);
	return NULL;
}

static struct known *find(struct plans *p, const char *key)
{
	for (size_t i = 0; i < PLANS_MAX; i++)
		if (p->known[i].made_ns > 0 && streq(p->known[i].key, key))
			return &p->known[i];
	return NULL;
}

static void forget(struct known *k)
{
	plan_done(&k->plan);
	k->made_ns = 0;
}

int plans_find(struct plans *p, const char *key, struct plan *ret)
{
	struct known *k = find(p, key);

	if (!k || now_ns() - k->made_ns >= p->ttl_ns)
		return -ENOENT;
	return plan_copy(&k->plan, ret);
}

void plans_forget(struct plans *p, const char *key)
{
	struct known *k = find(p, key);

	if (k)
		forget(k);
}

void plans_keep(struct plans *p, const char *key, const struct plan *plan)
{
	struct known *oldest = &p->known[0];
	struct known *same = find(p, key);
	struct plan copy;

	/* A free slot has the time 0, so it counts as the oldest. */
	for (size_t i = 1; i < PLANS_MAX; i++)
		if (p->known[i].made_ns < oldest->made_ns)
			oldest = &p->known[i];
	oldest = same ? same : oldest;
	if (p->ttl_ns == 0 || plan_copy(plan, &copy) < 0)
		return;
	forget(oldest);
	(void)snprintf(oldest->key, sizeof(oldest->key), "%s", key);
	oldest->plan = copy;
	oldest->made_ns = now_ns();
}
