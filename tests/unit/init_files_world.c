/* SPDX-License-Identifier: Apache-2.0 */
#include "init_files_world.h"

#include <ftw.h>

struct init in;
uint32_t seq, last_put;
struct proto_init_filed answer;
int answer_fd;
char root[64];
int front;

static char base[32]; /* the folder of a test, with its places */
/* of the front of an inward sandbox: by number, from the first of the test */
static int uploads[4 * PROTO_PUTS_MAX];
static uint32_t first_seq;

void init_die(const char *why)
{
	fail_msg("init ended: %s", why);
	abort();
}

void init_send(struct init *i, const struct proto_head *frame, const int *fds, size_t n)
{
	assert_int_equal(fd_send(i->channel, frame, frame->size, fds, n, MSG_DONTWAIT),
			 frame->size);
}

static int make_place(const char *name)
{
	return mkdirat(in.root, name, 0755) < 0
		   ? -1
		   : openat(in.root, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

int set_up(void **state)
{
	int pair[2];

	(void)snprintf(base, sizeof(base), "/tmp/test_init_files.XXXXXX");
	if (!mkdtemp(base) || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	memset(&in, 0, sizeof(in));
	in.inward = *state != NULL;
	first_seq = seq;
	for (size_t i = 0; i < ARRAY_SIZE(uploads); i++)
		uploads[i] = -1;
	in.channel = pair[0];
	front = pair[1];
	in.root = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
	in.workspace = make_place("ws");
	in.tmp = make_place("tmp");
	in.home = make_place("home");
	(void)snprintf(root, sizeof(root), "%s/ws", base);
	in.proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return in.workspace < 0 || in.proc < 0 ? -1 : 0;
}

static int remove_one(const char *path, const struct stat *st UNUSED, int type UNUSED,
		      struct FTW *at UNUSED)
{
	return remove(path);
}

int tear_down(void **state UNUSED)
{
	(void)close(in.channel);
	(void)close(front);
	(void)close(in.workspace);
	(void)close(in.tmp);
	(void)close(in.home);
	(void)close(in.root);
	(void)close(in.proc);
	for (size_t i = 0; i < ARRAY_SIZE(uploads); i++)
		uploads[i] = fd_close(uploads[i]);
	return nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* What the front of an inward sandbox does: the file that goes with a request, -1 = none. */

static int *upload(uint32_t put)
{
	assert_in_range(put - first_seq, 0, ARRAY_SIZE(uploads) - 1);
	return &uploads[put - first_seq];
}

static int file_for(enum proto_file_op op)
{
	if (op == PROTO_FILE_COMMIT) {
		int fd = *upload(last_put);
		*upload(last_put) = -1;
		if (fd < 0) /* given up before */
			fd = memfd_create("nothing", MFD_CLOEXEC);
		assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
		return fd;
	}
	return op == PROTO_FILE_OPEN || op == PROTO_FILE_LIST || op == PROTO_FILE_STAT
		   ? memfd_create("file", MFD_CLOEXEC)
		   : -1;
}

static void file_back(enum proto_file_op op, int file)
{
	if (op == PROTO_FILE_PUT && answer.errnum == 0) {
		*upload(last_put) = memfd_create("upload", MFD_CLOEXEC);
		answer_fd = dup(*upload(last_put));
	} else if (op == PROTO_FILE_DROP) {
		*upload(last_put) = fd_close(*upload(last_put));
	} else if (op == PROTO_FILE_OPEN && answer.errnum == 0) {
		assert_int_equal(lseek(file, 0, SEEK_END), answer.bytes);
		assert_int_equal(lseek(file, 0, SEEK_SET), 0);
		answer_fd = file;
	} else if ((op == PROTO_FILE_LIST || op == PROTO_FILE_STAT) && answer.errnum == 0) {
		answer_fd = file;
	} else {
		(void)fd_close(file);
	}
}

int ask(enum proto_file_op op, const char *path, uint32_t flags)
{
	static struct proto_init_file f;
	int fds[FDIO_PASS_MAX];
	size_t n = 0;

	f = (struct proto_init_file){.seq = ++seq, .op = op, .flags = flags, .put = last_put};
	if (op == PROTO_FILE_PUT)
		last_put = seq;
	(void)snprintf(f.path, sizeof(f.path), "%s", path);
	const int file = in.inward ? file_for(op) : -1;
	if (files_handle(&in, &f, file) < 0)
		return -1;
	while (files_pending(&in))
		files_work(&in);
	assert_int_equal(fd_recv(front, &answer, sizeof(answer), fds, &n, MSG_DONTWAIT),
			 sizeof(answer));
	assert_int_equal(answer.seq, seq);
	answer_fd = n > 0 ? fds[0] : -1;
	assert_true(n <= 1 && (n == 0 || answer.errnum == 0));
	if (in.inward) {
		assert_int_equal(n, 0);
		file_back(op, file);
	}
	return answer.errnum;
}

void put(const char *path, const char *text)
{
	assert_int_equal(ask(PROTO_FILE_PUT, path, PROTO_FILE_OVERWRITE), 0);
	assert_int_equal(write(answer_fd, text, strlen(text)), strlen(text));
	(void)close(answer_fd);
	assert_int_equal(ask(PROTO_FILE_COMMIT, path, PROTO_FILE_OVERWRITE), 0);
}

void assert_content(const char *path, const char *want)
{
	char text[64] = "";

	assert_int_equal(ask(PROTO_FILE_OPEN, path, 0), 0);
	assert_int_equal(read(answer_fd, text, sizeof(text) - 1), strlen(want));
	assert_string_equal(text, want);
	(void)close(answer_fd);
}
