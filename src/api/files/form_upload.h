/* SPDX-License-Identifier: Apache-2.0 */
/* Several files in one multipart/form-data request. The bytes of each part go straight into a nameless file of the sandbox. When
 * the whole form has come and is good, the files get their names one after the other, in the order of the form; until
 * then nothing of it is visible. */
#pragma once

#include "http/http.h"
#include "http/multipart.h"
#include "sandbox/sandbox.h"

struct form_written {
	const char *path; /* of the engine */
	uint64_t size;
};

struct form_upload_request {
	struct http_request *req; /* its row streams the body; nothing of it has been read */
	struct sandbox *sandbox;
	unsigned how;       /* bits ENGINE_FILE_* */
	uint64_t max_bytes; /* of all files together */
	/* Where PART goes: RET has ENGINE_PATH_MAX bytes. */
	int (*path)(const struct multipart_part *part, char *ret, void *user, struct err *e);
	/* The client has left. When the form is complete the files are made all the same, and DONE follows; before that
	 * DONE follows with CANCELLED. */
	void (*gone)(void *user);
	/* The end, called once after form_upload_begin() has succeeded: those that have their names, and E (NULL: all). */
	void (*done)(const struct form_written *files, unsigned n, const struct err *e, void *user);
	void *user;
};

/* Takes the on_gone of the request, until DONE. Errors of the head of the form are told here, and DONE is not called. */
int form_upload_begin(const struct form_upload_request *q, struct err *e) MUST_CHECK;
