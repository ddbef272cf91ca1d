/* SPDX-License-Identifier: Apache-2.0 */
#include "app/pip_config.h"

#include "base/fdio.h"
#include "base/text.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_MAX  (256u << 10)
#define SYSTEM_CA "/etc/ssl/certs/ca-certificates.crt"

static const char blanks[] = " \t\r";

/* Removes blanks around S, in place. */
static char *trim(char *s)
{
	s += strspn(s, blanks);
	size_t n = strlen(s);
	while (n > 0 && strchr(blanks, s[n - 1]))
		n--;
	s[n] = '\0';
	return s;
}

/* Keeps the first value, because files are read in the order of their precedence. */
static void keep(char *ret, size_t size, const char *value)
{
	if (ret[0] == '\0' && text_copy(ret, size, value) < 0)
		ret[0] = '\0';
}

static void take_line(struct pip_config *ret, char *line)
{
	char *equals = strpbrk(line, "=:");

	if (!equals)
		return;
	*equals = '\0';
	const char *key = trim(line);
	const char *value = trim(equals + 1);
	if (streq(key, "index-url") || streq(key, "index_url"))
		keep(ret->index_url, sizeof(ret->index_url), value);
	else if (streq(key, "cert"))
		keep(ret->cert, sizeof(ret->cert), value);
}

static void read_text(struct pip_config *ret, char *text)
{
	char *rest = text;
	bool ours = false;

	for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
		/* A line that begins with a blank continues the value before it. */
		bool more = line[0] == ' ' || line[0] == '\t';
		char *s = trim(line);

		if (*s == '[')
			ours = streq(s, "[global]") || streq(s, "[install]");
		else if (ours && !more && *s != '#' && *s != ';')
			take_line(ret, s);
	}
}

static void read_file(struct pip_config *ret, const char *path)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(FILE_MAX);
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd >= 0 && fd_read_file(fd, &text) == 0 && text.len > 0)
		read_text(ret, text.data);
}

static void read_below(struct pip_config *ret, const char *variable, const char *path)
{
	const char *base = getenv(variable);
	char full[PATH_MAX];

	if (!base || base[0] != '/')
		return;
	int n = snprintf(full, sizeof(full), "%s/%s", base, path);
	if (n > 0 && (size_t)n < sizeof(full))
		read_file(ret, full);
}

void pip_config_read(struct pip_config *ret)
{
	const char *index = getenv("PIP_INDEX_URL");
	const char *cert = getenv("PIP_CERT");
	const char *file = getenv("PIP_CONFIG_FILE");

	*ret = (struct pip_config){0};
	if (index)
		keep(ret->index_url, sizeof(ret->index_url), index);
	if (cert)
		keep(ret->cert, sizeof(ret->cert), cert);
	if (file && streq(file, "/dev/null")) /* then pip reads no file */
		return;
	if (file)
		read_file(ret, file);
	read_below(ret, "XDG_CONFIG_HOME", "pip/pip.conf");
	read_below(ret, "HOME", ".config/pip/pip.conf");
	read_below(ret, "HOME", ".pip/pip.conf");
	read_file(ret, "/etc/xdg/pip/pip.conf");
	read_file(ret, "/etc/pip.conf");
}

int pip_config_open_ca(const struct pip_config *pip, const char *file, bool *ret_own)
{
	const char *named = getenv("SSL_CERT_FILE");
	const char *const paths[] = {file, pip->cert, named ? named : "", SYSTEM_CA};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct stat st;
		int fd = paths[i][0] ? open(paths[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;

		if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
			*ret_own = !streq(paths[i], SYSTEM_CA);
			return fd;
		}
		(void)fd_close(fd);
	}
	return -1;
}
