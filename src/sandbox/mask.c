/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/mask.h"

#include "sandbox/mask_forms.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLICE 4096u /* bytes between two writes of what is certain; bounds the memory of spans */

/* The stream ends with a beginning of a form, of which this state is. States are numbered along the forms, so a form that
 * arrives is read from memory in order: among 100,000 states a step to any other place waits for the memory. No form has a
 * byte 0. */
struct state {
	uint32_t back;  /* the longest end of this beginning that is a beginning, too */
	uint16_t depth; /* bytes of the beginning */
	uint16_t found; /* bytes of the longest form that it ends with; 0 = none */
	uint16_t more;  /* the first of its other successors, in `others` */
	uint8_t n_more; /* how many there are */
	uint8_t next;   /* the byte that leads to the state behind this one; 0 = none does */
};

struct mask_set {
	uint32_t root[256];     /* the successors of state 0; 0 = none */
	struct state *states;   /* owned */
	uint8_t *other_bytes;   /* owned; the byte that leads to each other successor */
	uint32_t *other_states; /* owned */
	size_t n, n_others;
	size_t longest;
};

struct span { /* of bytes to mask, by their position in the stream */
	uint64_t from, to;
};

struct mask {
	const struct mask_set *set;
	struct buf held; /* the last bytes of the stream */
	uint64_t at;     /* position of the first held byte */
	uint64_t hidden; /* nothing before this position is written */
	bool open; /* the byte before the first held one was masked, and its mark is written */
	struct span *spans; /* owned; in order, without overlap, all of them in held bytes */
	size_t n_spans, room;
	uint64_t steps;
	uint32_t state;
};

/* ---- forms ---- */

struct text {
	char *data; /* owned */
	size_t len;
};

struct texts {
	struct text *list; /* owned */
	size_t n;
	size_t bytes;
};

static void texts_done(struct texts *t)
{
	for (size_t i = 0; i < t->n; i++) {
		explicit_bzero(t->list[i].data, t->list[i].len);
		free(t->list[i].data);
	}
	free(t->list);
}

/* Adds what is new of FORMS, in the order of the forms, and takes it. */
static void take_forms(struct texts *t, struct mask_forms *forms)
{
	for (size_t i = 0; i < forms->n; i++) {
		const struct text form = {forms->form[i], forms->len[i]};

		t->bytes += form.len;
		t->list[t->n++] = form;
		forms->form[i] = NULL;
	}
}

static int by_length(const void *a, const void *b)
{
	const size_t x = strlen(*(const char *const *)a), y = strlen(*(const char *const *)b);

	return (x > y) - (x < y);
}

static int by_bytes(const void *a, const void *b)
{
	const struct text *x = a, *y = b;
	const int r = memcmp(x->data, y->data, MIN(x->len, y->len));

	return r != 0 ? r : (x->len > y->len) - (x->len < y->len);
}

static int add_secret(struct texts *t, const char *secret)
{
	const size_t len = strlen(secret);
	char *copy = t->bytes + len <= MASK_BYTES_MAX ? strdup(secret) : NULL;

	if (!copy)
		return t->bytes + len <= MASK_BYTES_MAX ? -ENOMEM : -E2BIG;
	t->list[t->n++] = (struct text){copy, len};
	t->bytes += len;
	return 0;
}

/* SECRETS are in the order of their lengths, none of them too short or too long. */
static int collect(const char *const *secrets, size_t n, struct texts *t)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = add_secret(t, secrets[i]);
	for (size_t i = 0; i < n && r == 0; i++) {
		struct mask_forms forms;

		r = mask_forms_of(secrets[i], MASK_BYTES_MAX - t->bytes, &forms);
		if (r >= 0)
			take_forms(t, &forms);
		mask_forms_done(&forms);
		if (r == MASK_FORMS_CUT)
			return 0;
	}
	return r;
}

/* ---- the automaton ---- */

/* The successor of state S at the byte C; 0: none, or the root has none either. */
static inline uint32_t successor(const struct mask_set *set, uint32_t s, uint8_t c)
{
	const struct state *state = &set->states[s];

	if (s == 0)
		return set->root[c];
	if (state->next == c && c != 0)
		return s + 1;
	if (state->n_more == 0)
		return 0;
	const uint8_t *found = memchr(set->other_bytes + state->more, c, state->n_more);
	return found ? set->other_states[found - set->other_bytes] : 0;
}

/* How many bytes the text I begins with in common with the one before it. */
static size_t shared(const struct texts *t, size_t i)
{
	const struct text *a = i > 0 ? &t->list[i - 1] : NULL, *b = &t->list[i];
	const size_t most = a ? MIN(a->len, b->len) : 0;
	size_t n = 0;

	while (n < most && a->data[n] == b->data[n])
		n++;
	return n;
}

struct branch { /* the state CHILD follows PARENT, which has another one behind it */
	uint32_t parent, child;
	uint8_t byte;
};

/* Adds the states of TEXT behind its first KEPT bytes; PATH: of each state that leads to the text before it. */
static void add_text(struct mask_set *set, const struct text *text, size_t kept, uint32_t *path,
		     struct branch *branches)
{
	for (size_t i = kept; i < text->len; i++) {
		struct state *parent = &set->states[path[i]];
		const uint32_t s = (uint32_t)set->n++;
		const uint8_t c = (uint8_t)text->data[i];

		if (path[i] == 0) {
			set->root[c] = s;
		} else if (parent->next == 0) {
			parent->next = c;
		} else {
			parent->n_more++;
			branches[set->n_others++] = (struct branch){path[i], s, c};
		}
		set->states[s].depth = (uint16_t)(i + 1);
		path[i + 1] = s;
	}
	set->states[path[text->len]].found = (uint16_t)text->len;
}

/* The branches of a state become neighbours; `back` says until then where the next one of it goes. */
static void sort_branches(struct mask_set *set, const struct branch *branches)
{
	uint32_t room = 0;

	for (size_t i = 0; i < set->n_others; i++) {
		struct state *parent = &set->states[branches[i].parent];

		if (parent->back == 0) {
			parent->more = (uint16_t)room;
			parent->back = room;
			room += parent->n_more;
		}
		set->other_bytes[parent->back] = branches[i].byte;
		set->other_states[parent->back++] = branches[i].child;
	}
}

/* CHILD follows S at the byte C. */
static void look_back(struct mask_set *set, uint32_t s, uint32_t child, uint8_t c)
{
	uint32_t back = set->states[s].back, next;

	while (!(next = successor(set, back, c)) && back != 0)
		back = set->states[back].back;
	set->states[child].back = next;
}

/* Finds what each state ends with, the shorter beginnings first; QUEUE has room for all states. */
static void link_states(struct mask_set *set, uint32_t *queue)
{
	size_t n = 0;

	for (size_t c = 0; c < ARRAY_SIZE(set->root); c++)
		if (set->root[c] != 0) {
			queue[n++] = set->root[c];
			set->states[set->root[c]].back = 0;
		}
	for (size_t i = 0; i < n; i++) {
		const uint32_t s = queue[i];
		struct state *state = &set->states[s];

		if (state->found == 0)
			state->found = set->states[state->back].found;
		if (state->next != 0) {
			look_back(set, s, s + 1, state->next);
			queue[n++] = s + 1;
		}
		for (uint32_t k = state->more; k < (uint32_t)state->more + state->n_more; k++) {
			look_back(set, s, set->other_states[k], set->other_bytes[k]);
			queue[n++] = set->other_states[k];
		}
	}
}

static int build(struct mask_set *set, struct texts *t)
{
	size_t n = 1;

	qsort(t->list, t->n, sizeof(*t->list), by_bytes);
	for (size_t i = 0; i < t->n; i++) {
		set->longest = MAX(set->longest, t->list[i].len);
		n += t->list[i].len - shared(t, i);
	}
	_cleanup_free_ uint32_t *queue = calloc(n, sizeof(*queue));
	_cleanup_free_ uint32_t *path = calloc(set->longest + 1, sizeof(*path));
	_cleanup_free_ struct branch *branches = calloc(t->n + 1, sizeof(*branches));

	set->states = calloc(n, sizeof(*set->states));
	if (!queue || !path || !branches || !set->states)
		return -ENOMEM;
	set->n = 1;
	for (size_t i = 0; i < t->n; i++)
		add_text(set, &t->list[i], shared(t, i), path, branches);
	set->other_bytes = calloc(set->n_others + 1, sizeof(*set->other_bytes));
	set->other_states = calloc(set->n_others + 1, sizeof(*set->other_states));
	if (!set->other_bytes || !set->other_states)
		return -ENOMEM;
	sort_branches(set, branches);
	link_states(set, queue);
	explicit_bzero(branches, t->n * sizeof(*branches));
	return 0;
}

static size_t memory_of(size_t states, size_t others)
{
	return sizeof(struct mask_set) + states * sizeof(struct state) +
	       (others + 1) * (sizeof(uint8_t) + sizeof(uint32_t));
}

int mask_set_new(const char *const *secrets, size_t n, int (*take)(size_t bytes, void *user),
		 void *user, struct mask_set **ret)
{
	_cleanup_(texts_done) struct texts t = {0};
	const char *wanted[MASK_SECRETS_MAX];
	size_t n_wanted = 0;

	*ret = NULL;
	if (n > MASK_SECRETS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < n; i++) {
		const size_t len = strlen(secrets[i]);

		if (len > MASK_SECRET_MAX)
			return -E2BIG;
		if (len >= MASK_SECRET_MIN)
			wanted[n_wanted++] = secrets[i];
	}
	if (n_wanted == 0)
		return 0;
	qsort(wanted, n_wanted, sizeof(wanted[0]), by_length);
	struct mask_set *set = calloc(1, sizeof(*set));
	t.list = calloc(n_wanted * (1 + MASK_FORMS_MAX), sizeof(*t.list));
	int r = set && t.list ? collect(wanted, n_wanted, &t) : -ENOMEM;
	if (r == 0 && take)
		r = take(memory_of(t.bytes + 1, t.n), user);
	r = r < 0 ? r : build(set, &t);
	*ret = r == 0 ? set : mask_set_free(set);
	return r;
}

struct mask_set *mask_set_free(struct mask_set *set)
{
	if (!set)
		return NULL;
	if (set->states)
		explicit_bzero(set->states, set->n * sizeof(*set->states));
	if (set->other_bytes)
		explicit_bzero(set->other_bytes, set->n_others);
	free(set->other_bytes);
	free(set->other_states);
	free(set->states);
	free(set);
	return NULL;
}

size_t mask_set_memory(const struct mask_set *set)
{
	return memory_of(set->n, set->n_others);
}

size_t mask_set_longest(const struct mask_set *set)
{
	return set->longest;
}

/* ---- streams ---- */

struct mask *mask_new(const struct mask_set *set)
{
	struct mask *m = calloc(1, sizeof(*m));

	if (m) {
		m->set = set;
		buf_init(&m->held, set->longest + SLICE);
	}
	return m;
}

struct mask *mask_free(struct mask *m)
{
	if (!m)
		return NULL;
	if (m->held.data)
		explicit_bzero(m->held.data, m->held.cap);
	buf_done(&m->held);
	free(m->spans);
	free(m);
	return NULL;
}

void mask_skip(struct mask *m, size_t hidden)
{
	m->at += m->held.len;
	m->hidden = m->at + hidden;
	m->open = false;
	m->n_spans = 0;
	m->state = 0;
	buf_reset(&m->held);
}

/* Adds the span FROM..TO, whose end is the present end of the stream, and unites it with those that it touches. */
static int add_span(struct mask *m, uint64_t from, uint64_t to)
{
	while (m->n_spans > 0 && m->spans[m->n_spans - 1].to >= from) {
		from = MIN(from, m->spans[m->n_spans - 1].from);
		m->n_spans--;
	}
	if (m->n_spans == m->room) {
		size_t room = m->room ? 2 * m->room : 8;
		struct span *more = reallocarray(m->spans, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		m->spans = more;
		m->room = room;
	}
	m->spans[m->n_spans++] = (struct span){from, to};
	return 0;
}

/* The next LEN bytes, after the position END. */
static int scan(struct mask *m, const uint8_t *data, size_t len, uint64_t end)
{
	const struct mask_set *set = m->set;
	uint32_t s = m->state;
	uint64_t steps = len;
	int r = 0;

	for (size_t i = 0; i < len && r == 0; i++) {
		const uint8_t c = data[i];
		uint32_t next;

		while (!(next = successor(set, s, c)) && s != 0) {
			s = set->states[s].back;
			steps++;
		}
		s = next;
		const size_t found = set->states[s].found;
		if (found > 0)
			r = add_span(m, end + i + 1 - found, end + i + 1);
	}
	m->state = s;
	m->steps += steps;
	return r;
}

/* Writes the bytes FROM..TO, which are held and not masked. */
static int copy(struct mask *m, uint64_t from, uint64_t to, struct buf *out)
{
	from = MAX(from, m->hidden);
	if (from >= to)
		return 0;
	m->open = false;
	return buf_add(out, buf_str(&m->held) + (from - m->at), (size_t)(to - from));
}

/* Writes the held bytes before UNTIL, a position in the stream. */
static int emit(struct mask *m, uint64_t until, struct buf *out)
{
	uint64_t at = m->at;
	size_t n_done = 0;
	int r = 0;

	for (size_t i = 0; i < m->n_spans && r == 0 && m->spans[i].from < until; i++) {
		struct span *s = &m->spans[i];
		const uint64_t end = MIN(s->to, until);

		r = copy(m, at, s->from, out);
		if (r == 0 && end > m->hidden && !(m->open && s->from <= at)) {
			r = buf_add_str(out, MASK_TEXT);
			m->open = true;
		}
		at = end;
		if (s->to > until)
			s->from = until;
		else
			n_done++;
	}
	r = r < 0 ? r : copy(m, at, until, out);
	m->n_spans -= n_done;
	if (n_done > 0 && m->n_spans > 0)
		memmove(m->spans, m->spans + n_done, m->n_spans * sizeof(*m->spans));
	buf_consume(&m->held, (size_t)(until - m->at));
	m->at = until;
	return r;
}

int mask_add(struct mask *m, const void *data, size_t len, struct buf *out)
{
	const char *bytes = data;
	int r = 0;

	while (len > 0 && r == 0) {
		const size_t n = MIN(len, SLICE);
		const uint64_t end = m->at + m->held.len;

		r = buf_add(&m->held, bytes, n);
		r = r < 0 ? r : scan(m, (const uint8_t *)bytes, n, end);
		r = r < 0 ? r : emit(m, end + n - m->set->states[m->state].depth, out);
		bytes += n;
		len -= n;
	}
	return r;
}

uint64_t mask_steps(const struct mask *m)
{
	return m->steps;
}

int mask_end(struct mask *m, struct buf *out)
{
	return emit(m, m->at + m->held.len, out);
}

int mask_text(const struct mask_set *set, const char *text, size_t len, struct buf *out)
{
	if (!set)
		return buf_add(out, text, len);
	struct mask *m = mask_new(set);
	int r = m ? mask_add(m, text, len, out) : -ENOMEM;
	r = r < 0 ? r : mask_end(m, out);
	(void)mask_free(m);
	return r;
}
