/* SPDX-License-Identifier: Apache-2.0 */
/* The prompts that a person can choose in the client. */
#include "tools/common.h"

#include "base/text.h"

#include <string.h>

#define TEXT_MAX_BYTES 16384
#define ARG_MAX_BYTES  4000

const char tools_classic_instructions[] =
    "Python sandboxes that keep their files between calls. Work in this order:\n"
    "1. list_sandboxes, and go on in one that fits; otherwise create_sandbox. Use its sandbox_id "
    "in "
    "every call.\n"
    "2. Before code imports a package: check_package_installation_status. When it is missing, "
    "install_package_in_sandbox, and ask for the status again until it says success or failed.\n"
    "3. Files of the person's machine come in by upload_file_to_sandbox.\n"
    "4. execute_python_code with a whole script: each call starts a fresh interpreter. Print what "
    "you "
    "want to see, save files in the working folder (/app/results). execute_terminal_command is for "
    "a look around.\n"
    "5. When exit_code is not 0, read stderr, correct the code and run it again in the same "
    "sandbox.\n"
    "6. Give the person the file_links of the result.";

struct prompt_row {
	const char *name;
	const char *title;
	const char *description;
	const struct mcp_prompt_arg *args;
	size_t n_args;
	/* The text. {ARG} stands for an argument; an argument that was left out reads ABSENT. */
	const char *text;
};

static const struct mcp_prompt_arg analyse_args[] = {
    {"file", "File", "Name of the data file in /mnt/data, or what the data is", true},
    {"question", "Question", "What should be found out", false},
    {"packages", "Packages", "Packages that should be used", false},
    {"session_id", "Session", "The session that has the file", false},
};

static const struct mcp_prompt_arg debug_args[] = {
    {"error", "Error", "The traceback or what goes wrong", true},
    {"code", "Code", "The code that fails", false},
    {"session_id", "Session", "The session in which it failed", false},
};

static const struct mcp_prompt_arg report_args[] = {
    {"topic", "Topic", "What the report is about", true},
    {"format", "Format", "pdf, xlsx or md", false},
    {"packages", "Packages", "Packages that should be used", false},
    {"session_id", "Session", "The session that has the data", false},
};

static const struct prompt_row rows[] = {
    {
	.name = "analyse_data_file",
	.title = "Analyse a data file",
	.description = "Look at a data file step by step, with charts.",
	.args = analyse_args,
	.n_args = ARRAY_SIZE(analyse_args),
	.text =
	    "Analyse the data file {file} in the sandbox (session_id: {session_id}). The question: "
	    "{question}. Packages to use: {packages}.\n\n"
	    "1. Look before you compute: its size, columns, types, missing values, the first "
	    "rows.\n"
	    "2. Say what is odd about the data and how you deal with it.\n"
	    "3. Compute what answers the question; print small tables, not whole frames.\n"
	    "4. Save one or two charts as PNG in /mnt/data, with labelled axes.\n"
	    "5. Answer in a few sentences with the numbers that carry them, and name the files.",
    },
    {
	.name = "debug_error",
	.title = "Debug an error",
	.description = "Reproduce an error in the sandbox, find its cause, and mend it.",
	.args = debug_args,
	.n_args = ARRAY_SIZE(debug_args),
	.text = "Something fails (session_id: {session_id}):\n\n{error}\n\nThe code: {code}\n\n"
		"1. Reproduce it in the sandbox with the smallest piece of code that still fails.\n"
		"2. Find the cause; check what you assume by running it.\n"
		"3. Mend it, run it, and run one case more that could fail the same way.\n"
		"4. Say what the cause was and show the change.",
    },
    {
	.name = "make_report",
	.title = "Make a report",
	.description = "Turn data of a session into a report that can be handed on.",
	.args = report_args,
	.n_args = ARRAY_SIZE(report_args),
	.text =
	    "Make a report about {topic} from the files of the sandbox (session_id: {session_id}), "
	    "as "
	    "{format}. Packages to use: {packages}.\n\n"
	    "1. List the files and decide which of them matter.\n"
	    "2. Compute the figures; check each total a second way.\n"
	    "3. Make the charts, then the report with a summary first, figures and charts after it "
	    "(reportlab for pdf, openpyxl for xlsx).\n"
	    "4. Open the result once more with code to see that it is complete.\n"
	    "5. Give the link of the report and its main findings in three sentences.",
    },
};

static const struct {
	const char *name;
	const char *text;
} absent[] = {
    {"session_id", "none yet, a new one"},
    {"question", "what is worth knowing in it"},
    {"code", "not given"},
    {"format", "pdf"},
    {"packages", "what the sandbox has"},
};

static const char *value_of(const json_t *arguments, const char *name, size_t len)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)arguments, key, value)
		if (strlen(key) == len && memcmp(key, name, len) == 0 &&
		    json_string_length(value) > 0)
			return json_string_value(value);
	for (size_t i = 0; i < ARRAY_SIZE(absent); i++)
		if (strlen(absent[i].name) == len && memcmp(absent[i].name, name, len) == 0)
			return absent[i].text;
	return "";
}

static int fill_in(struct buf *b, const char *text, const json_t *arguments)
{
	int r = 0;

	while (*text && r == 0) {
		size_t plain = strcspn(text, "{");
		r = buf_add(b, text, plain);
		text += plain;
		if (*text != '{')
			continue;
		size_t len = strcspn(text + 1, "}");
		const char *value = value_of(arguments, text + 1, len);
		r = r < 0 ? r
			  : buf_add(b, value, text_utf8_cut(value, strlen(value), ARG_MAX_BYTES));
		text += len + 2;
	}
	return r;
}

static void get_prompt(struct mcp_call *call, json_t *arguments, void *user)
{
	const struct prompt_row *row = user;
	_cleanup_(buf_done) struct buf b = BUF_INIT(TEXT_MAX_BYTES);

	if (fill_in(&b, row->text, arguments) < 0) {
		mcp_call_finish(call, NULL);
		return;
	}
	mcp_call_finish(
	    call, mcp_prompt_result(
		      row->description,
		      json_pack("[o]", mcp_prompt_message("user", mcp_text(buf_str(&b), b.len)))));
}

int tools_add_prompts(struct tools *t, struct mcp_server *server, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct mcp_prompt prompt = {
		    .name = rows[i].name,
		    .title = rows[i].title,
		    .description = rows[i].description,
		    .args = rows[i].args,
		    .n_args = rows[i].n_args,
		    .get = get_prompt,
		    .user = (void *)(uintptr_t)&rows[i],
		};
		int r = mcp_server_add_prompt(server, &prompt, e);
		if (r < 0)
			return r;
	}
	mcp_server_set_completer(server, tools_complete, t);
	return 0;
}
