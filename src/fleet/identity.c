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
	bool names;               /* it is a part of what names the credential and its rights */
	bool younger;             /* routers of an older version do not send it */
};

bool fleet_is_uuid(const char *s)
{
	if (strlen(s) != UUID_LEN || strspn(s, "0123456789abcdef-") != UUID_LEN)
		return false;
	for (size_t i = 0; i < UUID_LEN; i++)
		if ((i == 8 || i == 13 || i == 18 || i == 23) != (s[i] == '-'))
			return false;
	return true;
}

static bool is_uuid_or_empty(const char *s)
{
	return !*s || fleet_is_uuid(s);
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
	.name = #field, .kind = TEXT, .offset = AT(field), .size = SIZE(field), .is = f
static const struct member members[] = {
    {TEXT_OF(owner, is_uuid_or_empty), .names = true},
    {TEXT_OF(name, is_name)},
    {"admin", BOOL, AT(admin), .names = true},
    {"read_only", BOOL, AT(read_only), .names = true},
    {TEXT_OF(profile, is_word), .names = true},
    {TEXT_OF(key_id, is_uuid_or_empty), .names = true},
    {TEXT_OF(signin, is_uuid_or_empty), .names = true, .younger = true},
    {TEXT_OF(version, is_word), .names = true, .younger = true},
    {"until_ms", NUMBER, AT(until_ms)},
    {"expires_ms", NUMBER, AT(expires_ms)},
};
static const struct member limits[] = {
    {"sandboxes", LIMIT, AT(sandboxes)},
    {"cpu_s_per_day", LIMIT, AT(cpu_s_per_day)},
    {"disk_bytes", LIMIT, AT(disk_bytes)},
    {"runs_per_minute", LIMIT, AT(runs_per_minute)},
};

static const struct member uses[] = {
    {"sandboxes", NUMBER, AT(elsewhere.sandboxes)},
    {"disk_bytes", NUMBER, AT(elsewhere.disk_bytes)},
    {"day", NUMBER, AT(elsewhere.day)},
    {"cpu_us", NUMBER, AT(elsewhere.cpu_us)},
    {"minute", NUMBER, AT(elsewhere.minute)},
    {"runs", NUMBER, AT(elsewhere.runs)},
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

/* How many there are, all or, with NAMES, those that name the credential; < 0: one is missing or wrong. */
static int take_all(const struct member *rows, size_t n, bool names, const json_t *object,
		    struct fleet_identity *ret, struct err *e)
{
	int taken = 0;

	for (size_t i = 0; i < n; i++) {
		const json_t *value = json_object_get(object, rows[i].name);

		if ((names && !rows[i].names) || (!names && !value && rows[i].younger))
			continue;
		if (!take(&rows[i], value, ret))
			return refuse(e, rows[i].name, "is missing or wrong");
		taken++;
	}
	return taken;
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
	if (id->signin[0] && (id->how == FLEET_HOW_LOCAL || id->how == FLEET_HOW_TOKEN))
		return refuse(e, "signin", "does not go with \"how\"");
	if (id->version[0] && id->how != FLEET_HOW_TOKEN && id->how != FLEET_HOW_STATIC)
		return refuse(e, "version", "does not go with \"how\"");
	return 0;
}

static int read_object(const json_t *root, struct fleet_identity *ret, struct err *e)
{
	const json_t *quota = json_object_get(root, "limits");
	const json_t *elsewhere = json_object_get(root, "elsewhere");
	struct fleet_identity id = {.says_elsewhere = elsewhere};

	if (!json_is_integer(json_object_get(root, "v")) ||
	    json_integer_value(json_object_get(root, "v")) != VERSION)
		return refuse(e, "v", "is another version than 1: upgrade workers before routers");
	const int taken = take_all(members, ARRAY_SIZE(members), false, root, &id, e);
	int r = taken < 0 ? taken : 0;
	if (r == 0 && !take_how(json_object_get(root, "how"), &id.how))
		r = refuse(e, "how", "is missing or wrong");
	r = r < 0 ? r : take_all(limits, ARRAY_SIZE(limits), false, quota, &id, e);
	if (r >= 0 && elsewhere)
		r = take_all(uses, ARRAY_SIZE(uses), false, elsewhere, &id, e);
	if (r >= 0 && (json_object_size(root) != (size_t)taken + 3 + (elsewhere != NULL) ||
		       json_object_size(quota) != ARRAY_SIZE(limits) ||
		       (elsewhere && json_object_size(elsewhere) != ARRAY_SIZE(uses))))
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

int fleet_credential_read(const json_t *value, struct fleet_identity *ret, struct err *e)
{
	struct fleet_identity id = {0};
	const int taken = take_all(members, ARRAY_SIZE(members), true, value, &id, e);
	int r = taken < 0 ? taken : 0;

	if (r == 0 && !take_how(json_object_get(value, "how"), &id.how))
		r = refuse(e, "how", "is missing or wrong");
	if (r == 0 && json_object_size(value) != (size_t)taken + 1)
		r = refuse(e, "a member", "is not known: upgrade workers before routers");
	r = r < 0 ? r : check_together(&id, e);
	if (r == 0)
		*ret = id;
	return r;
}

static int put_all(const struct member *rows, size_t n, bool names, const struct fleet_identity *id,
		   json_t *object)
{
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		const char *place = (const char *)id + rows[i].offset;
		int64_t number = 0;

		if (names && !rows[i].names)
			continue;
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
	bool whole =
	    root && put_all(members, ARRAY_SIZE(members), false, id, root) == 0 &&
	    put_all(limits, ARRAY_SIZE(limits), false, id, json_object_get(root, "limits")) == 0;
	if (whole && id->says_elsewhere)
		whole = json_object_set_new(root, "elsewhere", json_object()) == 0 &&
			put_all(uses, ARRAY_SIZE(uses), false, id,
				json_object_get(root, "elsewhere")) == 0;
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

json_t *fleet_credential_json(const struct fleet_identity *id)
{
	json_t *root = json_pack("{s:s}", "how", how_words[id->how]);

	if (root && put_all(members, ARRAY_SIZE(members), true, id, root) == 0)
		return root;
	json_decref(root);
	return NULL;
}
