/* SPDX-License-Identifier: Apache-2.0 */
/* What a model should do about a run that ended badly: one or two short sentences, which stand before
 * the traceback in the answer. */
#include "base/rand.h"
#include "tools/extras.h"

#include <signal.h>
#include <string.h>

#define TAIL_MAX   4096u /* last bytes of stderr that are searched */
#define MODULE_MAX 64u   /* bytes of a module's name that a hint repeats */
#define MIB        (UINT64_C(1) << 20)

uint64_t extras_timeout_of(const struct run_call *c)
{
	return c->request.timeout_ns > 0 ? c->request.timeout_ns
					 : sandbox_run_timeout_ns(c->sandbox);
}

static int add_timeout(struct buf *b, const struct run_call *c)
{
	const uint64_t longest = manager_run_timeout_max_ns(c->tools->config.manager);

	if (longest == 0)
		return buf_add_str(b, "Do less in one run, or give a larger timeout_s.");
	if (extras_timeout_of(c) >= longest)
		return buf_printf(b,
				  "%ju s is the longest time that this server allows: split the "
				  "work into several runs.",
				  (uintmax_t)(longest / NS_PER_S));
	return buf_printf(b, "Do less in one run, or give a larger timeout_s (at most %ju).",
			  (uintmax_t)(longest / NS_PER_S));
}

static int add_signal(struct buf *b, int signo)
{
	static const struct {
		int signo;
		const char *cause;
	} causes[] = {
	    {SIGSEGV, "native code of a package crashed"},
	    {SIGBUS, "native code of a package crashed, or a mapped file became shorter"},
	    {SIGABRT, "native code of a package gave up; stderr may say why"},
	    {SIGFPE, "native code of a package divided by zero"},
	    {SIGILL, "native code uses an instruction that this processor does not have"},
	    {SIGSYS, "it made a system call that sandboxes may not make"},
	    {SIGKILL, "something in the sandbox killed it, often for want of memory"},
	    {SIGPIPE, "it wrote to a pipe that nobody reads"},
	};
	const char *name = sigabbrev_np(signo);
	int r = buf_printf(b, "The run was ended by SIG%s", name ? name : "?");

	for (size_t i = 0; i < ARRAY_SIZE(causes) && r == 0; i++)
		if (causes[i].signo == signo)
			r = buf_printf(b, ": %s", causes[i].cause);
	return r < 0 ? r : buf_add_char(b, '.');
}

/* How the run ended. */
static int add_end(struct buf *b, const struct run_call *c, const struct run_result *result)
{
	if (result->state_lost)
		return buf_add_str(b,
				   "The session's variables are gone; its files are still there. "
				   "Run the definitions again.");
	if (result->threads_lost)
		return buf_add_str(b, "Threads do not outlive a run: wait for them in the run that "
				      "starts them.");
	if (result->reason == RUN_TIMEOUT)
		return add_timeout(b, c);
	if (result->reason == RUN_OOM)
		return buf_printf(
		    b,
		    "The sandbox ran out of memory (it has %ju MiB): read data in "
		    "parts, or use smaller types.",
		    (uintmax_t)(sandbox_policy(c->sandbox)->limits.memory_bytes / MIB));
	if (result->reason == RUN_OUTPUT_LIMIT)
		return buf_add_str(b, "Print less, or write to a file.");
	if (result->reason == RUN_DISK_LIMIT)
		return buf_add_str(b, "The files are more than the sandbox may hold: remove some.");
	return result->reason == RUN_SIGNALED ? add_signal(b, result->signal) : 0;
}

/* ---- what stderr says ---- */

static bool has_one_of(const char *text, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strstr(text, words[i]))
			return true;
	return false;
}

static int add_no_network(struct buf *b, const struct run_call *c, const char *text)
{
	static const char *const words[] = {"Temporary failure in name resolution",
					    "Name or service not known", "Network is unreachable",
					    "Could not resolve host", "Failed to resolve"};
	const char *network = sandbox_network(c->sandbox);

	if (!has_one_of(text, words, ARRAY_SIZE(words)))
		return 0;
	if (strcmp(network, "none") == 0)
		return buf_add_str(b,
				   "The sandbox has no network. Work with files in /mnt/data, and "
				   "install packages with sandbox_install_packages.");
	return buf_printf(
	    b,
	    "The network of the sandbox is '%s': other hosts, and programs that ignore "
	    "HTTP_PROXY and HTTPS_PROXY, reach nothing.",
	    network);
}

static int add_missing_module(struct buf *b, const struct run_call *c, const char *text)
{
	static const char before[] = "ModuleNotFoundError: No module named '";
	const char *name = strstr(text, before);

	if (!name)
		return 0;
	name += strlen(before);
	size_t len = strcspn(name, "'.\n");
	if (len == 0 || len > MODULE_MAX)
		return 0;
	return buf_printf(
	    b, "The module %.*s is not installed here%s", (int)len, name,
	    c->tools->config.packages
		? ": use sandbox_install_packages (the package may have another name)."
		: ", and this server installs no packages: do it without.");
}

/* What the last lines of stderr are about. They come from the sandbox, so a hint never repeats more of
 * them than the name of a module. */
static int add_reason(struct buf *b, const struct run_call *c, const struct run_result *result)
{
	char text[TAIL_MAX + 1];
	const size_t len = MIN(result->err.len, (size_t)TAIL_MAX);

	if (result->exit_code == 0 || result->reason != RUN_EXITED)
		return 0;
	memcpy(text, result->err.data + result->err.len - len, len);
	for (size_t i = 0; i < len; i++)
		text[i] = text[i] >= ' ' && text[i] < 0x7F ? text[i] : '\n';
	text[len] = '\0';
	int r = add_missing_module(b, c, text);
	return r == 0 && b->len == 0 ? add_no_network(b, c, text) : r;
}

/* The caller named a session that did not exist, so this call has made it. The model may have
 * mistyped the id, or the session may have ended: either way its variables and files are missing. */
static int add_new_session(struct buf *b, const struct run_call *c)
{
	return buf_printf(
	    b,
	    "%sThere was no session %s (it has ended, or the id is new): this is a new "
	    "one without earlier files and variables.",
	    b->len > 0 ? " " : "", c->id);
}

int extras_add_hint(struct buf *b, const struct run_call *c, const struct run_result *result)
{
	int r = add_end(b, c, result);

	if (r == 0 && b->len == 0)
		r = add_reason(b, c, result);
	return r == 0 && c->made && c->id[0] ? add_new_session(b, c) : r;
}
