/* SPDX-License-Identifier: Apache-2.0 */
/* An incremental JSON scanner. It checks a message byte by byte as it arrives, in memory that does
 * not grow with the message. Long strings are moved into a spill file ("spilled", spill.h); the rest
 * is kept for the tree parser.
 *
 * It accepts exactly the texts of RFC 8259 in valid UTF-8 (also no lone surrogates in escapes),
 * within limits. White space between tokens is dropped. The rest is small and known to be JSON, so
 * the tree parser only has to build the tree. The result does not depend on how the input was cut
 * into pieces.
 *
 * A message that exceeds a limit (SCAN_DEPTH and the faults after it), or has a string that is wrong only inside, is still
 * scanned, without being kept, so that the refusal can name the id of its request. After any other fault the id counts
 * that came before it. */
#pragma once

#include "base/buf.h"
#include "budget/budgets.h"
#include "mcp/spill.h"

enum scan_fault {
	SCAN_OK,
	SCAN_SYNTAX,    /* not JSON; also a control character in a string */
	SCAN_UTF8,      /* not UTF-8, or half a surrogate pair */
	SCAN_DEPTH,     /* nested too deeply */
	SCAN_VALUES,    /* too many values, or a key that is too long */
	SCAN_TOO_LARGE, /* the message, or its rest without long strings */
	SCAN_NO_MEMORY,
	SCAN_NO_SPILL, /* there is no descriptor or memory for the spill file */
	SCAN_OVER_BUDGET,
};

struct scan_limits {
	size_t max_message; /* bytes in all */
	size_t max_rest;    /* bytes without long strings */
	size_t spill_min;   /* longer strings are spilled; also the longest key, in bytes */
	size_t max_values;
	unsigned max_depth;      /* at most 64 */
	struct budgets *budgets; /* NULL: only the limits above hold */
};

#define SCAN_ID_MAX 160 /* bytes of an id that a refusal repeats */

/* The id of a message that may have to be refused before its tree is built. */
struct scan_id {
	unsigned catching; /* enum scan_catching */
	size_t len;        /* of TEXT so far */
	char text[SCAN_ID_MAX];
	bool has_method;
	bool found;
	bool spoilt; /* there are two ids, or its value cannot be an id */
	size_t id_len;
	char id[SCAN_ID_MAX];
};

struct scanner {
	struct scan_limits limits;
	struct buf rest;     /* the message without its long strings and blanks */
	struct spill *spill; /* NULL while there is none */
	enum scan_fault fault;
	size_t n_bytes;
	size_t n_values;
	size_t n_number; /* bytes of the current number so far */
	unsigned state;  /* enum scan_state */
	unsigned depth;
	uint64_t is_object;  /* bit N: the container at depth N + 1 is an object */
	const char *literal; /* the rest of true, false or null that must follow */
	size_t key_start;    /* of the last key, in rest */
	size_t string_start; /* of the current string, in rest */
	bool in_key;
	bool spilling;
	unsigned n_hex;          /* digits of \u that must still come */
	unsigned code;           /* their value so far */
	unsigned high;           /* first half of a surrogate pair, 0 = none */
	unsigned n_more;         /* continuation bytes that must still come */
	unsigned char low_bound; /* of the next one */
	unsigned char high_bound;
	size_t deep; /* containers open in ST_DEEP */
	bool deep_string, deep_escape;
	bool has_exact;  /* there is a number such as exact.h keeps */
	unsigned n_mark; /* bytes of a byte order mark before the text */
	bool discarding; /* a limit was exceeded: nothing is kept any more */
	struct scan_id request;
	struct budget_share memory; /* of REST, in steps */
	size_t counted;             /* no step ends before REST has so many bytes */
	char payer[BUDGET_PRINCIPAL_SIZE];
};

void scanner_init(struct scanner *s, const struct scan_limits *limits);
/* Forgets the message; keeps little memory. */
void scanner_reset(struct scanner *s);
void scanner_done(struct scanner *s);
/* Returns the first fault so far. */
enum scan_fault scanner_feed(struct scanner *s, const char *bytes, size_t len);
/* The message has ended. SCAN_SYNTAX: something is missing. */
enum scan_fault scanner_end(struct scanner *s);
/* After scanner_end(), for a message that is refused: the JSON text of the request's id. ""
 * if there was no id or two, if it is neither a string nor a number, or if the message is not a
 * request. */
const char *scanner_id(const struct scanner *s, size_t *ret_len);
/* Only white space so far. */
bool scanner_is_blank(const struct scanner *s);
