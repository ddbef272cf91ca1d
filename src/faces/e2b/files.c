/* SPDX-License-Identifier: Apache-2.0 */
/* envd: files are sent and fetched, with the token of the sandbox or by an address with a signature. */
#include "faces/e2b/face.h"

#include "api/files/files.h"
#include "base/base64.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/walls.h"
#include "base/workers.h"
#include "sandbox/sandbox_path.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Clients read it to learn whether their processes are still those of before. A sandbox has no /proc/sys, and no start of its
 * kernel to tell of. */
#define BOOT_ID          "/proc/sys/kernel/random/boot_id"
#define SIGNATURE_PREFIX "v1_"
#define SIGNATURE_SIZE   (sizeof(SIGNATURE_PREFIX) + BASE64_ENCODED_LEN(crypto_hash_sha256_BYTES))

/* ---- paths ---- */

int e2b_path(const struct e2b_call *c, const char *path, char *ret, struct err *e)
{
	const bool home = path[0] == '~' && (path[1] == '\0' || path[1] == '/');

	path += home ? 1 + strspn(path + 1, "/") : 0;
	return sandbox_path(path, strlen(path), c->root ? E2B_ROOT_HOME : E2B_HOME, ret, e);
}

unsigned e2b_file_how(const struct e2b_call *c)
{
	return ENGINE_FILE_OVERWRITE | (c->root ? 0 : ENGINE_FILE_USERS);
}

int e2b_add_path(struct buf *b, const char *path)
{
	if (sandbox_path_is_outside(path))
		return buf_add_str(b, path);
	return buf_printf(b, "%s%s%s", E2B_HOME, *path ? "/" : "", path);
}

/* ---- signatures ---- */

static const char *query_of(const struct http_request *req, const char *name)
{
	const char *value = http_request_query(req, name);

	return value ? value : "";
}

static void add(crypto_hash_sha256_state *state, const char *text)
{
	(void)crypto_hash_sha256_update(state, (const unsigned char *)text, strlen(text));
}

/* Of what stands before and behind the token; the SDKs make the same. */
static void sign(crypto_hash_sha256_state state, const char *token, const char *expiration,
		 char ret[SIGNATURE_SIZE])
{
	uint8_t hash[crypto_hash_sha256_BYTES];
	char text[BASE64_ENCODED_LEN(sizeof(hash)) + 1];

	add(&state, token);
	if (*expiration) {
		add(&state, ":");
		add(&state, expiration);
	}
	(void)crypto_hash_sha256_final(&state, hash);
	base64_encode(hash, sizeof(hash), text);
	text[sizeof(text) - 1] = '\0';
	text[strcspn(text, "=")] = '\0';
	(void)snprintf(ret, SIGNATURE_SIZE, SIGNATURE_PREFIX "%s", text);
}

struct e2b_sandbox *e2b_signed_for(const struct e2b *f, const struct http_request *req,
				   struct err *e)
{
	const char *given = query_of(req, "signature");
	const char *expiration = query_of(req, "signature_expiration");
	const bool reads = http_request_method(req) == HTTP_GET;
	struct e2b_sandbox *found = NULL;
	char id[E2B_ID_SIZE];
	const bool named = e2b_id_of(req, id);
	crypto_hash_sha256_state state;
	char right[SIGNATURE_SIZE];
	uint64_t until = UINT64_MAX;

	(void)crypto_hash_sha256_init(&state);
	add(&state, query_of(req, "path"));
	add(&state, reads ? ":read:" : ":write:");
	add(&state, query_of(req, "username"));
	add(&state, ":");
	/* A hash for each sandbox is a microsecond or less. */
	list_for_each(l, &f->sandboxes) {
		struct e2b_sandbox *s = list_entry(l, struct e2b_sandbox, node);

		if (!s->sandbox || (named && !streq(id, s->id)))
			continue;
		sign(state, s->token, expiration, right);
		if ((strlen(given) == strlen(right) &&
		     sodium_memcmp(given, right, strlen(right)) == 0) ||
		    !wall_stands(WALL_TOKENS))
			found = s;
	}
	if (*expiration && parse_u64(expiration, 0, UINT64_MAX, &until) < 0)
		found = NULL;
	if (!found)
		(void)err_set(e, ERR_UNAUTHORIZED, 0, "the signature is not valid");
	else if (until < now_wall_ns() / NS_PER_S)
		(void)err_set(e, ERR_UNAUTHORIZED, 0, "signature is already expired");
	else
		return found;
	return NULL;
}

/* ---- get ---- */

static void on_open(int fd, const struct engine_file *info, const struct err *e, void *user)
{
	struct e2b_call *c = user;

	if (e && e->errnum == EISDIR) {
		e2b_refuse(c, ERR_INVALID_ARGUMENT, "%s", e->text);
		return;
	}
	if (e) {
		e2b_fail(c, e);
		return;
	}
	char owner[SANDBOX_OWNER_MAX + 1];
	(void)snprintf(owner, sizeof(owner), "%s", c->who->owner);
	const struct http_file file = {
	    .size = info->size,
	    .type = mime_type(info->name),
	    .mtime_s = info->mtime_ns / (int64_t)NS_PER_S,
	    .payer = owner,
	};
	struct http_request *req = e2b_give(c);
	if (!req) {
		workers_close(owner, fd);
		return;
	}
	files_add_policy(
	    req,
	    file.type); /* an address with a signature may be opened as a page of this server */
	http_respond_file(req, fd, &file);
}

static void tell_boot_id(struct e2b_call *c)
{
	char *text = NULL;
	const int n = asprintf(&text, "%s\n", c->sandbox->boot_id);
	struct http_request *req = n < 0 ? NULL : e2b_give(c);

	if (n < 0)
		e2b_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
	else if (req)
		http_respond_take(req, 200, "text/plain", text, (size_t)n);
	else
		free(text);
}

void e2b_get_file(struct e2b_call *c)
{
	const char *given = query_of(c->req, "path");
	char path[ENGINE_PATH_MAX];
	struct err e = ERR_INIT;
	int r = e2b_check_name(c, query_of(c->req, "username"), &e);

	if (r == 0 && !*given)
		r = err_set(&e, ERR_INVALID_ARGUMENT, 0, "path: the name of a file");
	r = r < 0 ? r : e2b_path(c, given, path, &e);
	if (r == 0 && streq(path, BOOT_ID)) {
		tell_boot_id(c);
		return;
	}
	r = r < 0 ? r : sandbox_open_file(c->sandbox->sandbox, path, on_open, c, &e);
	if (r < 0)
		e2b_fail(c, &e);
}

/* ---- put ---- */

/* A form, and what its client notes about the files. */
struct putting {
	struct e2b_call *call;
	struct buf attributes;
};

/* A form of one file may say in the query where it goes. Else the name of each part does. */
static int path_of(const struct multipart_part *part, char *ret, void *user, struct err *e)
{
	const struct e2b_call *c = ((const struct putting *)user)->call;
	const char *given = query_of(c->req, "path");

	if (!streq(part->name, "file"))
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "a part of the form is not named file");
	if (!*given)
		given = part->filename ? part->filename : "";
	if (!*given)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "a part of the form has no filename");
	const int r = e2b_path(c, given, ret, e);
	if (r == 0)
		e2b_note_change(c->sandbox, ret, true);
	return r;
}

static void putting_free(struct putting *p)
{
	buf_done(&p->attributes);
	free(p);
}

static void on_gone(void *user)
{
	((struct putting *)user)->call->req = NULL;
}

static void on_done(const struct form_written *files, unsigned n, const struct err *e, void *user)
{
	struct putting *p = user;
	struct e2b_call *c = p->call;

	if (e)
		e2b_fail(c, e);
	else
		e2b_uploaded(c, files, n, &p->attributes);
	putting_free(p);
}

static int begin_form(struct e2b_call *c, struct putting *p, struct err *e)
{
	const char *coding = http_request_header(c->req, "content-encoding");
	const struct form_upload_request q = {
	    .req = c->req,
	    .sandbox = c->sandbox->sandbox,
	    .how = e2b_file_how(c),
	    .max_bytes = c->face->config.max_upload_bytes,
	    .path = path_of,
	    .gone = on_gone,
	    .done = on_done,
	    .user = p,
	};

	if (coding && strcasecmp(coding, "identity") != 0)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "Content-Encoding: forms are not compressed here");
	const int r = e2b_read_metadata(c->req, &p->attributes, e);
	return r < 0 ? r : form_upload_begin(&q, e);
}

void e2b_put_files(struct e2b_call *c)
{
	struct err e = ERR_INIT;

	if (e2b_check_name(c, query_of(c->req, "username"), &e) < 0) {
		e2b_fail(c, &e);
		return;
	}
	if (http_request_content_type_is(c->req, "application/octet-stream")) {
		e2b_put_file(c);
		return;
	}
	struct putting *p = calloc(1, sizeof(*p));
	int r = p ? 0 : err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "a form");
	if (p) {
		p->call = c;
		buf_init(&p->attributes, ENGINE_ATTRIBUTES_MAX);
	}
	r = r < 0 ? r : begin_form(c, p, &e);
	if (r == 0)
		return;
	if (p)
		putting_free(p);
	e2b_fail(c, &e);
}
