/* SPDX-License-Identifier: Apache-2.0 */
/* What pages of other origins may send to the routes of MCP, and read of their answers. The transport has these routes, and in a fleet
 * the router. */
#pragma once

#include "http/http.h"

/* As request.c lists the methods of /mcp. */
#define MCP_ALLOW "GET, HEAD, POST, DELETE, OPTIONS"

/* Adds what an answer to REQ needs, if its Origin is allowed. */
void cors_add(struct http_request *req);
/* Answers OPTIONS: the methods, the headers of the protocol, and those Mcp-Param-* that the browser asks for. */
void cors_options(struct http_request *req, void *unused);
