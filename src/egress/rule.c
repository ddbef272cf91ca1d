/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/rule.h"

#include "base/text.h"

#include <string.h>

#define HTTP_PORT  80u
#define HTTPS_PORT 443u

bool egress_target_is_literal(const struct egress_target *t)
{
	return t->form == EGRESS_HOST_V4 || t->form == EGRESS_HOST_V6;
}

bool egress_port_is_usual(uint16_t port)
{
	return port == HTTP_PORT || port == HTTPS_PORT;
}

bool egress_rule_has_host(const struct egress_rule *rule, const struct egress_target *t)
{
	size_t host = strlen(t->host);
	size_t suffix = strlen(rule->host);
	struct egress_address a;

	if (rule->is_block)
		return egress_target_is_literal(t) && egress_address_parse(t->host, &a) == 0 &&
		       egress_block_has(&rule->block, &a);
	if (!rule->below)
		return streq(rule->host, t->host);
	/* The byte before the suffix must be a dot: "badhost" is not below "host". */
	return t->form == EGRESS_HOST_NAME && host > suffix + 1 &&
	       t->host[host - suffix - 1] == '.' && streq(t->host + host - suffix, rule->host);
}

bool egress_rule_has_port(const struct egress_rule *rule, uint16_t port)
{
	return rule->port == 0 ? egress_port_is_usual(port) : rule->port == port;
}

/* An IPv6 block needs brackets to have a port. */
static int parse_block_rule(const char *s, size_t len, struct egress_rule *ret)
{
	struct egress_rule rule = {.is_block = true};
	const char *end = s + len, *all = end, *colon = memchr(s, ':', len);

	if (len > 0 && s[0] == '[') {
		s++;
		end = memchr(s, ']', len - 1);
		if (!end || !colon || colon > end)
			return -EINVAL;
		colon = end + 1;
	} else if (colon && !memchr(colon + 1, ':', (size_t)(end - colon - 1))) {
		end = colon;
	} else {
		colon = end;
	}
	if (egress_block_parse(s, (size_t)(end - s), &rule.block) < 0 ||
	    (colon < all &&
	     (*colon != ':' ||
	      egress_port_parse(colon + 1, (size_t)(all - colon - 1), &rule.port) < 0)))
		return -EINVAL;
	if (egress_block_is_local(&rule.block))
		return -EADDRNOTAVAIL;
	*ret = rule;
	return 0;
}

int egress_rule_parse(const char *s, size_t len, struct egress_rule *ret)
{
	struct egress_target t;
	struct egress_rule rule = {0};
	int r = parse_block_rule(s, len, ret);

	if (r != -EINVAL)
		return r;
	if (len > 2 && s[0] == '*' && s[1] == '.') {
		rule.below = true;
		s += 2;
		len -= 2;
	}
	/* With a colon there must be a port. Without one, rule.port stays 0: 80 and 443. */
	bool has_port = memchr(s, ':', len) != NULL;
	if (egress_target_parse(s, len, has_port ? 0 : HTTPS_PORT, &t) < 0 ||
	    t.form != EGRESS_HOST_NAME)
		return -EINVAL;
	memcpy(rule.host, t.host, sizeof(rule.host));
	rule.port = has_port ? t.port : 0;
	*ret = rule;
	return 0;
}

bool egress_rule_is_within(const struct egress_rule *a, const struct egress_rule *wide)
{
	struct egress_target t = {.form = EGRESS_HOST_NAME};

	if (a->is_block || wide->is_block)
		return a->is_block && wide->is_block &&
		       egress_block_is_within(&a->block, &wide->block);
	if (!wide->below)
		return !a->below && streq(a->host, wide->host);
	memcpy(t.host, a->host, sizeof(t.host));
	return egress_rule_has_host(wide, &t) || (a->below && streq(a->host, wide->host));
}

bool egress_rule_is_same(const struct egress_rule *a, const struct egress_rule *b)
{
	return a->below == b->below && a->port == b->port && streq(a->host, b->host) &&
	       a->is_block == b->is_block &&
	       (!a->is_block ||
		(a->block.bits == b->block.bits && egress_block_has(&a->block, &b->block.first)));
}

void egress_rule_text(const struct egress_rule *rule, char *ret)
{
	char block[EGRESS_BLOCK_SIZE] = "";

	if (rule->is_block)
		egress_block_text(&rule->block, block);
	const bool brackets = rule->port != 0 && strchr(block, ':');
	int n =
	    snprintf(ret, EGRESS_RULE_SIZE, "%s%s%s%s", rule->below ? "*." : "",
		     brackets ? "[" : "", rule->is_block ? block : rule->host, brackets ? "]" : "");

	if (rule->port != 0 && n > 0 && n < EGRESS_RULE_SIZE)
		(void)snprintf(ret + n, EGRESS_RULE_SIZE - (size_t)n, ":%u", rule->port);
}
