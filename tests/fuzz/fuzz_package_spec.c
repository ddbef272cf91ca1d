/* SPDX-License-Identifier: Apache-2.0 */
/* What may be installed. Properties: a requirement that was taken reads as itself again, begins
 * with a letter or digit (so never as an option), and is printable ASCII without what a shell or a
 * path needs. */
#include "fuzz.h"

#include "packages/spec.h"

#include <string.h>

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	static struct spec spec, again;
	struct err e = ERR_INIT;

	if (spec_parse((const char *)data, size, &spec, &e) < 0) {
		ASSERT(e.code == ERR_INVALID_ARGUMENT);
		return 0;
	}
	ASSERT(spec.n > 0 && spec.n <= PACKAGES_NAMES_MAX);
	for (size_t i = 0; i < spec.n; i++) {
		const struct spec_item *item = &spec.items[i];
		size_t len = strlen(item->text);

		ASSERT(len > 0 && len <= SPEC_ITEM_MAX && item->text[0] != '-');
		ASSERT(strncmp(item->text, item->name, strlen(item->name)) == 0);
		ASSERT(!strpbrk(item->text, "\n\r\\/:@$`|&#{}?"));
		ASSERT(spec_parse(item->text, len, &again, &e) == 0 && again.n == 1);
		ASSERT(strcmp(again.items[0].text, item->text) == 0);
	}
	return 0;
}
