/* SPDX-License-Identifier: Apache-2.0 */
#include "image/progress.h"

#include "base/parse.h"
#include "base/text.h"

#include <string.h>

/* The meaning of an error line (E:, W:, Err:); the first match counts. Texts of apt 2.6-3.1 and
 * mmdebstrap 1.3. */
static const struct {
	const char *part;
	enum progress_failure kind;
} reasons[] = {
    {"E: wheels: ", PROGRESS_FAIL_WHEELS},
    {"Release file for", PROGRESS_FAIL_STALE}, /* "... is expired (invalid since 15d ...)" */
    {"No space left on device", PROGRESS_FAIL_DISK},
    {"enough free space", PROGRESS_FAIL_DISK},
    {"Disk quota exceeded", PROGRESS_FAIL_DISK},
    {"is not signed", PROGRESS_FAIL_SIGNATURE},
    {"NO_PUBKEY", PROGRESS_FAIL_SIGNATURE},
    {"GPG error", PROGRESS_FAIL_SIGNATURE},
    {"signature", PROGRESS_FAIL_SIGNATURE},
    {"OpenPGP", PROGRESS_FAIL_SIGNATURE},
    {"resolv", PROGRESS_FAIL_UNREACHABLE}, /* "Could not resolve", "Temporary failure resolving" */
    {"onnect", PROGRESS_FAIL_UNREACHABLE}, /* "Could not connect", "Connection failed/refused" */
    {"Failed to fetch", PROGRESS_FAIL_UNREACHABLE},
    {"does not have a Release file", PROGRESS_FAIL_UNREACHABLE},
    {"Not Found", PROGRESS_FAIL_UNREACHABLE},
    {"Unable to locate package", PROGRESS_FAIL_PACKAGE},
    {"has no installation candidate", PROGRESS_FAIL_PACKAGE},
    {"newuidmap", PROGRESS_FAIL_USERNS},
    {"newgidmap", PROGRESS_FAIL_USERNS},
    {"/etc/subuid", PROGRESS_FAIL_USERNS},
    {"/etc/subgid", PROGRESS_FAIL_USERNS},
    {"unable to unshare", PROGRESS_FAIL_USERNS},
    {"unshare the user namespace", PROGRESS_FAIL_USERNS},
    {"image check:", PROGRESS_FAIL_CHECK},
    /* Lines that follow every failure and say nothing new: */
    {"mmdebstrap failed", PROGRESS_FAIL_NONE},
    {"setup failed", PROGRESS_FAIL_NONE},
    {"apt-get update", PROGRESS_FAIL_NONE},
};

/* dpkg runs several times, so downloading, unpacking and setting up alternate. The person sees one
 * step, and a word that says which of these is going on. */
static const struct {
	const char *step;
	const char *doing;
} phases[] = {
    [PROGRESS_INDEX] = {"reading package lists", ""},
    [PROGRESS_DOWNLOAD] = {"installing packages", "downloading "},
    [PROGRESS_UNPACK] = {"installing packages", "unpacking "},
    [PROGRESS_SETUP] = {"installing packages", "setting up "},
    [PROGRESS_HOOK] = {"making it a sandbox image", ""},
    [PROGRESS_PACK] = {"handing over", ""},
};

const char *progress_step(const struct progress *p)
{
	return phases[p->phase].step;
}

void progress_item(const struct progress *p, char *ret, size_t size)
{
	(void)snprintf(ret, size, "%s%s", phases[p->phase].doing, p->item);
}

void progress_count(const struct progress *p, uint64_t *ret_done, uint64_t *ret_total)
{
	const uint64_t done[] = {
	    [PROGRESS_INDEX] = 0,
	    [PROGRESS_DOWNLOAD] = p->fetched,
	    [PROGRESS_UNPACK] = p->unpacked,
	    [PROGRESS_SETUP] = p->configured,
	    [PROGRESS_HOOK] = 0,
	    [PROGRESS_PACK] = 0,
	};

	*ret_done = done[p->phase];
	*ret_total = *ret_done > 0 ? MAX(p->expected, *ret_done) : 0;
}

static void set_item(struct progress *p, const char *s, size_t len)
{
	size_t n = 0;

	for (; n < len && n + 1 < sizeof(p->item) && s[n] >= ' ' && s[n] <= '~'; n++)
		p->item[n] = s[n];
	p->item[n] = '\0';
}

/* The N-th word of a line (from 0). Its length is in *RET_LEN, 0 if there is none. */
static const char *word(const char *s, unsigned n, size_t *ret_len)
{
	for (; n > 0 && *s; n--) {
		s += strcspn(s, " ");
		s += strspn(s, " ");
	}
	*ret_len = strcspn(s, " :");
	return s;
}

static void counted(struct progress *p, enum progress_phase phase, uint64_t *counter,
		    unsigned word_no)
{
	size_t len;
	const char *name = word(p->line, word_no, &len);

	p->phase = phase;
	(*counter)++;
	set_item(p, name, len);
}

static void note_error(struct progress *p)
{
	enum progress_failure kind = PROGRESS_FAIL_OTHER;

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
		if (strstr(p->line, reasons[i].part)) {
			kind = reasons[i].kind;
			break;
		}
	}
	/* A warning that no row of the table knows is not a reason. */
	if (kind == PROGRESS_FAIL_OTHER && p->line[0] == 'W')
		return;
	p->failures[kind]++;
	const char *text = p->line;

	/* "E: setup failed: E: why" */
	for (const char *inner; (inner = strstr(text, "E: ")) != NULL;)
		text = inner + 3;
	if (!p->last_error[kind][0])
		(void)snprintf(p->last_error[kind], sizeof(p->last_error[kind]), "%.255s", text);
}

static void note_total(struct progress *p)
{
	const char *at = strstr(p->line, " upgraded, ");
	uint64_t n;

	if (!at)
		return;
	at += strlen(" upgraded, ");
	size_t len = strspn(at, "0123456789");

	if (parse_u64_n(at, len, 0, 100000, &n) == 0)
		p->expected += n;
}

static bool end_line(struct progress *p)
{
	const char *s = p->line;

	if (text_starts_with(s, "Get:")) {
		/* The lines of package lists have no package name at that place: "Get:2 URL
		 * forky/main amd64 Packages [10 MB]". */
		if (strstr(s, " InRelease") || strstr(s, " Packages ["))
			return false;
		counted(p, PROGRESS_DOWNLOAD, &p->fetched, 4);
	} else if (text_starts_with(s, "Unpacking ")) {
		counted(p, PROGRESS_UNPACK, &p->unpacked, 1);
	} else if (text_starts_with(s, "Setting up ")) {
		counted(p, PROGRESS_SETUP, &p->configured, 2);
	} else if (text_starts_with(s, "caisson: ")) {
		p->phase = PROGRESS_HOOK;
		set_item(p, s + strlen("caisson: "), strlen(s) - strlen("caisson: "));
	} else if (text_starts_with(s, "I: creating tarball")) {
		p->phase = PROGRESS_PACK;
		set_item(p, "", 0);
	} else if (text_starts_with(s, "E: ") || text_starts_with(s, "Err:") ||
		   text_starts_with(s, "W: ") || text_starts_with(s, "dpkg: error")) {
		/* A warning only counts as the reason of a failure after it. */
		note_error(p);
		return false;
	} else {
		note_total(p);
		return false;
	}
	return true;
}

bool progress_feed(struct progress *p, const char *data, size_t len)
{
	bool news = false;

	for (size_t i = 0; i < len; i++) {
		if (data[i] == '\n' || data[i] == '\r') {
			p->line[p->line_len] = '\0';
			news |= p->line_len > 0 && end_line(p);
			p->line_len = 0;
		} else if (p->line_len < sizeof(p->line) - 1 && data[i] != '\0') {
			p->line[p->line_len++] = data[i];
		}
	}
	return news;
}

enum progress_failure progress_reason(const struct progress *p)
{
	static const enum progress_failure order[] = {
	    PROGRESS_FAIL_WHEELS,    PROGRESS_FAIL_DISK,    PROGRESS_FAIL_USERNS,
	    PROGRESS_FAIL_SIGNATURE, PROGRESS_FAIL_PACKAGE, PROGRESS_FAIL_UNREACHABLE,
	    PROGRESS_FAIL_CHECK,     PROGRESS_FAIL_OTHER,   PROGRESS_FAIL_STALE,
	};

	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		if (p->failures[order[i]])
			return order[i];
	return PROGRESS_FAIL_NONE;
}
