/* SPDX-License-Identifier: Apache-2.0 */
/* What is said about the arguments of a tool. Properties: there is a text exactly when they do not
 * fit, it is valid UTF-8 and bounded, and arguments that fit have the types that were asked for. */
#include "fuzz.h"

#include "base/buf.h"
#include "base/text.h"
#include "tools/args.h"
#include "tools/table.h"

#include <string.h>

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	static const struct tool_arg fields[] = {{"name", ARG_STRING, ARG_NULL, ""},
						 {.name = NULL}};
	static const struct tool_arg args[] = {
	    {"code", ARG_STRING, ARG_REQUIRED, ""},
	    {"session_id", ARG_STRING, ARG_NULL, ""},
	    {"overwrite", ARG_BOOL, 0, ""},
	    {"timeout_s", ARG_INT, ARG_NULL, "", .min = 1, .max = 60},
	    {"branches", ARG_OBJECTS, 0, "", .min = 1, .max = 2, .fields = fields},
	    {.name = NULL},
	};
	json_t *arguments =
	    json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	_cleanup_free_ char *text = NULL;

	if (!json_is_object(arguments)) {
		json_decref(arguments);
		return 0;
	}
	_cleanup_(buf_done) struct buf ignored = BUF_INIT(ARGS_IGNORED_MAX);
	json_t *taken = args_coerce(args, arguments, &ignored);
	const char *name;
	json_t *v;

	ASSERT(taken && text_is_utf8(buf_str(&ignored), ignored.len));
	json_object_foreach(taken, name, v)
		ASSERT(json_object_get(arguments, name));
	json_decref(taken);
	if (args_check("tool", args, arguments, &text)) {
		const json_t *id = json_object_get(arguments, "session_id");

		ASSERT(!text);
		ASSERT(json_is_string(json_object_get(arguments, "code")));
		ASSERT(!id || json_is_string(id) || json_is_null(id));
		char fault[ARGS_FAULT_SIZE] = "";
		const struct tool_arg *wrong = args_find_fault(args, arguments, fault);
		const json_t *seconds = json_object_get(arguments, "timeout_s");

		ASSERT(!wrong == !fault[0] && strlen(fault) < sizeof(fault));
		ASSERT(wrong || !json_is_integer(seconds) ||
		       (json_integer_value(seconds) >= 1 && json_integer_value(seconds) <= 60));
	} else {
		ASSERT(text && strlen(text) < 20000 && text_is_utf8(text, strlen(text)));
		ASSERT(strstr(text, "for call[tool]\n"));
	}
	json_decref(arguments);
	return 0;
}
