/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/api: shared by the links of both families. */
#pragma once

#include "api/files/files.h"

struct manager *links_manager(struct links *l);
/* Finds the owner of the sandbox SESSION that a link to PATH means. That is the local user or, if
 * links are signed, the owner whom the signature was made for. Returns false if the signature is
 * missing or wrong. RET has SANDBOX_OWNER_MAX + 1 bytes. */
bool links_find_owner(struct links *l, struct http_request *req, const char *session,
		      const char *path, char *ret);

void links_get_sandbox_file(struct http_request *req, void *user);
