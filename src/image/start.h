/* SPDX-License-Identifier: Apache-2.0 */
/* How a container of an exported image starts: a JSON object with members of an image configuration,
 * as `docker inspect` shows them under Config. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <jansson.h>

#define START_FILE_MAX (64u << 10)

/* Reads FILE into *RET, a new object: Entrypoint, Cmd and Env (texts), User, WorkingDir and StopSignal
 * (text), ExposedPorts ("8181/tcp"), Volumes (absolute paths) and Labels (objects), and Healthcheck
 * (Test, and Interval, Timeout, StartPeriod and Retries as numbers). Any other member, and any value of
 * another form, is ERR_INVALID_ARGUMENT with the name of the member. */
int image_start_read(const char *file, json_t **ret, struct err *e) MUST_CHECK;
