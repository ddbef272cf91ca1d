/* SPDX-License-Identifier: Apache-2.0 */
/* The Python of a root file system, found without running anything in it. The tree may be hostile:
 * links are followed as if its root were "/", never out of it. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <limits.h>
#include <stdbool.h>

#define PYTHON_PLACE     "usr/bin/python3" /* where engines start it */
#define PYTHON_MINOR_MIN 9                 /* 3.9: runtime/README.md */
/* In an image without such a Python: sandboxes run commands alone. Init looks for it (runtime/init/run_start.c). */
#define PYTHON_NONE_FILE "no-python" /* in opt/caisson */

enum python_use { PYTHON_WARM, PYTHON_COLD, PYTHON_NONE };

struct python {
	char found[PATH_MAX]; /* the python3 that PATH finds, without a leading '/' */
	char real[PATH_MAX];  /* the file that it is in the end: usr/local/bin/python3.12 */
	unsigned minor;       /* 3.N; 0 = unknown */
};

/* Looks for python3 in the folders of PATH ("/usr/local/bin:/usr/bin"). -ENOENT: none. */
int python_find(int root, const char *path, struct python *ret) MUST_CHECK;

/* Makes PYTHON_PLACE the python3 that PATH (NULL or "" = the usual one) finds, and shows it the
 * packages of a virtual environment, if PATH finds that first. That Python compiles modules of the
 * workspace anew each time. ERR_IMAGE_UNSUITABLE: it is made for another machine. PYTHON_WARM: it can be loaded with our
 * extension, which is made for glibc. PYTHON_NONE: there is none, or it is too old; RET->minor is then what there is, or 0. */
int python_place(int root, const char *path, struct python *ret, enum python_use *ret_use,
		 struct err *e) MUST_CHECK;
