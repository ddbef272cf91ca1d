/* SPDX-License-Identifier: Apache-2.0 */
/* How sandboxes look to the SDKs. */
#pragma once

#include "faces/e2b/face.h"

/* New references; NULL: no memory. REQ (NULL: it is gone) tells below which domain its client finds the names of sandboxes. */
json_t *e2b_sandbox_json(const struct e2b_sandbox *s,
			 const struct http_request *req); /* Sandbox, with its tokens */
json_t *e2b_row_json(const struct e2b_sandbox *s);        /* ListedSandbox */
/* SandboxDetail; TOKEN: with the token of envd, which is for those who may use the sandbox. */
json_t *e2b_detail_json(const struct e2b_sandbox *s, const struct http_request *req, bool token);
