/* SPDX-License-Identifier: Apache-2.0 */
/* The run's side of the output tail (base/output_tail.h): the last bytes of standard output stay in
 * memory that is shared with the reader of the pipe.
 *
 * The order of output is kept wherever a program can observe it. Before the process starts a
 * program or forks, the tail is written to the pipe and not used again: two processes print in
 * order only if both write to the pipe. The same happens if descriptor 1 is no longer the file that
 * it was at the start of the run. This is checked each time before the tail is opened, and flush()
 * closes the tail. So a program that flushes before it redirects the descriptor gets the right
 * order. */
#include "extension.h"
#include "old_libc.h"

#include "base/output_tail.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CHUNK_BYTES 4096u  /* PIPE_BUF: such a write is atomic, pipe(7) */
#define WAIT_NS     50000L /* pause while the reader or another thread holds the tail */

/* In every version since 3.8, but not part of the limited API. */
extern int PySys_AddAuditHook(int (*hook)(const char *, PyObject *, void *), void *user);

static struct {
	struct output_tail *map; /* NULL = there is no tail, or it is not used again */
	struct output_tail *
	    mapped; /* stays mapped, because threads may still use it: the next cell maps its own here */
	int *own;  /* 1 in the run's first process, 0 in its forks (MADV_WIPEONFORK) */
	dev_t dev; /* device and inode of descriptor 1 at the start */
	ino_t ino;
} tail;

static struct output_tail *usable(void)
{
	return tail.map && *tail.own ? tail.map : NULL;
}

/* Takes the tail and returns its former state. OPEN: the tail is BUSY now and belongs to the
 * caller. CLOSED: it was not taken. The caller must not hold the tail already. Who has it keeps it
 * for microseconds, or while it writes to the pipe; it needs no interpreter lock to release it. */
static uint32_t hold(struct output_tail *t)
{
	const struct timespec wait = {.tv_nsec = WAIT_NS};

	for (;;) {
		uint32_t state = OUTPUT_TAIL_OPEN;
		if (atomic_compare_exchange_strong(&t->state, &state, OUTPUT_TAIL_BUSY) ||
		    state == OUTPUT_TAIL_CLOSED)
			return state;
		(void)nanosleep(&wait, NULL);
	}
}

/* Writes the tail to the pipe. A signal does not interrupt it: its handler may print. Returns 0 or
 * a positive errno. */
static int drain(struct output_tail *t, int fd)
{
	uint32_t at = 0;
	uint32_t len = t->len <= OUTPUT_TAIL_ROOM ? t->len : 0;
	int errnum = 0;

	while (at < len && errnum == 0) {
		uint32_t left = len - at;
		ssize_t n = write(fd, t->bytes + at, left < CHUNK_BYTES ? left : CHUNK_BYTES);
		if (n < 0 && errno != EINTR)
			errnum = errno;
		at += n > 0 ? (uint32_t)n : 0;
		atomic_store(&t->at, at);
	}
	atomic_store(&t->len, 0);
	atomic_store(&t->at, 0);
	return errnum;
}

/* Writes the tail to the pipe and closes it, without using the interpreter. Returns 0 or a positive
 * errno. */
static int flush(int fd)
{
	struct output_tail *t = usable();

	if (!t || hold(t) == OUTPUT_TAIL_CLOSED)
		return 0;
	int errnum = drain(t, fd);
	atomic_store(&t->state, OUTPUT_TAIL_CLOSED);
	return errnum;
}

static int raise_if(int errnum)
{
	if (errnum == 0)
		return 0;
	errno = errnum;
	(void)PyErr_SetFromErrno(PyExc_OSError);
	return -1;
}

int tail_flush(void)
{
	int errnum;

	if (!usable())
		return 0;
	Py_BEGIN_ALLOW_THREADS errnum = flush(STDOUT_FILENO);
	Py_END_ALLOW_THREADS return raise_if(errnum);
}

void tail_end(void)
{
	(void)flush(STDOUT_FILENO);
	tail.map = NULL;
}

static int is_same_pipe(void)
{
	struct stat st;

	return old_fstat(STDOUT_FILENO, &st) == 0 && st.st_dev == tail.dev && st.st_ino == tail.ino;
}

/* The bytes in the pipe wake the reader, which looks at the tail a while later. So the tail must be open
 * before they are written: if this process did not get the processor for that while, a tail that opens
 * afterwards would be filled, and nobody would look. */
static int open_and_write(struct output_tail *t, const char *bytes, size_t len)
{
	uint32_t closed = OUTPUT_TAIL_CLOSED;

	if (!is_same_pipe())
		tail_end();
	else
		(void)atomic_compare_exchange_strong(&t->state, &closed, OUTPUT_TAIL_OPEN);
	if (write_all(STDOUT_FILENO, bytes, len) == 0)
		return 0;
	/* Nothing may have reached the pipe, and another thread may have used the open tail. */
	Py_BEGIN_ALLOW_THREADS(void) flush(STDOUT_FILENO);
	Py_END_ALLOW_THREADS return -1;
}

/* The tail is full: write it to the pipe, then keep the new bytes in it if they fit. */
static int write_full(struct output_tail *t, const char *bytes, size_t len)
{
	int errnum;

	Py_BEGIN_ALLOW_THREADS errnum = drain(t, STDOUT_FILENO);
	if (errnum == 0 && len <= OUTPUT_TAIL_ROOM) {
		memcpy(t->bytes, bytes, len);
		atomic_store(&t->len, (uint32_t)len);
		len = 0;
	}
	atomic_store(&t->state, OUTPUT_TAIL_OPEN);
	Py_END_ALLOW_THREADS if (errnum != 0) return raise_if(errnum);
	return len > 0 ? write_all(STDOUT_FILENO, bytes, len) : 0;
}

int tail_write(int fd, const char *bytes, size_t len)
{
	struct output_tail *t = fd == STDOUT_FILENO ? usable() : NULL;

	if (!t || len == 0)
		return write_all(fd, bytes, len);
	if (hold(t) == OUTPUT_TAIL_CLOSED)
		return open_and_write(t, bytes, len);
	uint32_t at = atomic_load_explicit(&t->len, memory_order_relaxed);
	if (at > OUTPUT_TAIL_ROOM || len > OUTPUT_TAIL_ROOM - at)
		return write_full(t, bytes, len);
	memcpy(t->bytes + at, bytes, len);
	atomic_store_explicit(&t->len, at + (uint32_t)len, memory_order_relaxed);
	atomic_store_explicit(&t->state, OUTPUT_TAIL_OPEN, memory_order_release);
	return 0;
}

/* ---- other processes ---- */

/* Audit events of calls that start a program without fork(3); subprocess uses vfork(2). */
static int on_audit(const char *event, PyObject *args, void *user)
{
	static const char *const names[] = {"subprocess.Popen", "os.system", "os.posix_spawn",
					    "os.exec"};

	(void)args;
	(void)user;
	if (!tail.map || (event[0] != 's' && event[0] != 'o'))
		return 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(event, names[i]) == 0)
			tail_end();
	return 0;
}

static void before_fork(void)
{
	if (usable())
		tail_end();
}

int tail_watch(void)
{
	return PySys_AddAuditHook(on_audit, NULL) == 0 &&
		       pthread_atfork(before_fork, NULL, NULL) == 0
		   ? 0
		   : -1;
}

void tail_begin(int fd)
{
	struct stat st;
	void *own = tail.own;

	tail.map = NULL;
	if (!own)
		own = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	if (own == MAP_FAILED || madvise(own, sizeof(int), MADV_WIPEONFORK) < 0 ||
	    old_fstat(STDOUT_FILENO, &st) < 0)
		return; /* no tail: output goes to the pipe at once */
	tail.own = own;
	void *map = mmap(tail.mapped, OUTPUT_TAIL_BYTES, PROT_READ | PROT_WRITE,
			 MAP_SHARED | (tail.mapped ? MAP_FIXED : 0), fd, 0);
	if (map == MAP_FAILED)
		return;
	tail.dev = st.st_dev;
	tail.ino = st.st_ino;
	tail.map = tail.mapped = map;
	*tail.own = 1;
}
