/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/api: a row of the history as text, as part of a file. On a thread: neither jansson nor anything of the loop.
 *
 * Everything comes from tenants: text is escaped, pictures are data: URLs of a few types, and HTML files are named but not
 * included. */
#pragma once

#include "base/buf.h"
#include "store/store.h"

#define MARKDOWN_KIND "markdown" /* `kind` of a cell that somebody wrote (rest_markdown.c) */

enum history_form {
	HISTORY_NOTEBOOK, /* a cell of Jupyter (nbformat 4.5) */
	HISTORY_PAGE,     /* a section of HTML */
	HISTORY_CELL,     /* an object of JSON, as REST has it */
};

/* Appends CELL. READING has its files. -ENOMEM, -ENOBUFS. */
int history_text_add(struct buf *b, enum history_form form, struct store *reading,
		     const struct store_cell *cell) MUST_CHECK;
/* Appends the name of its sandbox as it is now, not escaped; nothing if it has none. */
int history_text_name(struct buf *b, const struct store_cell *cell) MUST_CHECK;
/* Escapes TEXT for HTML, without the control sequences of terminals. */
int history_text_html(struct buf *b, const char *text) MUST_CHECK;
