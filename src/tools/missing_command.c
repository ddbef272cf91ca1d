/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/missing_command.h"

#include "base/rand.h"
#include "base/text.h"

#include <stdbool.h>
#include <string.h>

#define NAME_MAX_SHOWN 40u /* bytes of a name that a hint repeats */
#define NAMES_MAX      4u  /* names in one hint */

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-";

/* What does the same, and the Debian package that has the program; or the definition of an image that has it
 * (images/NAME.conf). Each may be NULL. */
static const struct {
	const char *names; /* between blanks */
	const char *instead, *package, *image;
} rows[] = {
    {" node nodejs ", "write it in Python", NULL, "science"},
    {" npm npx yarn pnpm bun deno tsc ts-node ", "node, if it is there, or Python", NULL, "node"},
    {" gcc cc ld as ar cpp ", "install packages as wheels; numpy and numexpr are fast", NULL,
     "science"},
    {" g++ c++ ", "install packages as wheels; numpy and numexpr are fast", NULL, "science"},
    {" clang clang++ ", "gcc and g++, if they are there", "clang", NULL},
    {" make gmake ", "a shell or Python script", NULL, "science"},
    {" cmake ninja meson ", "make; sandbox_install_packages has it", NULL, NULL},
    {" apt apt-get aptitude dpkg sudo su yum dnf apk pacman snap brew add-apt-repository conda "
     "mamba "
     "micromamba poetry pipenv pdm pipx easy_install ",
     "install Python packages with sandbox_install_packages; the root is read-only", NULL, NULL},
    {" wget aria2c ", "curl -LO, or sandbox_add_file", NULL, NULL},
    {" convert magick identify mogrify gm ", "Pillow, cv2 or ffmpeg", "imagemagick", NULL},
    {" libreoffice soffice unoconv ", "openpyxl, python-docx, python-pptx, reportlab",
     "libreoffice-core", NULL},
    {" pandoc ", "markdown, python-docx, reportlab", "pandoc", NULL},
    {" pdflatex xelatex lualatex latex tectonic ", "reportlab, and mathtext of matplotlib",
     "texlive", NULL},
    {" wkhtmltopdf chromium google-chrome chrome firefox chromedriver playwright ", "reportlab",
     NULL, NULL},
    {" vim vi nano emacs ", "sandbox_edit_file", NULL, NULL},
    {" bc dc awk gawk xxd hexdump ", "Python", NULL, NULL},
    {" jupyter ipython notebook ", "sandbox_run_python", NULL, NULL},
    {" sox lame mediainfo mplayer ", "ffmpeg and ffprobe", "sox", NULL},
    {" qpdf pdftk gs ghostscript mutool ", "pypdf, pdftotext, pdftoppm", "qpdf", NULL},
    {" dot neato ", "networkx with matplotlib", "graphviz", NULL},
    {" gnuplot mmdc plantuml ", "matplotlib", NULL, NULL},
    {" arecord aplay paplay parecord fswebcam v4l2-ctl ",
     "files that the person gives; there is no camera and no sound card here", NULL, NULL},
    {" xclip xsel pbcopy pbpaste xdg-open open ", "files in /mnt/data, which the person sees", NULL,
     NULL},
    {" systemctl service tmux screen ", "sandbox_process, which keeps a command running", NULL,
     NULL},
    {" R Rscript ", "statsmodels, scipy, pandas", "r-base-core", NULL},
    {" java javac ", NULL, "default-jre-headless", NULL},
    {" go rustc cargo ruby php perl6 lua ", "write it in Python", NULL, NULL},
    {" 7z 7za unrar rar ", "unzip, tar, zipfile and tarfile of Python", "7zip", NULL},
    {" ping nc netcat telnet ssh scp dig nslookup ip ifconfig traceroute docker ", NULL, NULL,
     NULL},
    {" nvidia-smi nvcc rocm-smi ", "the processor; there is no GPU here", NULL, NULL},
    {" cls dir copy del findstr powershell pwsh cmd ", "the commands of Linux", NULL, NULL},
    {" kaggle gsutil aws az gcloud ", "sandbox_add_file, or what the person uploads", NULL, NULL},
    {" psql mysql mongo redis-cli ", "sqlite3, duckdb", NULL, NULL},
    {" black ruff mypy flake8 pylint isort ", "sandbox_install_packages has it", NULL, NULL},
};

struct name {
	const char *at;
	size_t len;
};

struct names {
	struct name list[NAMES_MAX];
	size_t n;
	bool more; /* than the list takes */
};

static void add_name(struct names *names, const char *at, size_t len)
{
	if (len == 0 || len > NAME_MAX_SHOWN)
		return;
	for (size_t i = 0; i < names->n; i++)
		if (names->list[i].len == len && memcmp(names->list[i].at, at, len) == 0)
			return;
	if (names->n < NAMES_MAX)
		names->list[names->n++] = (struct name){at, len};
	else
		names->more = true;
}

/* Finds the names that stand before AFTER, a text that ends a line. */
static void names_before(const char *text, const char *after, struct names *ret)
{
	for (const char *end = strstr(text, after); end; end = strstr(end + 1, after)) {
		const char *begin = end;

		if (end[strlen(after)] != '\n' && end[strlen(after)] != '\0')
			continue;
		while (begin > text && strchr(letters, begin[-1]))
			begin--;
		/* "bash: line 1: NAME: command not found", "sh: 1: NAME: not found" */
		if (begin - text >= 2 && begin[-1] == ' ' && begin[-2] == ':')
			add_name(ret, begin, (size_t)(end - begin));
	}
}

/* "Hint: the program NAME is not in this sandbox." (runtime/python/advice.py) */
static void names_of_hints(const char *text, struct names *ret)
{
	static const char before[] = "Hint: the program ";

	for (const char *at = strstr(text, before); at; at = strstr(at, before)) {
		at += strlen(before);
		const size_t len = strspn(at, letters);

		if (text_starts_with(at + len, " is not in this sandbox."))
			add_name(ret, at, len);
	}
}

static size_t row_of(const char *name, size_t len)
{
	char word[NAME_MAX_SHOWN + 3];

	(void)snprintf(word, sizeof(word), " %.*s ", (int)len, name);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strstr(rows[i].names, word))
			return i;
	return ARRAY_SIZE(rows);
}

/* What to do without the program NAME. ALONE: the sentence before names no other one. */
static int add_advice(struct buf *b, const struct name *name, bool alone)
{
	const size_t row = row_of(name->at, name->len);
	const char *instead = row < ARRAY_SIZE(rows) ? rows[row].instead : NULL;
	const char *package = row < ARRAY_SIZE(rows) ? rows[row].package : NULL;
	const char *image = row < ARRAY_SIZE(rows) ? rows[row].image : NULL;
	int r = 0;

	if (instead && alone)
		r = buf_printf(b, " Instead: %s.", instead);
	else if (instead)
		r = buf_printf(b, " Instead of %.*s: %s.", (int)name->len, name->at, instead);
	if (r == 0 && image)
		r = buf_printf(
		    b,
		    " The image %s has %.*s: the person who runs this server makes it with "
		    "`caisson image build %s`, and SANDBOX_IMAGES lets sandboxes choose it.",
		    image, alone ? 2 : (int)name->len, alone ? "it" : name->at, image);
	if (r == 0 && package)
		r = buf_printf(
		    b,
		    " %.*s is in Debian's package %s, which only the person who runs this "
		    "server can add to an image.",
		    alone ? 2 : (int)name->len, alone ? "It" : name->at, package);
	return r;
}

int missing_command_add(struct buf *b, const char *text)
{
	struct names names = {0};
	int r = 0;

	names_of_hints(text, &names);
	if (names.n == 0)
		names_before(text, ": command not found", &names);
	if (names.n == 0)
		names_before(text, ": not found", &names);
	if (names.n == 0)
		return 0;
	const bool alone = names.n == 1;
	for (size_t i = 0; i < names.n && r == 0; i++)
		r = buf_printf(b, "%s%.*s",
			       i == 0 ? (alone ? "The program " : "The programs ")
			       : i + 1 == names.n && !names.more ? " and "
								 : ", ",
			       (int)names.list[i].len, names.list[i].at);
	if (r == 0)
		r = buf_printf(b, "%s %s not in this image.", names.more ? " and others" : "",
			       alone ? "is" : "are");
	bool unknown = false;
	for (size_t i = 0; i < names.n && r == 0; i++) {
		bool said = false;

		for (size_t k = 0; k < i; k++)
			said = said || row_of(names.list[k].at, names.list[k].len) ==
					   row_of(names.list[i].at, names.list[i].len);
		unknown =
		    unknown || row_of(names.list[i].at, names.list[i].len) == ARRAY_SIZE(rows);
		r = said ? 0 : add_advice(b, &names.list[i], alone);
	}
	if (r == 0 && unknown)
		r = buf_add_str(
		    b, " sandbox_install_packages has programs that come as Python packages.");
	return r;
}
