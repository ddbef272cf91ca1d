/* SPDX-License-Identifier: Apache-2.0 */
/* Structured log: an event name, and fields. One line per event, to stderr and/or a file.
 *
 *   LOG_INFO("session_created", LOG_S("session_id", id), LOG_U("duration_ms", ms));
 *
 * Strings are escaped (control bytes, quotes, invalid UTF-8) and cut at LOG_VALUE_MAX, so a hostile
 * value can neither forge a line nor reach a terminal raw. Submitted code, its output, uploaded
 * content and keys are never logged. Library layers return errors; the outermost caller logs once.
 * Single-threaded (front, monitor, command line). Nothing ever goes to stdout.
 *
 * Where there is a pool (base/workers.h), a job writes the lines, in their order, so no slow disk and no reader of stderr
 * holds the loop. At most LOG_WAITING_MAX bytes wait for each of the two. Lines that find no room are counted, and a
 * line "log_lines_lost" says how many when there is room again. workers_end() writes what waits; only then may the log
 * be configured anew or closed. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

enum log_level {
	LOG_LEVEL_DEBUG,
	LOG_LEVEL_INFO,
	LOG_LEVEL_WARNING,
	LOG_LEVEL_ERROR,
	LOG_LEVEL_CRITICAL
};
enum log_format { LOG_FORMAT_CONSOLE, LOG_FORMAT_JSON };

#define LOG_VALUE_MAX 512         /* bytes of one value before escaping */
#define LOG_FILE_MAX  (10u << 20) /* a log file is rotated when it would grow past this */
#define LOG_BACKUPS   3           /* FILE.1 ... FILE.3 are kept */

#define LOG_WAITING_MAX (1u << 20)
#define LOG_WHO         "log of the server" /* who pays for the jobs */

enum log_type { LOG_TYPE_STR, LOG_TYPE_I64, LOG_TYPE_U64, LOG_TYPE_BOOL };

struct log_field {
	const char *key;
	enum log_type type;
	union {
		const char *s;
		int64_t i;
		uint64_t u;
		bool b;
	};
};

#define LOG_S(k, v) ((struct log_field){.key = (k), .type = LOG_TYPE_STR, .s = (v)})
#define LOG_I(k, v) ((struct log_field){.key = (k), .type = LOG_TYPE_I64, .i = (v)})
#define LOG_U(k, v) ((struct log_field){.key = (k), .type = LOG_TYPE_U64, .u = (v)})
#define LOG_B(k, v) ((struct log_field){.key = (k), .type = LOG_TYPE_BOOL, .b = (v)})

/* The first row {.key = NULL} allows an event without fields. */
#define LOG_AT(level, event, ...)                                                                  \
	do {                                                                                       \
		if (log_wants(level)) {                                                            \
			const struct log_field fields_[] = {{.key = NULL}, ##__VA_ARGS__};         \
			log_emit(level, event, fields_ + 1, ARRAY_SIZE(fields_) - 1);              \
		}                                                                                  \
	} while (0)
#define LOG_DEBUG(event, ...)   LOG_AT(LOG_LEVEL_DEBUG, event, ##__VA_ARGS__)
#define LOG_INFO(event, ...)    LOG_AT(LOG_LEVEL_INFO, event, ##__VA_ARGS__)
#define LOG_WARNING(event, ...) LOG_AT(LOG_LEVEL_WARNING, event, ##__VA_ARGS__)
#define LOG_ERROR(event, ...)   LOG_AT(LOG_LEVEL_ERROR, event, ##__VA_ARGS__)
/* For events that a client can cause as often as it likes: at most LOG_OFTEN_MAX lines of EVENT within a minute. How many
 * were left out follows as a line "lines_left_out", with the first line of any event after that minute. EVENT is a text
 * of the program: it is known by its address. */
#define LOG_OFTEN(level, event, ...)                                                               \
	do {                                                                                       \
		if (log_wants(level) && log_may_write(event))                                      \
			LOG_AT(level, event, ##__VA_ARGS__);                                       \
	} while (0)
#define LOG_OFTEN_MAX 60u

struct log_config {
	enum log_level level;
	enum log_format format;
	bool to_stderr;
	const char *file; /* NULL = none; parent folders are made; opened at the first line */
};

/* Replaces the configuration. Before the first call: INFO, console, stderr. If the file cannot be
 * opened, stderr says so once and the log goes on without it. */
void log_configure(const struct log_config *c);
/* Opens the file now instead of at the first line; for processes that give up privileges next. */
void log_open(void);
void log_close(void);
/* Opens a log file as the log does. A descriptor, or a negative errno. */
int log_open_file(const char *path) MUST_CHECK;
/* From now on lines go to FD, a new descriptor of the log file that the log owns now. For a file that
 * logrotate(8) has moved away. */
void log_reopen(int fd);
void log_change(enum log_level level, enum log_format format);
/* How many lines were lost because they could not be written (a full disk, or one that takes too long). */
uint64_t log_lost(void);
/* Path of the log file, or NULL. Borrowed until the next log_configure(). */
const char *log_path(void);
bool log_wants(enum log_level level);
/* For LOG_OFTEN(): counts a line of EVENT; false: it is left out. */
bool log_may_write(const char *event) MUST_CHECK;
void log_emit(enum log_level level, const char *event, const struct log_field *fields, size_t n);
/* "debug", "INFO" ... in any case; an unknown word gives INFO and false. */
bool log_level_parse(const char *word, enum log_level *ret);
