/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/bridge.h"

#include "base/text.h"

#include <string.h>

#define VALUE_MAX (PATH_MAX + 4200)

/* The first item is `caisson=VERSION`, which is no setting. */
#define VERSION_WORD "caisson"

/* Every client sends these, and they must be equal also if nobody set them. */
static const enum setting_id always[] = {SETTING_ID_engine, SETTING_ID_state_dir,
					 SETTING_ID_profile};

/* These settings have no meaning for a client on stdio. */
static const enum setting_id never[] = {
    SETTING_ID_socket,   SETTING_ID_bridge,        SETTING_ID_listen,       SETTING_ID_app_host,
    SETTING_ID_app_port, SETTING_ID_allowed_hosts, SETTING_ID_require_auth,
};

/* An explicit limit must be enforced, a default is best effort. So if the client has set one of these,
 * an equal default of the server is not the same. */
static const enum setting_id enforced[] = {SETTING_ID_memory_limit, SETTING_ID_cpu_limit,
					   SETTING_ID_pids_limit, SETTING_ID_workspace_limit,
					   SETTING_ID_workspace_files};

static bool is_in(const enum setting_id *list, size_t n, enum setting_id id)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == id)
			return true;
	return false;
}

/* The value in a form that both sides can compare. */
static int value_of(const struct app *a, enum setting_id id, char *ret, size_t size)
{
	char cwd[PATH_MAX];
	const char *file = a->settings.log_file;

	if (id == SETTING_ID_state_dir)
		return text_copy(ret, size, a->state_dir);
	if (id == SETTING_ID_image)
		return text_copy(ret, size, a->image);
	if (id == SETTING_ID_log_file && file[0] && file[0] != '/') {
		if (!getcwd(cwd, sizeof(cwd)))
			return -errno;
		const int n = snprintf(ret, size, "%s/%s", cwd, file);
		return n < 0 || (size_t)n >= size ? -ERANGE : 0;
	}
	settings_format(&a->settings, id, ret, size);
	return 0;
}

static int add_item(struct buf *b, const char *name, const char *value)
{
	int r = buf_add(b, name, strlen(name));

	r = r < 0 ? r : buf_add(b, "=", 1);
	return r < 0 ? r : buf_add(b, value, strlen(value) + 1);
}

int bridge_say_hello(const struct app *a, struct buf *b)
{
	struct bridge_hello head = {.magic = BRIDGE_MAGIC, .version = BRIDGE_VERSION};
	const size_t at = b->len;
	char value[VALUE_MAX];
	int r = buf_add(b, &head, sizeof(head));

	r = r < 0 ? r : add_item(b, VERSION_WORD, CAISSON_VERSION);
	for (enum setting_id id = 0; r >= 0 && id < SETTING_ID_MAX_; id++) {
		if (is_in(never, ARRAY_SIZE(never), id) ||
		    (!settings_is_explicit(&a->settings, id) &&
		     !is_in(always, ARRAY_SIZE(always), id)))
			continue;
		r = value_of(a, id, value, sizeof(value));
		r = r < 0 ? r : add_item(b, setting_rows[id].field, value);
	}
	if (r < 0)
		return r;
	const size_t length = b->len - at - sizeof(head);
	if (length > BRIDGE_BODY_MAX)
		return -EMSGSIZE;
	head.length = (uint32_t)length;
	memcpy(b->data + at, &head, sizeof(head));
	return 0;
}

static enum setting_id find_field(const char *name, size_t len)
{
	enum setting_id id = 0;

	while (id < SETTING_ID_MAX_ && (strlen(setting_rows[id].field) != len ||
					memcmp(setting_rows[id].field, name, len) != 0))
		id++;
	return id;
}

static bool refuse(char *why, const char *what, const char *how)
{
	(void)snprintf(why, BRIDGE_WHY_MAX, "%.60s %s", what, how);
	return false;
}

/* Compares one setting of the client. The reason never has values of the server, because it goes to
 * the client's log. */
static bool judge_item(const struct app *a, const char *item, uint64_t *said, char *why)
{
	char value[VALUE_MAX];
	const char *equal = strchr(item, '=');
	enum setting_id id = equal ? find_field(item, (size_t)(equal - item)) : SETTING_ID_MAX_;

	if (id == SETTING_ID_MAX_ || setting_rows[id].type == SETTING_SECRET ||
	    is_in(never, ARRAY_SIZE(never), id))
		return refuse(why, "a setting", "is not known to the server");
	for (size_t i = 0; i < ARRAY_SIZE(always); i++)
		if (always[i] == id)
			*said |= UINT64_C(1) << i;
	if (value_of(a, id, value, sizeof(value)) < 0 || !streq(value, equal + 1))
		return refuse(why, setting_rows[id].env, "is another one than the server's");
	if (is_in(enforced, ARRAY_SIZE(enforced), id) && !settings_is_explicit(&a->settings, id))
		return refuse(why, setting_rows[id].env,
			      "was given here, and is only a default of the server");
	return true;
}

bool bridge_judge(const struct app *a, const char *body, size_t len, char *why)
{
	static const char version[] = VERSION_WORD "=" CAISSON_VERSION;
	const char *p = body, *last = body + len;
	uint64_t said = 0;

	if (len == 0 || last[-1] != '\0')
		return refuse(why, "the hello", "is broken");
	if (!streq(p, version))
		return refuse(why, "the server", "has another version");
	for (p += strlen(p) + 1; p < last; p += strlen(p) + 1)
		if (!judge_item(a, p, &said, why))
			return false;
	if (said != (UINT64_C(1) << ARRAY_SIZE(always)) - 1)
		return refuse(why, "the hello", "is not complete");
	return true;
}
