/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a sandbox that comes from another worker, which may have been taken over. Properties: what is accepted has a name, an image
 * and so on that end, numbers that a database takes, and options that can be parsed, without a root user; written and read again it is the
 * same. */
#include "fuzz.h"

#include "base/text.h"
#include "sandbox/manager.h"
#include "sandbox/moving.h"

#include <stdlib.h>
#include <string.h>

static struct sandbox_record first, second;

static void check(const struct sandbox_record *r, const char *env)
{
	struct sandbox_options o = {0};

	ASSERT(memchr(r->name, '\0', sizeof(r->name)) && memchr(r->image, '\0', sizeof(r->image)));
	ASSERT(memchr(r->place, '\0', sizeof(r->place)) &&
	       memchr(r->options, '\0', sizeof(r->options)));
	ASSERT(memchr(r->network.text, '\0', sizeof(r->network.text)));
	ASSERT(r->disk_bytes <= INT64_MAX && r->created_ms <= INT64_MAX && r->runs <= INT64_MAX);
	ASSERT(r->place[0] == '\0' || r->place[0] == '/');
	ASSERT(r->id[0] == '\0' && r->owner[0] == '\0' && r->key[0] == '\0');
	ASSERT(sandbox_options_parse(r->options, env, &o) == 0);
	ASSERT(o.number[SANDBOX_OPTION_ROOT] == 0);
	sandbox_options_done(&o);
}

static void check_again(bool own_id, const char *env)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(MOVING_TEXT_MAX);
	struct err e = ERR_INIT;
	char *env_again = NULL;
	bool own_again = false;

	/* the key that it would have here */
	(void)snprintf(first.key, sizeof(first.key), "key%s", own_id ? STORED_KEY_OF_OWN_ID : "");
	ASSERT(moving_text_write(&first, env, &text, &e) == 0);
	memset(&second, 0, sizeof(second));
	ASSERT(moving_text_read(text.data, text.len, &second, &own_again, &env_again, &e) == 0);
	first.key[0] = '\0';
	ASSERT(streq(env, env_again) && own_again == own_id);
	ASSERT(streq(first.name, second.name) && streq(first.image, second.image) &&
	       streq(first.network.text, second.network.text) && streq(first.place, second.place) &&
	       streq(first.options, second.options));
	ASSERT(first.disk_bytes == second.disk_bytes && first.created_ms == second.created_ms &&
	       first.runs == second.runs);
	free(env_again);
}

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	struct err e = ERR_INIT;
	bool own_id = false;
	char *env = NULL;

	memset(&first, 0, sizeof(first));
	if (moving_text_read((const char *)data, size, &first, &own_id, &env, &e) < 0) {
		ASSERT(e.code != ERR_NONE && !env);
		return 0;
	}
	check(&first, env);
	check_again(own_id, env);
	free(env);
	return 0;
}
