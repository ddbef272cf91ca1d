/* SPDX-License-Identifier: Apache-2.0 */
/* The texts that routers send, and get. */
#include "moving/order.h"

#include "base/base64.h"
#include "base/jsonio.h"
#include "base/text.h"
#include "fleet/identity.h"

#include <jansson.h>
#include <sodium.h>
#include <string.h>

#define VALUES    4096u
#define DEPTH     4u
#define BITS_TEXT (BASE64_ENCODED_LEN(SNAPSHOT_BITS_BYTES) + 1)

static int refuse(struct err *e, const char *what)
{
	return err_set(e, ERR_BAD_REQUEST, 0, "not an order of this version: %s", what);
}

static int read_root(const char *text, size_t len, json_t **ret, struct err *e)
{
	const size_t values = jsonio_count(text, len, VALUES, DEPTH);

	if (values == 0 || values > VALUES ||
	    jsonio_read(text, len, JSON_REJECT_DUPLICATES, ret, NULL) < 0)
		return refuse(e, "the body is no JSON");
	if (json_integer_value(json_object_get(*ret, "v")) == 1)
		return 0;
	json_decref(*ret);
	*ret = NULL;
	return refuse(e, "v is 1");
}

/* ---- words ---- */

static bool is_hex(const char *s, size_t len)
{
	return strlen(s) == len && strspn(s, "0123456789abcdef") == len;
}

static bool take_number(json_int_t n, json_int_t max, uint32_t *ret)
{
	*ret = (uint32_t)n;
	return n >= 0 && n <= max;
}

static bool take_hash(const char *text, uint8_t ret[SNAPSHOT_HASH_BYTES])
{
	size_t len = 0;

	return is_hex(text, 2 * SNAPSHOT_HASH_BYTES) &&
	       sodium_hex2bin(ret, SNAPSHOT_HASH_BYTES, text, strlen(text), NULL, &len, NULL) == 0;
}

static bool take_key(const char *text, uint8_t ret[SNAPSHOT_KEY_BYTES])
{
	size_t len = 0;

	return sodium_base642bin(ret, SNAPSHOT_KEY_BYTES, text, strlen(text), NULL, &len, NULL,
				 sodium_base64_VARIANT_ORIGINAL) == 0 &&
	       len == SNAPSHOT_KEY_BYTES;
}

static bool take_id(struct order *o, const char *id, const char *owner, const char *incarnation)
{
	if (text_copy(o->id.id, sizeof(o->id.id), id) < 0 ||
	    text_copy(o->id.owner, sizeof(o->id.owner), owner) < 0 ||
	    !is_hex(incarnation, SNAPSHOT_INCARNATION_SIZE - 1) || !id[0] ||
	    (owner[0] && !fleet_is_uuid(owner)))
		return false;
	(void)!text_copy(o->id.incarnation, sizeof(o->id.incarnation), incarnation);
	return true;
}

static bool take_address(struct order *o, const char *text)
{
	const size_t len = strlen(text);
	struct address *a;

	if (len >= OBJECTS_ADDRESS_MAX || !(a = calloc(1, sizeof(*a) + len + 1)))
		return false;
	memcpy(a->text, text, len + 1);
	list_append(&o->addresses, &a->node);
	return true;
}

static int read_base(struct order *o, json_t *base, struct err *e)
{
	const char *hash, *address;
	json_int_t epoch, generation;

	if (json_is_null(base))
		return 0;
	if (json_unpack(base, "{s:I, s:I, s:s, s:s !}", "epoch", &epoch, "generation", &generation,
			"hash", &hash, "address", &address) < 0)
		return refuse(e, "base");
	o->base_id = o->id;
	if (!take_number(epoch, STORE_EPOCH_MAX, &o->base_id.epoch) ||
	    !take_number(generation, STORE_EPOCH_MAX, &o->base_id.generation) || generation == 0 ||
	    !take_hash(hash, o->base_hash) || !take_address(o, address))
		return refuse(e, "base");
	return 0;
}

static int read_save(json_t *root, struct order *o, struct err *e)
{
	const char *kind, *id, *owner, *incarnation, *key;
	json_int_t v, epoch, generation, change;
	json_t *base;

	if (json_unpack(root, "{s:I, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:s, s:o !}", "v", &v,
			"kind", &kind, "id", &id, "owner", &owner, "incarnation", &incarnation,
			"epoch", &epoch, "generation", &generation, "change", &change, "key", &key,
			"base", &base) < 0)
		return refuse(e, "the members of a save");
	o->kind = ORDER_SAVE;
	if (!take_id(o, id, owner, incarnation) || !take_key(key, o->key) ||
	    !take_number(epoch, STORE_EPOCH_MAX, &o->id.epoch) ||
	    !take_number(generation, STORE_EPOCH_MAX, &o->id.generation) || generation == 0 ||
	    change <= 0)
		return refuse(e, "a value of a save");
	o->change = (uint64_t)change;
	return read_base(o, base, e);
}

static int read_load(json_t *root, struct order *o, struct err *e)
{
	const char *kind, *id, *owner, *incarnation, *key, *hash, *address, *proof;
	json_int_t v, epoch, snap, generation, disk;

	if (json_unpack(root, "{s:I, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:s, s:s, s:s, s:I, s:s !}",
			"v", &v, "kind", &kind, "id", &id, "owner", &owner, "incarnation",
			&incarnation, "epoch", &epoch, "snap_epoch", &snap, "generation",
			&generation, "key", &key, "hash", &hash, "address", &address, "disk_bytes",
			&disk, "proof", &proof) < 0)
		return refuse(e, "the members of a load");
	o->kind = ORDER_LOAD;
	if (!take_id(o, id, owner, incarnation) || !take_key(key, o->key) ||
	    !take_number(snap, STORE_EPOCH_MAX, &o->id.epoch) ||
	    !take_number(generation, STORE_EPOCH_MAX, &o->id.generation) || generation == 0 ||
	    !take_number(epoch, STORE_EPOCH_MAX, &o->epoch) || epoch <= snap || disk <= 0 ||
	    !is_hex(proof, STORE_PROOF_SIZE - 1) || !take_hash(hash, o->hash) ||
	    !take_address(o, address))
		return refuse(e, "a value of a load");
	o->disk_bytes = (uint64_t)disk;
	(void)!text_copy(o->proof, sizeof(o->proof), proof);
	return 0;
}

static int read_short(json_t *root, bool drop, struct order_words *ret, struct err *e)
{
	const char *kind, *incarnation;
	json_int_t v, epoch = 0;
	const int r = drop ? json_unpack(root, "{s:I, s:s, s:s, s:I !}", "v", &v, "kind", &kind,
					 "incarnation", &incarnation, "epoch", &epoch)
			   : json_unpack(root, "{s:I, s:s, s:s !}", "v", &v, "kind", &kind,
					 "incarnation", &incarnation);

	if (r < 0 || !is_hex(incarnation, STORE_INCARNATION_SIZE - 1) ||
	    !take_number(epoch, STORE_EPOCH_MAX, &ret->epoch))
		return refuse(e, "incarnation and epoch");
	ret->word = drop ? WORD_DROP : WORD_FORGET;
	(void)!text_copy(ret->incarnation, sizeof(ret->incarnation), incarnation);
	return 0;
}

static int read_words(json_t *root, struct order_words *ret, struct err *e)
{
	const char *kind = json_string_value(json_object_get(root, "kind"));
	int r;

	if (!kind)
		return refuse(e, "kind");
	if (streq(kind, "drop") || streq(kind, "forget"))
		return read_short(root, streq(kind, "drop"), ret, e);
	if (!streq(kind, "save") && !streq(kind, "load"))
		return refuse(e, "kind");
	ret->order = order_new();
	if (!ret->order)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "an order");
	ret->word = streq(kind, "save") ? WORD_SAVE : WORD_LOAD;
	r = ret->word == WORD_SAVE ? read_save(root, ret->order, e)
				   : read_load(root, ret->order, e);
	if (r < 0)
		ret->order = order_free(ret->order);
	return r;
}

int words_read(const char *text, size_t len, struct order_words *ret, struct err *e)
{
	json_t *root = NULL;
	int r = read_root(text, len, &root, e);

	*ret = (struct order_words){0};
	r = r < 0 ? r : read_words(root, ret, e);
	json_decref(root);
	return r;
}

static int read_address(struct order *o, json_t *one, struct err *e)
{
	struct snapshot_place at = {0};
	json_int_t epoch, generation, index;
	const char *text;

	if (json_unpack(one, "[I, I, I, s !]", &epoch, &generation, &index, &text) < 0 ||
	    !take_number(epoch, STORE_EPOCH_MAX, &at.epoch) ||
	    !take_number(generation, STORE_EPOCH_MAX, &at.generation) ||
	    !take_number(index, SNAPSHOT_MANIFEST, &at.index))
		return refuse(e, "an address");
	return order_add_address(o, &at, text, e);
}

int addresses_read(struct order *o, const char *text, size_t len, struct err *e)
{
	json_t *root = NULL, *one;
	size_t i;
	int r = read_root(text, len, &root, e);

	if (r < 0)
		return r;
	json_t *list = json_object_get(root, "addresses");
	if (json_object_size(root) != 2 || !json_is_array(list) ||
	    json_array_size(list) > ORDERS_ADDRESSES)
		r = refuse(e, "addresses");
	json_array_foreach(list, i, one)
		r = r < 0 ? r : read_address(o, one, e);
	json_decref(root);
	return r;
}

int end_read(const char *text, size_t len, bool *ret_keep, struct err *e)
{
	json_t *root = NULL;
	json_int_t v;
	int keep = 0;
	int r = read_root(text, len, &root, e);

	if (r == 0 && json_unpack(root, "{s:I, s:b !}", "v", &v, "keep", &keep) < 0)
		r = refuse(e, "keep");
	json_decref(root);
	*ret_keep = keep;
	return r;
}

/* ---- what they get ---- */

static void add_generation(uint32_t epoch, uint32_t generation,
			   const uint8_t bits[SNAPSHOT_BITS_BYTES], void *user)
{
	char text[BITS_TEXT];

	base64_encode(bits, SNAPSHOT_BITS_BYTES, text);
	text[BITS_TEXT - 1] = '\0';
	(void)json_array_append_new(
	    user, json_pack("[I, I, s]", (json_int_t)epoch, (json_int_t)generation, text));
}

static unsigned count_wants(const struct order *o)
{
	struct snapshot_place at;
	unsigned n = 0;

	for (uint32_t from = 0; o->state == ORDER_WANTS && order_next_want(o, from, &at);
	     from = at.index + 1)
		n++;
	return n;
}

static void add_result(json_t *x, const struct order *o)
{
	char hash[2 * SNAPSHOT_HASH_BYTES + 1];
	json_t *keeps = json_array();

	(void)sodium_bin2hex(hash, sizeof(hash), o->hash, sizeof(o->hash));
	snapshot_each_generation(o->snapshot, add_generation, keeps);
	(void)json_object_set_new(x, "hash", json_string(hash));
	(void)json_object_set_new(x, "keeps", keeps);
}

json_t *order_json(const struct order *o)
{
	static const char *const kinds[] = {[ORDER_SAVE] = "save", [ORDER_LOAD] = "load"};
	static const char *const states[ORDER_STATES] = {[ORDER_WORKING] = "working",
							 [ORDER_WANTS] = "wants",
							 [ORDER_DONE] = "done",
							 [ORDER_FAILED] = "failed"};
	const bool planned = o->snapshot && !o->busy;
	json_t *x = json_pack("{s:s, s:s, s:s, s:I, s:I, s:s, s:i, s:I}", "order", o->name, "kind",
			      kinds[o->kind], "incarnation", o->id.incarnation, "epoch",
			      (json_int_t)(o->kind == ORDER_LOAD ? o->epoch : o->id.epoch),
			      "generation", (json_int_t)o->id.generation, "state", states[o->state],
			      "wants", (int)count_wants(o), "bytes",
			      (json_int_t)(planned ? snapshot_bytes(o->snapshot) : 0));

	if (x && o->state == ORDER_FAILED)
		(void)json_object_set_new(x, "error",
					  json_pack("{s:s, s:s}", "code",
						    err_code_name(o->error.code), "text",
						    o->error.text));
	if (x && o->state == ORDER_DONE && o->kind == ORDER_SAVE)
		add_result(x, o);
	return x;
}

json_t *wants_json(const struct order *o, uint32_t from)
{
	json_t *list = json_array();
	json_t *root = json_pack("{s:i, s:O}", "v", 1, "wants", list);
	struct snapshot_place at = {0};
	bool more = false;

	for (unsigned n = 0;
	     o->state == ORDER_WANTS && (more = order_next_want(o, from, &at)) && n < ORDERS_WANTS;
	     n++, from = at.index + 1)
		(void)json_array_append_new(
		    list, json_pack("[I, I, I, I]", (json_int_t)at.epoch, (json_int_t)at.generation,
				    (json_int_t)at.index, (json_int_t)at.len));
	if (root && more)
		(void)json_object_set_new(root, "next", json_integer((json_int_t)from));
	json_decref(list);
	return root;
}
