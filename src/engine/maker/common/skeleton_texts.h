/* SPDX-License-Identifier: Apache-2.0 */
/* Files that every sandbox has, whatever its image contains: accounts, programs that answer in place of
 * installers, and what every Python loads. The native engine lays them over the image (skeleton.c), the
 * engine on containers mounts them (docker/keeper/parts.c). */
#pragma once

#include "base/buf.h"

#include <string.h>

/* Uid 1000 has two names. It is called by the first one; the second is what programs written for E2B expect, with the
 * workspace as its home. No account has a password: with an x, su(1) would look for it in a file that has no such line. */
static const char passwd[] = "root:*:0:0:root:/root:/usr/sbin/nologin\n"
			     "sandbox:*:1000:1000:sandbox:/home/sandbox:/bin/sh\n"
			     "user:*:1000:1000:user:/home/user:/bin/bash\n"
			     "nobody:*:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
static const char group[] = "root:x:0:\nsandbox:x:1000:\nuser:x:1000:\nnogroup:x:65534:\n";

/* `pip install` in a sandbox without network, or whose network does not lead to the package index
 * (CAISSON_PACKAGES=tool, from sandbox/network.c), would only wait and fail. runtime/python/installer.py says
 * what is here already, and else at once which tool installs packages. The shell script stands for the programs
 * pip, pip3 and uv, the module below for `python -m pip`. Both give installer.py all that they are asked.
 *
 * `uv pip` without a virtual environment works where pip works: on the packages of the home folder. It asks
 * the index through the proxy even if NO_PROXY excludes its address, and keeps no second copy in a cache. */
#define TOOL "<tool>" /* stands for the sentence about the tool that installs packages */

#define TOOL_SENTENCE    "Packages are installed by the tool %s."
#define NO_TOOL_SENTENCE "No tool of this server installs packages."
#define FILE_MAX         32768u

/* The process of JavaScript's cells: runtime/node, which runtime/python/javascript.py starts. */
#define NODE_FOLDER    "usr/local/lib/caisson/node"
#define INSTALLER_FILE "usr/local/lib/caisson/installer.py"
static const char installer[] =
    "#!/bin/sh\n"
    "me=${0##*/}\n"
    "case $me$CAISSON_INSTALLER in\n"
    "uvdone) unset CAISSON_INSTALLER ;;\n"
    "*) exec python3 /" INSTALLER_FILE " \"$me\" \"$@\" ;;\n"
    "esac\n"
    "case \"$me $1 $2\" in\n"
    "\"uv pip install\" | \"uv pip uninstall\" | \"uv pip list\" | \"uv pip freeze\" | \"uv pip "
    "sync\")\n"
    "\tif [ -n \"$UV_DEFAULT_INDEX\" ]; then export NO_PROXY= no_proxy= UV_NO_CACHE=1 "
    "UV_LINK_MODE=copy; fi\n"
    "\town=$VIRTUAL_ENV$CONDA_PREFIX at=$PWD\n"
    "\twhile [ -z \"$own\" ] && [ -n \"$at\" ]; do\n"
    "\t\tif [ -e \"$at/.venv/pyvenv.cfg\" ]; then own=$at; fi\n"
    "\t\tat=${at%/*}\n"
    "\tdone\n"
    "\tcase \"$own $* \" in\n"
    "\t\" pip \"*\" --system \"* | \" pip \"*\" --python\"* | \" pip \"*\" -p \"* | \" pip \"*\" "
    "--prefix\"*) ;;\n"
    "\t\" pip \"*\" --target\"* | \" pip \"*\" -t \"*) ;;\n"
    "\t\" pip \"*) command=$2; shift 2\n"
    "\t\tset -- pip \"$command\" --system --prefix \"$HOME/.local\" \"$@\" ;;\n"
    "\tesac ;;\n"
    "esac\n"
    "for at in /usr/bin /bin; do\n"
    "\tif [ -x \"$at/$me\" ]; then exec \"$at/$me\" \"$@\"; fi\n"
    "done\n"
    "echo \"$me: not found\" >&2\n"
    "exit 127\n";

/* Replaces pip/__main__.py, where the image has one. */
static const char module[] __attribute__((unused)) =
    "import os\n"
    "import sys\n"
    "\n"
    "if sys.path[0] in ('', os.getcwd()):\n"
    "    sys.path.pop(0)\n"
    "\n"
    "if __name__ == '__main__':\n"
    "    space = {'__name__': 'installer'}\n"
    "    with open('/" INSTALLER_FILE "') as f:\n"
    "        exec(f.read(), space)\n"
    "    sys.exit(space['main']('pip', sys.argv[1:]))\n";

/* `site` of every Python executes these lines when it starts. The first loads runtime/output; where that
 * cannot be loaded (another C library, an older Python), the interpreter goes on without it. The second
 * waits for an import of psutil, which asks /proc for figures of the machine that are not there. It gets
 * those of the sandbox from runtime/python/limits.py, as the commands below do. */
#define OUTPUT_FILE  "usr/local/lib/caisson/output.so"
#define MACHINE_FILE "usr/local/lib/caisson/machine.so" /* runtime/machine */
#define SUDO_FILE                                                                                  \
	"usr/local/lib/caisson/sudo" /* runtime/sudo; in PATH where there is a root user */
#define LIMITS_FILE "usr/local/lib/caisson/limits.py"
static const char load_ours[] =
    "import sys; exec(\"try:\\n import _imp, _frozen_importlib as f\\n _imp.exec_dynamic("
    "_imp.create_dynamic(f.ModuleSpec('_caisson_output', None, origin='/" OUTPUT_FILE "')))\\n"
    "except Exception: pass\") if getattr(sys.stdout, 'write_through', False) else None\n"
    "import sys; exec(\"class F:\\n @staticmethod\\n def find_spec(n, p=None, t=None):\\n"
    "  if n != 'psutil._pslinux': return None\\n"
    "  F in sys.meta_path and sys.meta_path.remove(F)\\n  g = {'__name__': 'limits'}\\n"
    "  exec(open('/" LIMITS_FILE "').read(), g)\\n  return g['found'](n, p)\\n"
    "sys.meta_path.insert(0, F)\", {'sys': sys})\n";

static const char limits_command[] =
    "#!/bin/sh\nexec /usr/bin/python3 -IS /" LIMITS_FILE " \"${0##*/}\" \"$@\"\n";

/* Appends TEXT to B; SENTENCE takes the place of each TOOL. */
static inline int skeleton_fill(struct buf *b, const char *text, const char *sentence)
{
	int r = 0;

	for (const char *at = text, *found; r == 0 && at;
	     at = found ? found + strlen(TOOL) : NULL) {
		found = strstr(at, TOOL);
		r = found ? buf_add(b, at, (size_t)(found - at)) : buf_add_str(b, at);
		if (r == 0 && found)
			r = buf_add_str(b, sentence);
	}
	return r;
}
