/* SPDX-License-Identifier: Apache-2.0 */
/* The filtering proxy: the only way out of a sandbox that has one.
 *
 * A gate is a listening socket inside a sandbox's network namespace, in the hands of the front. It
 * speaks HTTP/1.1 as a proxy does: CONNECT for TLS, requests with an absolute http:// target for
 * the rest. Everything that arrives is hostile. One request a connection: the answer ends it, so
 * that no second request can hide behind the first.
 *
 *   head ── strict parser; HOST and PORT as bytes of a validated form, nothing else looks at them
 *   policy ── is this HOST:PORT allowed? if not, nothing is resolved either
 *   resolver ── ours; every address of the answer must be public, else none is used
 *   connect ── to the address that was checked, never to the name
 *   CONNECT: the first bytes must be a whole TLS ClientHello whose server name is HOST
 *   http://: Host must be the target's authority; the head is written anew
 *
 * What TLS hides stays hidden: a server that answers for several names can be asked for another
 * one inside the tunnel. Allow only hosts whose operator is trusted with that.
 *
 * One event loop, no blocking call; names are resolved in threads of resolve.c, which touch nothing
 * else. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct egress;          /* all gates of one front */
struct egress_gate;     /* the way out of one sandbox */
struct egress_policy;   /* what is allowed; immutable once made, reference counted */
struct egress_resolver; /* resolve.h */

#define EGRESS_HOST_MAX   253 /* bytes of a name, without a NUL */
#define EGRESS_RULES_MAX  1000u
#define EGRESS_ENTRY_SIZE (EGRESS_HOST_MAX + 7)   /* host:65535 and a NUL */
#define EGRESS_RULE_SIZE  (EGRESS_ENTRY_SIZE + 2) /* the same of *.host */
#define EGRESS_LABEL_MAX  160

/* ---- policies -------------------------------------------------------------------------------- */

enum egress_kind {
	EGRESS_NONE,      /* nothing; the kind of every policy with an empty list */
	EGRESS_PACKAGES,  /* the package index alone, only to read from it */
	EGRESS_ALLOWLIST, /* the hosts of a list */
	EGRESS_OPEN,      /* every public host, ports 80 and 443 */
	EGRESS_KINDS
};
const char *egress_kind_name(enum egress_kind kind);
bool egress_kind_parse(const char *word, enum egress_kind *ret);

/* An empty policy of KIND. NULL: no memory. */
struct egress_policy *egress_policy_new(enum egress_kind kind);
struct egress_policy *egress_policy_ref(struct egress_policy *p);
struct egress_policy *egress_policy_unref(struct egress_policy *p); /* returns NULL */
enum egress_kind egress_policy_kind(const struct egress_policy *p);
size_t egress_policy_count(const struct egress_policy *p);
/* Adds the entries of a LIST separated by blanks or commas: `host`, `host:port`, `*.host`,
 * `*.host:port`. Without a port: 443 and 80. `*.host` means names below host, not host. Bare `*`,
 * addresses, wildcards elsewhere and public suffixes of one label are refused. INVALID_ARGUMENT
 * names the entry, and nothing was added. */
int egress_policy_add(struct egress_policy *p, const char *list, struct err *e) MUST_CHECK;
/* ENTRY as the one `host` or `host:port` that it must be, in the form in which hosts are compared,
 * to RET (EGRESS_ENTRY_SIZE bytes). No wildcard, no address. INVALID_ARGUMENT. */
int egress_entry_parse(const char *entry, char *ret, struct err *e) MUST_CHECK;
/* A new policy that allows what P does and ENTRY as well, of P's kind; one that allowed nothing
 * becomes an allowlist. INVALID_ARGUMENT, or no memory. */
int egress_policy_extend(const struct egress_policy *p, const char *entry,
			 struct egress_policy **ret, struct err *e) MUST_CHECK;
/* Adds the entries of LIST that WIDEST, too, allows in full: every name and every port of each, by
 * name; nothing of it is trusted wherever it leads. FORBIDDEN names the first that it does not, and
 * nothing was added; LAX leaves such entries out. One that is there already is not added again. */
int egress_policy_add_within(struct egress_policy *p, const struct egress_policy *widest,
			     const char *list, bool lax, struct err *e) MUST_CHECK;
/* Entry I (below the count) as it is compared, to RET (EGRESS_RULE_SIZE bytes). */
void egress_policy_entry(const struct egress_policy *p, size_t i, char *ret);
/* Allows exactly HOST (a name, or an address in its plain form) and PORT, wherever it leads:
 * private addresses too. Only for what the operator wrote into a setting. */
int egress_policy_trust(struct egress_policy *p, const char *host, uint16_t port,
			struct err *e) MUST_CHECK;
/* Is a connection to HOST (as it is written in an address) and PORT allowed by its name? */
bool egress_policy_allows(const struct egress_policy *p, const char *host, uint16_t port);
/* For an index that nobody named: its names may lead to addresses that are neither public nor
 * anybody's network, 198.18.0.0/15 and the documentation blocks, where some machines keep theirs.
 */
void egress_policy_allow_special(struct egress_policy *p);

/* ---- gates ----------------------------------------------------------------------------------- */

struct egress_limits {        /* of one gate */
	unsigned connections; /* at the same time; more wait in the backlog */
	unsigned per_minute;  /* new connections, averaged; a burst of a quarter is free */
	uint64_t bytes;       /* both directions together, for the life of the gate; 0 = none */
	uint64_t connection_bytes; /* of one connection; 0 = none */
	uint64_t head_ns;          /* to send a request and, for TLS, its first message */
	uint64_t connect_ns;       /* to resolve and to connect */
	uint64_t idle_ns;          /* without a byte in either direction */
	uint64_t life_ns;          /* of one connection */
};
extern const struct egress_limits egress_limits_default;

/* Every decision, as it is made; END when an allowed connection has ended. */
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
	/* NULL: threads that ask the machine's resolver. Else borrowed. */
	struct egress_resolver *resolver;
	egress_audit_fn audit; /* may be NULL; must not open or close gates */
	void *user;
};

int egress_new(const struct egress_config *config, struct egress **ret, struct err *e) MUST_CHECK;
/* Closes all gates. NULL is fine. */
struct egress *egress_free(struct egress *x);

/* FD is a listening TCP socket, taken always. LABEL names the gate in events (copied, cut). LIMITS
 * NULL: the default. POLICY gets a reference. */
int egress_open_gate(struct egress *x, int fd, const char *label, struct egress_policy *policy,
		     const struct egress_limits *limits, struct egress_gate **ret,
		     struct err *e) MUST_CHECK;
/* Ends its connections and the socket. NULL is fine; returns NULL. */
struct egress_gate *egress_close_gate(struct egress_gate *g);

/* From now on new requests are held against POLICY, which gets a reference. */
void egress_gate_set_policy(struct egress_gate *g, struct egress_policy *policy);
