/* SPDX-License-Identifier: Apache-2.0 */
/* A socket with TLS. What the library could not send stays with it and is not counted as sent: the same bytes are the first of
 * the next call, which then hears that they are gone (gnutls_record_send(3)). So the states of a connection know nothing of
 * it. A client that shuts down its side and waits for the answer counts as gone: TLS says the end in an alert, and what
 * is added to find out whether it still reads (half_closed.c) would be records of their own. */
#include "http/tls_io.h"

#include "base/list.h"
#include "base/log.h"
#include "http/gnutls.h"
#include "http/tls.h"
#include "http/tls_client.h"
#include "http/tls_facts.h"
#include "http/tls_key.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECORD_MAX 16384u /* RFC 8446 §5.1: bytes of one record before it is encrypted */
#define SHAKE_MAX  32768u /* bytes of a handshake, */
#define FED_MAX    65536u /* or between two records with data */

struct certificate {
	void *credentials;
	const char *peer; /* the name that clients must have; NULL: they need no certificate */
	unsigned refs;
};

struct http_tls {
	struct certificate *newest; /* NULL: none yet */
	void *priority;
};

struct tls_session {
	void *session;
	struct certificate *certificate; /* of a server, */
	struct http_tls_client *client;  /* or of a client */
	bool begun;                      /* the first byte was one of TLS */
	bool open;                       /* the handshake is over */
	int fd;                          /* of the io */
	size_t fed;                      /* bytes that have come since data came last */
	size_t unsent;                   /* bytes of the caller that the library holds */
	struct tls_typed owner[2];       /* whom the peer must be; the library borrows it */
};

/* ---- certificates ---- */

static struct certificate *certificate_unref(struct certificate *c)
{
	if (c && --c->refs == 0) {
		tls.certificate_free_credentials(c->credentials);
		free(c);
	}
	return NULL;
}

int http_tls_new(struct http_tls **ret, struct err *e)
{
	int r = gnutls_load(e);

	if (r < 0)
		return r;
	struct http_tls *t = calloc(1, sizeof(*t));
	if (!t || tls.priority_init(&t->priority, "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2",
				    NULL) < 0) {
		free(t);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "TLS");
	}
	*ret = t;
	return 0;
}

/* The library only reads them. */
static struct tls_datum datum(const struct http_tls_text *text)
{
	return (struct tls_datum){(unsigned char *)(uintptr_t)text->data, (unsigned)text->len};
}

static int fill(struct certificate *fresh, const struct http_tls_files *files, struct err *e)
{
	const struct tls_datum chain = datum(&files->chain), key = datum(&files->key),
			       authority = datum(&files->authority);
	int r = tls.certificate_set_x509_key_mem(fresh->credentials, &chain, &key, TLS_PEM);

	if (r < 0)
		return err_set(e, ERR_SETTING_INVALID, EINVAL,
			       "the certificate or its key cannot be used: %s", tls.strerror(r));
	if (!files->authority.data)
		return 0;
	fresh->peer = files->peer;
	r = tls.certificate_set_x509_trust_mem(fresh->credentials, &authority, TLS_PEM);
	if (r > 0)
		return 0;
	return err_set(e, ERR_SETTING_INVALID, EINVAL,
		       "the certificates of the authority cannot be used: %s",
		       r < 0 ? tls.strerror(r) : "there is none");
}

int http_tls_set(struct http_tls *t, const struct http_tls_files *files, struct err *e)
{
	struct certificate *fresh = calloc(1, sizeof(*fresh));

	if (!fresh || tls.certificate_allocate_credentials(&fresh->credentials) < 0) {
		free(fresh);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the certificate");
	}
	fresh->refs = 1;
	const int r = fill(fresh, files, e);
	if (r < 0) {
		(void)certificate_unref(fresh);
		return r;
	}
	(void)certificate_unref(t->newest);
	t->newest = fresh;
	return 0;
}

struct http_tls *http_tls_free(struct http_tls *t)
{
	if (!t)
		return NULL;
	(void)certificate_unref(t->newest);
	tls.priority_deinit(t->priority);
	free(t);
	return NULL;
}

/* ---- sessions ---- */

static struct tls_session *session_free(struct tls_session *s)
{
	if (!s)
		return NULL;
	if (s->session)
		tls.deinit(s->session);
	(void)certificate_unref(s->certificate);
	(void)http_tls_client_free(s->client);
	free(s);
	return NULL;
}

/* The library collects a message of the handshake up to the 16 MiB that it may say it has, and looks at its own limit when it is
 * complete. That memory would be nobody's. */
static ssize_t pull(void *from, void *to, size_t max)
{
	struct tls_session *s = from;
	const ssize_t n = recv(s->fd, to, max, MSG_DONTWAIT);

	s->fed += n > 0 ? (size_t)n : 0;
	if (s->fed <= (s->open ? FED_MAX : SHAKE_MAX))
		return n;
	errno = EPROTO;
	return -1;
}

/* The check is part of the handshake: until it is over no byte of the peer's is read. */
static void demand_owner(struct tls_session *s, const char *name, unsigned char *purpose)
{
	s->owner[0] =
	    (struct tls_typed){.type = TLS_DT_DNS_NAME, .data = (unsigned char *)(uintptr_t)name};
	s->owner[1] = (struct tls_typed){.type = TLS_DT_PURPOSE, .data = purpose};
	/* With wildcards, a certificate for *.DOMAIN would be every member of a fleet. */
	tls.session_set_verify_cert2(s->session, s->owner, ARRAY_SIZE(s->owner), TLS_NO_WILDCARDS);
}

/* Names of authorities are no secret. */
static void demand_certificate(struct tls_session *s)
{
	static unsigned char purpose[] = TLS_PURPOSE_CLIENT;

	if (!s->certificate->peer)
		return;
	tls.certificate_server_set_request(s->session, TLS_CERT_REQUIRE);
	demand_owner(s, s->certificate->peer, purpose);
}

int http_tls_begin(struct http_io *io, struct http_tls *t)
{
	static unsigned char name[] = "http/1.1";
	static const struct tls_datum alpn = {name, sizeof(name) - 1};
	struct tls_session *s = calloc(1, sizeof(*s));

	if (!s || tls.init(&s->session, TLS_SERVER | TLS_NONBLOCK | TLS_NO_SIGNAL) < 0) {
		free(s);
		return -ENOMEM;
	}
	s->certificate = t->newest;
	s->certificate->refs++;
	if (tls.priority_set(s->session, t->priority) < 0 ||
	    tls.alpn_set_protocols(s->session, &alpn, 1, 0) < 0 ||
	    tls.credentials_set(s->session, TLS_CRD_CERTIFICATE, s->certificate->credentials) < 0) {
		(void)session_free(s);
		return -ENOMEM;
	}
	demand_certificate(s);
	tls_key_bound(s->session);
	s->fd = io->fd;
	tls.transport_set_pull_function(s->session, pull);
	tls.transport_set_ptr2(s->session, s, (void *)(intptr_t)io->fd);
	io->ops = &http_tls_io;
	io->tls = s;
	return 0;
}

int http_tls_adopt(struct http_io *io, void *session, const char *peer,
		   struct http_tls_client *client)
{
	static unsigned char purpose[] = TLS_PURPOSE_SERVER;
	struct tls_session *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->session = session;
	s->client = client;
	s->begun = true;
	s->fd = io->fd;
	if (peer)
		demand_owner(s, peer, purpose);
	tls_key_bound(s->session);
	tls.transport_set_pull_function(s->session, pull);
	tls.transport_set_ptr2(s->session, s, (void *)(intptr_t)io->fd);
	io->ops = &http_tls_io;
	io->tls = s;
	return 0;
}

bool http_tls_is_of(const struct http_io *io, const struct http_tls_client *client)
{
	return io->tls && io->tls->client == client;
}

void http_tls_drop(struct http_io *io)
{
	io->tls = session_free(io->tls);
	io->ops = &http_plain_io;
}

static ssize_t result(ssize_t n)
{
	if (n >= 0)
		return n;
	if (n == TLS_E_CUT)
		return 0;
	if (n == TLS_E_UNVERIFIED)
		return -EKEYREJECTED;
	/* What is not fatal is a warning of the peer; to be asked for another handshake is an attack by now. */
	if (n == TLS_E_AGAIN || (n != TLS_E_REHANDSHAKE && !tls.error_is_fatal((int)n)))
		return -EAGAIN;
	return -EPROTO;
}

/* A client that speaks HTTP without TLS gets an answer that it can read: from now on IO is a plain socket, and the connection
 * sees the request. */
static int first_byte(struct http_io *io)
{
	char byte;
	const ssize_t n = recv(io->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	if (n == 1 && byte >= 'A' && byte <= 'Z') {
		http_tls_drop(io);
		io->unsafe = true;
	} else {
		io->tls->begun = true;
	}
	return 0;
}

/* The operator of a fleet has to find out why a member is refused; nobody else has business here. */
static void note_refusal(const struct tls_session *s, int error)
{
	static const struct {
		unsigned bit;
		const char *text;
	} reasons[] = {
	    {TLS_CERT_NO_SIGNER, "its certificate is of another authority"},
	    {TLS_CERT_NOT_CA, "its certificate was signed by one that may not sign"},
	    {TLS_CERT_EXPIRED, "its certificate has expired"},
	    {TLS_CERT_NOT_YET, "its certificate is not valid yet"},
	    {TLS_CERT_OTHER_OWNER, "its certificate does not have the name"},
	    {TLS_CERT_OTHER_PURPOSE, "its certificate is not for clients"},
	};
	/* Of a peer without a certificate every bit is set. */
	const unsigned status =
	    error == TLS_E_UNVERIFIED ? tls.session_get_verify_cert_status(s->session) : 0;
	const char *reason = tls.strerror(error);

	if (!s->certificate || !s->certificate->peer)
		return;
	for (size_t i = ARRAY_SIZE(reasons); i > 0; i--)
		if (status & reasons[i - 1].bit)
			reason = reasons[i - 1].text;
	if (error == TLS_E_UNVERIFIED && status == 0) /* is_owner() */
		reason = "its certificate does not have the name";
	LOG_OFTEN(LOG_LEVEL_WARNING, "peer_refused", LOG_S("reason", reason),
		  LOG_S("name", s->certificate->peer));
}

/* Where a certificate has no alternative name that is one of DNS, the library takes the common name of its subject. An authority
 * may sign any text there. */
static bool is_owner(const struct tls_session *s)
{
	const char *name = (const char *)s->owner[0].data;
	const struct tls_datum *chain;
	void *certificate = NULL;
	unsigned n = 0;

	if (!name)
		return true; /* nobody was asked for a certificate */
	chain = tls.certificate_get_peers(s->session, &n);
	if (!chain || n == 0 || tls.x509_crt_init(&certificate) < 0)
		return false;
	const bool found = tls.x509_crt_import(certificate, chain, TLS_DER) == 0 &&
			   http_tls_has_name(certificate, name);
	tls.x509_crt_deinit(certificate);
	return found;
}

bool http_tls_is_open(const struct http_io *io)
{
	return io->ops == &http_tls_io && io->tls->open;
}

int http_tls_handshake(struct http_io *io)
{
	struct tls_session *s = io->tls;
	int r;

	do
		r = tls.handshake(s->session);
	while (r == TLS_E_INTERRUPTED);
	io->wants_room = r == TLS_E_AGAIN && tls.record_get_direction(s->session) == 1;
	if (r == 0 && !is_owner(s))
		r = TLS_E_UNVERIFIED;
	s->open = r == 0;
	s->fed = s->open ? 0 : s->fed;
	const int n = (int)result(r);
	if (n < 0 && n != -EAGAIN) {
		(void)tls.alert_send_appropriate(s->session, r);
		note_refusal(s, r);
	}
	return s->open || n < 0 ? n : -EPIPE; /* the client has gone */
}

static ssize_t tls_recv(struct http_io *io, void *to, size_t max)
{
	int r = io->tls->begun ? 0 : first_byte(io);
	ssize_t n;

	if (r < 0 || io->unsafe)
		return r < 0 ? r : io->ops->recv(io, to, max);
	r = io->tls->open ? 0 : http_tls_handshake(io);
	if (r < 0)
		return r;
	do
		n = tls.record_recv(io->tls->session, to, max);
	while (n == TLS_E_INTERRUPTED);
	io->tls->fed = n > 0 ? 0 : io->tls->fed;
	return result(n);
}

/* Sends what the library holds, or one record of DATA. */
static ssize_t send_record(struct tls_session *s, const void *data, size_t len)
{
	ssize_t n;

	do
		n = s->unsent > 0 ? tls.record_send(s->session, NULL, 0)
				  : tls.record_send(s->session, data, len);
	while (n == TLS_E_INTERRUPTED);
	/* What it held is sent, and then an answer to a KeyUpdate (RFC 8446 §4.6.3) that has come meanwhile; for that it
	 * wants data again. */
	if (n == TLS_E_INVALID && s->unsent > 0)
		n = (ssize_t)s->unsent;
	if (n >= 0)
		s->unsent = 0;
	else if (n == TLS_E_AGAIN && s->unsent == 0)
		s->unsent = len;
	n = result(n);
	return n == 0 ? -EPIPE : n;
}

/* Copies at most RECORD_MAX bytes from SKIP on: small parts share a record. */
static size_t gather(const struct iovec *iov, size_t n, size_t skip, char *to)
{
	size_t len = 0;

	for (size_t i = 0; i < n && len < RECORD_MAX; i++) {
		const size_t off = MIN(skip, iov[i].iov_len);
		const size_t part = MIN(iov[i].iov_len - off, RECORD_MAX - len);

		memcpy(to + len, (const char *)iov[i].iov_base + off, part);
		len += part;
		skip -= off;
	}
	return len;
}

static ssize_t tls_send(struct http_io *io, struct iovec *iov, size_t n, bool more UNUSED)
{
	char record[RECORD_MAX];
	ssize_t sent = 0, r;

	if (!io->tls->open)
		return -EPIPE; /* nothing can be said before the handshake */
	for (;;) {
		const size_t len = gather(iov, n, (size_t)sent, record);

		if (len == 0)
			return sent;
		r = send_record(io->tls, record, len);
		if (r < 0)
			return sent > 0 && r == -EAGAIN ? sent : r;
		sent += r;
	}
}

static ssize_t tls_send_file(struct http_io *io, int file, off_t *off, size_t max)
{
	char record[RECORD_MAX];
	ssize_t n;

	if (!io->tls->open)
		return -EPIPE;
	do
		n = pread(file, record, MIN(max, (size_t)RECORD_MAX), *off);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	n = send_record(io->tls, record, (size_t)n);
	*off += n > 0 ? n : 0;
	return n;
}

static int tls_shut(struct http_io *io)
{
	if (io->tls->open)
		(void)tls.bye(io->tls->session, TLS_SHUT_WR);
	return http_plain_io.shut(io);
}

static void tls_close(struct http_io *io, bool drop)
{
	if (!drop && io->tls->open)
		(void)tls.bye(io->tls->session, TLS_SHUT_WR);
	io->tls = session_free(io->tls);
	http_plain_io.close(io, drop);
}

static void tls_cut(struct http_io *io)
{
	http_plain_io.cut(io);
}

static int tls_held(const struct http_io *io)
{
	return http_plain_io.held(io) + (int)io->tls->unsent;
}

static bool tls_pending(const struct http_io *io)
{
	return io->tls->open && tls.record_check_pending(io->tls->session) > 0;
}

const struct http_io_ops http_tls_io = {
    .recv = tls_recv,
    .discard = tls_recv,
    .send = tls_send,
    .send_file = tls_send_file,
    .shut = tls_shut,
    .cut = tls_cut,
    .close = tls_close,
    .held = tls_held,
    .pending = tls_pending,
};
