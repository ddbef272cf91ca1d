/* SPDX-License-Identifier: Apache-2.0 */
#include "api/mask.h"

#include "api/mask_forms.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HELD_MAX                                                                                   \
	(2u * MASK_SECRET_MAX + (4u << 20)) /* of a stream; a piece comes on top of a secret */

struct secret {
	char *text; /* owned */
	size_t len;
	uint16_t *back; /* owned: length of the longest border of each prefix */
};

struct mask_set {
	size_t n;
	uint16_t first
	    [257]; /* by_byte[first[c] .. first[c + 1] - 1] are the secrets that begin with the byte c */
	uint16_t *by_byte; /* owned */
	struct secret secrets[];
};

struct span { /* of bytes to mask, by their position in the stream */
	uint64_t from, to;
};

struct mask {
	const struct mask_set *set;
	struct buf held; /* the last bytes of the stream */
	uint64_t at;     /* position of the first held byte */
	bool open;       /* the byte before the first held one was masked, so its mark is written */
	struct span *spans; /* owned; in order, without overlap, all of them in held bytes */
	size_t n_spans, room;
	uint64_t steps;
	size_t n_active;
	size_t *active;   /* the secrets of which the stream ends with a part; behind `matched` */
	size_t matched[]; /* for each secret: how much of it the stream ends with */
};

/* ---- secrets ---- */

/* Takes TEXT, also if it fails. */
static int read_secret(struct secret *s, char *text)
{
	s->len = strlen(text);
	s->text = text;
	s->back = calloc(s->len + 1, sizeof(*s->back));
	if (!s->back)
		return -ENOMEM;
	for (size_t i = 1, k = 0; i < s->len; i++) {
		while (k > 0 && text[i] != text[k])
			k = s->back[k];
		k += text[i] == text[k];
		s->back[i + 1] = (uint16_t)k;
	}
	return 0;
}

static int add_secret(struct mask_set *set, const char *text)
{
	const size_t len = strlen(text);
	struct mask_forms forms;

	if (len < MASK_SECRET_MIN || len > MASK_SECRET_MAX)
		return 0;
	int r = mask_forms_of(text, &forms);
	for (size_t i = 0; i < forms.n && r == 0; i++)
		r = read_secret(&set->secrets[set->n++], TAKE_PTR(forms.form[i]));
	mask_forms_done(&forms);
	return r;
}

/* Puts the secrets in the order of their first bytes. */
static int sort_secrets(struct mask_set *set)
{
	uint16_t at[256];

	set->by_byte = calloc(set->n, sizeof(*set->by_byte));
	if (!set->by_byte)
		return -ENOMEM;
	for (size_t i = 0; i < set->n; i++)
		set->first[(unsigned char)set->secrets[i].text[0] + 1]++;
	for (size_t c = 0; c < 256; c++) {
		at[c] = set->first[c];
		set->first[c + 1] = (uint16_t)(set->first[c + 1] + set->first[c]);
	}
	for (size_t i = 0; i < set->n; i++)
		set->by_byte[at[(unsigned char)set->secrets[i].text[0]]++] = (uint16_t)i;
	return 0;
}

int mask_set_new(const char *const *secrets, size_t n, struct mask_set **ret)
{
	struct mask_set *set;
	int r = 0;

	*ret = NULL;
	if (n > MASK_SECRETS_MAX)
		return -E2BIG;
	set = calloc(1, sizeof(*set) + n * MASK_FORMS_MAX * sizeof(set->secrets[0]));
	if (!set)
		return -ENOMEM;
	for (size_t i = 0; i < n && r == 0; i++)
		r = add_secret(set, secrets[i]);
	if (r == 0 && set->n > 0)
		r = sort_secrets(set);
	*ret = r == 0 && set->n > 0 ? set : mask_set_free(set);
	return r;
}

struct mask_set *mask_set_free(struct mask_set *set)
{
	for (size_t i = 0; set && i < set->n; i++) {
		if (set->secrets[i].text)
			explicit_bzero(set->secrets[i].text, set->secrets[i].len);
		free(set->secrets[i].text);
		free(set->secrets[i].back);
	}
	if (set)
		free(set->by_byte);
	free(set);
	return NULL;
}

/* ---- streams ---- */

struct mask *mask_new(const struct mask_set *set)
{
	struct mask *m = calloc(1, sizeof(*m) + 2 * set->n * sizeof(m->matched[0]));

	if (m) {
		m->set = set;
		m->active = &m->matched[set->n];
		buf_init(&m->held, HELD_MAX);
	}
	return m;
}

struct mask *mask_free(struct mask *m)
{
	if (!m)
		return NULL;
	if (m->held.data)
		explicit_bzero(m->held.data, m->held.len);
	buf_done(&m->held);
	free(m->spans);
	free(m);
	return NULL;
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

/* One more byte C, after which the stream is END bytes long, for the secret I. */
static int step_secret(struct mask *m, size_t i, char c, uint64_t end)
{
	const struct secret *s = &m->set->secrets[i];
	size_t k = m->matched[i];

	m->steps++;
	while (k > 0 && s->text[k] != c)
		k = s->back[k];
	k += s->text[k] == c;
	if (k == s->len) {
		if (add_span(m, end - k, end) < 0)
			return -ENOMEM;
		k = s->back[k];
	}
	m->matched[i] = k;
	return 0;
}

/* A secret has a step only if the stream ends with a part of it, or C begins it. */
static int step(struct mask *m, char c, uint64_t end)
{
	const unsigned char byte = (unsigned char)c;
	size_t kept = 0;

	m->steps++;
	for (size_t j = 0; j < m->n_active; j++) {
		size_t i = m->active[j];

		if (step_secret(m, i, c, end) < 0)
			return -ENOMEM;
		if (m->matched[i] > 0)
			m->active[kept++] = i;
	}
	m->n_active = kept;
	for (size_t j = m->set->first[byte]; j < m->set->first[byte + 1]; j++) {
		size_t i = m->set->by_byte[j];

		m->steps++;
		if (m->matched[i] == 0) {
			m->matched[i] = 1;
			m->active[m->n_active++] = i;
		}
	}
	return 0;
}

/* Writes the held bytes before UNTIL, a position in the stream. */
static int emit(struct mask *m, uint64_t until, struct buf *out)
{
	const char *bytes = buf_str(&m->held);
	uint64_t at = m->at;
	size_t n_done = 0;
	int r = 0;

	for (size_t i = 0; i < m->n_spans && r == 0 && m->spans[i].from < until; i++) {
		struct span *s = &m->spans[i];

		if (s->from > at) {
			r = buf_add(out, bytes + (at - m->at), (size_t)(s->from - at));
			m->open = false;
		}
		if (r == 0 && !(m->open && s->from <= at))
			r = buf_add_str(out, MASK_TEXT);
		at = MIN(s->to, until);
		m->open = true;
		if (s->to > until)
			s->from = until;
		else
			n_done++;
	}
	if (r == 0 && at < until) {
		r = buf_add(out, bytes + (at - m->at), (size_t)(until - at));
		m->open = false;
	}
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
	uint64_t end = m->at + m->held.len;
	size_t longest = 0;
	int r = buf_add(&m->held, data, len);

	for (size_t i = 0; i < len && r == 0; i++)
		r = step(m, bytes[i], ++end);
	if (r < 0)
		return r;
	for (size_t j = 0; j < m->n_active; j++)
		longest = MAX(longest, m->matched[m->active[j]]);
	return emit(m, end - longest, out);
}

uint64_t mask_steps(const struct mask *m)
{
	return m->steps;
}

int mask_end(struct mask *m, struct buf *out)
{
	return emit(m, m->at + m->held.len, out);
}

int mask_counted(const struct mask_set *set, const char *text, size_t len, uint64_t *steps,
		 struct buf *out)
{
	if (!set)
		return buf_add(out, text, len);
	struct mask *m = mask_new(set);
	int r = m ? mask_add(m, text, len, out) : -ENOMEM;
	r = r < 0 ? r : mask_end(m, out);
	*steps += m ? m->steps : 0;
	(void)mask_free(m);
	return r;
}

int mask_text(const struct mask_set *set, const char *text, size_t len, struct buf *out)
{
	uint64_t ignored = 0;

	return mask_counted(set, text, len, &ignored, out);
}
