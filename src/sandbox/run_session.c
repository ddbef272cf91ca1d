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

int run_gone_text(struct buf *b, const struct run_result *result)
{
	const char *kinds[SESSION_KINDS_MAX];
	const size_t n = session_kinds(result->left.gone, kinds);
	const char *at = result->left.names;
	int r = n > 0 || *at ? buf_add_char(b, '[') : 1;

	for (size_t i = 0; i < n && r == 0; i++) {
		r = i > 0 ? buf_add_char(b, ',') : 0;
		r = r < 0 ? r : json_text_add(b, kinds[i], strlen(kinds[i]));
	}
	for (bool first = n == 0; r == 0 && *at; first = false) {
		const size_t len = strcspn(at, ",");

		r = first ? 0 : buf_add_char(b, ',');
		r = r < 0 ? r : json_text_add(b, at, len);
		at += len;
		at += strspn(at, ", ");
	}
	return r == 0 ? buf_add_char(b, ']') : MIN(r, 0);
}

_Static_assert(ENGINE_KIND_THREADS == 1 && ENGINE_KIND_PROCESSES == 2 &&
		   ENGINE_KIND_CONNECTIONS == 1 << 2,
	       "the order of the names");
