/* SPDX-License-Identifier: Apache-2.0 */
/* What a router says of a caller, and ids of a fleet. The first byte says what the rest is: the value of the header, the JSON in
 * it, or an id. Properties: an identity that was taken can be written and then says the same; an id that was marked names its worker. */
#include "fuzz.h"

#include "fleet/identity.h"
#include "fleet/ids.h"

#include <sodium.h>
#include <string.h>

static void read_caller(const char *value)
{
	char text[FLEET_CALLER_MAX + 1], again[FLEET_CALLER_MAX + 1];
	struct fleet_identity id, second;
	struct err e = ERR_INIT;

	if (fleet_identity_read(value, &id, &e) < 0) {
		ASSERT(e.code == ERR_IDENTITY_INVALID && e.text[0]);
		return;
	}
	ASSERT(fleet_identity_write(&id, text) == 0);
	ASSERT(fleet_identity_read(text, &second, &e) == 0);
	ASSERT(fleet_identity_write(&second, again) == 0 && strcmp(text, again) == 0);
}

static void read_json(const char *json, size_t len)
{
	const size_t size =
	    sodium_base64_encoded_len(len, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	_cleanup_free_ char *text = malloc(size);

	if (!text)
		return;
	(void)sodium_bin2base64(text, size, (const unsigned char *)json, len,
				sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	read_caller(text);
}

static void read_id(char *id)
{
	struct fleet_member m = {.key = {.bytes = "0123456789abcdef0123456789abcde"}};
	char worker[FLEET_WORKER_SIZE];
	const size_t len = strlen(id);

	ASSERT(fleet_member_init(&m, "worker") == 0);
	const bool has_form = fleet_id_has_form(id);
	ASSERT(has_form || !fleet_id_worker(&m.key, id, worker));
	fleet_id_mark(&m, id);
	ASSERT(strlen(id) == len && fleet_id_has_form(id) == has_form);
	ASSERT(!has_form || (fleet_id_worker(&m.key, id, worker) && strcmp(worker, m.worker) == 0));
}

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *rest = size > 0 ? strndup((const char *)data + 1, size - 1) : NULL;

	if (!rest)
		return 0;
	if (data[0] == 'h')
		read_caller(rest);
	else if (data[0] == 'j')
		read_json((const char *)data + 1, size - 1);
	else
		read_id(rest);
	return 0;
}
