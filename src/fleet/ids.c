/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/ids.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/rand.h"
#include "base/text.h"

#include <fcntl.h>
#include <sodium.h>
#include <string.h>

#define WORKERS  (36u * 36 * 36)
#define TAG_MAX  4u
#define TEXT_MAX 96u /* of what a tag is made of */
#define HEX      "0123456789abcdef"
#define BASE36   "0123456789abcdefghijklmnopqrstuvwxyz"
#define UUID_LEN 36u
#define TOKEN    6 /* kind */

/* The forms of ids. No id has two. */
static const struct form {
	const char *prefix;
	const char *digits;
	size_t skip; /* characters before the digits: the prefix, and a time */
	size_t len;
	bool is_uuid; /* hyphens and a version */
	uint8_t kind; /* part of the MAC; never changes */
} forms[] = {
    {"sess_", HEX, 5, 25, false, 1},    {"", HEX, 0, UUID_LEN, true, 2},
    {"", HEX, 0, 32, false, 3},         {"i", BASE36, 1, 20, false, 4},
    {"run_", BASE36, 21, 31, false, 5}, {"", HEX, 0, 64, false, TOKEN},
};

static bool is_uuid_text(const char *id)
{
	for (size_t i = 0; i < UUID_LEN; i++)
		if ((i == 8 || i == 13 || i == 18 || i == 23) != (id[i] == '-'))
			return false;
	return id[14] == '4' && strchr("89ab", id[19]);
}

static const struct form *form_of(const char *id)
{
	const size_t len = strlen(id);

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		const struct form *f = &forms[i];
		if (len != f->len || !text_starts_with(id, f->prefix) ||
		    strspn(id + strlen(f->prefix), "0123456789TZ_") < f->skip - strlen(f->prefix))
			continue;
		if (f->is_uuid ? is_uuid_text(id) && strspn(id, HEX "-") == len
			       : strspn(id + f->skip, f->digits) == len - f->skip)
			return f;
	}
	return NULL;
}

/* Writes the N lowest digits of VALUE. */
static void put_digits(const struct form *f, uint32_t value, size_t n, char *ret)
{
	const uint32_t base = (uint32_t)strlen(f->digits);

	for (size_t i = n; i > 0; i--, value /= base)
		ret[i - 1] = f->digits[value % base];
}

static uint32_t get_digits(const struct form *f, const char *text, size_t n)
{
	uint32_t value = 0;

	for (size_t i = 0; i < n; i++)
		value = value * (uint32_t)strlen(f->digits) +
			(uint32_t)(strchr(f->digits, text[i]) - f->digits);
	return value;
}

/* Digits of the worker: three in base 36, and the same number in hexadecimal needs four. */
static size_t worker_digits(const struct form *f)
{
	return strlen(f->digits) == 36 ? FLEET_WORKER_SIZE - 1 : FLEET_WORKER_SIZE;
}

/* The tag of ID, whose worker is there already: over the kind and all of the id but the tag itself. */
static void make_tag(const struct fleet_key *key, const struct form *f, const char *id,
		     char ret[TAG_MAX])
{
	const size_t at = f->skip + worker_digits(f);
	char text[TEXT_MAX] = "caisson fleet id 1 ";
	size_t len = strlen(text);
	uint8_t hash[crypto_generichash_BYTES_MIN];
	uint32_t value = 0;

	text[len++] = (char)('0' + f->kind);
	memcpy(text + len, id, at);
	len += at;
	memcpy(text + len, id + at + TAG_MAX, f->len - at - TAG_MAX);
	len += f->len - at - TAG_MAX;
	(void)crypto_generichash(hash, sizeof(hash), (const uint8_t *)text, len, key->bytes,
				 sizeof(key->bytes));
	for (size_t i = 0; i < sizeof(value); i++)
		value = value << 8 | hash[i];
	put_digits(f, value, TAG_MAX, ret);
}

int fleet_key_read(const char *path, struct fleet_key *ret, struct err *e)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(FLEET_KEY_MAX);
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0)
		return err_set(e, ERR_SETTING_INVALID, errno, "the key of the fleet, %s", path);
	int r = fd_read_file(fd, &text);
	if (r == -ENOBUFS || (r == 0 && text.len < FLEET_KEY_MIN))
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "the key of the fleet, %s, must have %u to %u bytes. Make one with: "
			       "openssl rand -out FILE 32",
			       path, FLEET_KEY_MIN, FLEET_KEY_MAX);
	if (r < 0)
		return err_set(e, ERR_SETTING_INVALID, -r, "the key of the fleet, %s", path);
	(void)crypto_generichash(ret->bytes, sizeof(ret->bytes), (const uint8_t *)text.data,
				 text.len, NULL, 0);
	sodium_memzero(text.data, text.len);
	return 0;
}

int fleet_member_init(struct fleet_member *ret, const char *name)
{
	uint8_t hash[crypto_generichash_BYTES_MIN];
	const size_t len = strlen(name);
	uint32_t value = 0;

	if (len == 0 || len > FLEET_NAME_MAX)
		return -EINVAL;
	memcpy(ret->name, name, len + 1);
	(void)crypto_generichash(hash, sizeof(hash), (const uint8_t *)name, len, NULL, 0);
	for (size_t i = 0; i < sizeof(value); i++)
		value = value << 8 | hash[i];
	value %= WORKERS;
	for (size_t i = FLEET_WORKER_SIZE - 1; i > 0; i--, value /= 36)
		ret->worker[i - 1] = BASE36[value % 36];
	ret->worker[FLEET_WORKER_SIZE - 1] = '\0';
	rand_hex(ret->epoch, (FLEET_EPOCH_SIZE - 1) / 2);
	return 0;
}

static const struct form base36 = {.digits = BASE36};

void fleet_id_mark(const struct fleet_member *m, char *id)
{
	const struct form *f = m ? form_of(id) : NULL;

	if (!f)
		return;
	char *place = id + f->skip;
	put_digits(f, get_digits(&base36, m->worker, FLEET_WORKER_SIZE - 1), worker_digits(f),
		   place);
	make_tag(&m->key, f, id, place + worker_digits(f));
}

bool fleet_id_has_form(const char *id)
{
	const struct form *f = form_of(id);

	return f && f->kind != TOKEN;
}

static bool worker_of(const struct fleet_key *key, const struct form *f, const char *id,
		      char ret[FLEET_WORKER_SIZE])
{
	char tag[TAG_MAX];

	const char *place = id + f->skip;
	const uint32_t worker = get_digits(f, place, worker_digits(f));
	make_tag(key, f, id, tag);
	if (worker >= WORKERS || sodium_memcmp(tag, place + worker_digits(f), TAG_MAX) != 0)
		return false;
	put_digits(&base36, worker, FLEET_WORKER_SIZE - 1, ret);
	ret[FLEET_WORKER_SIZE - 1] = '\0';
	return true;
}

bool fleet_id_worker(const struct fleet_key *key, const char *id, char ret[FLEET_WORKER_SIZE])
{
	return fleet_id_has_form(id) && worker_of(key, form_of(id), id, ret);
}

bool fleet_token_worker(const struct fleet_key *key, const char *token, char ret[FLEET_WORKER_SIZE])
{
	const struct form *f = form_of(token);

	return f && f->kind == TOKEN && worker_of(key, f, token, ret);
}
