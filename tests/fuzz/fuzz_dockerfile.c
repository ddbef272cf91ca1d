/* SPDX-License-Identifier: Apache-2.0 */
/* Dockerfiles, and .dockerignore.
 * Properties: a refusal has one line of text and names the file; what is printed for the builder has one line for each step, is accepted
 * again, and is then the same; no path climbs, and no address is of this machine; each sandbox of a build has its script. */
#include "fuzz.h"

#include "base/attr.h"
#include "base/buf.h"
#include "image/dockerfile.h"
#include "image/ignore.h"
#include "image/inside.h"

#include <string.h>

static const struct dockerfile_options options = {.name = "Dockerfile"};

static size_t lines(const struct buf *b)
{
	size_t n = 0;

	for (size_t i = 0; i < b->len; i++)
		n += b->data[i] == '\n';
	return n;
}

static void again(const struct buf *first)
{
	_cleanup_(buf_done) struct buf second = BUF_INIT(64u << 20);
	struct dockerfile d;
	struct err e = ERR_INIT;

	if (first->len > DOCKERFILE_BYTES_MAX ||
	    dockerfile_parse(buf_str(first), first->len, &options, &d, &e) < 0)
		return; /* what was escaped may be too long now */
	ASSERT(dockerfile_print(&d, &second) == 0);
	ASSERT(lines(&second) == lines(first));
	dockerfile_done(&d);
}

/* The same file as scripts for sandboxes: what stands in it is always inside quotes. */
static void plan(const char *text, size_t size)
{
	static const struct dockerfile_options in_sandbox = {
	    .name = "Dockerfile", .allow_inside = true, .in_sandbox = true};
	struct dockerfile_plan p;
	struct ignore g = {0};
	struct dockerfile d;
	struct err e = ERR_INIT;

	(void)!ignore_parse(".dockerignore", text, size, &g, &e);
	e = ERR_INIT;
	if (dockerfile_parse(text, size, &in_sandbox, &d, &e) == 0) {
		const int r = dockerfile_plan_make(&d, NULL, &g, &p, &e);

		ASSERT(r < 0 ? p.n == 0 && e.text[0] != '\0'
			     : p.n > 0 && p.n <= DOCKERFILE_RUNS_MAX);
		for (size_t i = 0; i < p.n; i++)
			ASSERT(p.runs[i].script && p.runs[i].base &&
			       !strpbrk(p.runs[i].script, "\x01\x02") &&
			       (p.runs[i].leaves || i + 1 == p.n));
		dockerfile_plan_done(&p);
		dockerfile_done(&d);
	}
	ignore_done(&g);
}

static void parse(const char *text, size_t size)
{
	_cleanup_(buf_done) struct buf out = BUF_INIT(64u << 20);
	char host[INSIDE_HOST_MAX];
	struct dockerfile d;
	struct err e = ERR_INIT;
	size_t n = 0;

	if (dockerfile_parse(text, size, &options, &d, &e) < 0) {
		ASSERT(e.text[0] != '\0' && !strchr(e.text, '\n') && !strchr(e.text, '\033'));
		return;
	}
	ASSERT(d.n > 0 && d.n <= DOCKERFILE_STEPS_MAX && d.n_stages > 0);
	for (size_t i = 0; i < d.remote.n; i++)
		ASSERT(inside_host(d.remote.v[i], host) == 0 && !inside_is_host(host));
	for (size_t i = 0; i < d.n; i++)
		n += dockerfile_is_printed(&d, i);
	ASSERT(dockerfile_print(&d, &out) == 0);
	ASSERT(lines(&out) == n + (d.escape != '\\'));
	again(&out);
	dockerfile_done(&d);
}

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = malloc(size + 1);
	_cleanup_(ignore_done) struct ignore g = {0};
	struct err e = ERR_INIT;

	ASSERT(text);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	plan(text, size);
	parse(text, size);
	if (ignore_parse("x", text, size, &g, &e) < 0) {
		ASSERT(e.text[0] != '\0' && !strchr(e.text, '\n'));
		return 0;
	}
	const char *const paths[] = {"a", "src/main.c", "a/b/c/d.txt", "README.md"};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		const int out = ignore_match(&g, paths[i]);

		ASSERT(out == 0 || out == 1 || out == -E2BIG);
	}
	return 0;
}
