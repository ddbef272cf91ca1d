/* SPDX-License-Identifier: Apache-2.0 */
/* Private to this folder; tools.h has the public part. */
#pragma once

#include "tools/common.h"

/* The page that shows results to a person, in clients with MCP Apps. */
#define TOOLS_VIEW_URI "ui://caisson/results"

struct resources;

/* Appends the URI of the file PATH in the workspace of the sandbox ID. */
int resources_add_uri(struct buf *b, const char *id, const char *path) MUST_CHECK;
struct resources *resources_free(struct resources *res); /* NULL is fine */
