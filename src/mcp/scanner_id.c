/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the id of a request that may have to be refused before its tree is built. While the message
 * goes by, it keeps the text of "id" of the outermost object and whether there is a "method". */
#include "mcp/scanner_parts.h"

#include <string.h>

void scan_id_begin(struct scanner *s, enum scan_catching what)
{
	s->request.catching = what;
	s->request.len = 0;
}

void scan_id_more(struct scan_id *id, const char *data, size_t len)
{
	if (len > sizeof(id->text) - id->len) {
		id->spoilt = id->spoilt || id->catching == CATCH_ID;
		id->catching = CATCH_NOTHING;
		return;
	}
	memcpy(id->text + id->len, data, len);
	id->len += len;
}

static bool caught(const struct scan_id *id, const char *text)
{
	return id->len == strlen(text) && memcmp(id->text, text, id->len) == 0;
}

void scan_id_on_key(struct scanner *s)
{
	struct scan_id *id = &s->request;

	if (id->catching != CATCH_KEY)
		return;
	id->catching = CATCH_NOTHING;
	if (caught(id, "\"method\":"))
		id->has_method = true;
	if (!caught(id, "\"id\":"))
		return;
	id->spoilt = id->spoilt || id->found;
	id->found = true;
	scan_id_begin(s, CATCH_ID);
}

void scan_id_on_value(struct scan_id *id)
{
	if (id->catching != CATCH_ID)
		return;
	id->catching = CATCH_NOTHING;
	memcpy(id->id, id->text, id->len);
	id->id_len = id->len;
}

const char *scanner_id(const struct scanner *s, size_t *ret_len)
{
	const struct scan_id *id = &s->request;
	const bool good =
	    id->has_method && id->id_len > 0 && !id->spoilt &&
	    (id->id[0] == '"' || id->id[0] == '-' || (id->id[0] >= '0' && id->id[0] <= '9'));

	*ret_len = good ? id->id_len : 0;
	return good ? id->id : "";
}
