/* SPDX-License-Identifier: Apache-2.0 */
/* requestState: data that a modern client carries for us from one round to the next.
 *
 * "<payload>.<mac>", both base64url without padding. The payload is JSON:
 *
 *   e  expiry, ms since 1970      m  method           p  principal
 *   d  digest of the parameters   q  {key: method} of the questions
 *   i  answers of earlier rounds  s  what the handler wanted to remember
 *   n  number of the round, so that two rounds never carry the same text
 *
 * The MAC is HMAC-SHA512-256 over the text of the payload. The payload is not encrypted: all of it
 * came from that client. */
#include "mcp/objects.h"

#include "base/jsonio.h"

#include <sodium.h>

#define STATE_MAX    (48U << 10) /* bytes of a requestState; short enough that it is never spilled */
#define DIGEST_BYTES 32U
#define HASHED_MAX   (1U << 20) /* bytes of spilled strings in a call that asks */
#define B64          sodium_base64_VARIANT_URLSAFE_NO_PADDING

_Static_assert(MCP_STATE_KEY_BYTES == crypto_auth_KEYBYTES, "size of the MAC key");

static int hash_into(const char *data, size_t len, void *user)
{
	crypto_generichash_update(user, (const unsigned char *)data, len);
	return 0;
}

static int hash_spilled(crypto_generichash_state *h, const struct mcp_text_ref *ref)
{
	char piece[16384];
	uint64_t done = 0;

	while (done < ref->fd_len) {
		size_t want = MIN(sizeof(piece), (size_t)(ref->fd_len - done));
		ssize_t n = pread(ref->fd, piece, want, (off_t)(ref->off + done));

		if (n <= 0)
			return -EIO;
		hash_into(piece, (size_t)n, h);
		done += (uint64_t)n;
	}
	return 0;
}

/* Lifted strings are hashed by their content, because each message has different placeholders. No call that asks has texts
 * of more than HASHED_MAX bytes, and those that have more are refused: their digest would hold the loop. */
static int hash_strings(crypto_generichash_state *h, const struct mcp_call *c, json_t *value,
			size_t *left)
{
	struct mcp_text_ref ref;
	const char *key;
	json_t *child;
	size_t i;
	int r = 0;

	if (json_is_string(value) && mcp_call_text(c, value, &ref) == 0 && ref.fd >= 0) {
		if (ref.fd_len > *left)
			return -E2BIG;
		*left -= ref.fd_len;
		return hash_spilled(h, &ref);
	}
	if (json_is_object(value)) {
		json_object_foreach(value, key, child) {
			if (r == 0)
				r = hash_strings(h, c, child, left);
		}
	} else if (json_is_array(value)) {
		json_array_foreach(value, i, child) {
			if (r == 0)
				r = hash_strings(h, c, child, left);
		}
	}
	return r;
}

/* A copy of VALUE with the length in place of each spilled string. */
static json_t *without_spilled(const struct mcp_call *c, json_t *value)
{
	struct mcp_text_ref ref;
	json_t *copy;
	const char *key;
	json_t *child;
	size_t i;

	if (json_is_string(value) && mcp_call_text(c, value, &ref) == 0 && ref.fd >= 0)
		return json_integer((json_int_t)ref.len);
	if (json_is_object(value)) {
		copy = json_object();
		json_object_foreach(value, key, child)
			json_object_set_new(copy, key, without_spilled(c, child));
		return copy;
	}
	if (json_is_array(value)) {
		copy = json_array();
		json_array_foreach(value, i, child)
			json_array_append_new(copy, without_spilled(c, child));
		return copy;
	}
	return json_incref(value);
}

/* A digest of the parameters, without those that differ between rounds. HEX has 2 * DIGEST_BYTES +
 * 1 bytes. */
static int digest(const struct mcp_call *c, char *hex)
{
	static const char *const volatile_keys[] = {"_meta", "inputResponses", "requestState"};
	unsigned char sum[DIGEST_BYTES];
	json_auto_t *params = NULL;
	crypto_generichash_state h;
	size_t left = HASHED_MAX;
	int r = 0;

	params = c->spill ? without_spilled(c, c->params) : json_copy(c->params);
	if (!params)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(volatile_keys); i++)
		json_object_del(params, volatile_keys[i]);
	crypto_generichash_init(&h, NULL, 0, sizeof(sum));
	if (json_dump_callback(params, hash_into, &h, JSON_COMPACT | JSON_SORT_KEYS) < 0)
		return -ENOMEM;
	if (c->spill)
		r = hash_strings(&h, c, json_object_get(c->params, "arguments"), &left);
	crypto_generichash_final(&h, sum, sizeof(sum));
	if (r == 0)
		text_hex(sum, sizeof(sum), hex);
	return r;
}

static json_t *methods_of(const json_t *questions)
{
	json_t *all = json_object();
	const char *key;
	json_t *q;

	json_object_foreach((json_t *)(uintptr_t)questions, key, q)
		json_object_set(all, key, json_object_get(q, "method"));
	return all;
}

static char *payload(const struct mcp_call *c, const json_t *questions, size_t *ret_len)
{
	char hex[2 * DIGEST_BYTES + 1];
	int64_t expiry = server_now_ms(c->server) + (int64_t)c->server->config.state_ttl_s * 1000;
	json_t *p;
	char *text;

	if (digest(c, hex) < 0)
		return NULL;
	p = json_pack("{s:I,s:s,s:s,s:s,s:o,s:O*,s:O*,s:I}", "e", (json_int_t)expiry, "m",
		      c->method->name, "p", c->who->principal, "d", hex, "q", methods_of(questions),
		      "i", c->inputs, "s", c->state, "n",
		      (json_int_t)randombytes_uniform(INT32_MAX));
	text = wire_text(p, ret_len);
	json_decref(p);
	return text;
}

char *state_seal(const struct mcp_call *c, json_t *questions)
{
	_cleanup_free_ char *text = NULL;
	unsigned char mac[crypto_auth_BYTES];
	size_t len;
	size_t n_payload;
	size_t n_mac = sodium_base64_encoded_len(sizeof(mac), B64);
	char *out;

	text = payload(c, questions, &len);
	if (!text)
		return NULL;
	n_payload = sodium_base64_encoded_len(len, B64); /* with its NUL */
	if (n_payload + n_mac > STATE_MAX)
		return NULL;
	crypto_auth(mac, (const unsigned char *)text, len, c->server->state_key);
	out = malloc(n_payload + n_mac);
	if (!out)
		return NULL;
	sodium_bin2base64(out, n_payload, (const unsigned char *)text, len, B64);
	out[n_payload - 1] = '.';
	sodium_bin2base64(out + n_payload, n_mac, mac, sizeof(mac), B64);
	return out;
}

/* The payload of TEXT, or NULL if its MAC is wrong. */
static json_t *authentic(const struct mcp_server *s, const char *text)
{
	const char *dot = strchr(text, '.');
	_cleanup_free_ unsigned char *data = NULL;
	unsigned char mac[crypto_auth_BYTES];
	size_t len;
	size_t n_mac;

	if (!dot || strlen(text) > STATE_MAX)
		return NULL;
	data = malloc(strlen(text) + 1);
	if (!data ||
	    sodium_base642bin(data, strlen(text), text, (size_t)(dot - text), NULL, &len, NULL,
			      B64) != 0 ||
	    sodium_base642bin(mac, sizeof(mac), dot + 1, strlen(dot + 1), NULL, &n_mac, NULL,
			      B64) != 0 ||
	    n_mac != sizeof(mac) || crypto_auth_verify(mac, data, len, s->state_key) != 0)
		return NULL;
	json_t *state;
	return jsonio_read((const char *)data, len, JSON_ALLOW_NUL, &state, NULL) == 0 ? state
										       : NULL;
}

static bool same(const json_t *payload_, const char *key, const char *want)
{
	const json_t *v = json_object_get(payload_, key);

	return json_is_string(v) && streq(json_string_value(v), want);
}

int state_open(struct mcp_call *c, const char *text, json_t **ret_questions)
{
	json_auto_t *p = authentic(c->server, text);
	char hex[2 * DIGEST_BYTES + 1];

	if (!p || !same(p, "m", c->method->name) || !same(p, "p", c->who->principal) ||
	    digest(c, hex) < 0 || !same(p, "d", hex))
		return -EBADMSG;
	if (json_integer_value(json_object_get(p, "e")) < server_now_ms(c->server))
		return -ESTALE;
	json_decref(c->inputs);
	c->inputs = json_incref(json_object_get(p, "i"));
	json_decref(c->state);
	c->state = json_incref(json_object_get(p, "s"));
	*ret_questions = json_incref(json_object_get(p, "q"));
	return 0;
}
