/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets of the installation, ids, clock. */
#include "store/db.h"

#include "base/rand.h"

#include <sodium.h>
#include <string.h>

static int read_secret(struct db *db, const char *key, uint8_t *ret, struct err *e)
{
	_cleanup_(db_end) struct cursor *st = db_begin(db, Q_META_GET, e, "t", key);

	if (!st)
		return -e->errnum;
	int r = db_step(db, st, e);
	if (r <= 0)
		return r;
	size_t len = 0;
	const void *secret = column_blob(st, 0, &len);
	if (len != STORE_SECRET_BYTES) {
		(void)err_set(e, ERR_STORE_FAILED, 0, "the database, %s has a wrong size", key);
		e->errnum = EUCLEAN;
		return -EUCLEAN;
	}
	memcpy(ret, secret, STORE_SECRET_BYTES);
	return 1;
}

int store_secret(struct store *s, const char *name, uint8_t *ret, struct err *e)
{
	uint8_t fresh[STORE_SECRET_BYTES];
	char key[64];

	(void)snprintf(key, sizeof(key), "secret.%s", name);
	int r = read_secret(&s->db, key, ret, e);
	if (r != 0)
		return MIN(r, 0);
	rand_bytes(fresh, sizeof(fresh));
	/* If another process was faster, its secret is the one that counts. */
	r = db_change(&s->db, Q_META_ADD, e, "tb", key, fresh, sizeof(fresh));
	sodium_memzero(fresh, sizeof(fresh));
	if (r < 0 && e->code != ERR_STORE_BUSY)
		return r;
	*e = ERR_INIT; /* busy: another server has made one just now */
	r = read_secret(&s->db, key, ret, e);
	if (r == 0)
		return err_set(e, ERR_STORE_FAILED, 0, "the database, %s is gone", key);
	return MIN(r, 0);
}

int store_set_address(struct store *s, const char *base, struct err *e)
{
	return MIN(db_change(&s->db, Q_META_SET, e, "tb", "address", base, strlen(base)), 0);
}

int store_address(struct store *s, char ret[STORE_ADDRESS_SIZE], struct err *e)
{
	_cleanup_(db_end) struct cursor *st = db_begin(&s->db, Q_META_GET, e, "t", "address");

	ret[0] = '\0';
	if (!st)
		return -e->errnum;
	int r = db_step(&s->db, st, e);
	size_t len = 0;
	const char *base = r > 0 ? column_blob(st, 0, &len) : NULL;
	if (base)
		(void)snprintf(ret, STORE_ADDRESS_SIZE, "%.*s", (int)len, base);
	return r;
}

void store_uuid(char *ret)
{
	uint8_t raw[16];
	char hex[33];

	rand_bytes(raw, sizeof(raw));
	raw[6] = (uint8_t)((raw[6] & 0x0f) | 0x40); /* version 4 */
	raw[8] = (uint8_t)((raw[8] & 0x3f) | 0x80); /* RFC 9562 variant */
	text_hex(raw, sizeof(raw), hex);
	(void)snprintf(ret, STORE_ID_SIZE, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12,
		       hex + 16, hex + 20);
}

uint64_t store_now_ms(void)
{
	return now_wall_ns() / NS_PER_MS;
}
