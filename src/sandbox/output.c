/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/output.h"

#include "base/text.h"

#include <string.h>

#define TRACEBACK "Traceback (most recent call last):"

/* ---- while output arrives ---- */

void kept_output_init(struct kept_output *k, size_t max, bool head_only)
{
	const size_t head = head_only ? max : max / 2;

	*k = (struct kept_output){.head = head, .at = head};
	buf_init(&k->data, max);
}

void kept_output_init_tail(struct kept_output *k, size_t max)
{
	*k = (struct kept_output){0};
	buf_init(&k->data, max);
}

void kept_output_done(struct kept_output *k)
{
	buf_done(&k->data);
}

/* Adds LEN bytes to the ring, which follows the head. */
static void add_to_ring(struct kept_output *k, const char *data, size_t len)
{
	const size_t size = k->data.max - k->head;

	if (size == 0)
		return;
	if (len > size) {
		/* Skip the first bytes: the later ones would overwrite them. */
		k->at = k->head + (k->at - k->head + len - size) % size;
		data += len - size;
		len = size;
	}
	while (len > 0) {
		size_t n = MIN(len, k->data.max - k->at);

		memcpy(k->data.data + k->at, data, n);
		k->at = k->at + n == k->data.max ? k->head : k->at + n;
		data += n;
		len -= n;
	}
}

static void store(struct kept_output *k, const char *data, size_t len)
{
	size_t room = MIN(k->data.max - k->data.len, len);

	if (k->lost)
		return;
	k->stored += len;
	if (room > 0 && buf_add(&k->data, data, room) < 0) {
		k->lost = true;
		return;
	}
	if (len > room)
		add_to_ring(k, data + room, len - room);
}

/* The line is stored now, and its states of before are known only by their number. */
static void count_states(struct kept_output *k)
{
	if (k->now.n == 0)
		return;
	if (k->n_states == KEPT_STATES_MAX) {
		k->n_states--;
		memmove(k->states, k->states + 1, k->n_states * sizeof(k->states[0]));
	}
	k->now.at = (size_t)k->stored;
	k->states[k->n_states++] = k->now;
	k->now = (struct run_states){0};
}

static void store_line(struct kept_output *k)
{
	count_states(k);
	store(k, k->line, k->line_len);
	k->line_len = 0;
}

static void add_text(struct kept_output *k, const char *data, size_t len)
{
	if (k->again && k->line_len > 0) {
		k->over += k->line_len;
		k->now.bytes += k->line_len;
		k->now.n++;
		k->line_len = 0;
	}
	k->again = false;
	if (k->line_len + len <= sizeof(k->line)) {
		memcpy(k->line + k->line_len, data, len);
		k->line_len += len;
		return;
	}
	store_line(k);
	store(k, data, len);
	k->joined = true;
}

static void add_settled(struct kept_output *k, const char *data, size_t len)
{
	for (size_t n; len > 0; data += n, len -= n) {
		for (n = 0; n < len && data[n] != '\n' && data[n] != '\r';)
			n++;
		if (n > 0) {
			add_text(k, data, n);
			continue;
		}
		n = 1;
		if (*data == '\r' && !k->joined) {
			k->again = true;
			k->over++;
			continue;
		}
		store_line(k);
		store(k, data, 1);
		k->again = k->joined = false;
	}
}

/* Counts what a terminal shows at the end. Only the frequent sequence that clears one is known: ESC [ 2 J, or 3 J. */
static void count_shown(struct kept_output *k, const char *data, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		const char c = data[i];

		if (c == '\033')
			k->clear_at = 1;
		else if ((k->clear_at == 1 && c == '[') ||
			 (k->clear_at == 2 && (c == '2' || c == '3')) ||
			 (k->clear_at == 3 && c == 'J'))
			k->clear_at++;
		else
			k->clear_at = 0;
		k->cleared = k->cleared || k->clear_at == 4;
		if (c == '\r') {
			k->shown_again = true;
			continue;
		}
		if (c == '\n') {
			k->shown += k->shown_line + 1;
			k->shown_line = 0;
		} else {
			k->shown_line = k->shown_again ? 1 : k->shown_line + 1;
		}
		k->shown_again = false;
	}
}

void kept_output_add(struct kept_output *k, const void *data, size_t len)
{
	const size_t raw = !k->settles ? len : MIN(len, k->head - MIN(k->head, k->data.len));

	k->total += len;
	if (k->settles)
		count_shown(k, data, len);
	store(k, data, raw);
	if (raw > 0)
		k->joined = ((const char *)data)[raw - 1] != '\n';
	add_settled(k, (const char *)data + raw, len - raw);
}

bool kept_output_is_long(const struct kept_output *k, size_t max)
{
	return k->cleared || (k->settles ? k->shown + k->shown_line : k->total) > max;
}

void kept_output_skip(struct kept_output *k, uint64_t len)
{
	k->total += len;
	k->line_len = 0;
	k->head = MIN(k->head, k->data.len);
	k->at = k->head;
	k->data.len = k->head;
	k->stored = k->head;
	k->n_states = 0;
	k->now = (struct run_states){0};
	if (k->data.data)
		k->data.data[k->data.len] = '\0';
}

/* ---- the end ---- */

static void reverse(char *data, size_t len)
{
	for (size_t i = 0; i < len / 2; i++) {
		char c = data[i];

		data[i] = data[len - 1 - i];
		data[len - 1 - i] = c;
	}
}

/* Moves the first FIRST bytes of DATA (SIZE bytes) behind the others. Without memory it takes longer. */
static void rotate(char *data, size_t size, size_t first)
{
	const size_t second = size - first;
	_cleanup_free_ char *spare = malloc(MIN(first, second));

	if (spare && first <= second) {
		memcpy(spare, data, first);
		memmove(data, data + first, second);
		memcpy(data + second, spare, first);
	} else if (spare) {
		memcpy(spare, data + first, second);
		memmove(data + second, data, first);
		memcpy(data, spare, second);
	} else {
		reverse(data, first);
		reverse(data + first, second);
		reverse(data, size);
	}
}

/* Their places among the bytes that are still there. */
static void place_states(struct kept_output *k)
{
	const size_t gone = (size_t)(k->stored - k->data.len);
	size_t n = 0;

	for (size_t i = 0; i < k->n_states; i++)
		if (k->states[i].at >= k->head + gone) {
			k->states[n] = k->states[i];
			k->states[n++].at -= gone;
		}
	k->n_states = n;
}

struct run_output kept_output_end(struct kept_output *k)
{
	store_line(k);
	const bool truncated = k->total > k->data.len;

	place_states(k);

	if (truncated && k->at > k->head) {
		rotate(k->data.data + k->head, k->data.len - k->head, k->at - k->head);
		k->at = k->head;
	}
	return (struct run_output){.data = buf_str(&k->data),
				   .len = k->data.len,
				   .head = truncated ? MIN(k->head, k->data.len) : k->data.len,
				   .truncated = truncated,
				   .total = k->total,
				   .over = k->over,
				   .cleared = k->cleared,
				   .states = k->states,
				   .n_states = k->n_states,
				   .shown = k->settles ? k->shown + k->shown_line : k->total};
}

/* ---- as text ---- */

static bool is_continuation(char c)
{
	return ((unsigned char)c & 0xC0) == 0x80;
}

/* LEN, or less if the first LEN bytes of DATA end inside a UTF-8 character. */
static size_t whole_head(const char *data, size_t len)
{
	size_t back = 0;

	while (back < 3 && back < len && is_continuation(data[len - 1 - back]))
		back++;
	if (back == len)
		return len;
	unsigned char lead = (unsigned char)data[len - 1 - back];
	size_t want = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
	return want > back + 1 ? len - 1 - back : len;
}

/* The offset of the last TAIL bytes of DATA, moved past the rest of a UTF-8 character. */
static size_t whole_tail(const char *data, size_t len, size_t tail)
{
	size_t at = len - tail;

	for (int i = 0; i < 3 && at < len && is_continuation(data[at]); i++)
		at++;
	return at;
}

/* The number of bytes from the last Python traceback to the end; 0 if there is none. */
static size_t traceback_len(const char *data, size_t len)
{
	const size_t n = strlen(TRACEBACK);

	for (size_t at = len < n ? 0 : len - n + 1; at > 0; at--)
		if (memcmp(data + at - 1, TRACEBACK, n) == 0)
			return len - (at - 1);
	return 0;
}

/* Where the whole output is, or why it is not there. */
static int add_file(struct buf *b, const struct run_output *o)
{
	if (o->file && !o->file_lacks)
		return buf_printf(b, "; all %ju byte%s are in /mnt/data/%s",
				  (uintmax_t)o->file_bytes, text_s(o->file_bytes), o->file);
	if (o->file)
		return buf_printf(b, "; the first %ju byte%s are in /mnt/data/%s (%s)",
				  (uintmax_t)o->file_bytes, text_s(o->file_bytes), o->file,
				  o->file_lacks);
	return o->file_lacks ? buf_printf(b, "; they could not be stored: %s", o->file_lacks) : 0;
}

int run_output_add(struct buf *b, const struct run_output *o, size_t max, const char *where,
		   bool *ret_cut)
{
	size_t head = o->head, tail = o->len - o->head;

	if (o->len > max) {
		/* The end is made long enough for a whole traceback, if that fits. */
		size_t want = MAX(max / 2, MIN(traceback_len(o->data, o->len), max));

		tail = MIN(want, o->truncated ? tail : o->len);
		head = MIN(max - tail, o->head);
	}
	*ret_cut = o->truncated || o->len > max;
	if (!*ret_cut)
		return text_add_utf8_lossy(b, o->data, o->len);
	head = whole_head(o->data, head);
	size_t at = whole_tail(o->data, o->len, tail);
	uint64_t left_out = o->total - head - (o->len - at);
	int r = text_add_utf8_lossy(b, o->data, head);
	r = r < 0 ? r
		  : buf_printf(b, "\n[... %ju byte%s left out", (uintmax_t)left_out,
			       text_s(left_out));
	r = r < 0 ? r : add_file(b, o);
	r = r < 0 ? r : buf_printf(b, "%s%s ...]\n", where ? "; " : "", where ? where : "");
	return r < 0 ? r : text_add_utf8_lossy(b, o->data + at, o->len - at);
}

void run_result_share(const struct run_result *r, size_t budget, size_t ret[ENGINE_RESULT + 1])
{
	const size_t value = MIN(r->value.len, budget / 3), left = budget - value;
	const size_t unused = left - MIN(r->out.len, left);

	memset(ret, 0, (ENGINE_RESULT + 1) * sizeof(*ret));
	ret[ENGINE_STDERR] = MIN(r->err.len, MAX(left / 3, unused));
	ret[ENGINE_STDOUT] = left - ret[ENGINE_STDERR];
	ret[ENGINE_RESULT] = budget / 3;
}
