/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/router/members.h"

#include "base/parse.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES 300u

static bool is_there(const struct fleet_members *m, const struct fleet_address *a)
{
	for (size_t i = 0; i < m->n; i++)
		if (streq(m->at[i].text, a->text))
			return true;
	return false;
}

static int add(struct fleet_members *m, const char *line, unsigned number, struct err *e)
{
	struct fleet_address a = {0};
	char host[LINE_MAX_BYTES], ip[HTTP_ADDRESS_TEXT];
	uint16_t port;

	if (parse_host_port(line, host, sizeof(host), &port) < 0 || port == 0)
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "line %u: '%s' is not HOST:PORT, such as 10.0.0.7:8443", number,
			       line);
	if (streq(host, "localhost") || http_address_parse(host, port, &a.address, &a.len) < 0)
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "line %u: '%s' is not a numeric address; a router does not resolve "
			       "names, so write the address of the worker",
			       number, host);
	http_address_text(&a.address, ip);
	(void)snprintf(a.text, sizeof(a.text), "%s:%u", ip, port);
	if (is_there(m, &a))
		return 0;
	if (m->n == FLEET_MEMBERS_MAX)
		return err_set(e, ERR_SETTING_INVALID, 0, "line %u: more than %u workers", number,
			       FLEET_MEMBERS_MAX);
	m->at[m->n++] = a;
	return 0;
}

int fleet_members_parse(const char *text, size_t len, struct fleet_members *ret, struct err *e)
{
	const char *end = text + len;
	unsigned number = 0;

	ret->n = 0;
	for (const char *p = text; p < end;) {
		const char *lf = memchr(p, '\n', (size_t)(end - p));
		const char *next = lf ? lf + 1 : end, *stop = lf ? lf : end;
		const char *hash = memchr(p, '#', (size_t)(stop - p));
		char line[LINE_MAX_BYTES];

		number++;
		stop = hash ? hash : stop;
		while (p < stop && strchr(" \t\r", *p) && *p)
			p++;
		while (stop > p && strchr(" \t\r", stop[-1]) && stop[-1])
			stop--;
		const size_t n = (size_t)(stop - p);
		if (n >= sizeof(line) || memchr(p, '\0', n))
			return err_set(e, ERR_SETTING_INVALID, 0, "line %u is not HOST:PORT",
				       number);
		memcpy(line, p, n);
		line[n] = '\0';
		if (n > 0 && add(ret, line, number, e) < 0)
			return -EINVAL;
		p = next;
	}
	return 0;
}
