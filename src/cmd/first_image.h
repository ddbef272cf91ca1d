/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "app/app.h"

/* Downloads the image of A's sandboxes if it is missing and SANDBOX_IMAGE_SOURCE is set, and waits for that. Progress
 * and errors of the download go to standard error. Call it before app_begin(). */
int first_image(const struct app *a, struct err *e) MUST_CHECK;
