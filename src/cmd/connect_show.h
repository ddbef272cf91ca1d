/* SPDX-License-Identifier: Apache-2.0 */
/* What `caisson connect` prints. Bytes of files are escaped, so that none of them moves the cursor. */
#pragma once

#include "connect/connect.h"

/* One line of the list: a client that is here. */
void connect_show_client(const struct client *c, const char *path, bool unreadable,
			 enum entry_state state);
void connect_show_end(size_t n);
/* Whose files are written if somebody became root with sudo. */
void connect_show_sudo(void);
/* The lines that go and that come. KEY (NULL: none) is not shown. OTHER: an entry of somebody else is replaced. */
void connect_show_change(const struct client *c, const struct connect_file *file,
			 const struct buf *after, bool other, const char *key);
void connect_show_same(const struct client *c, const char *path, bool undo);
void connect_show_done(const struct client *c, const struct connect_file *file, bool backup);
/* To standard error: what to paste into the file PATH. */
void connect_show_snippet(const char *path, const struct buf *snippet);
