/* SPDX-License-Identifier: Apache-2.0 */
/* Request heads of the proxy and lists of hosts. Properties: the end of a head does not depend on
 * how its bytes arrive; the slices of a parsed head lie inside it; host and port are in compared
 * form; the rewritten head names that host once and holds nothing that could be read as a second
 * request. */
#include "fuzz.h"

#include "egress/head.h"
#include "egress/policy.h"

#include <string.h>

static bool inside(const char *buf, size_t len, const char *s, size_t n)
{
	return n == 0 || (s >= buf && s + n <= buf + len);
}

static void check_host(const struct egress_target *t)
{
	char again[EGRESS_HOST_MAX + 1];
	enum egress_host_form form;
	char text[EGRESS_HOST_MAX + 3];

	(void)snprintf(text, sizeof(text), t->form == EGRESS_HOST_V6 ? "[%s]" : "%s", t->host);
	ASSERT(t->port > 0);
	ASSERT(egress_host_parse(text, strlen(text), again, &form) == 0);
	ASSERT(strcmp(again, t->host) == 0 && form == t->form);
}

static void check_rewritten(const struct egress_head *h)
{
	_cleanup_(buf_done) struct buf out = BUF_INIT(4 * EGRESS_HEAD_MAX);
	enum egress_reason why;

	ASSERT(egress_head_write(h, false, &out) == 0);
	ASSERT(out.len > 4 && (size_t)(strstr(out.data, "\r\n\r\n") - out.data) == out.len - 4);
	if (out.len <= EGRESS_HEAD_MAX)
		ASSERT(egress_head_scan(out.data, out.len, &why) == (int)out.len);
	const char *host = strstr(out.data, "\r\nHost: ");
	ASSERT(host);
}

static void head(const char *data, size_t size)
{
	struct egress_head h;
	enum egress_reason why = EGRESS_REASON_OK;
	int len = egress_head_scan(data, size, &why);

	ASSERT((len < 0) == (why != EGRESS_REASON_OK));
	if (len <= 0)
		return;
	for (size_t n = 1; n < (size_t)len; n++)
		ASSERT(egress_head_scan(data, n, &why) == 0);
	if (egress_head_parse(data, (size_t)len, &h, &why) < 0)
		return;
	check_host(&h.target);
	for (size_t i = 0; i < h.n_fields; i++) {
		ASSERT(inside(data, (size_t)len, h.fields[i].name, h.fields[i].name_len));
		ASSERT(inside(data, (size_t)len, h.fields[i].value, h.fields[i].value_len));
	}
	if (h.connect)
		return;
	ASSERT(inside(data, (size_t)len, h.path, h.path_len));
	check_rewritten(&h);
}

/* What is written of an entry is read as the same. */
static void check_entry(const struct egress_policy *p, size_t i)
{
	struct egress_policy *again = egress_policy_new(EGRESS_ALLOWLIST);
	char entry[EGRESS_RULE_SIZE], copy[EGRESS_RULE_SIZE];
	struct err e = ERR_INIT;

	egress_policy_entry(p, i, entry);
	ASSERT(again && egress_policy_add(again, entry, &e) == 0 &&
	       egress_policy_count(again) == 1);
	egress_policy_entry(again, 0, copy);
	ASSERT(strcmp(entry, copy) == 0);
	(void)egress_policy_unref(again);
}

static void list(const char *data, size_t size)
{
	_cleanup_free_ char *text = strndup(data, size);
	struct egress_policy *p = egress_policy_new(EGRESS_ALLOWLIST);
	struct err e = ERR_INIT;

	ASSERT(text && p);
	if (egress_policy_add(p, text, &e) < 0)
		ASSERT(egress_policy_count(p) == 0 && e.code != ERR_NONE);
	for (size_t i = 0; i < egress_policy_count(p); i++)
		check_entry(p, i);
	if (egress_policy_guard(p, text, &e) < 0)
		ASSERT(egress_policy_n_guards(p) == 0 && e.code != ERR_NONE);
	for (size_t i = 0; i < egress_policy_n_guards(p); i++) {
		char guard[EGRESS_GUARD_SIZE], again[EGRESS_BLOCK_SIZE];

		egress_policy_guard_text(p, i, guard);
		const char *block = guard + (guard[0] == '!');
		ASSERT(egress_block_entry(block, again, &e) == 0 && strcmp(block, again) == 0);
	}
	(void)egress_policy_unref(p);
}

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	if (size > EGRESS_HEAD_MAX + 16)
		return 0;
	head((const char *)data, size);
	list((const char *)data, MIN(size, (size_t)4096));
	return 0;
}
