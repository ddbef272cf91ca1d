/* SPDX-License-Identifier: Apache-2.0 */
/* The server's half of the image builder: orders, and what it knows of the last build. */
#include "app/image_builder.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/reap.h"
#include "base/text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define END_WAIT_NS    (3 * NS_PER_S)
#define LINES_MAX      300 /* of the output of a build; older ones are forgotten */
#define LINE_MAX_BYTES 400
#define PIECE_SIZE     4096
#define PIECES_AT_ONCE 16 /* as much as a pipe holds: other clients wait no longer */
#define STATUS_STOPPED 130
#define REASON_PREFIX  "caisson image: "

enum build_state {
	BUILD_BUILDING,
	BUILD_DOWNLOADING,
	BUILD_REMOVING,
	BUILD_STOPPING,
	BUILD_DONE,
	BUILD_FAILED,
	BUILD_CANCELLED,
};

struct build {
	const char *name; /* borrowed, of the list, or MADE; NULL: there was no build */
	char made[IMAGE_ORDER_REFERENCE];
	enum build_state state;
	uint32_t order; /* enum image_order */
	time_t began, ended;
	char *lines[LINES_MAX]; /* owned; line number i is at i % LINES_MAX */
	uint64_t n_lines;       /* all that came */
	char line[LINE_MAX_BYTES];
	size_t line_len;
	char reason[LINE_MAX_BYTES]; /* why it failed */
};

struct image_builder {
	struct image_builder_config config;
	int fd;
	pid_t pid;
	sd_event *loop; /* borrowed */
	sd_event_source *source;
	int output; /* of the build under way; -1: none */
	sd_event_source *output_source;
	struct build build;
	struct image_builder_watch watch;
};

static bool is_under_way(const struct build *b)
{
	return b->name && b->state <= BUILD_STOPPING;
}

/* ---- lines ---- */

/* The bytes come from programs that read the network: control characters become blanks, and what is no
 * UTF-8 the replacement character. */
static void add_line(struct image_builder *builder, const char *text, size_t len)
{
	struct build *b = &builder->build;
	_cleanup_(buf_done) struct buf clean = BUF_INIT(3 * LINE_MAX_BYTES + 1);
	char **place = &b->lines[b->n_lines % LINES_MAX];

	if (text_add_utf8_lossy(&clean, text, len) < 0)
		return;
	for (size_t i = 0; i < clean.len; i++)
		if ((uint8_t)clean.data[i] < 0x20 || clean.data[i] == 0x7f)
			clean.data[i] = ' ';
	char *copy = strdup(clean.len ? buf_str(&clean) : "");

	if (!copy)
		return;
	free(*place);
	*place = copy;
	b->n_lines++;
	if (text_starts_with(copy, REASON_PREFIX))
		(void)snprintf(b->reason, sizeof(b->reason), "%.*s",
			       (int)text_utf8_cut(copy + strlen(REASON_PREFIX),
						  strlen(copy) - strlen(REASON_PREFIX),
						  sizeof(b->reason) - 1),
			       copy + strlen(REASON_PREFIX));
	if (builder->watch.line)
		builder->watch.line(builder->watch.user, b->name, copy);
}

static void end_line(struct image_builder *builder)
{
	add_line(builder, builder->build.line, builder->build.line_len);
	builder->build.line_len = 0;
}

static void feed(struct image_builder *builder, const char *data, size_t len)
{
	struct build *b = &builder->build;

	for (size_t i = 0; i < len; i++) {
		if (data[i] == '\n')
			end_line(builder);
		else if (b->line_len < sizeof(b->line)) /* the rest of a long line is dropped */
			b->line[b->line_len++] = data[i];
	}
}

static void forget_lines(struct build *b)
{
	for (size_t i = 0; i < LINES_MAX; i++)
		free(b->lines[i]);
	*b = (struct build){0};
}

static void close_output(struct image_builder *b)
{
	b->output_source = sd_event_source_disable_unref(b->output_source);
	b->output = fd_close(b->output);
}

static void read_output(struct image_builder *b)
{
	char piece[PIECE_SIZE];

	for (int i = 0; i < PIECES_AT_ONCE && b->output >= 0; i++) {
		ssize_t n = read(b->output, piece, sizeof(piece));

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0)
			close_output(b);
		else
			feed(b, piece, (size_t)n);
	}
}

static int on_output(sd_event_source *source UNUSED, int fd UNUSED, uint32_t revents UNUSED,
		     void *user)
{
	read_output(user);
	return 0;
}

/* ---- what the process tells ---- */

static void end_build(struct image_builder *b, enum build_state state, const char *why)
{
	struct build *build = &b->build;

	if (!is_under_way(build))
		return;
	read_output(b);
	close_output(b);
	if (build->line_len > 0)
		end_line(b);
	build->state = state;
	build->ended = time(NULL);
	if (state != BUILD_FAILED)
		build->reason[0] = '\0';
	else if (why)
		(void)snprintf(build->reason, sizeof(build->reason), "%s", why);
	LOG_INFO("image_build_ended", LOG_S("image", build->name),
		 LOG_S("result", state == BUILD_DONE     ? "done"
				 : state == BUILD_FAILED ? "failed"
							 : "cancelled"),
		 LOG_S("reason", build->reason));
	if (b->watch.ended)
		b->watch.ended(b->watch.user, build->name, state == BUILD_DONE, build->reason);
}

static void on_begun(struct image_builder *b, const struct image_news_msg *m, int *fd)
{
	char why[LINE_MAX_BYTES];

	if (*fd < 0) {
		(void)snprintf(why, sizeof(why), "the build could not be started: %s",
			       strerrordesc_np(m->status > 0 ? m->status : EIO));
		end_build(b, BUILD_FAILED, why);
		return;
	}
	close_output(b);
	b->output = TAKE_FD(*fd);
	if (fcntl(b->output, F_SETFL, O_NONBLOCK) < 0 ||
	    sd_event_add_io(b->loop, &b->output_source, b->output, EPOLLIN, on_output, b) < 0)
		close_output(b); /* the build goes on without its lines */
}

static void on_ended(struct image_builder *b, int status)
{
	read_output(b); /* it has the reason, and may come after this */
	if (status == 0)
		end_build(b, BUILD_DONE, NULL);
	else if (status == STATUS_STOPPED || b->build.state == BUILD_STOPPING)
		end_build(b, BUILD_CANCELLED, NULL);
	else
		end_build(b, BUILD_FAILED,
			  b->build.reason[0] ? NULL : "the build ended without a reason");
}

static int on_news(sd_event_source *source UNUSED, int fd, uint32_t revents UNUSED, void *user)
{
	struct image_builder *b = user;
	struct image_news_msg m;
	int fds[FDIO_PASS_MAX];
	size_t n_fds = 0;
	ssize_t n = fd_recv(fd, &m, sizeof(m), fds, &n_fds, MSG_DONTWAIT);

	loop_work("images", "news");
	if (n == -EAGAIN)
		return 0;
	_cleanup_fd_ int output = n_fds == 1 ? fds[0] : -1;

	if (n_fds > 1)
		fd_close_many(fds, n_fds);
	if (n != (ssize_t)sizeof(m)) {
		b->source = sd_event_source_disable_unref(b->source);
		b->fd = fd_close(b->fd);
		LOG_ERROR("image_builder_lost", LOG_S("remedy", "restart the server"));
		end_build(b, BUILD_FAILED, "the process that builds images has ended");
	} else if (m.news == IMAGE_NEWS_BEGUN) {
		on_begun(b, &m, &output);
	} else if (m.news == IMAGE_NEWS_ENDED) {
		on_ended(b, m.status);
	}
	return 0;
}

/* ---- begin and end ---- */

int image_builder_start(const struct image_builder_config *c, struct image_builder **ret,
			struct err *e)
{
	int pair[2];
	struct image_builder *b = calloc(1, sizeof(*b));

	if (!b || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		free(b);
		return err_set(e, ERR_SYSTEM, errno, "the process that builds images");
	}
	*b = (struct image_builder){.config = *c, .fd = pair[0], .output = -1};
	b->pid = fork();
	if (b->pid == 0)
		image_builder_serve(pair[1], c);
	int errnum = errno;

	(void)close(pair[1]);
	if (b->pid < 0) {
		(void)close(pair[0]);
		free(b);
		return err_set(e, ERR_SYSTEM, errnum, "the process that builds images");
	}
	*ret = b;
	return 0;
}

int image_builder_attach(struct image_builder *b, sd_event *loop)
{
	if (!b)
		return 0;
	b->loop = loop;
	return sd_event_add_io(loop, &b->source, b->fd, EPOLLIN, on_news, b);
}

struct image_builder *image_builder_free(struct image_builder *b)
{
	if (!b)
		return NULL;
	b->watch = (struct image_builder_watch){0};
	end_build(b, BUILD_CANCELLED, NULL);
	b->source = sd_event_source_disable_unref(b->source);
	b->fd = fd_close(b->fd);
	reap_child(b->pid, END_WAIT_NS);
	forget_lines(&b->build);
	free(b);
	return NULL;
}

/* ---- orders ---- */

struct order {
	struct image_order_msg m;
	int fds[2]; /* borrowed; they go with it */
	size_t n_fds;
};

static int order(struct image_builder *b, const struct order *o, struct err *e)
{
	ssize_t n = b->fd < 0 ? -EPIPE
			      : fd_send(b->fd, &o->m, sizeof(o->m), o->fds, o->n_fds,
					MSG_DONTWAIT | MSG_NOSIGNAL);

	return n < 0 ? err_set(e, ERR_SYSTEM, (int)-n,
			       "the process that builds images does not answer; restart the server")
		     : 0;
}

static enum build_state state_of(uint32_t what)
{
	return what == IMAGE_ORDER_PULL || what == IMAGE_ORDER_PULL_BASE ? BUILD_DOWNLOADING
	       : what == IMAGE_ORDER_REMOVE                              ? BUILD_REMOVING
									 : BUILD_BUILDING;
}

/* NAME NULL: that of the order. */
static int begin(struct image_builder *b, const struct order *o, const char *name, struct err *e)
{
	static const char *const doing[] = {[BUILD_BUILDING] = "built",
					    [BUILD_DOWNLOADING] = "downloaded",
					    [BUILD_REMOVING] = "removed",
					    [BUILD_STOPPING] = "built"};

	if (is_under_way(&b->build))
		return err_set(e, ERR_SESSION_BUSY, 0,
			       "image '%s' is being %s; wait for its end or cancel it",
			       b->build.name, doing[b->build.state]);
	int r = order(b, o, e);

	if (r < 0)
		return r;
	forget_lines(&b->build);
	(void)snprintf(b->build.made, sizeof(b->build.made), "%s",
		       o->m.reference[0] ? o->m.reference : o->m.name);
	b->build.name = name ? name : b->build.made;
	b->build.state = state_of(o->m.order);
	b->build.order = o->m.order;
	b->build.began = time(NULL);
	return 0;
}

int image_builder_build(struct image_builder *b, const char *name, struct err *e)
{
	struct order o = {.m.order = IMAGE_ORDER_BUILD};
	size_t which = 0;

	while (which < b->config.n && !streq(b->config.names[which], name))
		which++;
	o.m.which = (uint32_t)which;
	return which < b->config.n
		   ? begin(b, &o, b->config.names[which], e)
		   : err_set(e, ERR_NOT_FOUND, 0, "this server has no definition of image '%.64s'",
			     name);
}

int image_builder_pull(struct image_builder *b, struct err *e)
{
	const struct order o = {.m.order = IMAGE_ORDER_PULL};

	return b->config.pulled ? begin(b, &o, b->config.pulled, e)
				: err_set(e, ERR_NOT_FOUND, 0, "this server downloads no image");
}

int image_builder_pull_base(struct image_builder *b, const char *reference, struct err *e)
{
	struct order o = {.m.order = IMAGE_ORDER_PULL_BASE};

	return !b->config.bases ? err_set(e, ERR_FORBIDDEN, 0, "this server downloads no image")
	       : text_copy(o.m.reference, sizeof(o.m.reference), reference) < 0
		   ? err_set(e, ERR_INVALID_ARGUMENT, ENAMETOOLONG, "the name of an image")
		   : begin(b, &o, NULL, e);
}

static int set_name(char ret[IMAGE_ORDER_NAME], const char *name, struct err *e)
{
	if (!parse_is_image_name(name, strlen(name)))
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "the name of an image is up to 63 small letters, digits, '.', '_' "
			       "and '-'");
	(void)snprintf(ret, IMAGE_ORDER_NAME, "%s", name);
	return 0;
}

/* A file in memory that the builder's program reads. */
static int note_file(const char *note, struct err *e)
{
	const size_t len = strlen(note);
	_cleanup_fd_ int fd = memfd_create("note", MFD_CLOEXEC);

	if (len > IMAGE_NOTE_MAX)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "the note of an image is too long");
	if (fd < 0 || fd_write_all(fd, note, len) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_set(e, ERR_SYSTEM, errno, "a file in memory");
	return TAKE_FD(fd);
}

/* NOTE may be NULL. */
static int begin_noted(struct image_builder *b, struct order *o, const char *name, const char *note,
		       struct err *e)
{
	const int r = set_name(o->m.name, name, e);
	_cleanup_fd_ int fd = r < 0 || !note ? -1 : note_file(note, e);

	if (r < 0 || (note && fd < 0))
		return r < 0 ? r : fd;
	if (note)
		o->fds[o->n_fds++] = fd;
	return begin(b, o, NULL, e);
}

int image_builder_commit(struct image_builder *b, const char *name, const char *base, int pipe,
			 const char *note, struct err *e)
{
	struct order o = {.m.order = IMAGE_ORDER_COMMIT, .fds = {pipe}, .n_fds = 1};
	const int r = set_name(o.m.base, base, e);

	return r < 0 ? r : begin_noted(b, &o, name, note, e);
}

int image_builder_change(struct image_builder *b, const char *name, const char *note, struct err *e)
{
	struct order o = {.m.order = note ? IMAGE_ORDER_NOTE : IMAGE_ORDER_REMOVE};

	return begin_noted(b, &o, name, note, e);
}

const char *image_builder_busy(const struct image_builder *b)
{
	return is_under_way(&b->build) ? b->build.name : NULL;
}

void image_builder_set_watch(struct image_builder *b, const struct image_builder_watch *w)
{
	b->watch = *w;
}

int image_builder_cancel(struct image_builder *b, struct err *e)
{
	if (!is_under_way(&b->build))
		return err_set(e, ERR_NOT_FOUND, 0, "no image is being built");
	const struct order o = {.m.order = IMAGE_ORDER_CANCEL};
	int r = order(b, &o, e);

	if (r >= 0)
		b->build.state = BUILD_STOPPING;
	return r;
}

static json_t *time_json(time_t t)
{
	char text[32];
	struct tm tm;

	if (t == 0 || !gmtime_r(&t, &tm) || strftime(text, sizeof(text), "%FT%TZ", &tm) == 0)
		return json_null();
	return json_string(text);
}

static json_t *lines_json(const struct build *b)
{
	json_t *lines = json_array();
	const uint64_t first = b->n_lines > LINES_MAX ? b->n_lines - LINES_MAX : 0;

	for (uint64_t i = first; i < b->n_lines; i++)
		if (json_array_append_new(lines, json_string(b->lines[i % LINES_MAX])) < 0) {
			json_decref(lines);
			return NULL;
		}
	return lines;
}

json_t *image_builder_json(const struct image_builder *b)
{
	static const char *const states[] = {
	    [BUILD_BUILDING] = "building",   [BUILD_DOWNLOADING] = "downloading",
	    [BUILD_REMOVING] = "removing",   [BUILD_STOPPING] = "stopping",
	    [BUILD_DONE] = "done",           [BUILD_FAILED] = "failed",
	    [BUILD_CANCELLED] = "cancelled",
	};
	static const char *const orders[] = {
	    [IMAGE_ORDER_BUILD] = "build",   [IMAGE_ORDER_COMMIT] = "build",
	    [IMAGE_ORDER_PULL] = "download", [IMAGE_ORDER_NOTE] = "change",
	    [IMAGE_ORDER_REMOVE] = "remove", [IMAGE_ORDER_PULL_BASE] = "download",
	};
	const struct build *build = &b->build;

	if (!build->name)
		return json_null();
	return json_pack("{s:s, s:s, s:s, s:o, s:o, s:s, s:I, s:o}", "name", build->name, "what",
			 orders[build->order], "state", states[build->state], "began_at",
			 time_json(build->began), "ended_at", time_json(build->ended), "reason",
			 build->reason, "dropped",
			 (json_int_t)(build->n_lines > LINES_MAX ? build->n_lines - LINES_MAX : 0),
			 "lines", lines_json(build));
}
