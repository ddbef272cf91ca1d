/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that the image room reads: a definition, what apt says, apt's sources, dpkg's status.
 * Properties: a refusal has one line of text; feeding in two pieces ends in the same state. */
#include "fuzz.h"

#include "base/attr.h"
#include "image/def.h"
#include "image/inventory.h"
#include "image/progress.h"
#include "image/source.h"

#include <string.h>

static void feed(const char *text, size_t size)
{
	static struct progress whole, split;
	uint64_t done, total;

	whole = split = (struct progress){0};
	(void)progress_feed(&whole, text, size);
	(void)progress_feed(&split, text, size / 2);
	(void)progress_feed(&split, text + size / 2, size - size / 2);
	ASSERT(whole.phase == split.phase && whole.expected == split.expected);
	ASSERT(progress_reason(&whole) == progress_reason(&split));
	progress_count(&whole, &done, &total);
	ASSERT(total == 0 || done <= total);
	for (const char *s = whole.item; *s; s++)
		ASSERT(*s >= ' ' && *s <= '~');
}

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = malloc(size + 1);
	_cleanup_(image_def_done) struct image_def def = {0};
	struct err e = ERR_INIT;
	char url[SOURCE_URL_MAX];

	ASSERT(text);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	if (image_def_parse("fuzz", text, size, &def, &e) < 0)
		ASSERT(e.text[0] != '\0' && !strchr(e.text, '\n'));
	else
		ASSERT(def.suite[0] && def.packages.n > 0);
	feed(text, size);
	if (source_pick(text, url) == 0 || source_pick_uri(text, url) == 0)
		ASSERT(source_is_url(url));
	json_t *packages = json_array();

	ASSERT(packages);
	int r UNUSED = inventory_parse_dpkg(text, size, packages);

	json_decref(packages);
	return 0;
}
