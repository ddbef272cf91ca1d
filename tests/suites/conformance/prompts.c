/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <string.h>

static json_t *user_says(json_t *content)
{
	return mcp_prompt_message("user", content);
}

static void simple(struct mcp_call *call, json_t *args, void *user)
{
	(void)args;
	(void)user;
	mcp_call_finish(
	    call,
	    mcp_prompt_result(
		NULL, mcp_blocks(1, user_says(mcp_textf("This is a simple prompt for testing.")))));
}

static void with_arguments(struct mcp_call *call, json_t *args, void *user)
{
	(void)user;
	mcp_call_finish(
	    call,
	    mcp_prompt_result(NULL, mcp_blocks(1, user_says(mcp_textf(
						      "Prompt with arguments: arg1='%s', arg2='%s'",
						      fixture_arg(call, args, "arg1", ""),
						      fixture_arg(call, args, "arg2", ""))))));
}

static void with_resource(struct mcp_call *call, json_t *args, void *user)
{
	static const char text[] = "Embedded resource content for testing.";
	const char *uri = fixture_arg(call, args, "resourceUri", "test://example-resource");
	json_t *resource = mcp_resource_text(uri, "text/plain", text, strlen(text));
	json_t *request = mcp_textf("Please process the embedded resource above.");

	(void)user;
	mcp_call_finish(call,
			mcp_prompt_result(NULL, mcp_blocks(2, user_says(mcp_embedded(resource)),
							   user_says(request))));
}

static void with_image(struct mcp_call *call, json_t *args, void *user)
{
	json_t *picture = mcp_image(fixture_png, strlen(fixture_png), "image/png");
	json_t *request = mcp_textf("Please analyze the image above.");

	(void)args;
	(void)user;
	mcp_call_finish(
	    call, mcp_prompt_result(NULL, mcp_blocks(2, user_says(picture), user_says(request))));
}

static const struct mcp_prompt_arg two_args[] = {
    {.name = "arg1", .description = "First test argument", .required = true},
    {.name = "arg2", .description = "Second test argument", .required = true},
};
static const struct mcp_prompt_arg uri_arg[] = {
    {.name = "resourceUri", .description = "The resource to embed", .required = true},
};

static const struct mcp_prompt rows[] = {
    {.name = "test_simple_prompt", .description = "Has no arguments", .get = simple},
    {.name = "test_prompt_with_arguments",
     .description = "Has two arguments",
     .args = two_args,
     .n_args = ARRAY_SIZE(two_args),
     .get = with_arguments},
    {.name = "test_prompt_with_embedded_resource",
     .description = "Embeds a resource",
     .args = uri_arg,
     .n_args = ARRAY_SIZE(uri_arg),
     .get = with_resource},
    {.name = "test_prompt_with_image", .description = "Has an image", .get = with_image},
};

static void complete(struct mcp_call *call, const struct mcp_completion *what, void *user)
{
	static const char *const words[] = {"test", "testing", "tester", "paris", "park"};
	json_t *values = json_array();

	(void)user;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strncmp(words[i], what->value, strlen(what->value)) == 0)
			json_array_append_new(values, json_string(words[i]));
	}
	mcp_call_finish(call,
			mcp_completion_result(values, (long long)json_array_size(values), false));
}

int fixture_add_prompts(struct fixture *f, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int r = mcp_server_add_prompt(f->server, &rows[i], e);

		if (r < 0)
			return r;
	}
	mcp_server_set_completer(f->server, complete, NULL);
	return 0;
}
