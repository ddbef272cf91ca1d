/* SPDX-License-Identifier: Apache-2.0 */
/* The filtering proxy: the only way from a sandbox to the network.
 *
 * A gate is a listening socket in the network namespace of a sandbox; the front owns it. Programs in the
 * sandbox use it as an HTTP/1.1 proxy: CONNECT for TLS, requests with an absolute http:// target for the
 * rest. Every byte that arrives may be hostile. A connection serves one request and ends after the answer,
 * so that no second request can hide behind the first.
 *
 *   head       A strict parser reads HOST and PORT. Later steps see only what it has validated.
 *   policy     Is HOST:PORT allowed? If not, the name is not resolved.
 *   resolver   Our own. All addresses of the answer must be public, else none is used.
 *   blocks     Of these addresses only those that the rules for blocks of addresses allow are used.
 *   connect    To an address that was checked, never to the name.
 *   CONNECT    The first bytes must be a complete TLS ClientHello whose server name is HOST. Where HOST is an
 *              address, it may name no server, or one that is allowed.
 *   http://    Host must be the authority of the target. The proxy writes a new head for the server.
 *
 * The proxy cannot see what TLS encrypts. Where one server answers for several names, a program can ask it
 * for another name inside the tunnel. So allow only hosts whose operators you trust with that.
 *
 * One event loop, no blocking call. Threads of resolve.c resolve names and do nothing else. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct egress;          /* all gates of one front */
struct egress_gate;     /* the proxy of one sandbox */
struct egress_policy;   /* what is allowed; not changed once it is in use; reference counted */
struct egress_resolver; /* resolve.h */

#define EGRESS_HOST_MAX   253 /* bytes of a name, without a NUL */
#define EGRESS_RULES_MAX  1000u
#define EGRESS_ENTRY_SIZE (EGRESS_HOST_MAX + 7)   /* host:65535 and a NUL */
#define EGRESS_RULE_SIZE  (EGRESS_ENTRY_SIZE + 2) /* of *.host:65535 and a NUL */
#define EGRESS_LABEL_MAX  160
#define EGRESS_BLOCK_SIZE 50 /* of an IPv6 address, `/128` and a NUL */

/* ---- policies -------------------------------------------------------------------------------- */

enum egress_kind {
	EGRESS_NONE,      /* nothing; also every policy with an empty list */
	EGRESS_PACKAGES,  /* the package index, for reading only */
	EGRESS_ALLOWLIST, /* the hosts of a list */
	EGRESS_OPEN,      /* every public host, ports 80 and 443 */
	EGRESS_KINDS
};
const char *egress_kind_name(enum egress_kind kind);
bool egress_kind_parse(const char *word, enum egress_kind *ret);

/* Makes an empty policy of KIND. NULL: no memory. */
struct egress_policy *egress_policy_new(enum egress_kind kind);
struct egress_policy *egress_policy_ref(struct egress_policy *p);
struct egress_policy *egress_policy_unref(struct egress_policy *p); /* returns NULL */
enum egress_kind egress_policy_kind(const struct egress_policy *p);
size_t egress_policy_count(const struct egress_policy *p);
/* Adds the entries of LIST, which blanks or commas separate: `host`, `host:port`, `*.host`,
 * `*.host:port`, an address, a block of addresses (block.h), `203.0.113.0/24:8443`, `[2001:db8::/32]:8443`.
 * Without a port, 443 and 80 are meant. `*.host` means the names below host, but not host. A block allows
 * connections whose host is an address, not names that lead there. A bare `*`, wildcards elsewhere, names of
 * one label (`localhost`, `*.com`) and blocks without a public address are refused: then nothing is added, and
 * INVALID_ARGUMENT names the entry. */
int egress_policy_add(struct egress_policy *p, const char *list, struct err *e) MUST_CHECK;
/* ENTRY must be one `host` or `host:port`, without wildcard and no address; else INVALID_ARGUMENT. RET
 * (EGRESS_ENTRY_SIZE bytes) gets it in the form in which hosts are compared. */
int egress_entry_parse(const char *entry, char *ret, struct err *e) MUST_CHECK;
/* Makes a new policy that allows what P allows, and ENTRY. It has the kind of P; if P allows nothing, it
 * is an allowlist. Fails with INVALID_ARGUMENT, or without memory. */
int egress_policy_extend(const struct egress_policy *p, const char *entry,
			 struct egress_policy **ret, struct err *e) MUST_CHECK;
/* Adds the entries of LIST that WIDEST allows completely, with every name, address and port. No entry becomes
 * trusted. The first entry that WIDEST does not allow is an error: FORBIDDEN names it, and nothing is added;
 * with LAX such entries are skipped instead. Entries that P has already are not added again. P keeps a reference of
 * WIDEST. */
int egress_policy_add_within(struct egress_policy *p, struct egress_policy *widest,
			     const char *list, bool lax, struct err *e) MUST_CHECK;
/* A new policy that allows what P allows. NULL: no memory. */
struct egress_policy *egress_policy_copy(const struct egress_policy *p);
/* Adds the entries of LIST, which blanks or commas separate: `!BLOCK` (no connection goes there) and `BLOCK` (an
 * exception from that). They narrow what P allows, and never widen it; but with one of them EGRESS_OPEN takes
 * addresses as hosts. To a policy of egress_policy_add_within() they mean nothing: what its list allows wins,
 * and all else is denied. INVALID_ARGUMENT names the entry that is none; then nothing is added. */
int egress_policy_guard(struct egress_policy *p, const char *list, struct err *e) MUST_CHECK;
size_t egress_policy_n_guards(const struct egress_policy *p);
/* Writes entry I (below their number) as egress_policy_guard() reads it. */
#define EGRESS_GUARD_SIZE (EGRESS_BLOCK_SIZE + 1)
void egress_policy_guard_text(const struct egress_policy *p, size_t i, char *ret);
/* ENTRY must be a block (block.h); else INVALID_ARGUMENT. RET gets it in the form in which blocks are compared. */
int egress_block_entry(const char *entry, char ret[EGRESS_BLOCK_SIZE], struct err *e) MUST_CHECK;
#define EGRESS_EVERY_ADDRESS "0.0.0.0/0" /* in that form; of IPv4 */
/* Writes entry I (below the count) to RET (EGRESS_RULE_SIZE bytes), in the form in which it is compared. */
void egress_policy_entry(const struct egress_policy *p, size_t i, char *ret);
/* Allows exactly HOST (a name, or an address in its plain form) and PORT, even if the name leads to a
 * private address. Only for hosts that the operator wrote into a setting. */
int egress_policy_trust(struct egress_policy *p, const char *host, uint16_t port,
			struct err *e) MUST_CHECK;
/* Whether the name of HOST (as in a URL) and PORT are allowed, wherever it leads. */
bool egress_policy_allows(const struct egress_policy *p, const char *host, uint16_t port);
/* PATH is that of the address of the package index. Plain requests of EGRESS_PACKAGES get its pages and files
 * of packages, and nothing else. */
int egress_policy_index(struct egress_policy *p, const char *path) MUST_CHECK;
/* For the default package index: its names may also lead to the benchmark and documentation blocks
 * (EGRESS_SPECIAL), where some machines put their index. */
void egress_policy_allow_special(struct egress_policy *p);

/* ---- gates ----------------------------------------------------------------------------------- */

struct egress_limits {        /* of one gate */
	unsigned connections; /* at the same time; more wait in the backlog */
	unsigned
	    per_minute; /* new connections on average; a burst of a quarter of that is allowed */
	uint64_t bytes; /* both directions together, for the life of the gate; 0 = no limit */
	uint64_t connection_bytes; /* of one connection; 0 = no limit */
	uint64_t head_ns;    /* until the request and, for TLS, its first message have arrived */
	uint64_t connect_ns; /* to resolve and to connect */
	uint64_t idle_ns;    /* without a byte in either direction */
	uint64_t life_ns;    /* of one connection */
};
extern const struct egress_limits egress_limits_default;

/* One event for every decision, and one (ENDED) when an allowed connection has ended. */
enum egress_verdict { EGRESS_ALLOWED, EGRESS_REFUSED, EGRESS_ENDED };
struct egress_event {      /* valid during the call */
	const char *label; /* of the gate */
	enum egress_verdict verdict;
	const char *reason; /* a word: "host_not_allowed" ... (reason.tbl.h) */
	const char *method; /* "CONNECT", "GET" ..., "" when no request was understood */
	const char *host;   /* as compared, "" when none was understood */
	uint16_t port;
	const char *address; /* numeric, of the server; "" before that is known */
	uint64_t sent;       /* bytes to the server */
	uint64_t received;
};
typedef void (*egress_audit_fn)(const struct egress_event *event, void *user);

struct egress_config {
	sd_event *loop; /* borrowed */
	/* Borrowed. NULL: threads that ask the machine's resolver. */
	struct egress_resolver *resolver;
	egress_audit_fn audit; /* may be NULL; must not open or close gates */
	void *user;
};

int egress_new(const struct egress_config *config, struct egress **ret, struct err *e) MUST_CHECK;
/* Closes all gates. NULL is fine. */
struct egress *egress_free(struct egress *x);

/* FD is a listening TCP socket; it is taken even on failure. LABEL names the gate in events; it is copied
 * and may be cut. LIMITS: NULL means the default. The gate takes a reference of POLICY. */
int egress_open_gate(struct egress *x, int fd, const char *label, struct egress_policy *policy,
		     const struct egress_limits *limits, struct egress_gate **ret,
		     struct err *e) MUST_CHECK;
/* Ends the connections of G and closes its socket. NULL is fine; returns NULL. */
struct egress_gate *egress_close_gate(struct egress_gate *g);

/* New requests are compared with POLICY from now on, and connections that it does not permit, or that one of another kind
 * has permitted, end. The gate takes a reference. */
void egress_gate_set_policy(struct egress_gate *g, struct egress_policy *policy);
