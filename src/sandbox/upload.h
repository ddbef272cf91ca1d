/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a file of which all bytes are there already. file_writer.h is for bytes that still arrive. */
#pragma once

#include "sandbox/sandbox.h"

/* Where the bytes of an upload come from: memory, or a place in a file (pread). Both stay valid
 * until the end of the upload. */
struct upload_source {
	const char *data; /* or NULL */
	int fd;
	uint64_t off;
	uint64_t len;
};
struct upload_request {
	const char *path;
	bool overwrite;
	struct upload_source source;
	/* WRITTEN: size of the file. FILE_EXISTS, NO_SPACE ... */
	void (*on_done)(uint64_t written, const struct err *e, void *user);
	void *user;
};
/* Writes a file. It gets its name when it is complete, or never. A few MiB are written per turn of
 * the event loop. */
int sandbox_upload(struct sandbox *s, const struct upload_request *request,
		   struct err *e) MUST_CHECK;
