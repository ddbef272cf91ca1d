/* SPDX-License-Identifier: Apache-2.0 */
#include "image/start.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/jsonio.h"
#include "base/parse.h"
#include "base/text.h"

#include <fcntl.h>
#include <string.h>

static bool is_text(const json_t *v)
{
	return json_is_string(v);
}

static bool is_texts(const json_t *v)
{
	const json_t *item;
	size_t i;
	bool good = json_is_array(v);

	json_array_foreach(v, i, item)
		good &= json_is_string(item);
	return good && json_array_size(v) > 0;
}

static bool is_path(const json_t *v)
{
	return json_is_string(v) && json_string_value(v)[0] == '/';
}

static bool is_variables(const json_t *v)
{
	const json_t *item;
	size_t i;
	bool good = is_texts(v);

	json_array_foreach(v, i, item) {
		const char *text = json_string_value(item);
		const char *equals = good ? strchr(text, '=') : NULL;

		good = equals && equals > text;
	}
	return good;
}

static bool is_port(const char *key)
{
	const char *slash = strchr(key, '/');
	uint64_t port;

	return slash && (streq(slash, "/tcp") || streq(slash, "/udp")) &&
	       parse_u64_n(key, (size_t)(slash - key), 1, 65535, &port) == 0;
}

static bool is_ports(const json_t *v)
{
	const char *key;
	json_t *item;
	bool good = json_is_object(v);

	json_object_foreach((json_t *)(uintptr_t)v, key, item)
		good &= is_port(key) && json_is_object(item) && json_object_size(item) == 0;
	return good;
}

static bool is_volumes(const json_t *v)
{
	const char *key;
	json_t *item;
	bool good = json_is_object(v);

	json_object_foreach((json_t *)(uintptr_t)v, key, item)
		good &= key[0] == '/' && json_is_object(item) && json_object_size(item) == 0;
	return good;
}

static bool is_labels(const json_t *v)
{
	const char *key;
	json_t *item;
	bool good = json_is_object(v);

	json_object_foreach((json_t *)(uintptr_t)v, key, item)
		good &= key[0] && json_is_string(item);
	return good;
}

static bool is_health(const json_t *v)
{
	static const char *const numbers[] = {"Interval", "Timeout", "StartPeriod", "Retries"};
	const char *key;
	json_t *item;
	bool good = json_is_object(v) && is_texts(json_object_get(v, "Test"));

	json_object_foreach((json_t *)(uintptr_t)v, key, item) {
		bool known = streq(key, "Test");

		for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
			known |= streq(key, numbers[i]) && json_is_integer(item) &&
				 json_integer_value(item) > 0;
		good &= known;
	}
	return good;
}

static const struct {
	const char *name;
	bool (*is_good)(const json_t *v);
	const char *form;
} members[] = {
    {"Entrypoint", is_texts, "a list of texts"},
    {"Cmd", is_texts, "a list of texts"},
    {"Env", is_variables, "a list of NAME=VALUE"},
    {"User", is_text, "a text"},
    {"WorkingDir", is_path, "an absolute path"},
    {"StopSignal", is_text, "a text"},
    {"ExposedPorts", is_ports, "an object such as {\"8181/tcp\": {}}"},
    {"Volumes", is_volumes, "an object such as {\"/var/lib/x\": {}}"},
    {"Labels", is_labels, "an object of texts"},
    {"Healthcheck", is_health,
     "an object with Test, and Interval, Timeout, StartPeriod, Retries as numbers"},
};

static int check(const char *file, const json_t *doc, struct err *e)
{
	const char *key;
	json_t *value;

	if (!json_is_object(doc))
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "%.200s: no JSON object", file);
	json_object_foreach((json_t *)(uintptr_t)doc, key, value) {
		size_t i = 0;

		while (i < ARRAY_SIZE(members) && !streq(members[i].name, key))
			i++;
		if (i == ARRAY_SIZE(members))
			return err_set(e, ERR_INVALID_ARGUMENT, 0, "%.200s: '%.64s' is not known",
				       file, key);
		if (!members[i].is_good(value))
			return err_set(e, ERR_INVALID_ARGUMENT, 0, "%.200s: %s is %s", file,
				       members[i].name, members[i].form);
	}
	return 0;
}

int image_start_read(const char *file, json_t **ret, struct err *e)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(START_FILE_MAX);
	_cleanup_fd_ int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	json_t *doc = NULL;
	json_error_t why = {0};

	int r = fd < 0 ? -errno : fd_read_file(fd, &b);

	if (r < 0)
		return err_set(e, ERR_INVALID_ARGUMENT, -r, "cannot read %.200s", file);
	r = jsonio_read(buf_str(&b), b.len, JSON_REJECT_DUPLICATES, &doc, &why);
	if (r == -ENOMEM)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "reading %.200s", file);
	if (r < 0)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "%.200s, line %d: %s", file, why.line,
			       why.text);
	r = check(file, doc, e);
	if (r < 0) {
		json_decref(doc);
		return r;
	}
	*ret = doc;
	return 0;
}
