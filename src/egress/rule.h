/* SPDX-License-Identifier: Apache-2.0 */
/* One entry of a list of hosts. For the files of this folder only. */
#pragma once

#include "egress/block.h"
#include "egress/host.h"

struct egress_rule {
	char host[EGRESS_HOST_MAX + 1];
	struct egress_block block;
	bool is_block; /* means the addresses of block; host is empty */
	bool below;    /* means the names below host, but not host */
	bool trusted;  /* allows every address that the name leads to */
	uint16_t port; /* 0 = 80 and 443 */
};

bool egress_port_is_usual(uint16_t port);
bool egress_target_is_literal(const struct egress_target *t);
/* -EINVAL: S is no rule. -EADDRNOTAVAIL: it is a block without a public address. */
int egress_rule_parse(const char *s, size_t len, struct egress_rule *ret) MUST_CHECK;
/* RET has EGRESS_RULE_SIZE bytes. */
void egress_rule_text(const struct egress_rule *rule, char *ret);
bool egress_rule_has_host(const struct egress_rule *rule, const struct egress_target *t);
bool egress_rule_has_port(const struct egress_rule *rule, uint16_t port);
bool egress_rule_is_same(const struct egress_rule *a, const struct egress_rule *b);
/* Whether WIDE means every host that A means, whatever their ports. */
bool egress_rule_is_within(const struct egress_rule *a, const struct egress_rule *wide);
