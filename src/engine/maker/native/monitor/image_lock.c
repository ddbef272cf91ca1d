/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of images in use. The code that replaces or removes an image respects them: src/image/image_store.h. */
#include "engine/maker/native/monitor/monitor.h"

#include "base/rand.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>

#define TRIES 20 /* a millisecond apart */

/* Whoever asks whether an image is in use holds the whole lock for a moment (image_store_is_used()). Whoever removes the image holds it
 * longer; by then its name leads nowhere. */
static int share(int fd, unsigned tries)
{
	for (unsigned i = 0; flock(fd, LOCK_SH | LOCK_NB) < 0; i++) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (i == tries)
			return -EBUSY;
		(void)poll(NULL, 0, 1);
	}
	return 0;
}

int image_lock_take(struct monitor *m, const char *root, struct image_lock **ret)
{
	_cleanup_fd_ int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct image_lock *unused = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	for (size_t i = 0; i < LOCKS_MAX; i++) {
		struct image_lock *l = &m->locks[i];
		if (l->users > 0 && l->dev == st.st_dev && l->ino == st.st_ino) {
			*ret = image_lock_ref(l);
			return 0;
		}
		if (l->users == 0)
			unused = l;
	}
	if (!unused)
		return -EMFILE;
	/* Nobody else is served meanwhile: so one image that stays locked gets this patience once a second. */
	const bool again = m->locked_dev == st.st_dev && m->locked_ino == st.st_ino &&
			   now_ns() - m->locked_ns < NS_PER_S;
	const int r = share(fd, again ? 0 : TRIES);
	if (r == -EBUSY && !again) {
		m->locked_dev = st.st_dev;
		m->locked_ino = st.st_ino;
		m->locked_ns = now_ns();
	}
	if (r < 0)
		return r;
	*unused =
	    (struct image_lock){.fd = TAKE_FD(fd), .users = 1, .dev = st.st_dev, .ino = st.st_ino};
	*ret = unused;
	return 0;
}

struct image_lock *image_lock_ref(struct image_lock *l)
{
	l->users++;
	return l;
}

struct image_lock *image_lock_unref(struct image_lock *l)
{
	if (l && --l->users == 0)
		l->fd = fd_close(l->fd);
	return NULL;
}
