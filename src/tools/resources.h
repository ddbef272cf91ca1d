/* SPDX-License-Identifier: Apache-2.0 */
/* Private to this folder; tools.h has the public part. */
#pragma once

#include "tools/common.h"

/* The page that shows results to a person, in clients with MCP Apps. */
#define TOOLS_VIEW_URI "ui://caisson/results"

struct resources;

struct resources *resources_free(struct resources *res); /* NULL is fine */
