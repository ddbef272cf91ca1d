/* SPDX-License-Identifier: Apache-2.0 */
/* Private to this folder; tools.h has the public part. */
#pragma once

#include "tools/common.h"

/* The page that shows results to a person, in clients with MCP Apps. */
#define TOOLS_VIEW_URI "ui://caisson/results"

struct resources;

/* Appends the URI of the file PATH in the workspace of the sandbox ID. */
int resources_add_uri(struct buf *b, const char *id, const char *path) MUST_CHECK;
/* Which file URI is about. False: it is no file of a sandbox. */
bool resources_place(const char *uri, char id[SANDBOX_ID_MAX + 1], char path[ENGINE_PATH_MAX]);
struct resources *resources_free(struct resources *res); /* NULL is fine */
