/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/scanner_parts.h"

#include "mcp/exact.h"

#include <string.h>

#define COUNT_STEP 4096U       /* memory is counted in steps of this many bytes */
#define KEEP_MAX   (64U << 10) /* bytes of memory kept between messages */

void scanner_init(struct scanner *s, const struct scan_limits *limits)
{
	*s = (struct scanner){.limits = *limits};
	ASSERT(limits->max_depth <= 64);
	buf_init(&s->rest, limits->max_rest);
}

void scanner_reset(struct scanner *s)
{
	struct scan_limits limits = s->limits;
	struct buf rest = s->rest;
	struct scanner next = {.limits = limits};

	spill_unref(s->spill);
	budget_give(&s->memory);
	if (rest.cap > KEEP_MAX)
		buf_done(&rest);
	else
		buf_reset(&rest);
	next.rest = rest;
	memcpy(next.payer, s->payer, sizeof(next.payer));
	*s = next;
}

void scanner_done(struct scanner *s)
{
	spill_unref(s->spill);
	s->spill = NULL;
	budget_give(&s->memory);
	buf_done(&s->rest);
}

bool scan_fail(struct scanner *s, enum scan_fault fault)
{
	if (s->fault == SCAN_OK)
		s->fault = fault;
	s->discarding = false;
	return false;
}

bool scan_discard(struct scanner *s, enum scan_fault fault)
{
	if (s->fault == SCAN_OK)
		s->fault = fault;
	s->discarding = true;
	return true;
}

/* ---- what is left ---- */

/* The first step is for nothing: most messages are shorter. False: the sender has as much as it may. */
static bool count_memory(struct scanner *s, size_t len)
{
	struct err e = ERR_INIT;
	size_t bytes = len / COUNT_STEP * COUNT_STEP;

	s->counted = bytes + COUNT_STEP;
	return bytes == 0 || budget_take(s->limits.budgets, s->payer, BUDGET_MESSAGE_MEMORY, bytes,
					 &s->memory, &e) == 0;
}

bool scan_keep(struct scanner *s, const char *data, size_t len)
{
	int r;

	if (s->request.catching)
		scan_id_more(&s->request, data, len);
	if (s->discarding)
		return true;
	if (s->rest.len + len >= s->counted && !count_memory(s, s->rest.len + len))
		return scan_discard(s, SCAN_OVER_BUDGET);
	r = buf_add(&s->rest, data, len);
	return r == 0 || scan_discard(s, r == -ENOBUFS ? SCAN_TOO_LARGE : SCAN_NO_MEMORY);
}

bool scan_keep_char(struct scanner *s, unsigned char c)
{
	char b = (char)c;

	return scan_keep(s, &b, 1);
}

/* ---- numbers and literals ---- */

static void end_value(struct scanner *s)
{
	s->state = s->depth ? ST_AFTER : ST_END;
}

static bool is_digit(unsigned char c)
{
	return c >= '0' && c <= '9';
}

/* The state after C inside a number. ST_VALUE: C does not belong to the number. */
static enum scan_state number_next(enum scan_state at, unsigned char c)
{
	switch ((unsigned)at) {
	case ST_MINUS:
		return c == '0' ? ST_ZERO : is_digit(c) ? ST_DIGITS : ST_VALUE;
	case ST_ZERO:
		return c == '.' ? ST_POINT : c == 'e' || c == 'E' ? ST_E : ST_VALUE;
	case ST_DIGITS:
		if (is_digit(c))
			return ST_DIGITS;
		return c == '.' ? ST_POINT : c == 'e' || c == 'E' ? ST_E : ST_VALUE;
	case ST_POINT:
		return is_digit(c) ? ST_FRACTION : ST_VALUE;
	case ST_FRACTION:
		if (is_digit(c))
			return ST_FRACTION;
		return c == 'e' || c == 'E' ? ST_E : ST_VALUE;
	case ST_E:
		if (c == '+' || c == '-')
			return ST_E_SIGN;
		return is_digit(c) ? ST_EXPONENT : ST_VALUE;
	case ST_E_SIGN:
	case ST_EXPONENT:
		return is_digit(c) ? ST_EXPONENT : ST_VALUE;
	default:
		return ST_VALUE;
	}
}

static bool may_end_number(enum scan_state at)
{
	return at == ST_ZERO || at == ST_DIGITS || at == ST_FRACTION || at == ST_EXPONENT;
}

/* False without a fault: C is not part of the number and must be looked at again. */
static bool on_number(struct scanner *s, unsigned char c)
{
	enum scan_state next = number_next(s->state, c);

	if (next != ST_VALUE) {
		if (++s->n_number > EXACT_DIGITS || next == ST_POINT || next == ST_E ||
		    (s->state == ST_MINUS && next == ST_ZERO))
			s->has_exact = true;
		s->state = next;
		return scan_keep_char(s, c);
	}
	if (!may_end_number(s->state))
		return scan_fail(s, SCAN_SYNTAX);
	end_value(s);
	return false;
}

static bool on_literal(struct scanner *s, unsigned char c)
{
	if ((char)c != *s->literal)
		return scan_fail(s, SCAN_SYNTAX);
	if (!*++s->literal)
		end_value(s);
	return scan_keep_char(s, c);
}

/* ---- structure ---- */

/* Inside what is nested too deeply only the way out is looked for, so that an id behind it is found. */
static bool on_deep(struct scanner *s, unsigned char c)
{
	if (s->deep_escape) {
		s->deep_escape = false;
	} else if (s->deep_string) {
		s->deep_escape = c == '\\';
		s->deep_string = c != '"';
	} else if (c == '"') {
		s->deep_string = true;
	} else if (c == '{' || c == '[') {
		s->deep++;
	} else if ((c == '}' || c == ']') && --s->deep == 0) {
		end_value(s);
	}
	return true;
}

static bool open_container(struct scanner *s, unsigned char c)
{
	if (s->depth == s->limits.max_depth) {
		s->deep = 1;
		s->state = ST_DEEP;
		return scan_discard(s, SCAN_DEPTH);
	}
	if (c == '{')
		s->is_object |= UINT64_C(1) << s->depth;
	else
		s->is_object &= ~(UINT64_C(1) << s->depth);
	s->depth++;
	s->state = c == '{' ? ST_FIRST_KEY : ST_FIRST_VALUE;
	return scan_keep_char(s, c);
}

static bool in_object(const struct scanner *s)
{
	return s->is_object >> (s->depth - 1) & 1;
}

static bool close_container(struct scanner *s, unsigned char c)
{
	s->depth--;
	end_value(s);
	return scan_keep_char(s, c);
}

static bool begin_value(struct scanner *s, unsigned char c)
{
	if (++s->n_values > s->limits.max_values)
		(void)scan_discard(s, SCAN_VALUES);
	s->n_number = 1;
	switch (c) {
	case '"':
		return scan_begin_string(s, false);
	case '{':
	case '[':
		return open_container(s, c);
	case 't':
		s->literal = "rue";
		break;
	case 'f':
		s->literal = "alse";
		break;
	case 'n':
		s->literal = "ull";
		break;
	case '-':
		s->state = ST_MINUS;
		return scan_keep_char(s, c);
	case '0':
		s->state = ST_ZERO;
		return scan_keep_char(s, c);
	default:
		if (!is_digit(c))
			return scan_fail(s, SCAN_SYNTAX);
		s->state = ST_DIGITS;
		return scan_keep_char(s, c);
	}
	s->state = ST_LITERAL;
	return scan_keep_char(s, c);
}

static bool is_blank(unsigned char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Some programs write a byte order mark before a text. RFC 8259 lets a reader skip it. */
static bool is_mark(struct scanner *s, unsigned char c)
{
	static const unsigned char mark[] = {0xEF, 0xBB, 0xBF};

	if (s->n_mark == sizeof(mark) || c != mark[s->n_mark] || s->depth > 0 ||
	    s->state != ST_VALUE)
		return false;
	s->n_mark++;
	return true;
}

/* A byte between the tokens. */
static bool on_structure(struct scanner *s, unsigned char c)
{
	if (is_mark(s, c))
		return true;
	if (s->n_mark == 1 || s->n_mark == 2) /* half a mark */
		return scan_fail(s, SCAN_SYNTAX);
	if (is_blank(c))
		return true;
	switch (s->state) {
	case ST_FIRST_VALUE:
		if (c == ']')
			return close_container(s, c);
		return begin_value(s, c);
	case ST_VALUE:
		return begin_value(s, c);
	case ST_FIRST_KEY:
		if (c == '}')
			return close_container(s, c);
		return c == '"' ? scan_begin_string(s, true) : scan_fail(s, SCAN_SYNTAX);
	case ST_KEY:
		return c == '"' ? scan_begin_string(s, true) : scan_fail(s, SCAN_SYNTAX);
	case ST_COLON:
		if (c != ':')
			return scan_fail(s, SCAN_SYNTAX);
		s->state = ST_VALUE;
		if (!scan_keep_char(s, c))
			return false;
		if (s->depth == 1)
			scan_id_on_key(s);
		return true;
	case ST_AFTER:
		if (s->depth == 1)
			scan_id_on_value(&s->request);
		if (c == ',') {
			s->state = in_object(s) ? ST_KEY : ST_VALUE;
			return scan_keep_char(s, c);
		}
		if (c != (in_object(s) ? '}' : ']'))
			return scan_fail(s, SCAN_SYNTAX);
		return close_container(s, c);
	default:
		return scan_fail(s, SCAN_SYNTAX);
	}
}

/* Nothing of a message that failed is read again. What it held goes back at once and not at its end,
 * which its sender may never send. */
static void give_back(struct scanner *s)
{
	spill_unref(s->spill);
	s->spill = NULL;
	buf_done(&s->rest);
	budget_give(&s->memory);
}

enum scan_fault scanner_feed(struct scanner *s, const char *bytes, size_t len)
{
	const unsigned char *p = (const unsigned char *)bytes;
	size_t i = 0;

	if (s->fault != SCAN_OK && !s->discarding)
		return s->fault;
	if (len > s->limits.max_message - s->n_bytes)
		(void)scan_discard(s, SCAN_TOO_LARGE);
	else
		s->n_bytes += len;
	while (i < len && (s->fault == SCAN_OK || s->discarding)) {
		switch ((enum scan_state)s->state) {
		case ST_STRING:
			i += scan_on_string(s, p + i, len - i);
			break;
		case ST_ESCAPE:
			i += scan_on_escape(s, p[i]);
			break;
		case ST_HEX:
			i += scan_on_hex(s, p[i]);
			break;
		case ST_UTF8:
			i += scan_on_utf8(s, p[i]);
			break;
		case ST_LITERAL:
			i += on_literal(s, p[i]);
			break;
		case ST_MINUS:
		case ST_ZERO:
		case ST_DIGITS:
		case ST_POINT:
		case ST_FRACTION:
		case ST_E:
		case ST_E_SIGN:
		case ST_EXPONENT:
			i += on_number(s, p[i]);
			break;
		case ST_DEEP:
			i += on_deep(s, p[i]);
			break;
		case ST_VALUE:
		case ST_FIRST_VALUE:
		case ST_FIRST_KEY:
		case ST_KEY:
		case ST_COLON:
		case ST_AFTER:
		case ST_END:
			i += on_structure(s, p[i]);
			break;
		}
	}
	if (s->fault != SCAN_OK)
		give_back(s);
	return s->fault;
}

enum scan_fault scanner_end(struct scanner *s)
{
	if (s->fault == SCAN_OK && s->depth == 0 && may_end_number(s->state))
		end_value(s);
	if (s->fault == SCAN_OK && s->state != ST_END)
		scan_fail(s, SCAN_SYNTAX);
	return s->fault;
}

bool scanner_is_blank(const struct scanner *s)
{
	return s->fault == SCAN_OK && s->state == ST_VALUE && s->depth == 0 && s->rest.len == 0;
}
