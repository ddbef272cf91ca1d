/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/mask_forms.h"

#include "base/base64.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_same(const char *text, size_t len, const char *other, size_t other_len)
{
	return len == other_len && memcmp(text, other, len) == 0;
}

/* Adds LEN bytes of TEXT, unless a form is the same. */
static int add(struct mask_forms *f, const char *text, size_t len)
{
	if (is_same(text, len, f->secret, strlen(f->secret)))
		return 0;
	for (size_t i = 0; i < f->n; i++)
		if (is_same(text, len, f->form[i], f->len[i]))
			return 0;
	if (f->n == MASK_FORMS_MAX || len > f->room)
		return MASK_FORMS_CUT;
	f->form[f->n] = strndup(text, len);
	if (!f->form[f->n])
		return -ENOMEM;
	f->len[f->n++] = len;
	f->room -= len;
	return 0;
}

static int add_buf(struct mask_forms *f, const struct buf *b, int r)
{
	return r < 0 ? -ENOMEM : add(f, buf_str(b), b->len);
}

/* ---- base64 ---- */

/* In a longer text that is encoded as a whole, the secret begins at one of three places of a group of three bytes. The
 * characters that hold bits of the secret alone are the same whatever stands around it. */
static int add_base64(struct mask_forms *f, const char *secret, size_t offset)
{
	const size_t len = strlen(secret), all = offset + len;
	const size_t first = (8 * offset + 5) / 6, end = 8 * all / 6;
	uint8_t *bytes = calloc(1, all);
	char *text = calloc(1, BASE64_ENCODED_LEN(all) + 1); /* strndup() may look for the end */
	int r = bytes && text ? 0 : -ENOMEM;

	if (r == 0) {
		memcpy(bytes + offset, secret, len);
		base64_encode(bytes, all, text);
		r = add(f, text + first, end - first);
		for (size_t i = first; i < end; i++)
			text[i] = (char)(text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i]);
		r = r != 0 ? r : add(f, text + first, end - first);
		explicit_bzero(bytes, all);
		explicit_bzero(text, end);
	}
	free(bytes);
	free(text);
	return r;
}

/* ---- addresses ---- */

/* The characters besides letters, digits and "-_.~" that stay as they are: of urllib's quote() and of encodeURIComponent(). */
static const char *const url_safe[] = {"", "/", "!'()*"};

static int add_url(struct mask_forms *f, const char *secret, const char *safe, bool plus)
{
	static const char hex[] = "0123456789ABCDEF";
	_cleanup_(buf_done) struct buf b = BUF_INIT(3 * strlen(secret) + 1);
	int r = 0;

	for (const unsigned char *p = (const unsigned char *)secret; *p && r == 0; p++) {
		bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z');
		bool digit = *p >= '0' && *p <= '9';

		if (letter || digit || strchr("-_.~", *p) || strchr(safe, *p))
			r = buf_add_char(&b, (char)*p);
		else if (plus && *p == ' ')
			r = buf_add_char(&b, '+');
		else
			r = buf_add(&b, (const char[]){'%', hex[*p >> 4], hex[*p & 15]}, 3);
	}
	return add_buf(f, &b, r);
}

/* ---- JSON ---- */

/* A code unit of UTF-16. */
static int add_unit(struct buf *b, uint32_t c)
{
	static const char hex[] = "0123456789abcdef";
	const char text[] = {'\\',       'u', hex[c >> 12 & 15], hex[c >> 8 & 15], hex[c >> 4 & 15],
			     hex[c & 15]};

	return buf_add(b, text, sizeof(text));
}

static int add_escape(struct buf *b, uint32_t c)
{
	static const struct {
		char c, name;
	} names[] = {{'"', '"'},  {'\\', '\\'}, {'\n', 'n'}, {'\r', 'r'},
		     {'\t', 't'}, {'\b', 'b'},  {'\f', 'f'}};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (c == (uint32_t)names[i].c)
			return buf_add(b, (const char[]){'\\', names[i].name}, 2);
	if (c < 0x10000)
		return add_unit(b, c);
	const int r = add_unit(b, 0xd800 + ((c - 0x10000) >> 10));
	return r < 0 ? r : add_unit(b, 0xdc00 + (c & 0x3ff));
}

/* How many bytes the character at P has, and which one it is. SECRET is UTF-8. */
static size_t character(const unsigned char *p, uint32_t *ret)
{
	size_t n = *p < 0x80 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;

	*ret = n == 1 ? *p : *p & (0x7fu >> n);
	for (size_t i = 1; i < n; i++)
		*ret = *ret << 6 | (p[i] & 0x3f);
	return n;
}

/* ASCII: other characters are written as numbers, too. */
static int add_json(struct mask_forms *f, const char *secret, bool ascii)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(6 * strlen(secret) + 1);
	int r = text_is_utf8(secret, strlen(secret)) ? 0 : 1;

	for (const unsigned char *p = (const unsigned char *)secret; *p && r == 0;) {
		uint32_t c;
		size_t n = character(p, &c);

		if (c < 0x20 || c == '"' || c == '\\' || (c >= 0x7f && ascii))
			r = add_escape(&b, c);
		else
			r = buf_add(&b, p, n);
		p += n;
	}
	return r > 0 ? 0 : add_buf(f, &b, r);
}

/* ---- HTML ---- */

/* QUOTES: as in an attribute. */
static int add_html(struct mask_forms *f, const char *secret, bool quotes)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(6 * strlen(secret) + 1);
	const int r = text_add_html(&b, secret, strlen(secret), quotes);

	return add_buf(f, &b, r);
}

/* ---- all ---- */

int mask_forms_of(const char *secret, size_t room, struct mask_forms *ret)
{
	struct mask_forms *f = ret;
	const size_t len = strlen(secret);
	int r = 0;

	*f = (struct mask_forms){.room = room, .secret = secret};
	if (len > MASK_FORM_MAX)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(url_safe) && r == 0; i++)
		r = add_url(f, secret, url_safe[i], false);
	r = r != 0 ? r : add_url(f, secret, "", true);
	r = r != 0 ? r : add_json(f, secret, false);
	r = r != 0 ? r : add_json(f, secret, true);
	r = r != 0 ? r : add_html(f, secret, false);
	r = r != 0 ? r : add_html(f, secret, true);
	for (size_t offset = 0; offset < 3 && r == 0 && len >= MASK_LONG_MIN; offset++)
		r = add_base64(f, secret, offset);
	return r;
}

void mask_forms_done(struct mask_forms *f)
{
	for (size_t i = 0; i < f->n; i++) {
		if (f->form[i])
			explicit_bzero(f->form[i], f->len[i]);
		free(f->form[i]);
	}
	*f = (struct mask_forms){0};
}
