/* SPDX-License-Identifier: Apache-2.0 */
/* The digest of a definition: of its own file and of the scripts beside it. */
#include "image/def.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/parse.h"
#include "base/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>

_Static_assert(sizeof(((struct image_def *)0)->digest) == 2 * crypto_generichash_BYTES + 1,
	       "hex and NUL");

static int add_file(crypto_generichash_state *h, int dir, const char *name)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(IMAGE_DEF_SCRIPT_MAX);
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return 0;
	int r = fd_read_file(fd, &text);

	if (r < 0)
		return r;
	uint64_t len = text.len;

	(void)crypto_generichash_update(h, (const unsigned char *)name, strlen(name) + 1);
	(void)crypto_generichash_update(h, (const unsigned char *)&len, sizeof(len));
	(void)crypto_generichash_update(h, (const unsigned char *)buf_str(&text), text.len);
	return 0;
}

int image_def_digest(const char *folder, struct image_def *d)
{
	crypto_generichash_state h;
	unsigned char sum[crypto_generichash_BYTES];
	struct dirent **names = NULL;
	char own[IMAGE_NAME_MAX + 8];
	_cleanup_fd_ int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int n = dir >= 0 ? scandirat(dir, ".", &names, NULL, alphasort) : -1;
	int r = n < 0 ? -errno : 0;

	(void)snprintf(own, sizeof(own), "%s.conf", d->name);
	(void)crypto_generichash_init(&h, NULL, 0, sizeof(sum));
	for (int i = 0; i < n; i++) {
		const char *name = names[i]->d_name;

		/* The definitions of other images are not part of this one. */
		if (r >= 0 && name[0] != '.' &&
		    (!text_ends_with(name, ".conf") || streq(name, own)))
			r = add_file(&h, dir, name);
		free(names[i]);
	}
	free(names);
	if (r < 0)
		return r;
	(void)crypto_generichash_final(&h, sum, sizeof(sum));
	text_hex(sum, sizeof(sum), d->digest);
	return 0;
}

int image_def_digest_words(struct image_def *d)
{
	const struct image_words *const lists[] = {&d->packages, &d->index, &d->preloads};
	crypto_generichash_state h;
	unsigned char sum[crypto_generichash_BYTES];

	(void)crypto_generichash_init(&h, NULL, 0, sizeof(sum));
	(void)crypto_generichash_update(&h, (const unsigned char *)d->digest, sizeof(d->digest));
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		_cleanup_free_ char *joined = image_words_join(lists[i], ' ');

		if (!joined)
			return -ENOMEM;
		(void)crypto_generichash_update(&h, (const unsigned char *)joined,
						strlen(joined) + 1);
	}
	(void)crypto_generichash_final(&h, sum, sizeof(sum));
	text_hex(sum, sizeof(sum), d->digest);
	return 0;
}
