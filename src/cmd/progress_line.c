/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/progress_line.h"

#include "base/rand.h"
#include "base/text.h"

#include <inttypes.h>
#include <sys/ioctl.h>

#define CLEAR_LINE  "\r\033[K"
#define TTY_EVERY   (80 * NS_PER_MS)
#define PLAIN_EVERY (2 * NS_PER_S)
#define WIDTH_MAX   200

void progress_line_init(struct progress_line *p, FILE *out, bool tty)
{
	*p = (struct progress_line){.out = out, .tty = tty, .began = now_ns()};
}

static void close_step(struct progress_line *p, bool ok)
{
	if (!p->step[0])
		return;
	if (p->tty)
		(void)fprintf(p->out, CLEAR_LINE "  %s %-28s %3" PRIu64 " s\n", ok ? "ok" : "--",
			      p->step, (now_ns() - p->step_began) / NS_PER_S);
	p->step[0] = '\0';
	(void)fflush(p->out);
}

void progress_line_clean(char *text)
{
	/* C1 controls are two bytes of UTF-8. */
	for (unsigned char *c = (unsigned char *)text; *c; c++) {
		if ((*c < 0x20 && *c != '\t') || *c == 0x7f)
			*c = ' ';
		if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)
			c[0] = c[1] = ' ';
	}
}

void progress_line_step(void *user, const char *text)
{
	struct progress_line *p = user;

	close_step(p, true);
	(void)snprintf(p->step, sizeof(p->step), "%s", text);
	progress_line_clean(p->step);
	p->step_began = now_ns();
	p->last_shown = p->tty ? 0 : now_ns();
	(void)fprintf(p->out, p->tty ? "  .. %s" : "  %s\n", p->step);
	(void)fflush(p->out);
}

static size_t width(const struct progress_line *p)
{
	struct winsize w = {0};

	if (ioctl(fileno(p->out), TIOCGWINSZ, &w) < 0 || w.ws_col < 20)
		return 80;
	return w.ws_col < WIDTH_MAX ? w.ws_col : WIDTH_MAX;
}

void progress_line_tick(void *user, const char *text, uint64_t done, uint64_t total)
{
	struct progress_line *p = user;
	uint64_t now = now_ns();
	char line[WIDTH_MAX + 1];
	char count[64] = "";

	if (now - p->last_shown < (p->tty ? TTY_EVERY : PLAIN_EVERY))
		return;
	p->last_shown = now;
	if (total > 0)
		(void)snprintf(count, sizeof(count), "%" PRIu64 "/%" PRIu64 " ", done, total);
	else if (done > 0)
		(void)snprintf(count, sizeof(count), "%" PRIu64 " ", done);
	(void)snprintf(line, sizeof(line), "  .. %s  %s%s", p->step, count, text);
	if (p->tty)
		(void)fprintf(p->out, CLEAR_LINE "%.*s", (int)width(p) - 1, line);
	else
		(void)fprintf(p->out, "  %s  %s%s\n", p->step, count, text);
	(void)fflush(p->out);
}

void progress_line_output(struct progress_line *p, const char *text)
{
	const char *clear = p->tty && p->step[0] ? CLEAR_LINE : "";

	(void)fprintf(p->out, "%s%s\n", clear, text);
	if (p->tty && p->step[0])
		(void)fprintf(p->out, "  .. %s", p->step);
	(void)fflush(p->out);
}

void progress_line_warn(void *user, const char *text)
{
	struct progress_line *p = user;

	close_step(p, false);
	(void)fprintf(p->out, "warning: %s\n", text);
}

void progress_line_end(struct progress_line *p, bool ok)
{
	close_step(p, ok);
}
