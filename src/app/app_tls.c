/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate of the listener with TLS, and of a worker the authority of its clients. Nothing is forked after they were read, so no
 * other process has the key. */
#include "app/app.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/log.h"
#include "http/tls.h"
#include "http/tls_client.h"

#include <sodium.h>
#include <string.h>

static int read_text(int fd, struct buf *ret)
{
	return fd < 0 ? fd : fd_read_file(fd, ret);
}

static void forget(struct buf *secret)
{
	if (secret->data)
		sodium_memzero(secret->data, secret->len);
	buf_done(secret);
}

static struct http_tls_text text_of(const struct buf *b)
{
	return (struct http_tls_text){buf_str(b), b->len};
}

static int take_key(struct app *a, int fd, struct err *e)
{
	struct buf key = BUF_INIT(REOPENER_FILE_MAX);
	int r = read_text(fd, &key);
	struct http_tls_files files = {.chain = text_of(&a->tls_chain), .key = text_of(&key)};

	if (app_is_worker(a)) {
		files.authority = text_of(&a->tls_authority);
		files.peer = FLEET_ROUTER_DNS;
	}
	if (r < 0)
		(void)err_set(e, ERR_SETTING_INVALID, -r, "SANDBOX_TLS_KEY: cannot read %s",
			      a->settings.tls_key);
	else
		r = http_tls_set(a->tls, &files, e);
	if (r == 0)
		app_note_certificate(a, APP_CERTIFICATE_LISTENER, files.chain.data,
				     files.chain.len);
	if (r == 0 && files.authority.data)
		app_note_certificate(a, APP_CERTIFICATE_AUTHORITY, files.authority.data,
				     files.authority.len);
	app_note_refused(a, APP_CERTIFICATE_LISTENER, r < 0);
	forget(&key);
	buf_done(&a->tls_chain);
	buf_done(&a->tls_authority);
	return r;
}

static int take_text(int fd, struct buf *ret, enum setting_id id, const char *path, struct err *e)
{
	buf_done(ret);
	*ret = (struct buf)BUF_INIT(REOPENER_FILE_MAX);
	const int r = read_text(fd, ret);

	return r < 0 ? err_set(e, ERR_SETTING_INVALID, -r, "%s: cannot read %s",
			       setting_rows[id].env, path)
		     : 0;
}

static int take_authority(struct app *a, int fd, struct err *e)
{
	return take_text(fd, &a->tls_authority, SETTING_ID_fleet_ca, a->settings.fleet_ca, e);
}

static int take_chain(struct app *a, int fd, struct err *e)
{
	return take_text(fd, &a->tls_chain, SETTING_ID_tls_certificate, a->settings.tls_certificate,
			 e);
}

/* Without GnuTLS the face refuses ports that speak TLS, and the server does all else. */
static void begin_port_tls(struct app *a)
{
	struct err ignored = ERR_INIT;
	int r UNUSED = http_tls_client_new_unverified(&a->port_tls, &ignored);
}

int app_begin_tls(struct app *a, struct err *e)
{
	const struct settings *s = &a->settings;

	if (a->mode == APP_SERVE && s->faces[0])
		begin_port_tls(a);
	if (a->mode != APP_SERVE || !s->tls_listen[0])
		return 0;
	_cleanup_fd_ int chain = reopener_open(s->tls_certificate);
	_cleanup_fd_ int key = reopener_open(s->tls_key);
	int r = http_tls_new(&a->tls, e);

	if (r == 0 && app_is_worker(a)) {
		_cleanup_fd_ int authority = reopener_open(s->fleet_ca);

		r = take_authority(a, authority, e);
	}
	r = r < 0 ? r : take_chain(a, chain, e);
	return r < 0 ? r : take_key(a, key, e);
}

void app_take_tls(struct app *a, enum reopen what, int file)
{
	_cleanup_fd_ int fd = file;
	struct err e = ERR_INIT;
	int r;

	/* They come in this order. If one cannot be read, the later ones have nothing to go with, and all stay as they were. */
	if (what == REOPEN_AUTHORITY)
		r = take_authority(a, fd, &e);
	else
		r = what == REOPEN_CERTIFICATE ? take_chain(a, fd, &e) : take_key(a, fd, &e);
	if (r < 0)
		LOG_ERROR("certificate_not_read", LOG_S("error", e.text),
			  LOG_S("effect", "the one before is used"));
	else if (what == REOPEN_KEY)
		LOG_INFO("certificate_read", LOG_S("file", a->settings.tls_certificate));
}

void app_tls_done(struct app *a)
{
	a->tls = http_tls_free(a->tls);
	a->port_tls = http_tls_client_free(a->port_tls);
	buf_done(&a->tls_chain);
	buf_done(&a->tls_authority);
	sodium_memzero(&a->member.key, sizeof(a->member.key));
}
