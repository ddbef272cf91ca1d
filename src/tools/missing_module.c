/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/missing_module.h"

#include "base/rand.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define MODULE_MAX 64u  /* bytes of a module's name that a hint repeats */
#define DOTTED_MAX 128u /* bytes of the name that the program has imported */

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";

static const struct {
	const char *module, *package;
} packages_of[] = {
#define ROW(module, package) {module, package},
#include "tools/module_packages.tbl.h"
#undef ROW
};

/* Modules that no package brings, and what to do without them. */
static const struct {
	const char *names; /* between blanks */
	const char *advice;
} instead[] = {
    {" tkinter _tkinter turtle Tkinter wx PyQt5 PyQt6 PySide2 PySide6 kivy customtkinter pygame "
     "pyautogui ",
     "It needs a screen, and there is none here: draw with matplotlib or Pillow, which write "
     "files."},
    {" IPython ",
     "The code of sandbox_run_python has IPython.display, a file that python3 starts does not: "
     "use print(), or run the file there with %run FILE."},
    {" google.colab ", "Only Colab has it: leave it out. Files are in /mnt/data, and the person "
		       "gets a link to them."},
    {" kaggle_secrets kaggle_datasets kaggle_evaluation ",
     "Only Kaggle has it: leave it out. Files are in /mnt/data."},
    {" playwright selenium pyppeteer undetected_chromedriver webdriver_manager ",
     "It needs a browser, and there is none here: read pages with requests, where there is a "
     "network, and bs4; draw with matplotlib."},
    {" weasyprint pdfkit imgkit ",
     "It needs libraries or programs that are not here: make PDFs with reportlab."},
    {" graphviz pydot pygraphviz ",
     "It needs the program dot, which is not here: draw with networkx and matplotlib "
     "(nx.spring_layout, nx.kamada_kawai_layout)."},
    {" tabula ", "It needs Java, which is not here: pdfplumber reads tables."},
    {" pyspark ", "It needs Java, which is not here: use duckdb, polars or pandas."},
    {" rpy2 ", "It needs R, which is not here: use statsmodels, scipy or pandas."},
    {" xlwings docx2pdf comtypes ",
     "It needs Microsoft Office, which is not here: use openpyxl, python-docx, reportlab."},
    {" pyttsx3 ", "It needs a program that speaks, and there is none here."},
    {" sounddevice pyaudio simpleaudio playsound pvrecorder ",
     "It needs a microphone or loudspeakers, and there are none here: work with sound files "
     "(scipy.io.wavfile, wave, the command ffmpeg)."},
    {" pynput keyboard mouse ",
     "It needs a keyboard and a mouse, and there are none here: leave it out."},
    {" pyperclip ", "There is no clipboard here: print the text, or write it to a file."},
    {" RPi gpiozero picamera picamera2 smbus smbus2 board machine ",
     "It needs hardware that is not here: make up the values that it would give."},
    {" pkg_resources ", "It is a part of old versions of setuptools: use importlib.metadata and "
			"importlib.resources."},
    {" pyodide js micropip ", "Only Python in a browser has it: leave it out."},
    {" Image ImageDraw ImageFont ",
     "It is a part of Pillow, which is here: from PIL import Image."},
    {" sklearn.externals.joblib ",
     "joblib is a package of its own, and it is here: import joblib."},
    {" imp ", "Python 3.12 removed it: use importlib."},
    {" StringIO cStringIO cPickle ConfigParser Queue Tkinter __builtin__ urllib2 urlparse commands "
     "thread httplib cookielib HTMLParser md5 sets ",
     "Only Python 2 has it. Python 3 has io.StringIO, urllib.request and urllib.parse, subprocess, "
     "pickle, configparser, queue, builtins, threading, http.client, http.cookiejar, html.parser, "
     "hashlib, set()."},
    {" winreg msvcrt winsound _winapi win32com win32api pythoncom ",
     "Only Windows has it: write the program without it."},
    {" utils util helpers helper config settings common src lib app main my_module mymodule "
     "constants functions ",
     "It looks like a file of your own: there is none of this name in /mnt/data. Write it there "
     "first, or put its code into the program."},
};

/* Modules that a package which is here had in older versions, and where their names are now. */
static const struct {
	const char *module, *now;
} moved[] = {
    {"sklearn.cross_validation", "sklearn.model_selection"},
    {"sklearn.grid_search", "sklearn.model_selection"},
    {"sklearn.learning_curve", "sklearn.model_selection"},
    {"sklearn.datasets.samples_generator", "sklearn.datasets"},
    {"sklearn.ensemble.forest", "sklearn.ensemble"},
    {"sklearn.linear_model.logistic", "sklearn.linear_model"},
    {"sklearn.tree.tree", "sklearn.tree"},
    {"sklearn.utils.testing", "numpy.testing and pytest"},
    {"pandas.util.testing", "pandas.testing"},
    {"pandas.tools", "pandas and pandas.plotting"},
    {"pandas.tseries.tools", "pandas"},
    {"numpy.testing.decorators", "pytest"},
    {"matplotlib.finance", "the package mplfinance"},
    {"scipy.misc.pilutil", "PIL.Image"},
};

/* Folders of modules that many packages add to. None of them is a package of that name. */
static const char open_names[] = " google google.cloud azure azure.ai azure.mgmt zope backports "
				 "ruamel jaraco sphinxcontrib mpl_toolkits nvidia ";

static bool has_word(const char *words, const char *name, size_t len)
{
	char word[DOTTED_MAX + 3];

	(void)snprintf(word, sizeof(word), " %.*s ", (int)len, name);
	return strstr(words, word);
}

/* Tries NAME, and then the modules above it as far as MIN bytes of it are left: those may be missing, too. Returns the
 * length of the first one that has a row, and the row; 0 = none. */
static size_t package_of(const char *name, size_t min, const char **ret_package)
{
	for (size_t len = strlen(name); len >= min && len > 0; len--) {
		if (name[len] && name[len] != '.')
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(packages_of); i++)
			if (strlen(packages_of[i].module) == len &&
			    strncmp(packages_of[i].module, name, len) == 0) {
				*ret_package = packages_of[i].package;
				return len;
			}
	}
	return 0;
}

static const char *moved_to(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(moved); i++)
		if (strlen(moved[i].module) == len && strncmp(moved[i].module, name, len) == 0)
			return moved[i].now;
	return NULL;
}

static size_t instead_of(const char *name, size_t min, const char **ret_advice)
{
	for (size_t len = strlen(name); len >= min && len > 0; len--)
		for (size_t i = 0; i < ARRAY_SIZE(instead); i++)
			if (has_word(instead[i].names, name, len)) {
				*ret_advice = instead[i].advice;
				return len;
			}
	return 0;
}

/* `import google.generativeai` ends with "No module named 'google'", because that is what is missing first. The line
 * of the program above says which module was meant. RET begins with the LEN bytes of NAME. */
static void read_import(const char *text, const char *name, size_t len, char ret[DOTTED_MAX])
{
	(void)snprintf(ret, DOTTED_MAX, "%.*s", (int)len, name);
	for (const char *at = text, *end; at < name; at = end + 1) {
		end = at + strcspn(at, "\n");
		const char *word = at + strspn(at, " \t");
		if (!*end)
			return;
		if (!text_starts_with(word, "import ") && !text_starts_with(word, "from "))
			continue;
		const bool from = *word == 'f';
		word += strcspn(word, " ") + 1;
		if (strncmp(word, name, len) != 0 || strchr(letters, word[len]))
			continue;
		size_t n = len;
		while (word[n] == '.' || (word[n] && strchr(letters, word[n])))
			n++;
		const char *more = word + n;
		const bool names = from && text_starts_with(more, " import ");
		more += names ? strlen(" import ") : 0;
		(void)snprintf(ret, DOTTED_MAX, "%.*s%s%.*s", (int)MIN(n, (size_t)MODULE_MAX), word,
			       names ? "." : "",
			       names ? (int)MIN(strspn(more, letters), (size_t)MODULE_MAX - 2) : 0,
			       more);
	}
}

/* A module that is there and has nearly the name of the missing one, as runtime/python/advice.py
 * says it; NULL: none. */
static const char *meant_module(const char *text, size_t *ret_len)
{
	static const char before[] = "Hint: the module ";
	const char *name = strstr(text, before);

	if (!name)
		return NULL;
	name += strlen(before);
	*ret_len = strcspn(name, " \n");
	return *ret_len > 0 && *ret_len <= MODULE_MAX ? name : NULL;
}

int missing_module_add(struct buf *b, const char *text, bool packages)
{
	static const char before[] = "ModuleNotFoundError: No module named '";
	const char *name = strstr(text, before);

	/* zoneinfo looks for tzdata, too; runtime/python/advice.py has found the module in a folder of the workspace */
	if (!name || strstr(text, "ZoneInfoNotFoundError") || strstr(text, "Hint: your module "))
		return 0;
	name += strlen(before);
	const size_t len = strcspn(name, "'\n");
	if (len == 0 || len > MODULE_MAX)
		return 0;
	size_t meant_len = 0;
	const char *meant = meant_module(text, &meant_len);
	if (meant) /* a mistyped name on the index may belong to somebody who waits for that */
		return buf_printf(
		    b,
		    "The module %.*s is not installed here, %.*s is. Only if the name "
		    "is right, use sandbox_install_packages.",
		    (int)len, name, (int)meant_len, meant);
	char wanted[DOTTED_MAX];
	read_import(text, name, len, wanted);
	const char *advice = NULL, *package = NULL;
	size_t row_len = instead_of(wanted, len, &advice);
	row_len = advice ? row_len : package_of(wanted, len, &package);
	const bool open = has_word(open_names, name, len);
	const char *dot = memrchr(name, '.', len);
	if (advice)
		return buf_printf(b, "The module %.*s is not installed here. %s", (int)row_len,
				  wanted, advice);
	const char *now = moved_to(name, len);
	if (now)
		return buf_printf(b,
				  "The module %.*s is one of older versions: its names are in %s "
				  "now.",
				  (int)len, name, now);
	/* The interpreter has found what stands before the dot. */
	if (!package && dot && !has_word(open_names, name, (size_t)(dot - name)))
		return buf_printf(
		    b,
		    "%.*s is installed here and has no module %.*s: other versions may "
		    "have had it. There is no package of that name to install.",
		    (int)(dot - name), name, (int)(len - (size_t)(dot + 1 - name)), dot + 1);
	const int shown = (int)(package ? row_len : open || dot ? strlen(wanted) : len);
	name = wanted;
	if (!packages)
		return buf_printf(b,
				  "The module %.*s is not installed here, and this server installs "
				  "no packages: do it without.",
				  shown, name);
	if (package)
		return buf_printf(b,
				  "The module %.*s is not installed here: use "
				  "sandbox_install_packages with the package %s.",
				  shown, name, package);
	return buf_printf(b,
			  "The module %.*s is not installed here: use sandbox_install_packages "
			  "(the package %s have another name).",
			  shown, name, open || dot ? "will" : "may");
}
