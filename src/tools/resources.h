/* SPDX-License-Identifier: Apache-2.0 */
/* Private to this folder; tools.h has the public part. */
#pragma once

#include "tools/common.h"

struct resources;

struct resources *resources_free(struct resources *res); /* NULL is fine */
