/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/router/members.h"

#include "base/parse.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES 300u
#define SLICES         "endpointslices:"

static bool is_there(const struct fleet_members *m, const struct fleet_address *a)
{
	for (size_t i = 0; i < m->n; i++)
		if (streq(m->at[i].text, a->text))
			return true;
	return false;
}

bool fleet_members_add(struct fleet_members *m, const struct fleet_address *a)
{
	if (is_there(m, a))
		return true;
	if (m->n == FLEET_MEMBERS_MAX)
		return false;
	m->at[m->n++] = *a;
	return true;
}

void fleet_address_write(struct fleet_address *a, uint16_t port)
{
	char ip[HTTP_ADDRESS_TEXT];

	http_address_text(&a->address, ip);
	(void)snprintf(a->text, sizeof(a->text), "%s:%u", ip, port);
}

bool fleet_address_is_of_one(const union http_address *a)
{
	if (a->any.sa_family == AF_INET) {
		const uint32_t ip = ntohl(a->in.sin_addr.s_addr);

		return ip >> 24 != 0 && ip >> 28 < 0xe;
	}
	return !IN6_IS_ADDR_UNSPECIFIED(&a->in6.sin6_addr) &&
	       !IN6_IS_ADDR_MULTICAST(&a->in6.sin6_addr) &&
	       !IN6_IS_ADDR_LINKLOCAL(&a->in6.sin6_addr) &&
	       !IN6_IS_ADDR_V4MAPPED(&a->in6.sin6_addr);
}

/* RFC 1123 §2.1, and "_", which names of services have. A last label of digits alone would be an address that is wrong. */
static bool is_name(const char *host)
{
	const size_t len = strlen(host);
	size_t label = 0;
	bool digits = true;

	if (len == 0 || len > FLEET_HOST_MAX)
		return false;
	for (size_t i = 0; i < len; i++) {
		const char c = host[i];

		if (c == '.' || c == '-') {
			if (label == 0 || (c == '.' && host[i - 1] == '-'))
				return false;
			label = c == '.' ? 0 : label + 1;
			digits = c == '.';
		} else if (isalnum((unsigned char)c) || c == '_') {
			label++;
			digits = digits && isdigit((unsigned char)c);
		} else {
			return false;
		}
		if (label > 63)
			return false;
	}
	return label > 0 && !digits && host[len - 1] != '-';
}

static int add_name(struct fleet_members *m, const char *host, uint16_t port, bool slices,
		    unsigned number, struct err *e)
{
	struct fleet_name *fresh = &m->names[m->n_names];

	for (size_t i = 0; i < m->n_names; i++)
		if (streq(m->names[i].host, host) && m->names[i].port == port)
			return 0;
	if (m->n_names == FLEET_NAMES_MAX)
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "line %u: more than %u names; one name may have many addresses",
			       number, FLEET_NAMES_MAX);
	for (size_t i = 0; i <= strlen(host); i++)
		fresh->host[i] = (char)tolower((unsigned char)host[i]);
	fresh->port = port;
	fresh->slices = slices;
	m->n_names++;
	return 0;
}

/* A label of RFC 1123 §2.1 as Kubernetes has it: small letters, digits, and '-' inside. */
static bool is_label(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!(s[i] >= 'a' && s[i] <= 'z') && !(s[i] >= '0' && s[i] <= '9') &&
		    (s[i] != '-' || i == 0 || i + 1 == len))
			return false;
	return len > 0 && len <= 63;
}

/* TEXT: NAMESPACE/NAME:PORT. */
static int add_service(struct fleet_members *m, const char *text, unsigned number, struct err *e)
{
	char service[LINE_MAX_BYTES];
	unsigned n = 0;
	uint16_t port;
	const char *slash = text[0] != '[' &&
				    parse_host_port(text, service, sizeof(service), &port) == 0 &&
				    port > 0
				? strchr(service, '/')
				: NULL;

	if (!slash || !is_label(service, (size_t)(slash - service)) ||
	    !is_label(slash + 1, strlen(slash + 1)))
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "line %u: '" SLICES "%s' is not " SLICES
			       "NAMESPACE/NAME:PORT, such as " SLICES "fleet/workers:8443",
			       number, text);
	for (size_t i = 0; i < m->n_names; i++)
		n += m->names[i].slices;
	if (n >= FLEET_SLICES_MAX)
		return err_set(e, ERR_SETTING_INVALID, 0, "line %u: more than %u Services", number,
			       FLEET_SLICES_MAX);
	return add_name(m, service, port, true, number, e);
}

static int add(struct fleet_members *m, const char *line, unsigned number, struct err *e)
{
	struct fleet_address a = {0};
	char host[LINE_MAX_BYTES];
	uint16_t port;

	/* Without a slash it is a host of that name. */
	if (text_starts_with(line, SLICES) && strchr(line, '/'))
		return add_service(m, line + strlen(SLICES), number, e);
	if (parse_host_port(line, host, sizeof(host), &port) < 0 || port == 0)
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "line %u: '%s' is not HOST:PORT, such as 10.0.0.7:8443", number,
			       line);
	if (streq(host, "localhost") || http_address_parse(host, port, &a.address, &a.len) < 0)
		return is_name(host)
			   ? add_name(m, host, port, false, number, e)
			   : err_set(e, ERR_SETTING_INVALID, 0,
				     "line %u: '%s' is neither a numeric address nor a DNS name",
				     number, host);
	fleet_address_write(&a, port);
	if (!fleet_members_add(m, &a))
		return err_set(e, ERR_SETTING_INVALID, 0, "line %u: more than %u workers", number,
			       FLEET_MEMBERS_MAX);
	return 0;
}

int fleet_members_parse(const char *text, size_t len, struct fleet_members *ret, struct err *e)
{
	const char *end = text + len;
	unsigned number = 0;

	ret->n = ret->n_names = 0;
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
