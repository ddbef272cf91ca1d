/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate of the listener with TLS. Nothing is forked after it was read, so no other process has the key. */
#include "app/app.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/log.h"
#include "http/tls.h"

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

static int take_key(struct app *a, int fd, struct err *e)
{
	struct buf key = BUF_INIT(REOPENER_FILE_MAX);
	int r = read_text(fd, &key);

	if (r < 0)
		(void)err_set(e, ERR_SETTING_INVALID, -r, "SANDBOX_TLS_KEY: cannot read %s",
			      a->settings.tls_key);
	else
		r = http_tls_set(a->tls, buf_str(&a->tls_chain), a->tls_chain.len, buf_str(&key),
				 key.len, e);
	forget(&key);
	buf_done(&a->tls_chain);
	return r;
}

static int take_chain(struct app *a, int fd, struct err *e)
{
	buf_done(&a->tls_chain);
	a->tls_chain = (struct buf)BUF_INIT(REOPENER_FILE_MAX);
	const int r = read_text(fd, &a->tls_chain);

	return r < 0
		   ? err_set(e, ERR_SETTING_INVALID, -r, "SANDBOX_TLS_CERTIFICATE: cannot read %s",
			     a->settings.tls_certificate)
		   : 0;
}

int app_begin_tls(struct app *a, struct err *e)
{
	const struct settings *s = &a->settings;

	if (a->mode != APP_SERVE || !s->tls_listen[0])
		return 0;
	_cleanup_fd_ int chain = reopener_open(s->tls_certificate);
	_cleanup_fd_ int key = reopener_open(s->tls_key);
	int r = http_tls_new(&a->tls, e);

	r = r < 0 ? r : take_chain(a, chain, e);
	return r < 0 ? r : take_key(a, key, e);
}

void app_take_tls(struct app *a, enum reopen what, int file)
{
	_cleanup_fd_ int fd = file;
	struct err e = ERR_INIT;

	/* The certificate comes first. If it cannot be read, the key has nothing to go with, and both stay as they were. */
	if ((what == REOPEN_CERTIFICATE ? take_chain(a, fd, &e) : take_key(a, fd, &e)) < 0)
		LOG_ERROR("certificate_not_read", LOG_S("error", e.text));
	else if (what == REOPEN_KEY)
		LOG_INFO("certificate_read", LOG_S("file", a->settings.tls_certificate));
}

void app_tls_done(struct app *a)
{
	a->tls = http_tls_free(a->tls);
	buf_done(&a->tls_chain);
}
