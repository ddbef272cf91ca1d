/* SPDX-License-Identifier: Apache-2.0 */
/* TLS greetings. Properties: the answer does not depend on how the bytes arrive; a greeting that
 * was accepted lies inside what was given and names a host in compared form. */
#include "fuzz.h"

#include "egress/hello.h"
#include "egress/host.h"

#include <string.h>

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	char name[EGRESS_HOST_MAX + 1] = "";
	char again[EGRESS_HOST_MAX + 1];
	enum egress_host_form form;
	enum egress_reason why = EGRESS_REASON_OK;

	if (size > EGRESS_HELLO_MAX)
		return 0;
	int len = egress_hello_parse(data, size, name, &why);
	ASSERT(len <= (int)size && (len < 0) == (why != EGRESS_REASON_OK));
	for (size_t n = 0; n < MIN(size, (size_t)600); n++) {
		enum egress_reason early = EGRESS_REASON_OK;
		int r = egress_hello_parse(data, n, again, &early);

		ASSERT(r <= 0 || r == len);
		if (r < 0)
			ASSERT(len < 0 && early == why);
	}
	if (len <= 0)
		return 0;
	ASSERT(egress_host_parse(name, strlen(name), again, &form) == 0);
	ASSERT(strcmp(name, again) == 0);
	ASSERT(form == EGRESS_HOST_NAME || form == EGRESS_HOST_SINGLE);
	return 0;
}
