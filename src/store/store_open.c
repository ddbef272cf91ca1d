/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes a store: the file and its mode. */
#include "store/replica.h"

#include "base/fdio.h"
#include "base/rand.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>

#define AUDIT_KEEP   UINT64_C(1000000)
#define CELLS_KEEP   UINT64_C(10000)
#define CELLS_BYTES  (UINT64_C(64) << 20)
#define CELLS_TOTAL  (UINT64_C(1) << 30)
#define RUNS_KEEP    UINT64_C(100000)
#define PASSWORD_MIN 8u
#define FILE_MODE    0600
#define DIR_MODE     0755

/* ---- the file ---- */

/* Creates the folder of PATH and resolves links in it. SQLite is told to follow none. */
static int resolve(const char *path, char ret[PATH_MAX], struct err *e)
{
	char folder[PATH_MAX], name[PATH_MAX], real[PATH_MAX];

	if (text_copy(folder, sizeof(folder), path) < 0 || text_copy(name, sizeof(name), path) < 0)
		return err_set(e, ERR_STORE_FAILED, ENAMETOOLONG, "%s", path);
	const char *parent = dirname(folder);
	int r = fd_make_dirs(parent, DIR_MODE);
	if (r < 0)
		return err_set(e, store_err_of(-r), -r, "%s", parent);
	if (!realpath(parent, real))
		return err_set(e, ERR_STORE_FAILED, errno, "%s", parent);
	int n = snprintf(ret, PATH_MAX, "%s/%s", streq(real, "/") ? "" : real, basename(name));
	return n > 0 && n < PATH_MAX ? 0 : err_set(e, ERR_STORE_FAILED, ENAMETOOLONG, "%s", path);
}

/* Creates the file with mode 0600; -wal and -shm, which SQLite creates, get the same mode. A file that
 * exists is not opened here: closing it again would drop the POSIX locks that this process may have on
 * it. */
static int prepare_file(const char *path, struct err *e)
{
	struct stat st;
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);

	if (fd >= 0) {
		(void)fd_close(fd);
		return 0;
	}
	if (errno != EEXIST)
		return err_set(e, store_err_of(errno), errno, "%s", path);
	if (lstat(path, &st) < 0)
		return err_set(e, ERR_STORE_FAILED, errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_STORE_FAILED, 0, "%s is not a file", path);
	if ((st.st_mode & 0077) != 0 && chmod(path, FILE_MODE) < 0)
		return err_set(e, ERR_STORE_FAILED, errno, "%s can be read by others", path);
	return 0;
}

/* SQLite does not always say why it cannot create -wal and -shm, so look at the folder. */
static void say_read_only(const char *path, struct err *e)
{
	char folder[PATH_MAX];

	if (e->code != ERR_STORE_FAILED || text_copy(folder, sizeof(folder), path) < 0 ||
	    access(dirname(folder), W_OK) == 0)
		return;
	e->code = store_err_of(errno);
}

/* ---- life ---- */

/* With a copy for the loop. The secret of keys has to be there before two servers make two. */
static int open_copied(struct store *s, struct err *e)
{
	uint8_t digest[STORE_SECRET_BYTES];
	int r = helper_open(s, NULL, e);

	r = r < 0 ? r : replica_open(s, &s->config, e);
	r = r < 0 ? r : store_digest(s, "", digest, e);
	return r < 0 ? r : reads_open(NULL, &s->config, &s->reads, e);
}

/* FILE: of the database; NULL: it is none. */
static int open_all(struct store *s, const char *file, struct err *e)
{
	if (s->config.copied && s->config.address)
		return open_copied(s, e);
	int r = db_open(&s->db, file, &s->config, e);

	r = r < 0 ? r : store_migrate(&s->db, file, &s->config, e);
	r = r < 0 ? r : helper_open(s, file, e);
	return r < 0 ? r : reads_open(file, &s->config, &s->reads, e);
}

int store_open(const struct store_config *config, struct store **ret, struct err *e)
{
	char path[PATH_MAX];

	if (sodium_init() < 0)
		return err_set(e, ERR_SYSTEM, 0, "libsodium does not start");
	int r = resolve(config->path, path, e);
	r = r < 0 || config->address ? r : prepare_file(path, e);
	if (r < 0)
		return r;
	struct store *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the store");
	list_init(&s->readers);
	hashes_open(s);
	s->config = *config;
	s->config.path = NULL; /* it was borrowed for this call only */
	s->config.password_min =
	    config->password_min ? MAX(config->password_min, STORE_PASSWORD_MIN) : PASSWORD_MIN;
	s->config.keys_each =
	    config->keys_each ? config->keys_each : budget_default(BUDGET_KEYS).each;
	s->config.keys_total =
	    config->keys_total ? config->keys_total : budget_default(BUDGET_KEYS).total;
	s->config.cells_keep = config->cells_keep ? config->cells_keep : CELLS_KEEP;
	s->config.cells_bytes = config->cells_bytes ? config->cells_bytes : CELLS_BYTES;
	s->config.cells_total = config->cells_total ? config->cells_total : CELLS_TOTAL;
	s->config.runs_keep = config->runs_keep ? config->runs_keep : RUNS_KEEP;
	s->config.audit_keep = config->audit_keep ? config->audit_keep : AUDIT_KEEP;
	s->helper.event_fd = -1;
	s->running.fd = -1;
	s->path = strdup(path);
	if (!s->path) {
		(void)store_close(s);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the store");
	}
	r = open_all(s, config->address ? NULL : path, e);
	s->config.address = NULL; /* so was this */
	if (r < 0) {
		(void)store_close(s);
		if (config->address)
			return r;
		say_read_only(path, e);
		return err_wrap(e, "%s", path);
	}
	*ret = s;
	return 0;
}

struct store *store_close(struct store *s)
{
	if (!s)
		return NULL;
	store_cancel_passwords(s);
	replica_close(s);
	helper_close(s);
	s->answers = sd_event_source_disable_unref(s->answers);
	db_close(&s->db);
	running_close(s);
	s->reads = reads_unref(s->reads);
	free(s->path);
	sodium_memzero(s->pepper, sizeof(s->pepper));
	free(s);
	return NULL;
}
