/* SPDX-License-Identifier: Apache-2.0 */
/* What goes with the disk of a sandbox that moves: its record, as a JSON text. The reader takes what another server has written, which may
 * have been taken over: every member has the limits that it has here. */
#include "sandbox/moving.h"

#include "base/jsonio.h"
#include "base/text.h"
#include "sandbox/manager.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define VERSION 1
#define VALUES  32u /* of the text; options and environment are texts in it */
#define DEPTH   1u
#define MOST    (INT64_C(1) << 53)

#define OPTIONS_VALUES (SANDBOX_OPTION_MAX_ + SANDBOX_LABELS_MAX + 1u)
#define OPTIONS_DEPTH  2u /* labels */
#define ENV_VALUES     (SANDBOX_ENV_MAX + 1u)
#define ENV_DEPTH      1u

static void wipe(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->len);
	buf_done(b);
}

static json_t *pack(const struct sandbox_record *r, const char *env)
{
	/* Code in the sandbox chose its folder, so it may be no text; the place is left out then. */
	json_t *place = json_string(r->place);

	return json_pack("{s:i, s:b, s:s, s:s, s:s, s:o, s:s, s:s, s:I, s:I, s:I}", "v", VERSION,
			 "own_id", stored_key_is_of_own_id(r), "name", r->name, "image", r->image,
			 "network", r->network.text, "place", place ? place : json_string(""),
			 "options", r->options, "env", env, "disk_bytes", (json_int_t)r->disk_bytes,
			 "created_ms", (json_int_t)r->created_ms, "runs", (json_int_t)r->runs);
}

int moving_text_write(const struct sandbox_record *r, const char *env, struct buf *ret,
		      struct err *e)
{
	struct buf text = BUF_INIT(MOVING_TEXT_MAX);
	json_t *root = pack(r, env);
	int n = root ? jsonio_add(&text, root, JSON_COMPACT) : -ENOMEM;

	json_decref(root);
	n = n < 0 ? n : buf_add(ret, text.data, text.len);
	wipe(&text);
	if (n == -ENOBUFS)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "the environment of sandbox %s is too long to be moved", r->id);
	return n < 0 ? err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the record of sandbox %s", r->id) : 0;
}

int manager_moving_text(struct manager *m, const char *owner, const char *id, struct buf *ret,
			struct err *e)
{
	const struct sandbox_records *records = m->config.stored.records;
	struct buf env = BUF_INIT(SANDBOX_ENV_TEXT_MAX);
	struct sandbox_record record;
	int r = manager_get_stored(m, owner, id, &record, e);

	if (r == 0)
		return err_set(e, ERR_SESSION_NOT_FOUND, 0, "there is no stored sandbox %s", id);
	if (r > 0)
		r = records->env ? records->env(records->user, id, &env, e) : 0;
	r = r < 0 ? r : moving_text_write(&record, buf_str(&env), ret, e);
	wipe(&env);
	return r;
}

/* ---- reading ---- */

static bool take(const char *from, char *ret, size_t size)
{
	return text_copy(ret, size, from) >= 0;
}

/* "" or an object that is no larger than one of ours: it is read at each opening, on the loop. */
static bool is_object(const char *text, size_t values, size_t depth)
{
	const size_t n = *text ? jsonio_count(text, strlen(text), values, depth) : 1;

	return (*text == '{' || !*text) && n > 0 && n <= values;
}

static bool is_place(const char *text)
{
	if (*text != '/' && *text)
		return false;
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return false;
	return true;
}

static bool unpack(json_t *root, struct sandbox_record *ret, bool *ret_own_id, const char **ret_env)
{
	const char *name, *image, *network, *place, *options;
	json_int_t disk = 0, created = 0, runs = 0;
	int version = 0, own_id = 0;

	if (json_unpack(root, "{s:i, s:b, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I !}", "v",
			&version, "own_id", &own_id, "name", &name, "image", &image, "network",
			&network, "place", &place, "options", &options, "env", ret_env,
			"disk_bytes", &disk, "created_ms", &created, "runs", &runs) < 0 ||
	    version != VERSION || disk < 0 || disk > MOST || created < 0 || created > MOST ||
	    runs < 0 || runs > MOST || strlen(*ret_env) > SANDBOX_ENV_TEXT_MAX ||
	    !is_object(*ret_env, ENV_VALUES, ENV_DEPTH) ||
	    !is_object(options, OPTIONS_VALUES, OPTIONS_DEPTH) || !is_place(place) ||
	    !take(name, ret->name, sizeof(ret->name)) ||
	    !take(image, ret->image, sizeof(ret->image)) ||
	    !take(network, ret->network.text, sizeof(ret->network.text)) ||
	    !take(place, ret->place, sizeof(ret->place)) ||
	    !take(options, ret->options, sizeof(ret->options)))
		return false;
	ret->disk_bytes = (uint64_t)disk;
	ret->created_ms = (uint64_t)created;
	ret->runs = (uint64_t)runs;
	*ret_own_id = own_id;
	return true;
}

/* Stored sandboxes have no root user, and nobody asks again when one is opened. */
static int check_options(const struct sandbox_record *r, const char *env, bool *ret)
{
	struct sandbox_options o = {0};
	const int n = sandbox_options_parse(r->options, env, &o);

	*ret = n == 0 && o.number[SANDBOX_OPTION_ROOT] == 0;
	sandbox_options_done(&o);
	return n == -ENOMEM ? n : 0;
}

int moving_text_read(const char *text, size_t len, struct sandbox_record *ret, bool *ret_own_id,
		     char **ret_env, struct err *e)
{
	const size_t values = len <= MOVING_TEXT_MAX ? jsonio_count(text, len, VALUES, DEPTH) : 0;
	const char *env = NULL;
	json_t *root = NULL;
	bool valid = values > 0 && values <= VALUES;
	int r = valid ? jsonio_read(text, len, JSON_REJECT_DUPLICATES, &root, NULL) : 0;

	valid = valid && r == 0 && unpack(root, ret, ret_own_id, &env);
	if (valid)
		r = check_options(ret, env, &valid);
	if (valid && !(*ret_env = strdup(env)))
		r = -ENOMEM;
	json_decref(root);
	if (r == -ENOMEM)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a sandbox that arrives");
	return valid ? 0
		     : err_set(e, ERR_SNAPSHOT_INVALID, EBADMSG,
			       "the record in a snapshot is none that this version reads");
}
