/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cell.h"

#include "api/cells.h"
#include "api/json_reply.h"
#include "base/fdio.h"
#include "base/jsonio.h"
#include "base/rand.h"
#include "base/text.h"

#include <string.h>

#define CODE_MAX       (64u << 10)
#define STREAM_MAX     (32u << 10) /* kept of a stream */
#define TOLD_MAX       (256u << 10) /* bytes of output of a run that those who watch get as it comes */
#define WORK_MAX       (UINT64_C(128) << 20) /* steps of masking; output after them is not kept */
#define PIECE_MAX      (16u << 20)
#define TEXT_MAX       (4u << 20)
#define ERROR_MAX      1024u
#define NAME_SHOWN_MAX 1024u

static const char *const stream_names[CELL_STREAMS] = {
    [ENGINE_STDOUT] = "stdout", [ENGINE_STDERR] = "stderr", [ENGINE_RESULT] = "value"};
static const char *const kind_names[] = {
    [ENGINE_RUN_PYTHON] = "code",
    [ENGINE_RUN_ARGV] = "command",
    [ENGINE_RUN_STATEFUL] = "stateful",
};

/* DATA as UTF-8 without NUL, at most MAX bytes of it. NULL: no memory. Owned. */
static char *clean_text(const char *data, size_t len, size_t max)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(3 * len + 1);

	if (text_add_utf8_lossy(&b, data, len) < 0)
		return NULL;
	if (b.len == 0)
		return strdup("");
	for (size_t i = 0; i < b.len; i++)
		if (b.data[i] == '\0')
			b.data[i] = ' ';
	if (b.len > max)
		b.data[text_utf8_cut(b.data, b.len, max)] = '\0';
	return buf_take(&b);
}

/* ---- begin ---- */

/* The values of NAME=VALUE lines: those that the run gets, and earlier ones that its session may still have. */
static int read_secrets(const struct sandbox *s, struct mask_set **ret)
{
	const struct sandbox_pairs *const parts[] = {&sandbox_options(s)->env,
						     sandbox_former_env(s)};
	const char *values[ARRAY_SIZE(parts) * SANDBOX_ENV_MAX];
	size_t n = 0;

	*ret = NULL;
	for (size_t k = 0; k < ARRAY_SIZE(parts); k++)
		for (size_t i = 0; i < parts[k]->n && n < ARRAY_SIZE(values); i++) {
			const char *equals = strchr(parts[k]->list[i], '=');

			if (equals)
				values[n++] = equals + 1;
		}
	return n > 0 ? mask_set_new(values, n, ret) : 0;
}

static int add_code(struct cell *l, const struct run_request *q, struct buf *b)
{
	if (q->code)
		return mask_text(l->secrets, q->code, q->code_len, b);
	/* `sh -c COMMAND` is shown as its command. */
	if (q->argv && q->argv[0] && q->argv[1] && q->argv[2] && streq(q->argv[1], "-c"))
		return mask_text(l->secrets, q->argv[2], strlen(q->argv[2]), b);
	_cleanup_(buf_done) struct buf words = BUF_INIT(PIECE_MAX);
	int r = 0;
	for (size_t i = 0; q->argv && q->argv[i] && r == 0; i++) {
		r = i > 0 ? buf_add_char(&words, ' ') : 0;
		r = r < 0 ? r : buf_add_str(&words, q->argv[i]);
	}
	return r < 0 ? r : mask_text(l->secrets, buf_str(&words), words.len, b);
}

static int read_code(struct cell *l, const struct run_request *q)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(SIZE_MAX / 2);
	int r = add_code(l, q, &b);

	l->code = r < 0 ? NULL : clean_text(buf_str(&b), MIN(b.len, (size_t)CODE_MAX), CODE_MAX);
	l->code_cut = b.len > CODE_MAX;
	return l->code ? 0 : -ENOMEM;
}

static void close_masks(struct cell *l)
{
	for (int i = 0; i < CELL_STREAMS; i++)
		l->streams[i].mask = mask_free(l->streams[i].mask);
}

static int open_masks(struct cell *l)
{
	for (int i = 0; i < CELL_STREAMS && l->secrets; i++) {
		l->streams[i].mask = mask_new(l->secrets);
		if (!l->streams[i].mask)
			return -ENOMEM;
	}
	return 0;
}

static int open_streams(struct cell *l)
{
	for (int i = 0; i < CELL_STREAMS; i++) {
		kept_output_init(&l->streams[i].kept, STREAM_MAX, false);
		buf_init(&l->streams[i].pending, TOLD_MAX + PIECE_MAX);
	}
	return open_masks(l);
}

void cell_renew_secrets(struct cell *l)
{
	_cleanup_(buf_done) struct buf code = BUF_INIT(SIZE_MAX / 2);
	struct mask_set *now;

	for (int i = 0; i < CELL_STREAMS; i++)
		if (l->status == CELL_ENDED || l->total[i] > 0)
			return;
	close_masks(l);
	int r = read_secrets(l->of, &now);
	r = r < 0 ? r : mask_text(now, l->code, strlen(l->code), &code);
	char *text = r < 0 ? NULL : clean_text(buf_str(&code), code.len, CODE_MAX);
	if (!text) {
		(void)mask_set_free(now);
		l->code[0] = '\0';
		l->silent = true;
		return;
	}
	(void)mask_set_free(l->secrets);
	l->secrets = now;
	free(l->code);
	l->code = text;
	l->silent = open_masks(l) < 0;
}

struct cell *cell_new(struct run *r, const struct run_request *q)
{
	struct sandbox *s = run_sandbox(r);
	struct cell *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	list_init(&l->node);
	l->of_run = r;
	l->of = sandbox_ref(s);
	l->kind = q->kind;
	l->how = q->asked_how ? q->asked_how : "";
	l->started_ms = store_now_ms();
	l->reason = "";
	(void)snprintf(l->run, sizeof(l->run), "%s", run_id(r));
	(void)snprintf(l->sandbox, sizeof(l->sandbox), "%s", sandbox_id(s));
	(void)snprintf(l->owner, sizeof(l->owner), "%s", sandbox_owner(s));
	_cleanup_free_ char *by =
	    clean_text(q->asked_by ? q->asked_by : "", q->asked_by ? strlen(q->asked_by) : 0,
		       CELL_NAME_SIZE - 1);
	if (by)
		(void)snprintf(l->by, sizeof(l->by), "%s", by);
	if (read_secrets(s, &l->secrets) < 0 || read_code(l, q) < 0 || open_streams(l) < 0) {
		cell_free(l);
		return NULL;
	}
	return l;
}

void cell_free(struct cell *l)
{
	for (int i = 0; i < CELL_STREAMS; i++) {
		(void)mask_free(l->streams[i].mask);
		kept_output_done(&l->streams[i].kept);
		buf_done(&l->streams[i].pending);
	}
	(void)mask_set_free(l->secrets);
	for (size_t i = 0; i < l->n_files; i++)
		free(l->files[i].name);
	for (size_t i = 0; i < l->n_kept; i++) {
		free(l->kept[i].name);
		free(l->kept[i].data);
	}
	free(l->files);
	free(l->error);
	free(l->code);
	(void)sandbox_unref(l->of);
	free(l);
}

/* ---- output ---- */

/* B is masked output. */
static void take_masked(struct cell *l, struct cell_stream *s, const struct buf *b, bool watched)
{
	uint64_t told = 0;

	kept_output_add(&s->kept, buf_str(b), b->len);
	if (!watched || l->cut)
		return;
	for (int i = 0; i < CELL_STREAMS; i++)
		told += l->streams[i].told + l->streams[i].pending.len;
	if (s->pending.len == 0)
		s->from = s->kept.total - b->len;
	size_t room = told < TOLD_MAX ? (size_t)(TOLD_MAX - told) : 0;
	l->cut = room < b->len || buf_add(&s->pending, buf_str(b), MIN(room, b->len)) < 0;
}

void cell_add_output(struct cell *l, enum engine_stream stream, const void *data, size_t len,
		     bool watched)
{
	struct cell_stream *s = &l->streams[stream];
	_cleanup_(buf_done) struct buf b = BUF_INIT(PIECE_MAX);

	l->total[stream] += len;
	if (l->silent)
		return;
	if (!s->mask) {
		const struct buf plain = {.data = (char *)(uintptr_t)data, .len = len, .max = len};

		if (!l->secrets)
			take_masked(l, s, &plain, watched);
		return;
	}
	uint64_t before = mask_steps(s->mask);
	int r = mask_add(s->mask, data, len, &b);
	l->work += mask_steps(s->mask) - before;
	if (r < 0 || l->work > WORK_MAX) {
		s->mask = mask_free(s->mask); /* the rest is not kept, so nothing can show */
		l->cut = true;
		return;
	}
	take_masked(l, s, &b, watched);
}

bool cell_has_output(const struct cell *l)
{
	for (int i = 0; i < CELL_STREAMS; i++)
		if (l->streams[i].pending.len > 0)
			return true;
	return l->cut && !l->cut_told;
}

/* Bytes at the end of DATA that begin an incomplete UTF-8 sequence. */
static size_t open_sequence(const char *data, size_t len)
{
	for (size_t back = 1; back <= MIN(len, (size_t)3); back++) {
		uint8_t b = (uint8_t)data[len - back];

		if ((b & 0xc0) == 0x80)
			continue;
		size_t need = b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : b >= 0xc0 ? 2 : 1;
		return need > back ? back : 0;
	}
	return 0;
}

json_t *cell_take_output(struct cell *l, int stream, bool end)
{
	struct cell_stream *s = &l->streams[stream];
	size_t n = s->pending.len;

	if (n > 0 && !end)
		n -= open_sequence(buf_str(&s->pending), n);
	if (n == 0 && l->cut && !l->cut_told) {
		l->cut_told = true;
		return json_pack("{s:s, s:s, s:b}", "run", l->run, "sandbox", l->sandbox, "cut", 1);
	}
	if (n == 0)
		return NULL;
	_cleanup_free_ char *text = clean_text(buf_str(&s->pending), n, 3 * n + 1);
	json_t *data = json_pack("{s:s, s:s, s:s, s:s, s:I}", "run", l->run, "sandbox", l->sandbox,
				 "stream", stream_names[stream], "text", text ? text : "", "offset",
				 (json_int_t)s->from);
	s->told += n;
	s->from += n;
	buf_consume(&s->pending, n);
	return data;
}

/* ---- the end ---- */

static bool is_kept_type(const char *name)
{
	const char *type = mime_type(name);

	return text_starts_with(type, "image/") || streq(type, "text/html");
}

/* NAME as the history has it. Owned; NULL: no memory. */
static char *shown_name(const struct cell *l, const char *name)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(TEXT_MAX);

	if (mask_text(l->secrets, name, strlen(name), &b) < 0)
		return NULL;
	return clean_text(buf_str(&b), b.len, NAME_SHOWN_MAX);
}

static bool has_kept(const struct cell *l, const char *name)
{
	for (size_t i = 0; i < l->n_kept; i++)
		if (streq(l->kept[i].name, name))
			return true;
	return false;
}

/* Pages and SVG are text, and have secrets as output has them. */
static int mask_file(struct cell *l, const char *name, struct buf *b)
{
	const char *type = mime_type(name);
	struct buf masked = BUF_INIT(CELL_FILE_BYTES);

	if (!l->secrets || !(streq(type, "text/html") || streq(type, "image/svg+xml")))
		return 0;
	int r = l->work > WORK_MAX
		    ? -EFBIG
		    : mask_counted(l->secrets, buf_str(b), b->len, &l->work, &masked);
	if (b->data)
		explicit_bzero(b->data, b->len);
	buf_done(b);
	*b = masked;
	return r;
}

static void take_files(struct cell *l, const struct run_result *result)
{
	size_t n = MIN(result->n_artifacts, (size_t)CELL_FILES_MAX), wanted = 0;
	uint64_t bytes = 0;

	l->files = n > 0 ? calloc(n, sizeof(*l->files)) : NULL;
	for (size_t i = 0; i < n && l->files; i++) {
		const struct artifact *a = &result->artifacts[i];
		struct cell_file *f = &l->files[l->n_files];

		f->name = strdup(a->name);
		if (!f->name)
			return;
		f->size = a->size;
		f->wanted = is_kept_type(a->name) && a->size <= CELL_FILE_BYTES &&
			    bytes + a->size <= CELL_KEPT_BYTES && wanted < STORE_CELL_FILES &&
			    text_is_utf8(a->name, strlen(a->name));
		bytes += f->wanted ? a->size : 0;
		wanted += f->wanted;
		l->n_files++;
	}
}

void cell_end(struct cell *l, const struct run_result *result, const struct err *e)
{
	l->status = CELL_ENDED;
	l->of_run = NULL;
	for (int i = 0; i < CELL_STREAMS; i++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(PIECE_MAX);

		if (l->streams[i].mask && mask_end(l->streams[i].mask, &b) == 0)
			take_masked(l, &l->streams[i], &b, !l->cut);
		l->streams[i].mask = mask_free(l->streams[i].mask);
	}
	if (!result) {
		l->failed = true;
		l->reason = run_reason_name(e->code == ERR_SANDBOX_LOST ? RUN_LOST : RUN_CANCELLED);
		l->error = clean_text(e->text, strlen(e->text), ERROR_MAX);
		return;
	}
	l->reason = run_reason_name(result->reason);
	l->exit_code = result->exit_code;
	l->duration_ms = result->duration_ms;
	l->cpu_ms = result->cpu_ns / NS_PER_MS;
	l->peak_bytes = result->peak_bytes;
	l->total[ENGINE_STDOUT] = MAX(l->total[ENGINE_STDOUT], result->out.total);
	l->total[ENGINE_STDERR] = MAX(l->total[ENGINE_STDERR], result->err.total);
	take_files(l, result);
}

const char *cell_next_file(struct cell *l)
{
	while (l->at_file < l->n_files && !l->files[l->at_file].wanted)
		l->at_file++;
	return l->at_file < l->n_files ? l->files[l->at_file].name : NULL;
}

void cell_take_file(struct cell *l, int fd, const struct engine_file *info)
{
	struct cell_file *f = &l->files[l->at_file++];
	_cleanup_(buf_done) struct buf b = BUF_INIT(CELL_FILE_BYTES + 1);

	f->wanted = false;
	if (fd < 0)
		return;
	int r = info->size <= CELL_FILE_BYTES ? fd_read_file(fd, &b) : -EFBIG;
	(void)fd_close(fd);
	r = r < 0 ? r : mask_file(l, f->name, &b);
	if (r < 0 || b.len > CELL_FILE_BYTES || l->kept_bytes + b.len > CELL_KEPT_BYTES)
		return;
	struct store_cell_file *k = &l->kept[l->n_kept];
	k->name = shown_name(l, f->name);
	if (!k->name || has_kept(l, k->name)) {
		free(TAKE_PTR(k->name));
		return;
	}
	k->len = b.len;
	k->data = b.len > 0 ? buf_take(&b) : strdup("");
	if (!k->name || !k->data) {
		free(TAKE_PTR(k->name));
		free(TAKE_PTR(k->data));
		return;
	}
	l->kept_bytes += k->len;
	l->n_kept++;
	f->wanted = true;
}

/* ---- its forms ---- */

/* What is kept of a stream, as text; while the run goes on, from a copy, because the end is written in place. */
static char *stream_text(const struct cell *l, int i)
{
	const struct kept_output *k = &l->streams[i].kept;
	_cleanup_(buf_done) struct buf bytes = BUF_INIT(STREAM_MAX), text = BUF_INIT(TEXT_MAX);
	struct kept_output copy = *k;
	bool cut;

	if (k->data.len == 0 || buf_add(&bytes, k->data.data, k->data.len) < 0)
		return strdup("");
	copy.data = bytes;
	struct run_output o = kept_output_end(&copy);
	o.total = MAX(o.total, l->total[i] > k->total ? l->total[i] : o.total);
	o.truncated = o.truncated || o.total > o.len;
	if (run_output_add(&text, &o, SIZE_MAX, NULL, &cut) < 0)
		return strdup("");
	return clean_text(buf_str(&text), text.len, TEXT_MAX);
}

static json_t *files_json(const struct cell *l)
{
	json_t *list = json_array();

	for (size_t i = 0; i < l->n_files; i++) {
		_cleanup_free_ char *name = shown_name(l, l->files[i].name);

		(void)json_array_append_new(
		    list, json_pack("{s:s, s:I, s:b}", "name", name ? name : "", "size",
				    (json_int_t)l->files[i].size, "kept", l->files[i].wanted));
	}
	return list;
}

/* What a row has besides its texts. */
static json_t *meta_json(const struct cell *l)
{
	static const char *const states[] = {
	    [CELL_QUEUED] = "queued", [CELL_RUNNING] = "running", [CELL_ENDED] = "done"};
	const struct sandbox *s = l->of;
	json_t *m = json_pack("{s:s, s:s, s:{s:s, s:s}, s:b, s:s, s:s, s:o}", "status",
			      l->failed ? "failed" : states[l->status], "kind",
			      (unsigned)l->kind < ARRAY_SIZE(kind_names) ? kind_names[l->kind] : "",
			      "asked_by", "how", l->how, "name", l->by, "code_cut", l->code_cut,
			      "sandbox_name", sandbox_name(s), "image", sandbox_image(s), "files",
			      files_json(l));

	if (l->status == CELL_ENDED) {
		json_t *end = json_pack("{s:s, s:i, s:I, s:I, s:I, s:s?}", "reason", l->reason,
					"exit_code", l->exit_code, "duration_ms",
					(json_int_t)l->duration_ms, "cpu_ms", (json_int_t)l->cpu_ms,
					"peak_bytes", (json_int_t)l->peak_bytes, "error", l->error);

		if (m && end)
			(void)json_object_update(m, end);
		json_decref(end);
	}
	for (int i = 0; i < CELL_STREAMS && m; i++) {
		const struct kept_output *k = &l->streams[i].kept;
		uint64_t total = MAX(k->total, l->total[i]);

		(void)json_object_set_new(
		    m, stream_names[i],
		    json_pack("{s:I, s:b}", "total", (json_int_t)total, "cut",
			      total > k->data.len && k->data.len > 0
				  ? k->total > k->data.len || l->total[i] > k->total
				  : 0));
	}
	return m;
}

static json_t *row_json(const struct store_cell *row, json_t *meta)
{
	const char *const texts[CELL_STREAMS] = {
	    [ENGINE_STDOUT] = row->out, [ENGINE_STDERR] = row->err, [ENGINE_RESULT] = row->value};
	char at[API_TIME_SIZE];
	json_t *o =
	    json_pack("{s:o, s:s, s:s, s:s, s:s, s:s}", "seq",
		      row->seq ? json_integer((json_int_t)row->seq) : json_null(), "run", row->run,
		      "sandbox", row->sandbox, "owner", row->owner, "code",
		      row->code ? row->code : "", "started_at", api_time(row->started_ms, at));

	if (!o || !meta) {
		json_decref(o);
		json_decref(meta);
		return NULL;
	}
	(void)json_object_update(o, meta);
	for (int i = 0; i < CELL_STREAMS; i++) {
		json_t *stream = json_object_get(o, stream_names[i]);

		if (json_is_object(stream))
			(void)json_object_set_new(stream, "text",
						  json_string(texts[i] ? texts[i] : ""));
	}
	json_decref(meta);
	return o;
}

json_t *cells_json(const struct store_cell *row)
{
	const char *text = row->meta ? row->meta : "{}";
	json_t *meta = NULL;

	if (jsonio_read(text, strlen(text), 0, &meta, NULL) < 0)
		meta = json_object();
	return row_json(row, meta);
}

static void fill_row(const struct cell *l, struct store_cell *row)
{
	(void)snprintf(row->run, sizeof(row->run), "%s", l->run);
	(void)snprintf(row->owner, sizeof(row->owner), "%s", l->owner);
	(void)snprintf(row->sandbox, sizeof(row->sandbox), "%.64s", l->sandbox);
	row->started_ms = l->started_ms;
	row->out = stream_text(l, ENGINE_STDOUT);
	row->err = stream_text(l, ENGINE_STDERR);
	row->value = stream_text(l, ENGINE_RESULT);
}

json_t *cell_json(const struct cell *l)
{
	struct store_cell row = {.code = l->code};

	fill_row(l, &row);
	json_t *o = row_json(&row, meta_json(l));
	free(row.out);
	free(row.err);
	free(row.value);
	return o;
}

struct store_cell *cell_row(struct cell *l, bool all)
{
	struct store_cell *row = calloc(1, sizeof(*row));
	json_t *meta = meta_json(l);
	size_t len;

	if (row)
		row->meta = jsonio_text(meta, JSON_COMPACT, &len);
	json_decref(meta);
	if (!row || !row->meta) {
		free(row);
		return NULL;
	}
	fill_row(l, row);
	row->code = TAKE_PTR(l->code);
	if (!all) {
		free(TAKE_PTR(row->out));
		free(TAKE_PTR(row->err));
		free(TAKE_PTR(row->value));
		return row;
	}
	memcpy(row->files, l->kept, sizeof(row->files));
	row->n_files = l->n_kept;
	l->n_kept = 0;
	return row;
}
