/* SPDX-License-Identifier: Apache-2.0 */
/* `sudo` of a sandbox with a root user. no_new_privs holds there, so no program gains rights by a set-user-id bit: this one
 * asks init to start the command (runtime/init/asked_sudo.c), waits for its end and passes signals on. init starts it as root;
 * for another user this program is started as root and becomes that user (--caisson-become).
 *
 * Static, because it is the same file for every image. So nothing here asks the name service. */
#include "accounts.h"
#include "ask_init_send.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define VERSION     "sudo of this sandbox, with the options of Sudo 1.9 that are listed by --help\n"
#define OWN_PATH    "/usr/local/lib/caisson/sudo"
#define BECOME      "--caisson-become"
#define SECURE_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define USAGE                                                                                      \
	"usage: sudo [-EHinSsk] [-u USER] [VAR=value ...] [--] COMMAND [ARGUMENT ...]\n"           \
	"       sudo -v | -l | -k | --version | --help\n"                                          \
	"No password is asked for. Other options are not there.\n"
#define WORDS_MAX 500 /* of the command, and of the environment; init takes 512 */

struct order {
	const char *user;
	bool whole_env, own_home, login, shell, stops; /* stops: there is nothing to execute */
	char *vars[WORDS_MAX];
	size_t n_vars;
	char **command; /* ends with NULL */
};

static char *words[WORDS_MAX + 8]; /* what init gets as the command */
static char *env[WORDS_MAX + 8];
static size_t n_words, n_env;

extern char **environ;

_Noreturn static void fail(const char *what, const char *why)
{
	(void)fprintf(stderr, "sudo: %s%s%s\n", what, why ? ": " : "", why ? why : "");
	exit(1);
}

static char *joined(const char *a, const char *b, const char *c)
{
	const size_t n = strlen(a) + strlen(b) + strlen(c) + 1;
	char *text = malloc(n);

	if (!text)
		fail("no memory", NULL);
	(void)snprintf(text, n, "%s%s%s", a, b, c);
	return text;
}

static void add_word(char *word)
{
	if (n_words >= WORDS_MAX)
		fail("the command has too many words", "500 are the most. Write it into a file.");
	words[n_words++] = word;
}

/* ---- options ---- */

static bool is_variable(const char *word)
{
	const size_t n = strcspn(word, "=");

	return word[n] == '=' && n > 0 &&
	       strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz0123456789") >= n;
}

/* A letter, of which several may stand in one word. False = it is not known. */
static bool take_letter(struct order *o, char letter)
{
	switch (letter) {
	case 'E':
		o->whole_env = true;
		return true;
	case 'H':
		o->own_home = true;
		return true;
	case 'i':
		o->login = true;
		return true;
	case 's':
		o->shell = true;
		return true;
	case 'k':
	case 'v':
	case 'l':
		o->stops = true;
		return true;
	case 'n': /* no password is asked for */
	case 'S':
		return true;
	default:
		return false;
	}
}

static const struct {
	const char *name;
	char letter;
} names[] = {
    {"--preserve-env", 'E'}, {"--set-home", 'H'},        {"--login", 'i'},
    {"--shell", 's'},        {"--reset-timestamp", 'k'}, {"--validate", 'v'},
    {"--list", 'l'},         {"--non-interactive", 'n'}, {"--stdin", 'S'},
};

static char **take_word(struct order *o, char **at)
{
	const char *word = *at;

	if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
		(void)fputs(VERSION, stdout);
		exit(0);
	}
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
		(void)fputs(USAGE, stdout);
		exit(0);
	}
	if (strncmp(word, "--user=", 7) == 0) {
		o->user = word + 7;
		return at + 1;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(word, names[i].name) == 0 && take_letter(o, names[i].letter))
			return at + 1;
	for (const char *letter = word + 1; *letter; letter++) {
		if (*letter == 'u' || strcmp(word, "--user") == 0) {
			const bool here = word[1] != '-' && letter[1];
			o->user = here ? letter + 1 : at[1];
			if (!o->user)
				fail("-u needs the name of a user", NULL);
			return at + (here ? 1 : 2);
		}
		if (!take_letter(o, *letter)) {
			(void)fprintf(stderr, "sudo: the option %s is not there\n" USAGE, word);
			exit(1);
		}
	}
	return at + 1;
}

static struct order read_order(char **at)
{
	static struct order o = {.user = "root"};

	while (*at && (*at)[0] == '-' && (*at)[1]) {
		if (strcmp(*at, "--") == 0) {
			at++;
			break;
		}
		at = take_word(&o, at);
	}
	for (; *at && is_variable(*at); at++) {
		if (o.n_vars >= WORDS_MAX)
			fail("too many variables", NULL);
		o.vars[o.n_vars++] = *at;
	}
	o.command = at;
	return o;
}

/* ---- environment ---- */

/* What stays of the caller's without -E: words and languages, and what leads out of the sandbox and to packages. */
static bool stays(const char *variable)
{
	static const char *const whole[] = {"TERM",
					    "LANG",
					    "LANGUAGE",
					    "TZ",
					    "COLORTERM",
					    "DISPLAY",
					    "LINES",
					    "COLUMNS",
					    "HTTP_PROXY",
					    "HTTPS_PROXY",
					    "ALL_PROXY",
					    "NO_PROXY",
					    "http_proxy",
					    "https_proxy",
					    "all_proxy",
					    "no_proxy",
					    "SSL_CERT_FILE",
					    "SSL_CERT_DIR",
					    "REQUESTS_CA_BUNDLE",
					    "CURL_CA_BUNDLE",
					    "NODE_EXTRA_CA_CERTS",
					    "DEBIAN_FRONTEND"};
	static const char *const begins[] = {"LC_",      "PIP_",        "UV_",
					     "CAISSON_", "npm_config_", "NPM_CONFIG_"};
	const size_t n = strcspn(variable, "=");

	for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
		if (strlen(whole[i]) == n && strncmp(variable, whole[i], n) == 0)
			return true;
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		if (strncmp(variable, begins[i], strlen(begins[i])) == 0)
			return true;
	return false;
}

/* Takes the place of one with the same name. */
static void set_variable(char *variable)
{
	const size_t n = strcspn(variable, "=") + 1;

	for (size_t i = 0; i < n_env; i++)
		if (strncmp(env[i], variable, n) == 0) {
			env[i] = variable;
			return;
		}
	if (n_env >= WORDS_MAX)
		fail("the environment has too many variables", "500 are the most");
	env[n_env++] = variable;
}

static void make_env(const struct order *o, const struct account *to)
{
	char number[16];
	const struct account *from = account_of(NULL, getuid());

	for (char **at = environ; *at; at++)
		if (strchr(*at, '=') && (o->whole_env || stays(*at)))
			set_variable(*at);
	set_variable(joined("PATH=", SECURE_PATH, ""));
	if (!o->whole_env || o->own_home || o->login)
		set_variable(joined("HOME=", to->home, ""));
	set_variable(joined("USER=", to->name, ""));
	set_variable(joined("LOGNAME=", to->name, ""));
	set_variable(joined("SHELL=", to->shell, ""));
	set_variable(joined("SUDO_USER=", from->name, ""));
	(void)snprintf(number, sizeof(number), "%u", getuid());
	set_variable(joined("SUDO_UID=", number, ""));
	(void)snprintf(number, sizeof(number), "%u", getgid());
	set_variable(joined("SUDO_GID=", number, ""));
	set_variable(joined("SUDO_COMMAND=", o->command[0] ? o->command[0] : to->shell, ""));
	for (size_t i = 0; i < o->n_vars; i++)
		set_variable(o->vars[i]);
}

/* ---- the command ---- */

/* The words as one text for a shell; what could mean something to it has a backslash, as sudo(8) says of -s and -i. */
static char *escaped(char **command)
{
	static const char plain[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz0123456789-$";
	size_t n = 1;

	for (char **at = command; *at; at++)
		n += 2 * strlen(*at) + 1;
	char *text = malloc(n);
	char *to = text;
	if (!text)
		fail("no memory", NULL);
	for (char **at = command; *at; at++) {
		for (const char *c = *at; *c; c++) {
			if (!strchr(plain, *c))
				*to++ = '\\';
			*to++ = *c;
		}
		*to++ = at[1] ? ' ' : '\0';
	}
	return text;
}

static void make_command(const struct order *o, const struct account *to)
{
	if (to->uid != 0) {
		add_word((char *)(uintptr_t)OWN_PATH);
		add_word((char *)(uintptr_t)BECOME);
		add_word((char *)(uintptr_t)to->name);
	}
	if (!o->login && !o->shell) {
		for (char **at = o->command; *at; at++)
			add_word(*at);
		return;
	}
	add_word((char *)(uintptr_t)to->shell);
	if (o->login)
		add_word((char *)(uintptr_t) "-l");
	if (o->command[0]) {
		add_word((char *)(uintptr_t) "-c");
		add_word(escaped(o->command));
	}
}

/* `sudo --caisson-become USER COMMAND`, as root */
_Noreturn static void become(char **at)
{
	const struct account *to = account_of(at[0], 0);
	gid_t groups[ACCOUNT_GROUPS];
	const size_t n = to ? account_groups(to, groups) : 0;

	if (!to)
		fail("unknown user", at[0]);
	if (setgroups(n, groups) < 0 || setresgid(to->gid, to->gid, to->gid) < 0 ||
	    setresuid(to->uid, to->uid, to->uid) < 0)
		fail(to->name, strerror(errno));
	(void)execvp(at[1], at + 1);
	fail(at[1], errno == ENOENT ? "command not found" : strerror(errno));
}

/* ---- init ---- */

/* Working folder, command and environment, each text with its NUL. */
static int write_args(bool login, const struct account *to)
{
	char folder[PATH_MAX];
	const int fd = memfd_create("sudo", MFD_CLOEXEC);
	FILE *f = fd < 0 ? NULL : fdopen(dup(fd), "w");

	if (!f)
		fail("no memory", NULL);
	const char *cwd = login ? to->home : getcwd(folder, sizeof(folder)) ? folder : "/";
	(void)fwrite(cwd, 1, strlen(cwd) + 1, f);
	for (size_t i = 0; i < n_words; i++)
		(void)fwrite(words[i], 1, strlen(words[i]) + 1, f);
	for (size_t i = 0; i < n_env; i++)
		(void)fwrite(env[i], 1, strlen(env[i]) + 1, f);
	if (fclose(f) != 0)
		fail("no memory", NULL);
	return fd;
}

static int send_order(int sock, int answer, int args)
{
	const struct ask_init ask = {
	    .kind = ASK_INIT_SUDO, .pid = (int32_t)n_words, .signo = (int32_t)n_env};
	const int fds[ASK_INIT_SUDO_FDS] = {answer, args, 0, 1, 2};

	return ask_init_send(sock, &ask, fds, ASK_INIT_SUDO_FDS);
}

_Noreturn static void end_like(int status)
{
	if (WIFSIGNALED(status)) {
		(void)signal(WTERMSIG(status), SIG_DFL);
		sigset_t none;
		(void)sigemptyset(&none);
		(void)sigprocmask(SIG_SETMASK, &none, NULL);
		(void)raise(WTERMSIG(status));
		exit(128 + WTERMSIG(status));
	}
	exit(WEXITSTATUS(status));
}

/* The command has ended, or did not begin. */
_Noreturn static void answered(const struct ask_init_ended *said, ssize_t n)
{
	if (n == sizeof(*said) && said->began)
		end_like(said->value);
	if (n == sizeof(*said))
		fail(words[0], said->value == ENOENT ? "command not found" : strerror(said->value));
	if (n == sizeof(int32_t) && said->began == EPERM)
		fail("only the users `user` and `root` of this sandbox may do this", NULL);
	if (n == sizeof(int32_t) && said->began == EOPNOTSUPP)
		fail("this sandbox has no root user",
		     "it is made with the option root: true, which the operator permits by "
		     "SANDBOX_ROOT=on");
	fail("the command was ended", NULL);
}

_Noreturn static void wait_for(int sock, const sigset_t *passed)
{
	const int signals = signalfd(-1, passed, SFD_CLOEXEC);
	struct pollfd p[] = {{.fd = sock, .events = POLLIN}, {.fd = signals, .events = POLLIN}};

	for (;;) {
		struct signalfd_siginfo s;
		struct ask_init_ended said = {0};
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			fail("poll", strerror(errno));
		if (p[0].revents)
			answered(&said, recv(sock, &said, sizeof(said), 0));
		if (p[1].revents && read(signals, &s, sizeof(s)) == sizeof(s)) {
			const int32_t signo = (int32_t)s.ssi_signo;
			(void)send(sock, &signo, sizeof(signo), MSG_NOSIGNAL);
			if (signo == SIGTSTP)
				(void)raise(SIGSTOP);
		}
	}
}

int main(int argc, char *argv[])
{
	static const int passes[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGTSTP,
				     SIGCONT, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH};
	sigset_t set;
	int pair[2];

	/* One that the caller has closed must not be the number of anything that is opened here. */
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)open("/dev/null", O_RDWR);
	if (argc > 3 && strcmp(argv[1], BECOME) == 0)
		become(argv + 2);
	struct order o = read_order(argv + 1);
	const struct account *to = account_of(o.user, 0);
	if (!to)
		fail("unknown user", o.user);
	if (!o.command[0] && o.stops)
		return 0;
	if (!o.command[0] && !o.login && !o.shell) {
		(void)fputs(USAGE, stderr);
		return 1;
	}
	make_env(&o, to);
	make_command(&o, to);
	(void)sigemptyset(&set);
	for (size_t i = 0; i < sizeof(passes) / sizeof(passes[0]); i++)
		(void)sigaddset(&set, passes[i]);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	const int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (sock < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		fail("socket", strerror(errno));
	const int error = send_order(sock, pair[1], write_args(o.login, to));
	if (error != 0)
		fail("init cannot be asked", strerror(error));
	(void)close(pair[1]);
	wait_for(pair[0], &set);
}
