/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the links of both families. For this folder alone. */
#pragma once

#include "api/files.h"

struct manager *links_manager(struct links *l);
/* Whose sandbox SESSION a link to PATH means: the local user's, or, where links are signed, that of
 * the owner that the signature was made for. False: it is not signed as it must be. RET has
 * SANDBOX_OWNER_MAX + 1 bytes. */
bool links_find_owner(struct links *l, struct http_request *req, const char *session,
		      const char *path, char *ret);

void links_get_sandbox_file(struct http_request *req, void *user);
