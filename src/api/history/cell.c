/* SPDX-License-Identifier: Apache-2.0 */
#include "api/history/cell.h"

#include "api/history/cells.h"
#include "api/json_reply.h"
#include "base/jsonio.h"
#include "base/rand.h"
#include "base/text.h"
#include "sandbox/run_session.h"

#include <signal.h>
#include <string.h>

#define CODE_MAX       (64u << 10)
#define TEXT_MAX       (4u << 20)
#define ERROR_MAX      1024u
#define NAME_SHOWN_MAX 1024u
#define EXIT_LOST      (128 + SIGKILL)

static const char never_began[] = "The server ended before this run began.";

static const char *const kind_names[] = {
    [ENGINE_RUN_PYTHON] = "code",
    [ENGINE_RUN_ARGV] = "command",
    [ENGINE_RUN_STATEFUL] = "stateful",
};

/* ---- begin ---- */

struct code {
	struct cell *of;
	struct mask *mask; /* NULL: there are no secrets */
	struct buf text;
};

/* -EFBIG: more than is kept, or more work than a run may cause. */
static int add_code(struct code *c, const char *text, size_t len)
{
	int r = 0;

	while (len > 0 && r == 0) {
		const size_t n = MIN(len, (size_t)CODE_MAX);

		r = c->mask ? mask_add(c->mask, text, n, &c->text) : buf_add(&c->text, text, n);
		if (r == 0 && (c->text.len > CODE_MAX ||
			       (c->mask && mask_steps(c->mask) > CELL_WORK_MAX / 2)))
			r = -EFBIG;
		text += n;
		len -= n;
	}
	return r;
}

static int add_words(struct code *c, const struct run_request *q)
{
	int r = 0;

	if (q->code)
		return add_code(c, q->code, q->code_len);
	if (q->argv && q->asked > 0)
		return add_code(c, q->argv[q->asked], strlen(q->argv[q->asked]));
	/* `sh -c COMMAND` is shown as its command. */
	if (q->argv && q->argv[0] && q->argv[1] && q->argv[2] && streq(q->argv[1], "-c"))
		return add_code(c, q->argv[2], strlen(q->argv[2]));
	for (size_t i = 0; q->argv && q->argv[i] && r == 0; i++) {
		r = i > 0 ? add_code(c, " ", 1) : 0;
		r = r < 0 ? r : add_code(c, q->argv[i], strlen(q->argv[i]));
	}
	return r;
}

/* Replaces the code of L by that of Q, masked; Q NULL: by its own. */
static int read_code(struct cell *l, const struct run_request *q)
{
	const struct mask_set *set = secrets_set(l->secrets);
	struct code c = {.of = l, .mask = set ? mask_new(set) : NULL};
	int r = set && !c.mask ? -ENOMEM : 0;

	/* A piece, what was held back before it, and a mark for each secret in both. */
	buf_init(&c.text, SIZE_MAX / 2);
	if (r == 0)
		r = q ? add_words(&c, q) : add_code(&c, l->code, strlen(l->code));
	if (r == 0 && c.mask)
		r = mask_end(c.mask, &c.text);
	l->work += c.mask ? mask_steps(c.mask) : 0;
	l->code_cut = l->code_cut || r == -EFBIG || c.text.len > CODE_MAX;
	r = r == -EFBIG ? 0 : r;
	char *text =
	    r < 0 ? NULL : cell_text(buf_str(&c.text), MIN(c.text.len, (size_t)CODE_MAX), CODE_MAX);
	buf_done(&c.text);
	(void)mask_free(c.mask);
	if (!text)
		return -ENOMEM;
	free(l->code);
	l->code = text;
	return 0;
}

/* Nothing is kept or shown that could have a secret in it: neither code nor output. */
static int be_silent(struct cell *l)
{
	char *none = strdup("");

	l->silent = true;
	l->code_cut = true;
	if (!none)
		return -ENOMEM;
	free(l->code);
	l->code = none;
	return 0;
}

/* A folder as the history has it. Owned; NULL: no memory, or it may have a secret that cannot be masked. */
static char *shown_folder(const struct cell *l, const char *path)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(TEXT_MAX);

	if (l->silent || mask_text(secrets_set(l->secrets), path, strlen(path), &b) < 0)
		return NULL;
	return cell_text(buf_str(&b), b.len, SANDBOX_PLACE_MAX - 1);
}

static int open_cell(struct cell *l, const struct run_request *q)
{
	struct err ignored = ERR_INIT;

	l->reports = q->report;
	cell_open_streams(l);
	if (sandbox_secrets(l->of, &l->secrets, &ignored) < 0)
		return be_silent(l);
	l->cwd = q->asked_cwd ? shown_folder(l, q->asked_cwd) : NULL;
	return read_code(l, q) < 0 || cell_open_masks(l) < 0 ? -ENOMEM : 0;
}

void cell_renew_secrets(struct cell *l)
{
	struct err ignored = ERR_INIT;
	struct secrets *now;

	l->stale = false;
	for (int i = 0; i < CELL_STREAMS; i++)
		if (l->status == CELL_ENDED || l->total[i] > 0)
			return;
	cell_close_masks(l);
	int r = sandbox_secrets(l->of, &now, &ignored);
	if (r == 0) {
		(void)secrets_unref(l->secrets);
		l->secrets = now;
		r = read_code(l, NULL);
	}
	r = r < 0 ? r : cell_open_masks(l);
	if (r < 0 && be_silent(l) < 0)
		l->code[0] = '\0';
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
	l->language = q->language;
	l->how = q->asked_how ? q->asked_how : "";
	l->started_ms = store_now_ms();
	l->reason = "";
	(void)snprintf(l->run, sizeof(l->run), "%s", run_id(r));
	(void)snprintf(l->sandbox, sizeof(l->sandbox), "%s", sandbox_id(s));
	(void)snprintf(l->owner, sizeof(l->owner), "%s", sandbox_owner(s));
	(void)snprintf(l->context, sizeof(l->context), "%s", run_context(r));
	_cleanup_free_ char *by =
	    cell_text(q->asked_by ? q->asked_by : "", q->asked_by ? strlen(q->asked_by) : 0,
		      CELL_NAME_SIZE - 1);
	if (by)
		(void)snprintf(l->by, sizeof(l->by), "%s", by);
	if (open_cell(l, q) < 0) {
		cell_free(l);
		return NULL;
	}
	return l;
}

void cell_free(struct cell *l)
{
	cell_close_streams(l);
	(void)secrets_unref(l->secrets);
	for (size_t i = 0; i < l->n_files; i++)
		free(l->files[i].name);
	for (size_t i = 0; i < l->n_kept; i++) {
		free(l->kept[i].name);
		free(l->kept[i].data);
	}
	free(l->files);
	free(l->places);
	free(l->results_meta);
	free(l->results);
	free(l->error);
	free(l->ended_cwd);
	free(l->gone);
	free(l->cwd);
	free(l->code);
	(void)sandbox_unref(l->of);
	free(l);
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

	if (mask_text(secrets_set(l->secrets), name, strlen(name), &b) < 0)
		return NULL;
	return cell_text(buf_str(&b), b.len, NAME_SHOWN_MAX);
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
	const int r = mask_text(secrets_set(l->secrets), buf_str(b), b->len, &masked);
	if (b->data)
		explicit_bzero(b->data, b->len);
	buf_done(b);
	*b = masked;
	return r;
}

static void take_files(struct cell *l, const struct run_result *result)
{
	size_t n = MIN(result->n_artifacts, (size_t)CELL_FILES_MAX), wanted = 0;
	uint64_t bytes = l->kept_bytes;

	l->files = n > 0 ? calloc(n, sizeof(*l->files)) : NULL;
	for (size_t i = 0; i < n && l->files; i++) {
		const struct artifact *a = &result->artifacts[i];
		struct cell_file *f = &l->files[l->n_files];

		f->name = strdup(a->name);
		if (!f->name)
			return;
		f->size = a->size;
		f->wanted = is_kept_type(a->name) && a->size <= CELL_FILE_BYTES &&
			    bytes + a->size <= CELL_KEPT_BYTES && wanted < STORE_CELL_FILES - 1 &&
			    text_is_utf8(a->name, strlen(a->name));
		bytes += f->wanted ? a->size : 0;
		wanted += f->wanted;
		l->n_files++;
	}
}

/* What a person must know when the server ends during the run. */
static const char *server_ended(const struct cell *l)
{
	if (l->status == CELL_QUEUED)
		return never_began;
	return sandbox_is_stored(l->of) ? "The server ended during this run. The rest of its "
					  "output and all variables of "
					  "the sandbox are lost; its files are still there."
					: "The server ended during this run. The rest of its "
					  "output and the sandbox, with "
					  "its variables and files, are lost.";
}

static uint64_t ms_since_start(const struct cell *l)
{
	const uint64_t now = store_now_ms();

	return l->status == CELL_RUNNING && now > l->started_ms ? now - l->started_ms : 0;
}

static void end_without_result(struct cell *l, const struct err *e)
{
	const bool lost = e->code == ERR_SANDBOX_LOST || e->code == ERR_CANCELLED;
	const char *why = e->code == ERR_CANCELLED ? server_ended(l) : e->text;

	l->failed = true;
	l->reason = run_reason_name(lost ? RUN_LOST : RUN_CANCELLED);
	l->error = cell_text(why, strlen(why), ERROR_MAX);
	l->duration_ms = ms_since_start(l);
	l->exit_code = lost && l->status == CELL_RUNNING ? EXIT_LOST : 0;
}

void cell_end(struct cell *l, const struct run_result *result, const struct err *e)
{
	cell_end_streams(l);
	if (!result)
		end_without_result(l, e);
	l->status = CELL_ENDED;
	l->of_run = NULL;
	if (!result)
		return;
	l->reason = run_reason_name(result->reason);
	l->exit_code = result->exit_code;
	l->duration_ms = result->duration_ms;
	l->cpu_ms = result->cpu_ns / NS_PER_MS;
	l->number = result->cell;
	l->peak_bytes = result->peak_bytes;
	l->state = run_session_state(result);
	_cleanup_(buf_done) struct buf gone = BUF_INIT(1024);
	if (run_gone_text(&gone, result) == 0 && gone.len > 0)
		l->gone = buf_take(&gone);
	l->total[ENGINE_STDOUT] = MAX(l->total[ENGINE_STDOUT], result->out.total);
	l->total[ENGINE_STDERR] = MAX(l->total[ENGINE_STDERR], result->err.total);
	char place[SANDBOX_PLACE_MAX];
	if (l->reports && sandbox_read_place(result->value.data, result->value.len, place))
		l->ended_cwd = shown_folder(l, place);
	cell_take_results(l, result->shown);
	take_files(l, result);
}

const char *cell_next_file(struct cell *l)
{
	while (l->at_file < l->n_files && !l->files[l->at_file].wanted)
		l->at_file++;
	return l->at_file < l->n_files ? l->files[l->at_file].name : NULL;
}

void cell_take_file(struct cell *l, char *data, size_t len)
{
	struct cell_file *f = &l->files[l->at_file++];
	_cleanup_(buf_done) struct buf b = {
	    .data = data, .len = len, .cap = data ? len + 1 : 0, .max = CELL_FILE_BYTES + 1};

	f->wanted = false;
	if (!data)
		return;
	int r = mask_file(l, f->name, &b);
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

static json_t *end_json(const struct cell *l)
{
	return json_pack("{s:s, s:i, s:I, s:I, s:I, s:s?}", "reason", l->reason, "exit_code",
			 l->exit_code, "duration_ms", (json_int_t)l->duration_ms, "cpu_ms",
			 (json_int_t)l->cpu_ms, "peak_bytes", (json_int_t)l->peak_bytes, "error",
			 l->error);
}

/* The end of a run that the server did not live to see. */
static json_t *lost_json(const struct cell *l)
{
	return json_pack("{s:s, s:s, s:i, s:I, s:i, s:i, s:s}", "status", "failed", "reason",
			 run_reason_name(RUN_LOST), "exit_code",
			 l->status == CELL_RUNNING ? EXIT_LOST : 0, "duration_ms",
			 (json_int_t)ms_since_start(l), "cpu_ms", 0, "peak_bytes", 0, "error",
			 server_ended(l));
}

/* What a row has besides its texts. LOST: as if the server had died. */
static json_t *meta_json(const struct cell *l, bool lost)
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

	if (m && l->cwd)
		(void)json_object_set_new(m, "cwd", json_string(l->cwd));
	if (m && l->number > 0)
		(void)json_object_set_new(m, "number", json_integer(l->number));
	if (m && l->language != LANGUAGE_PYTHON)
		(void)json_object_set_new(m, "language", json_string(language_name(l->language)));
	if (m && l->context[0])
		(void)json_object_set_new(m, "context", json_string(l->context));
	if (m && l->ended_cwd)
		(void)json_object_set_new(m, "ended_cwd", json_string(l->ended_cwd));
	if (m && l->state && l->state[0])
		(void)json_object_set_new(m, "state", json_string(l->state));
	if (m && l->gone)
		(void)json_object_set_new(m, "gone", json_loads(l->gone, 0, NULL));
	if (l->status == CELL_ENDED || lost) {
		json_t *end = lost ? lost_json(l) : end_json(l);

		if (m && end)
			(void)json_object_update(m, end);
		json_decref(end);
	}
	if (m && l->results_meta)
		(void)json_object_set_new(m, "results", json_loads(l->results_meta, 0, NULL));
	for (int i = 0; i < CELL_STREAMS && m; i++) {
		const struct kept_output *k = &l->streams[i].kept;
		uint64_t total = MAX(k->total, l->total[i]);

		(void)json_object_set_new(
		    m, cell_stream_names[i],
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
		json_t *stream = json_object_get(o, cell_stream_names[i]);

		if (json_is_object(stream))
			(void)json_object_set_new(stream, "text",
						  json_string(texts[i] ? texts[i] : ""));
	}
	json_decref(meta);
	return o;
}

static void fill_row(const struct cell *l, struct store_cell *row)
{
	(void)snprintf(row->run, sizeof(row->run), "%s", l->run);
	(void)snprintf(row->owner, sizeof(row->owner), "%s", l->owner);
	(void)snprintf(row->sandbox, sizeof(row->sandbox), "%.64s", l->sandbox);
	row->started_ms = l->started_ms;
	row->out = cell_stream_text(l, ENGINE_STDOUT);
	row->err = cell_stream_text(l, ENGINE_STDERR);
	row->value = cell_stream_text(l, ENGINE_RESULT);
}

json_t *cell_json(const struct cell *l)
{
	struct store_cell row = {.code = l->code};

	fill_row(l, &row);
	json_t *o = row_json(&row, meta_json(l, false));
	free(row.out);
	free(row.err);
	free(row.value);
	return o;
}

/* A row without code and files. */
static struct store_cell *new_row(const struct cell *l, bool all, bool lost)
{
	struct store_cell *row = calloc(1, sizeof(*row));
	json_t *meta = meta_json(l, lost);
	size_t len;

	if (row)
		row->meta = jsonio_text(meta, JSON_COMPACT, &len);
	json_decref(meta);
	if (!row || !row->meta) {
		free(row);
		return NULL;
	}
	fill_row(l, row);
	if (!all) {
		free(TAKE_PTR(row->out));
		free(TAKE_PTR(row->err));
		free(TAKE_PTR(row->value));
	}
	return row;
}

struct store_cell *cell_draft(struct cell *l, bool all)
{
	cell_settle(l);
	struct store_cell *row = new_row(l, all, true);
	if (row)
		row->code = strdup(l->code);
	return row;
}

struct store_cell *cell_row(struct cell *l, bool all)
{
	struct store_cell *row = new_row(l, all, false);

	if (!row)
		return NULL;
	row->code = TAKE_PTR(l->code);
	if (!all)
		return row;
	memcpy(row->files, l->kept, sizeof(row->files));
	row->n_files = l->n_kept;
	l->n_kept = 0;
	char *name = l->results ? strdup(CELL_RESULTS_FILE) : NULL;
	if (name)
		row->files[row->n_files++] = (struct store_cell_file){
		    .name = name, .data = TAKE_PTR(l->results), .len = l->results_len};
	return row;
}
