/* SPDX-License-Identifier: Apache-2.0 */
/* Which workers a router has: the answer of an API server ('s'), or the file with the list. Properties: addresses that were taken are
 * addresses of one machine each, in order, and none twice; a version that was taken can stand in a URL. */
#include "fuzz.h"

#include "fleet/router/members.h"
#include "fleet/router/slices.h"

#include <string.h>

static void read_slices(const char *text, size_t len)
{
	_cleanup_free_ struct fleet_slices *s = calloc(1, sizeof(*s));

	if (!s)
		return;
	const char *why = fleet_slices_read(text, len, 8443, s);
	ASSERT(s->n <= FLEET_MEMBERS_MAX);
	for (size_t i = 0; i < s->n; i++) {
		ASSERT(fleet_address_is_of_one(&s->at[i].address) && s->at[i].text[0]);
		ASSERT(i == 0 || strcmp(s->at[i - 1].text, s->at[i].text) < 0);
	}
	ASSERT(why || (s->version[0] && strspn(s->version, "0123456789") == strlen(s->version)));
}

static void read_list(const char *text, size_t len)
{
	_cleanup_free_ struct fleet_members *m = calloc(1, sizeof(*m));
	struct err e = ERR_INIT;

	if (!m)
		return;
	if (fleet_members_parse(text, len, m, &e) < 0) {
		ASSERT(e.code == ERR_SETTING_INVALID && e.text[0]);
		return;
	}
	ASSERT(m->n <= FLEET_MEMBERS_MAX && m->n_names <= FLEET_NAMES_MAX);
	for (size_t i = 0; i < m->n_names; i++) {
		ASSERT(m->names[i].port > 0);
		ASSERT(m->names[i].slices == (strchr(m->names[i].host, '/') != NULL));
		ASSERT(strspn(m->names[i].host, "abcdefghijklmnopqrstuvwxyz0123456789._-/") ==
		       strlen(m->names[i].host));
	}
}

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] == 's')
		read_slices((const char *)data + 1, size - 1);
	else
		read_list((const char *)data + 1, size - 1);
	return 0;
}
