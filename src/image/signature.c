/* SPDX-License-Identifier: Apache-2.0 */
#include "image/signature.h"

#include "base/text.h"

#include <string.h>

#define KEY_ALGORITHM   "Ed" /* Ed25519 */
#define ALGORITHM       "ED" /* Ed25519 over BLAKE2b-512: what minisign makes today */
#define ALGORITHM_SIZE  2
#define HASH_SIZE       64
#define COMMENT         "untrusted comment: "
#define TRUSTED_COMMENT "trusted comment: "
#define NAMED_MAX       512
#define SEPARATORS      ", \t\n"

struct packed_key {
	char algorithm[ALGORITHM_SIZE];
	struct signature_key key;
};

struct packed_signature {
	char algorithm[ALGORITHM_SIZE];
	unsigned char id[SIGNATURE_ID_SIZE];
	unsigned char signature[crypto_sign_BYTES];
};

_Static_assert(sizeof(struct packed_key) == 42 && sizeof(struct packed_signature) == 74,
	       "as the format has them");

/* Exactly SIZE bytes. */
static bool decode(const char *text, size_t len, void *ret, size_t size)
{
	size_t n = 0;
	const char *end = NULL;

	return sodium_base642bin(ret, size, text, len, NULL, &n, &end,
				 sodium_base64_VARIANT_ORIGINAL) == 0 &&
	       n == size && end == text + len;
}

int signature_parse_keys(const char *text, struct signature_keys *ret, struct err *e)
{
	struct packed_key packed;

	*ret = (struct signature_keys){0};
	for (text += strspn(text, SEPARATORS); *text; text += strspn(text, SEPARATORS)) {
		const size_t len = strcspn(text, SEPARATORS);

		if (ret->n == SIGNATURE_KEYS_MAX)
			return err_set(e, ERR_SETTING_INVALID, 0,
				       "SANDBOX_IMAGE_KEY has more than %d keys",
				       SIGNATURE_KEYS_MAX);
		if (!decode(text, len, &packed, sizeof(packed)) ||
		    memcmp(packed.algorithm, KEY_ALGORITHM, ALGORITHM_SIZE) != 0)
			return err_set(e, ERR_SETTING_INVALID, 0,
				       "SANDBOX_IMAGE_KEY: '%.60s' is no public key of minisign",
				       text);
		ret->keys[ret->n++] = packed.key;
		text += len;
	}
	return 0;
}

/* One line, which must have the prefix; what follows it. */
static bool take_line(const char **text, const char *end, const char *prefix, const char **ret,
		      size_t *ret_len)
{
	const char *stop = memchr(*text, '\n', (size_t)(end - *text));
	const size_t skip = strlen(prefix);

	if (!stop)
		stop = end;
	size_t len = (size_t)(stop - *text);

	if (len > 0 && stop[-1] == '\r')
		len--;
	if (len < skip || memcmp(*text, prefix, skip) != 0)
		return false;
	*ret = *text + skip;
	*ret_len = len - skip;
	*text = stop < end ? stop + 1 : end;
	return true;
}

struct parts {
	struct packed_signature packed;
	unsigned char whole[crypto_sign_BYTES]; /* over the signature and the comment */
	const char *comment;
	size_t comment_len;
};

static bool parse(const char *text, size_t len, struct parts *ret)
{
	const char *end = text + len, *line;
	size_t n;

	return take_line(&text, end, COMMENT, &line, &n) && take_line(&text, end, "", &line, &n) &&
	       decode(line, n, &ret->packed, sizeof(ret->packed)) &&
	       memcmp(ret->packed.algorithm, ALGORITHM, ALGORITHM_SIZE) == 0 &&
	       take_line(&text, end, TRUSTED_COMMENT, &ret->comment, &ret->comment_len) &&
	       take_line(&text, end, "", &line, &n) &&
	       decode(line, n, ret->whole, sizeof(ret->whole)) && text == end;
}

static bool is_by(const struct signature_key *key, const struct parts *p, const char *data,
		  size_t len)
{
	unsigned char hash[HASH_SIZE];
	unsigned char both[crypto_sign_BYTES + SIGNATURE_MAX];

	(void)crypto_generichash(hash, sizeof(hash), (const unsigned char *)data, len, NULL, 0);
	if (crypto_sign_verify_detached(p->packed.signature, hash, sizeof(hash), key->public) != 0)
		return false;
	memcpy(both, p->packed.signature, crypto_sign_BYTES);
	memcpy(both + crypto_sign_BYTES, p->comment, p->comment_len);
	return crypto_sign_verify_detached(p->whole, both, crypto_sign_BYTES + p->comment_len,
					   key->public) == 0;
}

/* WHAT and NAMED are words for errors: "the image", and which one. */
static int check(const struct signature_keys *keys, const char *text, size_t len, const char *data,
		 size_t data_len, const char *what, const char *named, struct err *e)
{
	struct parts parts;

	if (len > SIGNATURE_MAX || !parse(text, len, &parts))
		return err_set(e, ERR_IMAGE_INVALID, 0, "the signature of %s is damaged", what);
	for (size_t i = 0; i < keys->n; i++) {
		const struct signature_key *key = &keys->keys[i];

		if (memcmp(key->id, parts.packed.id, sizeof(key->id)) != 0)
			continue;
		return is_by(key, &parts, data, data_len)
			   ? 0
			   : err_set(e, ERR_IMAGE_INVALID, 0, "the signature is not one of %s",
				     named);
	}
	return err_set(e, ERR_IMAGE_INVALID, 0,
		       "%s is signed with a key that is not in SANDBOX_IMAGE_KEY", what);
}

int signature_check(const struct signature_keys *keys, const char *text, size_t len,
		    const char *name, const char *digest, struct err *e)
{
	char line[NAMED_MAX], named[NAMED_MAX];
	const int n = snprintf(line, sizeof(line), "%s@%s\n", name, digest);

	if ((size_t)n >= sizeof(line))
		return err_set(e, ERR_IMAGE_INVALID, ENAMETOOLONG, "the image's name");
	(void)snprintf(named, sizeof(named), "%s@%.19s…", name, digest);
	return check(keys, text, len, line, (size_t)n, "the image", named, e);
}

int signature_check_file(const struct signature_keys *keys, const char *text, size_t len,
			 const char *data, size_t data_len, const char *what, struct err *e)
{
	return check(keys, text, len, data, data_len, what, what, e);
}
