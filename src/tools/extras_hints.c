/* SPDX-License-Identifier: Apache-2.0 */
/* What a model should do about a run that ended badly: one or two short sentences, which stand before
 * the traceback in the answer. */
#include "base/rand.h"
#include "base/text.h"
#include "tools/error_hints.h"
#include "tools/extras.h"
#include "tools/missing_command.h"
#include "tools/missing_module.h"
#include "tools/signs.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#define LIMIT_MAX   200u /* bytes */
#define LIBRARY_MAX 64u  /* bytes of a library's name that a hint repeats */
#define MIB         (UINT64_C(1) << 20)

/* What runtime/python/magics.py writes after a command. */
#define FAILED_COMMAND "Note: the command ended with exit status "

static uint64_t extras_timeout_of(const struct run_call *c)
{
	return c->request.timeout_ns > 0 ? c->request.timeout_ns
					 : sandbox_run_timeout_ns(c->sandbox);
}

/* What add_gone() will say of the variables is not said before. */
static bool is_said_later(const struct run_result *result)
{
	return result->left.carried || result->left.gone != 0;
}

/* Whether an exception came before the timeout. The interrupt itself is one. */
static bool worker_failed(const struct run_result *result)
{
	char text[SIGNS_TAIL + 1];

	signs_tail(&result->err, text);
	return strstr(text, "Exception in thread ") || strstr(text, "spawn_main(") ||
	       (strstr(text, "Traceback (most recent call last):\n") &&
		!strstr(text, "KeyboardInterrupt"));
}

static int add_timeout(struct buf *b, const struct run_call *c, const struct run_result *result)
{
	const uint64_t longest = manager_run_timeout_max_ns(c->tools->config.manager);
	const uintmax_t seconds = extras_timeout_of(c) / NS_PER_S;
	const int r =
	    result->state_kept
		? buf_printf(b,
			     "The run was interrupted after its %ju s; what it did before that is "
			     "kept. ",
			     seconds)
	    : c->request.kind == ENGINE_RUN_STATEFUL
		? buf_printf(b,
			     "The run did not react to an interrupt after its %ju s and was "
			     "ended%s. ",
			     seconds,
			     is_said_later(result) ? "" : "; the variables are as before it")
		: buf_printf(b, "The run was ended after its %ju s. ", seconds);

	if (r < 0)
		return r;
	if (worker_failed(result))
		return buf_add_str(b,
				   "A thread or a worker process of it failed, as stderr says, and "
				   "the run may have waited for it.");
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

static int add_memory(struct buf *b, const struct run_call *c)
{
	const uint64_t has = sandbox_policy(c->sandbox)->limits.memory_bytes / MIB;
	const int64_t most = manager_option_max(c->tools->config.manager, SANDBOX_OPTION_MEMORY);
	const int r =
	    buf_printf(b,
		       "The sandbox ran out of memory (it has %ju MiB): read data in parts, "
		       "or use smaller types",
		       (uintmax_t)has);

	if (r < 0 || most <= (int64_t)has)
		return r < 0 ? r : buf_add_char(b, '.');
	return buf_printf(b,
			  ", or raise memory_mb (at most %jd) with sandbox_create and this "
			  "session_id.",
			  (intmax_t)most);
}

/* How the run ended. */
static int add_end(struct buf *b, const struct run_call *c, const struct run_result *result)
{
	static const char *const why[] = {
	    [ENGINE_LOST_ALONE] = "their process ended and had no copy",
	    [ENGINE_LOST_CRASHED] = "their process ended, and its copy could not go on",
	    [ENGINE_LOST_SILENT] = "their process did not answer any more",
	    [ENGINE_LOST_RESTED] = "they could not be kept while the sandbox rested"};

	if (result->state_lost && result->reason == RUN_TIMEOUT &&
	    buf_printf(b, "The run was ended after its %ju s. ",
		       (uintmax_t)(extras_timeout_of(c) / NS_PER_S)) < 0)
		return -ENOMEM;
	if (result->state_lost)
		return buf_printf(
		    b,
		    "The session's variables are gone: %s. Its files are still there. "
		    "Run the definitions again.",
		    why[result->left.lost]);
	if (result->reason == RUN_TIMEOUT)
		return add_timeout(b, c, result);
	if (result->reason == RUN_OOM)
		return add_memory(b, c);
	if (result->reason == RUN_OUTPUT_LIMIT)
		return buf_add_str(b, "Print less, or write to a file.");
	if (result->reason == RUN_CANCELLED && result->stateful)
		return buf_add_str(
		    b, result->state_kept
			   ? "The run was cancelled; what it did before that is kept."
		       : is_said_later(result)
			   ? "The run was cancelled and ended."
			   : "The run was cancelled and ended; the variables are as before it.");
	if (result->reason == RUN_SIGNALED)
		return add_signal(b, result->signal);
	/* os._exit(), exec, or what the session cannot go on after */
	if (result->reason == RUN_EXITED && result->stateful && !result->state_kept &&
	    !is_said_later(result))
		return buf_add_str(
		    b, "The session's process ended in this run; the variables are as before it.");
	return 0;
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
	const char *network = sandbox_network(c->sandbox);

	if (!signs_in(text, SIGN_NO_NETWORK))
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

/* pip of the program's own virtual environment, which is none of the commands of the sandbox, does not know that it can ask nobody. */
static int add_own_pip(struct buf *b, const struct run_call *c, const char *text)
{
	if (strcmp(sandbox_network(c->sandbox), "none") != 0 ||
	    !strstr(text, "ERROR: No matching distribution found for "))
		return 0;
	return buf_add_str(
	    b, "The sandbox has no network, so pip in a virtual environment finds no package. "
	       "Leave the environment out: sandbox_install_packages installs for all runs of the "
	       "session. Or make it with python3 -m venv --system-site-packages, which has what is "
	       "installed.");
}

/* Which limit of the sandbox the program has met. */
static int add_limit(struct buf *b, const struct run_call *c, const char *text)
{
	char limit[LIMIT_MAX];

	if (signs_in(text, SIGN_NO_MEMORY))
		return add_memory(b, c);
	return signs_limit(text, c->sandbox, limit, sizeof(limit)) ? buf_add_str(b, limit) : 0;
}

/* A shared library that a package needs and the image lacks. */
static int add_missing_library(struct buf *b, const char *text)
{
	static const char before[] = "\nImportError: ";
	static const char after[] = ": cannot open shared object file";
	const char *name = strstr(text, before);

	if (!name)
		return 0;
	name += strlen(before);
	const size_t len = strcspn(name, ": \n");
	if (len == 0 || len > LIBRARY_MAX || !text_starts_with(name + len, after))
		return 0;
	if (text_starts_with(name, "libtk") || text_starts_with(name, "libtcl"))
		return buf_add_str(b, "tkinter needs a screen, and there is none here: draw with "
				      "matplotlib or Pillow, which write files.");
	if (strstr(text, "cv2"))
		return buf_add_str(b, "opencv-python needs libraries of a desktop, which are not "
				      "in this image: install "
				      "opencv-python-headless, the same cv2 without windows (of "
				      "opencv-contrib-python "
				      "opencv-contrib-python-headless).");
	return buf_printf(
	    b,
	    "A package needs the library %.*s, which is not in this image: look for a build of the "
	    "package that brings its libraries (often NAME-headless or NAME-binary). Only the "
	    "person who "
	    "runs this server can add a library to the image.",
	    (int)len, name);
}

/* Windows of OpenCV: its own message says how to build it again with a toolkit of desktops. */
static int add_no_window(struct buf *b, const char *text)
{
	if (!strstr(text, "The function is not implemented. Rebuild the library with Windows"))
		return 0;
	return buf_add_str(b, "There are no windows here: cv2.imwrite saves the picture, and you "
			      "see it with the result.");
}

/* The run looked for a file or a variable that an earlier call of this client may have made: it gave
 * no session, or its variables were not kept. */
static int add_forgotten(struct buf *b, const struct run_call *c, const struct run_result *result,
			 const char *text)
{
	/* A path outside of the workspace is no file of an earlier call: Python names it in quotes. */
	const bool file =
	    signs_in(text, SIGN_NO_FILE) &&
	    (!strstr(text, "directory: '/") || strstr(text, "directory: '/mnt/data") ||
	     strstr(text, "directory: '/app/results"));
	/* Where the interpreter itself knows what is meant ("Did you forget to import 'os'?"). "Did you mean"
	 * is a guess by the spelling alone, also for a variable that an earlier run had. */
	const bool variable = signs_in(text, SIGN_NO_NAME) && !strstr(text, "Did you forget ");
	int r = 0;

	if ((file || variable) && c->made && !c->id[0] && c->before[0])
		r = buf_printf(
		    b,
		    "This call had no session_id, so it ran in a new session, without the "
		    "files and variables of %s: give that session_id to go on there "
		    "(sandbox_list shows all).",
		    c->before);
	if (r == 0 && variable && c->request.kind == ENGINE_RUN_PYTHON)
		r = buf_printf(b,
			       "%sVariables and imports are kept only from one run with stateful "
			       "true to the next; this run had none: define them in its code.",
			       b->len > 0 ? " " : "");
	/* A stored sandbox was put away, the server was started again, or a crash left no copy: files are there, variables
	 * are not. */
	if (r == 0 && variable && c->request.kind == ENGINE_RUN_STATEFUL && !c->made &&
	    result->cell == 1)
		r = buf_printf(b, "No variables of earlier runs are left here: this is the first "
				  "stateful run of a new interpreter. The files are there.");
	return r;
}

/* Names that the code of a run has as in a notebook. A file that python3 starts is plain Python. */
static int add_notebook_name(struct buf *b, const char *text)
{
	const bool display = strstr(text, "\nNameError: name 'display' is not defined");

	if (!display && !strstr(text, "\nNameError: name 'get_ipython' is not defined"))
		return 0;
	return buf_printf(
	    b,
	    "The code of sandbox_run_python has %s, a file that python3 starts does not: "
	    "use print(), or run the file there with %%run FILE.",
	    display ? "display()" : "get_ipython()");
}

/* A program that asks somebody, and was given no answers. */
static int add_no_input(struct buf *b, const struct run_call *c, const char *text)
{
	if (c->request.input_len > 0 || !signs_in(text, SIGN_NO_INPUT))
		return 0;
	return buf_add_str(b, "Nobody answers input() here: give all its lines as stdin.");
}

static int add_library_error(struct buf *b, const char *text, bool failed)
{
	const char *hint = error_hint_of(text, failed);

	return hint ? buf_add_str(b, hint) : 0;
}

/* pdb writes to stdout, and ends the program when nobody answers it. */
static int add_no_debugger(struct buf *b, const struct run_call *c, const struct run_result *result)
{
	char text[SIGNS_TAIL + 1];

	signs_tail(&result->out, text);
	if (c->request.input_len > 0 || !strstr(text, "(Pdb) "))
		return 0;
	return buf_add_str(b,
			   "Nobody answers the debugger here: leave breakpoint() and pdb out, and "
			   "print the variables.");
}

/* What the last lines of stderr are about. They come from the sandbox, so a hint never repeats more of
 * them than the name of a module. */
static int add_reason(struct buf *b, const struct run_call *c, const struct run_result *result)
{
	char text[SIGNS_TAIL + 1];

	if (result->reason != RUN_EXITED)
		return 0;
	signs_tail(&result->err, text);
	int r = 0;
	if (result->exit_code == 0) { /* `!conda install x`, os.system(): the run goes on after a
					 command that is missing, or failed */
		r = missing_command_add(b, text);
		if (r == 0 && b->len == 0)
			r = add_own_pip(b, c, text);
		if (r == 0 && b->len == 0)
			r = add_library_error(b, text, false);
		return r == 0 && b->len == 0 && strstr(text, FAILED_COMMAND)
			   ? add_no_network(b, c, text)
			   : r;
	}
	r = add_own_pip(b, c, text);
	if (r == 0 && b->len == 0)
		r = missing_module_add(b, text, c->tools->config.packages);
	if (r == 0 && b->len == 0)
		r = missing_command_add(b, text);
	if (r == 0 && b->len == 0)
		r = add_missing_library(b, text);
	if (r == 0 && b->len == 0)
		r = add_no_window(b, text);
	if (r == 0 && b->len == 0)
		r = add_notebook_name(b, text);
	if (r == 0 && b->len == 0)
		r = add_no_input(b, c, text);
	if (r == 0 && b->len == 0)
		r = add_no_debugger(b, c, result);
	if (r == 0 && b->len == 0)
		r = add_library_error(b, text, true);
	if (r == 0 && b->len == 0)
		r = add_limit(b, c, text);
	if (r == 0 && b->len == 0)
		r = add_no_network(b, c, text);
	return r == 0 && b->len == 0 ? add_forgotten(b, c, result, text) : r;
}

bool extras_starts_background(const char *text, bool shell)
{
	static const char *const words[] = {
	    "Popen", "nohup", "setsid", "create_subprocess", "start_new_session", "os.fork"};

	if (has_one_of(text, words, ARRAY_SIZE(words)))
		return true;
	for (const char *at = strchr(text, '&'); at; at = strchr(at + 1, '&')) {
		const char *next = at + 1 + strspn(at + 1, " \t");
		const bool ends =
		    shell ? !strchr("&>", at[1]) || !at[1] : strchr("\n;)#\"'", *next) != NULL;
		if (at > text && !strchr("&><|", at[-1]) && ends)
			return true;
	}
	return false;
}

static int add_killed(struct buf *b, const struct run_call *c, const struct run_result *result)
{
	if (result->killed == 0 || result->reason != RUN_EXITED || !c->background)
		return 0;
	return buf_printf(
	    b,
	    "%sA background process of this run was ended with it: sandbox_process with "
	    "action start keeps one running beside later runs.",
	    b->len > 0 ? " " : "");
}

/* display.py has found a server in a thread that ends with its run, and says so in stderr. */
static int add_server(struct buf *b, const struct run_result *result)
{
	char text[SIGNS_TAIL + 1];

	if (result->reason != RUN_EXITED || result->killed > 0)
		return 0;
	signs_tail(&result->err, text);
	if (!strstr(text, " ended with this run, as daemon threads do.\n"))
		return 0;
	return buf_printf(
	    b, "%ssandbox_process with action start keeps a server running beside later runs.",
	    b->len > 0 ? " " : "");
}

static int add_late(struct buf *b, const struct run_result *result)
{
	static const char *const names[] = {"stdout", "stderr"};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names) && r == 0; i++) {
		const uint64_t n = result->left.late[i];
		if (n > 0)
			r = buf_printf(
			    b,
			    "%sThe first %ju byte%s of %s %s late: threads or processes of "
			    "the session wrote %s after its last run.",
			    b->len > 0 ? " " : "", (uintmax_t)n, text_s(n), names[i],
			    n == 1 ? "is" : "are", n == 1 ? "it" : "them");
	}
	return r;
}

/* Whether NAME is that of a page which display.py saves for fig.show(): figure-N.html. */
static bool is_page(const char *name)
{
	static const char head[] = "figure-";

	if (!text_starts_with(name, head))
		return false;
	const char *number = name + strlen(head);
	const size_t digits = strspn(number, "0123456789");
	return digits > 0 && streq(number + digits, ".html");
}

/* A figure of plotly is a page for the person. A model that has not seen a picture does not know what the person
 * sees (docs/decisions/0013-plotly-pictures.md). */
static int add_page(struct buf *b, const struct run_result *result)
{
	static const char value[] = "plotly figure with ";
	bool page = result->value.len >= strlen(value) &&
		    memcmp(result->value.data, value, strlen(value)) == 0;

	for (size_t i = 0; i < result->n_artifacts; i++) {
		const char *name = result->artifacts[i].name;

		if (text_ends_with(name, ".png") || text_ends_with(name, ".jpg"))
			return 0;
		page = page || is_page(name);
	}
	if (!page || result->reason != RUN_EXITED)
		return 0;
	return buf_printf(b,
			  "%sThe plotly figure is a page for the person, and you do not see it. To "
			  "look at the chart, draw it with matplotlib.",
			  b->len > 0 ? " " : "");
}

/* The caller named a session that did not exist, so this call has made it. The model may have
 * mistyped the id, or the session may have ended: either way its variables and files are missing. */
static int add_new_session(struct buf *b, const struct run_call *c)
{
	const struct sandbox_end *earlier = sandbox_earlier(c->sandbox);
	int r = buf_printf(b, "%s", b->len > 0 ? " " : "");

	if (r == 0 && earlier->why == SANDBOX_END_NONE)
		return buf_printf(b,
				  "There was no session %s: this is a new one, without files and "
				  "variables. To go on in another one, give its exact session_id.",
				  c->id);
	r = r < 0 ? r : buf_printf(b, "The earlier session %s ", c->id);
	r = r < 0 ? r : sandbox_end_add(b, earlier);
	return r < 0 ? r : buf_add_str(b, ": this is a new one, without its files and variables.");
}

int extras_add_hint(struct buf *b, const struct run_call *c, const struct run_result *result)
{
	int r = add_end(b, c, result);

	if (r == 0 && b->len == 0)
		r = add_reason(b, c, result);
	if (r == 0)
		r = add_killed(b, c, result);
	if (r == 0)
		r = add_server(b, result);
	if (r == 0)
		r = extras_add_session(b, result);
	if (r == 0)
		r = add_late(b, result);
	if (r == 0 && result->left.rests)
		r = buf_printf(b,
			       "%sThreads and processes that are left rest now, and go on in the "
			       "session's next run: a server answers only then. sandbox_process "
			       "keeps one running all the time.",
			       b->len > 0 ? " " : "");
	if (r == 0 && c->blanked)
		r = buf_printf(b, "%sThe command had %s, and ran without.", b->len > 0 ? " " : "",
			       c->blanked);
	if (r == 0)
		r = add_page(b, result);
	if (r == 0 && c->made && c->last && !c->id[0])
		return buf_printf(b,
				  "%sYou have worked in no session on this connection yet: this is "
				  "a new one.",
				  b->len > 0 ? " " : "");
	return r == 0 && c->made && c->id[0] ? add_new_session(b, c) : r;
}
