/* SPDX-License-Identifier: Apache-2.0 */
#include "image/unpack.h"

#include <limits.h>
#include <string.h>

int unpack_clean_name(const char *name, char *ret, size_t size)
{
	size_t out = 0;
	unsigned depth = 0;

	if (name[0] == '/')
		return -EINVAL;
	while (*name) {
		size_t n = strcspn(name, "/");
		bool dot = n == 1 && name[0] == '.';

		if ((n == 0 && name[0] != '/') || n > NAME_MAX ||
		    (n == 2 && name[0] == '.' && name[1] == '.'))
			return -EINVAL;
		if (n > 0 && !dot) {
			if (++depth > UNPACK_DEPTH_MAX || out + n + 2 > size)
				return -EINVAL;
			if (out > 0)
				ret[out++] = '/';
			memcpy(ret + out, name, n);
			out += n;
		}
		name += n;
		while (*name == '/')
			name++;
	}
	ret[out] = '\0';
	return 0;
}
