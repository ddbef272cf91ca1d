/* SPDX-License-Identifier: Apache-2.0 */
/* What a file is, as far as sandbox_read_file has to know. Private to this folder. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum file_kind {
	KIND_TEXT,
	KIND_PICTURE, /* as clients show it */
	KIND_RASTER,
	KIND_SVG,
	KIND_PDF,
	KIND_OTHER,
};

/* By its first LEN bytes DATA, and its name. */
enum file_kind file_kind_of(const char *path, const uint8_t *data, size_t len);
/* What to read it with in Python, by its name. */
const char *file_reader(const char *path);
