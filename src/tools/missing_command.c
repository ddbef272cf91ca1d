/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/missing_command.h"

#include "base/rand.h"
#include "base/text.h"

#include <string.h>

#define NAME_MAX_SHOWN 40u /* bytes of a name that a hint repeats */

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

/* Finds the name that stands before AFTER, a text that ends a line. */
static const char *name_before(const char *text, const char *after, size_t *ret_len)
{
	const char *end = NULL;

	for (const char *at = strstr(text, after); at; at = strstr(at + 1, after))
		if (at[strlen(after)] == '\n' || at[strlen(after)] == '\0')
			end = at;
	if (!end)
		return NULL;
	const char *begin = end;
	while (begin > text && strchr(letters, begin[-1]))
		begin--;
	*ret_len = (size_t)(end - begin);
	/* "bash: line 1: NAME: command not found", "sh: 1: NAME: not found" */
	return *ret_len > 0 && *ret_len <= NAME_MAX_SHOWN && begin - text >= 2 &&
		       begin[-1] == ' ' && begin[-2] == ':'
		   ? begin
		   : NULL;
}

/* "Hint: the program NAME is not in this sandbox." (runtime/python/advice.py) */
static const char *name_of_hint(const char *text, size_t *ret_len)
{
	static const char before[] = "Hint: the program ";
	const char *at = strstr(text, before);

	if (!at)
		return NULL;
	at += strlen(before);
	*ret_len = strspn(at, letters);
	return *ret_len > 0 && *ret_len <= NAME_MAX_SHOWN &&
		       text_starts_with(at + *ret_len, " is not in this sandbox.")
		   ? at
		   : NULL;
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

int missing_command_add(struct buf *b, const char *text)
{
	size_t len = 0;
	const char *name = name_of_hint(text, &len);

	name = name ? name : name_before(text, ": command not found", &len);
	name = name ? name : name_before(text, ": not found", &len);
	if (!name)
		return 0;
	const size_t row = row_of(name, len);
	const char *instead = row < ARRAY_SIZE(rows) ? rows[row].instead : NULL;
	const char *package = row < ARRAY_SIZE(rows) ? rows[row].package : NULL;
	int r = buf_printf(b, "The program %.*s is not in this image.", (int)len, name);

	if (r == 0 && instead)
		r = buf_printf(b, " Instead: %s.", instead);
	else if (r == 0)
		r = buf_add_str(
		    b, " sandbox_install_packages has programs that come as Python packages.");
	if (r == 0 && row < ARRAY_SIZE(rows) && rows[row].image)
		r = buf_printf(
		    b,
		    " The image %s has it: the person who runs this server makes it with "
		    "`caisson image build %s`, and SANDBOX_IMAGES lets sandboxes choose it.",
		    rows[row].image, rows[row].image);
	if (r == 0 && package)
		r = buf_printf(b,
			       " It is in Debian's package %s, which only the person who runs this "
			       "server can add to an image.",
			       package);
	return r;
}
