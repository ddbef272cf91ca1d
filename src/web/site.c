/* SPDX-License-Identifier: Apache-2.0 */
#include "web/site.h"

#include "base/base64.h"
#include "base/text.h"

#include "http/range.h"
#include "web/accepts.h"
#include "web/assets.h"
#include "web/page.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ETAG_SIZE 48

/* The page has no script or style inside its document, and asks nobody but this server. Frames are files of
 * sandboxes and /frame, which have a policy of their own that gives them an opaque origin. */
#define PAGE_POLICY                                                                                \
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "    \
	"font-src 'self'; connect-src 'self'; frame-src 'self' blob:; worker-src 'self'; "         \
	"manifest-src 'self'; media-src 'self' blob:; object-src 'none'; frame-ancestors 'none'; " \
	"base-uri 'none'; form-action 'self'"
/* The page without the web part has its few rules of style inside. */
#define LEFT_OUT_POLICY "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
/* HTML of a sandbox: any script may run in it, in an origin of its own, without network, except
 * that Chromium does not know the directive webrtc of CSP Level 3, and says so on its console. */
#define FRAME_POLICY                                                                               \
	"sandbox allow-scripts; default-src 'none'; "                                              \
	"script-src 'unsafe-inline' 'unsafe-eval' data: blob:; style-src 'unsafe-inline' data: "   \
	"blob:; img-src data: blob:; font-src data: blob:; media-src data: blob:; "                \
	"connect-src data: blob:; worker-src data: blob:; base-uri 'none'; form-action 'none'; "   \
	"frame-ancestors 'self'; webrtc 'block'"

/* HTML of a sandbox in which no script runs but the frame's own, which is known by its digest. */
#define STILL_POLICY                                                                               \
	"sandbox allow-scripts; default-src 'none'; script-src 'sha256-%s'; "                      \
	"style-src 'unsafe-inline'; img-src data:; font-src data:; media-src data:; "              \
	"base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

/* The document of /frame. The page gives it HTML once, by a message; it tells the page its height. */
static const char frame_html[] =
    "<!doctype html><html><head><meta charset=\"utf-8\"><title>Output</title><script>\n"
    "(() => {\n"
    "const page = parent;\n"
    "const tell = (data) => page.postMessage(Object.assign({caisson: data.what}, data), '*');\n"
    "const once = (event) => {\n"
    "\tif (event.source !== page || typeof event.data?.html !== 'string') return;\n"
    "\tremoveEventListener('message', once);\n"
    "\tdocument.open();\n"
    "\tdocument.write(event.data.html);\n"
    "\tdocument.close();\n"
    "\tconst root = document.documentElement;\n"
    /* What is higher than its frame says so. What is lower does not, because the height of a document is
     * that of its frame at least: it may shrink once, when it is first shown, and later only grow. */
    "\tconst grow = () => {\n"
    "\t\tif (root.scrollHeight > innerHeight) tell({what: 'size', height: root.scrollHeight});\n"
    "\t};\n"
    "\tconst fit = () => {\n"
    "\t\tif (innerHeight === 0) return addEventListener('resize', fit, {once: true});\n"
    "\t\tconst all = document.createRange();\n"
    "\t\tall.selectNodeContents(document.body ?? root);\n"
    "\t\tconst end = all.getBoundingClientRect().bottom + scrollY + 16;\n"
    "\t\tif (root.scrollHeight <= innerHeight && end < innerHeight) tell({what: 'size', height: "
    "end});\n"
    "\t\tnew ResizeObserver(grow).observe(root);\n"
    "\t};\n"
    "\tsetTimeout(fit, 0);\n"
    "};\n"
    "addEventListener('message', once);\n"
    "tell({what: 'ready'});\n"
    "})();\n"
    "</script></head><body></body></html>\n";

struct site {
	struct http_route *rows;
	char **plain; /* owned: for each asset, once a client wanted it without gzip */
	char still_policy[512];
	char *left_out; /* owned HTML; NULL before site_set_address() */
};

static void add_common_headers(struct http_request *req, const char *policy)
{
	/* http_add_header() fails only for names and values that break a head; these are constants. */
	(void)http_add_header(req, "Content-Security-Policy", policy);
	(void)http_add_header(req, "Referrer-Policy", "no-referrer");
	(void)http_add_header(req, "Cross-Origin-Opener-Policy", "same-origin");
	(void)http_add_header(req, "Cross-Origin-Resource-Policy", "same-origin");
	(void)http_add_header(req, "X-Frame-Options", "DENY");
	(void)http_add_header(req, "Permissions-Policy",
			      "camera=(), geolocation=(), microphone=(), payment=(), usb=()");
}

/* The bytes of A as its file has them if PACKED, else unpacked: they are kept, for the next client that cannot unpack. */
static const void *bytes_of(const struct site *s, const struct web_asset *a, bool packed)
{
	char **plain = &s->plain[a - web_assets];

	if (packed || a->file.len == a->file.plain_len)
		return a->file.data;
	if (!*plain)
		*plain = web_unpack(&a->file);
	return *plain;
}

static void respond_asset(const struct site *s, struct http_request *req, const struct web_asset *a)
{
	const bool packed = a->file.len < a->file.plain_len &&
			    accepts_coding(http_request_header(req, "accept-encoding"), "gzip");
	const void *bytes = bytes_of(s, a, packed);
	const char *known = http_request_header(req, "if-none-match");
	char etag[ETAG_SIZE];

	if (!bytes) {
		http_respond_problem(req, ERR_OUT_OF_MEMORY, "no memory for the page", NULL);
		return;
	}
	/* Each form has bytes of its own, so it has a tag of its own. */
	(void)snprintf(etag, sizeof(etag), "\"%s-%d\"", a->digest, packed);
	add_common_headers(req, PAGE_POLICY);
	(void)http_add_header(req, "ETag", etag);
	(void)http_add_header(req, "Vary", "Accept-Encoding");
	(void)http_add_header(req, "Cache-Control",
			      a->immutable ? "public, max-age=31536000, immutable" : "no-cache");
	if (known && http_etag_in_list(known, etag, true)) {
		http_respond(req, 304, NULL, NULL, 0);
		return;
	}
	if (packed)
		(void)http_add_header(req, "Content-Encoding", "gzip");
	http_respond_shared(req, 200, a->type, bytes, packed ? a->file.len : a->file.plain_len);
}

static void get_asset(struct http_request *req, void *user)
{
	const char *path = http_request_path(req);

	for (const struct web_asset *a = web_assets; a->path; a++)
		if (streq(a->path, path)) {
			respond_asset(user, req, a);
			return;
		}
	http_respond_problem(req, ERR_NOT_FOUND, "There is no such page", NULL);
}

static void get_left_out(struct http_request *req, void *user)
{
	const struct site *s = user;

	add_common_headers(req, LEFT_OUT_POLICY);
	http_respond_text(req, 200, "text/html; charset=utf-8", s->left_out ? s->left_out : "");
}

static void respond_frame(struct http_request *req, const char *policy)
{
	(void)http_add_header(req, "Content-Security-Policy", policy);
	(void)http_add_header(req, "Referrer-Policy", "no-referrer");
	(void)http_add_header(req, "X-DNS-Prefetch-Control", "off");
	(void)http_add_header(req, "Cache-Control", "no-cache");
	http_respond_shared(req, 200, "text/html; charset=utf-8", frame_html,
			    sizeof(frame_html) - 1);
}

static void get_frame(struct http_request *req, void *user UNUSED)
{
	respond_frame(req, FRAME_POLICY);
}

static void get_still_frame(struct http_request *req, void *user)
{
	const struct site *s = user;

	respond_frame(req, s->still_policy);
}

static void make_still_policy(struct site *s)
{
	static const char begin[] = "<script>", end[] = "</script>";
	const char *script = strstr(frame_html, begin) + strlen(begin);
	uint8_t digest[crypto_hash_sha256_BYTES];
	char text[BASE64_ENCODED_LEN(crypto_hash_sha256_BYTES) + 1] = "";

	(void)crypto_hash_sha256(digest, (const uint8_t *)script,
				 (size_t)(strstr(script, end) - script));
	base64_encode(digest, sizeof(digest), text);
	(void)snprintf(s->still_policy, sizeof(s->still_policy), STILL_POLICY, text);
}

int site_new(struct http_server *http, unsigned scopes, struct site **ret, struct err *e)
{
	struct site *s = calloc(1, sizeof(*s));
	size_t n = 0;

	if (s) {
		s->rows = calloc(web_n_assets + 3, sizeof(*s->rows));
		s->plain = calloc(web_n_assets + 1, sizeof(*s->plain));
	}
	if (!s || !s->rows || !s->plain) {
		(void)site_free(s);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the page");
	}
	for (const struct web_asset *a = web_assets; a->path; a++)
		s->rows[n++] = (struct http_route){HTTP_GET | HTTP_HEAD, a->path, get_asset, 0, 0};
	if (n == 0)
		s->rows[n++] = (struct http_route){HTTP_GET | HTTP_HEAD, "/", get_left_out, 0, 0};
	make_still_policy(s);
	s->rows[n++] = (struct http_route){HTTP_GET | HTTP_HEAD, "/frame", get_frame, 0, 0};
	s->rows[n++] =
	    (struct http_route){HTTP_GET | HTTP_HEAD, "/frame/still", get_still_frame, 0, 0};
	int r = http_server_add_routes(http, s->rows, n, scopes, s);
	if (r < 0) {
		(void)site_free(s);
		return err_set(e, ERR_INTERNAL, -r, "the routes of the page");
	}
	*ret = s;
	return 0;
}

int site_set_address(struct site *s, const char *base, const char *profile, bool needs_key,
		     struct err *e)
{
	if (web_n_assets > 0)
		return 0;
	free(s->left_out);
	s->left_out = page_make(base, profile, needs_key, web_left_out);
	return s->left_out ? 0 : err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the page");
}

struct site *site_free(struct site *s)
{
	if (s) {
		for (size_t i = 0; s->plain && i < web_n_assets; i++)
			free(s->plain[i]);
		free(s->plain);
		free(s->rows);
		free(s->left_out);
	}
	free(s);
	return NULL;
}
