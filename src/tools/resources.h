/* SPDX-License-Identifier: Apache-2.0 */
/* For this folder alone; tools.h has what others call. */
#pragma once

#include "tools/common.h"

struct resources;

struct resources *resources_free(struct resources *res); /* NULL is fine */
