/* SPDX-License-Identifier: Apache-2.0 */
/* What is said about the arguments of a tool. Properties: there is a text exactly when they do not
 * fit, it is valid UTF-8 and bounded, and arguments that fit have the types that were asked for. */
#include "fuzz.h"

#include "base/text.h"
#include "tools/args.h"

#include <string.h>

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	static const struct arg_spec specs[] = {
	    {"code", ARG_STRING, true},
	    {"session_id", ARG_STRING_OR_NULL, false},
	    {"overwrite", ARG_BOOL, false},
	    {"timeout_s", ARG_INT_OR_NULL, false},
	};
	json_t *arguments =
	    json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	_cleanup_free_ char *text = NULL;

	if (!json_is_object(arguments)) {
		json_decref(arguments);
		return 0;
	}
	if (args_check("tool", specs, ARRAY_SIZE(specs), arguments, &text)) {
		const json_t *id = json_object_get(arguments, "session_id");

		ASSERT(!text);
		ASSERT(json_is_string(json_object_get(arguments, "code")));
		ASSERT(!id || json_is_string(id) || json_is_null(id));
	} else {
		ASSERT(text && strlen(text) < 20000 && text_is_utf8(text, strlen(text)));
		ASSERT(strstr(text, "for call[tool]\n"));
	}
	json_decref(arguments);
	return 0;
}
