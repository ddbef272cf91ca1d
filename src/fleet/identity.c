/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/identity.h"

#include "base/jsonio.h"
#include "base/text.h"

#include <errno.h>
#include <jansson.h>
#include <sodium.h>
#include <string.h>

#define VERSION   1
#define VARIANT   sodium_base64_VARIANT_URLSAFE_NO_PADDING
#define DEPTH_MAX 3u
#define UUID_LEN  (FLEET_UUID_SIZE - 1)

static const char *const how_words[FLEET_HOW_MAX_] = {"local", "static", "key", "token", "signin"};

enum kind { TEXT, BOOL, NUMBER, LIMIT };

/* The members but "v", "how" and "limits", which have rules of their own. */
struct member {
	const char *name;
	enum kind kind;
	size_t offset;
	size_t size;              /* of TEXT, with its NUL */
	bool (*is)(const char *); /* of TEXT */
};

static bool is_uuid_or_empty(const char *s)
{
	if (!*s)
		return true;
	if (strlen(s) != UUID_LEN || strspn(s, "0123456789abcdef-") != UUID_LEN)
		return false;
	for (size_t i = 0; i < UUID_LEN; i++)
		if ((i == 8 || i == 13 || i == 18 || i == 23) != (s[i] == '-'))
			return false;
	return true;
}

/* It comes into the log and into answers. */
static bool is_name(const char *s)
{
	for (; *s; s++)
		if ((uint8_t)*s < 0x20 || *s == 0x7f || text_is_c1(s))
			return false;
	return true;
}

static bool is_word(const char *s)
{
	return s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_-")] == '\0';
}

#define AT(field)   offsetof(struct fleet_identity, field)
#define SIZE(field) sizeof(((struct fleet_identity *)0)->field)
#define TEXT_OF(field, f)                                                                          \
	{                                                                                          \
#field, TEXT, AT(field), SIZE(field), f                                            \
	}
static const struct member members[] = {
    TEXT_OF(owner, is_uuid_or_empty),   TEXT_OF(name, is_name),
    {"admin", BOOL, AT(admin)},         {"read_only", BOOL, AT(read_only)},
    TEXT_OF(profile, is_word),          TEXT_OF(key_id, is_uuid_or_empty),
    {"until_ms", NUMBER, AT(until_ms)}, {"expires_ms", NUMBER, AT(expires_ms)},
};
static const struct member limits[] = {
    {"sandboxes", LIMIT, AT(sandboxes)},
    {"cpu_s_per_day", LIMIT, AT(cpu_s_per_day)},
    {"disk_bytes", LIMIT, AT(disk_bytes)},
    {"runs_per_minute", LIMIT, AT(runs_per_minute)},
};

static int refuse(struct err *e, const char *member, const char *what)
{
	return err_set(e, ERR_IDENTITY_INVALID, EINVAL,
		       "the identity that the router sent cannot be used: %s %s", member, what);
}

static bool take_text(const struct member *m, const json_t *value, char *ret)
{
	const char *text = json_string_value(value);

	/* jansson has checked that it is UTF-8, and refuses a NUL in it. */
	return text && strlen(text) < m->size && m->is(text) && text_copy(ret, m->size, text) == 0;
}

static bool take_number(const json_t *value, int64_t min, int64_t *ret)
{
	*ret = json_integer_value(value);
	return json_is_integer(value) && *ret >= min && *ret <= FLEET_NUMBER_MAX;
}

static bool take(const struct member *m, const json_t *value, struct fleet_identity *ret)
{
	char *place = (char *)ret + m->offset;
	int64_t number;
	bool flag;

	switch (m->kind) {
	case TEXT:
		return take_text(m, value, place);
	case BOOL:
		flag = json_is_true(value);
		memcpy(place, &flag, sizeof(flag));
		return json_is_boolean(value);
	case NUMBER:
	case LIMIT:
		if (!take_number(value, m->kind == LIMIT ? FLEET_LIMIT_DEFAULT : 0, &number))
			return false;
		memcpy(place, &number, sizeof(number));
		return true;
	}
	return false;
}

static int take_all(const struct member *rows, size_t n, const json_t *object,
		    struct fleet_identity *ret, struct err *e)
{
	for (size_t i = 0; i < n; i++)
		if (!take(&rows[i], json_object_get(object, rows[i].name), ret))
			return refuse(e, rows[i].name, "is missing or wrong");
	return 0;
}

static bool take_how(const json_t *value, enum fleet_how *ret)
{
	const char *word = json_string_value(value);

	for (unsigned i = 0; word && i < FLEET_HOW_MAX_; i++)
		if (streq(word, how_words[i])) {
			*ret = (enum fleet_how)i;
			return true;
		}
	return false;
}

/* What contradicts itself would be read in one way here and in another way elsewhere. */
static int check_together(const struct fleet_identity *id, struct err *e)
{
	const bool local = id->how == FLEET_HOW_LOCAL || id->how == FLEET_HOW_STATIC;

	if (local != (id->owner[0] == '\0'))
		return refuse(e, "owner", "does not go with \"how\"");
	if ((id->how == FLEET_HOW_KEY) != (id->key_id[0] != '\0'))
		return refuse(e, "key_id", "does not go with \"how\"");
	return 0;
}

static int read_object(const json_t *root, struct fleet_identity *ret, struct err *e)
{
	const json_t *quota = json_object_get(root, "limits");
	struct fleet_identity id = {0};

	if (!json_is_integer(json_object_get(root, "v")) ||
	    json_integer_value(json_object_get(root, "v")) != VERSION)
		return refuse(e, "v", "is another version than 1: upgrade workers before routers");
	int r = take_all(members, ARRAY_SIZE(members), root, &id, e);
	if (r == 0 && !take_how(json_object_get(root, "how"), &id.how))
		r = refuse(e, "how", "is missing or wrong");
	r = r < 0 ? r : take_all(limits, ARRAY_SIZE(limits), quota, &id, e);
	if (r == 0 && (json_object_size(root) != ARRAY_SIZE(members) + 3 ||
		       json_object_size(quota) != ARRAY_SIZE(limits)))
		r = refuse(e, "a member", "is not known: upgrade workers before routers");
	r = r < 0 ? r : check_together(&id, e);
	if (r == 0)
		*ret = id;
	return r;
}

int fleet_identity_read(const char *text, struct fleet_identity *ret, struct err *e)
{
	char json[FLEET_CALLER_TEXT];
	const size_t len = strnlen(text, FLEET_CALLER_MAX + 1);
	size_t got = 0;
	json_t *root = NULL;

	if (len > FLEET_CALLER_MAX)
		return refuse(e, "its text", "is too long");
	if (sodium_base642bin((unsigned char *)json, sizeof(json), text, len, NULL, &got, NULL,
			      VARIANT) < 0)
		return refuse(e, "its text", "is not base64url without padding");
	if (jsonio_count(json, got, FLEET_CALLER_TEXT, DEPTH_MAX) == 0)
		return refuse(e, "its text", "is no JSON object");
	int r = jsonio_read(json, got, JSON_REJECT_DUPLICATES, &root, NULL);
	if (r == -ENOMEM)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the identity of the caller");
	r = json_is_object(root) ? read_object(root, ret, e)
				 : refuse(e, "its text", "is no JSON object");
	json_decref(root);
	return r;
}

static int put_all(const struct member *rows, size_t n, const struct fleet_identity *id,
		   json_t *object)
{
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		const char *place = (const char *)id + rows[i].offset;
		int64_t number = 0;

		if (rows[i].kind == NUMBER || rows[i].kind == LIMIT)
			memcpy(&number, place, sizeof(number));
		r |= json_object_set_new(object, rows[i].name,
					 rows[i].kind == TEXT   ? json_string(place)
					 : rows[i].kind == BOOL ? json_boolean(*place != 0)
								: json_integer(number));
	}
	return r;
}

int fleet_identity_write(const struct fleet_identity *id, char *ret)
{
	if ((unsigned)id->how >= FLEET_HOW_MAX_)
		return -EINVAL;
	json_t *root =
	    json_pack("{s:i, s:s, s:{}}", "v", VERSION, "how", how_words[id->how], "limits");
	const bool whole =
	    root && put_all(members, ARRAY_SIZE(members), id, root) == 0 &&
	    put_all(limits, ARRAY_SIZE(limits), id, json_object_get(root, "limits")) == 0;
	struct fleet_identity again;
	struct err e = ERR_INIT;
	size_t len = 0;
	_cleanup_free_ char *text = whole ? jsonio_text(root, JSON_COMPACT, &len) : NULL;

	json_decref(root);
	if (!text)
		return -ENOMEM;
	if (len > FLEET_CALLER_TEXT)
		return -EINVAL;
	(void)sodium_bin2base64(ret, FLEET_CALLER_MAX + 1, (const unsigned char *)text, len,
				VARIANT);
	/* Else a worker would answer each request of this caller with an error. */
	return fleet_identity_read(ret, &again, &e) < 0 ? -EINVAL : 0;
}
