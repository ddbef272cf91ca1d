/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/run_session.h"

#include "base/json_text.h"

#include <string.h>

const char *run_session_state(const struct run_result *r)
{
	if (!r->stateful)
		return "";
	if (r->state_lost)
		return "lost";
	if (r->state_kept)
		return "kept";
	return r->left.carried ? "carried" : "unchanged";
}

size_t session_kinds(uint32_t kinds, const char *ret[SESSION_KINDS_MAX])
{
	static const char *const names[SESSION_KINDS_MAX] = {"threads", "processes", "connections"};
	size_t n = 0;

	for (size_t i = 0; i < SESSION_KINDS_MAX; i++)
		if (kinds & (1u << i))
			ret[n++] = names[i];
	return n;
}

static int add_name(struct buf *b, const char *name, size_t len)
{
	const int r = buf_add_char(b, b->len > 0 ? ',' : '[');

	return r < 0 ? r : json_text_add(b, name, len);
}

int run_gone_text(struct buf *b, const struct run_result *result)
{
	static const char last_run[] = "last run";
	const char *kinds[SESSION_KINDS_MAX];
	const size_t n = session_kinds(result->left.gone, kinds);
	const char *at = result->left.names;
	int r = result->left.behind ? add_name(b, last_run, sizeof last_run - 1) : 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = add_name(b, kinds[i], strlen(kinds[i]));
	while (r == 0 && *at) {
		const size_t len = strcspn(at, ",");

		r = add_name(b, at, len);
		at += len;
		at += strspn(at, ", ");
	}
	return r == 0 && b->len > 0 ? buf_add_char(b, ']') : r;
}

_Static_assert(ENGINE_KIND_THREADS == 1 && ENGINE_KIND_PROCESSES == 2 &&
		   ENGINE_KIND_CONNECTIONS == 1 << 2,
	       "the order of the names");
