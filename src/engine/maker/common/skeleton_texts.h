/* SPDX-License-Identifier: Apache-2.0 */
/* Files that every sandbox has, whatever its image contains: accounts, programs that answer in place of
 * installers, and what every Python loads. The native engine lays them over the image (skeleton.c), the
 * engine on containers mounts them (docker/keeper/parts.c). */
#pragma once

#include "base/buf.h"

#include <string.h>

static const char passwd[] = "root:x:0:0:root:/root:/usr/sbin/nologin\n"
			     "sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh\n"
			     "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
static const char group[] = "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n";

/* `pip install` in a sandbox without network, or whose network does not lead to the package index
 * (CAISSON_PACKAGES=tool, from sandbox/network.c), would only wait and fail. So it says at once which tool
 * installs packages. The shell script answers for the programs pip, pip3 and uv, the module below for
 * `python -m pip`. Both hand everything else to the real program: other commands, and installations that
 * can ask the index, need none (--no-index) or name another one. The first word that is a command decides;
 * words before it are options and their values.
 *
 * `uv pip` without a virtual environment works where pip works: on the packages of the home folder. It asks
 * the index through the proxy even if NO_PROXY excludes its address, and keeps no second copy in a cache. */
#define TOOL  "<tool>" /* stands for the sentence about the tool that installs packages */
#define HINT  "this sandbox has no network. " TOOL
#define THERE "the package index cannot be asked from this sandbox. " TOOL

#define TOOL_SENTENCE    "Packages are installed by the tool %s."
#define NO_TOOL_SENTENCE "No tool of this server installs packages."
#define FILE_MAX         16384u

static const char installer[] =
    "#!/bin/sh\n"
    "me=${0##*/}\n"
    "for word; do\n"
    "\tcase $word in\n"
    "\tinstall | download | wheel | lock | sync | add)\n"
    "\t\tcase \"$HTTPS_PROXY|$CAISSON_PACKAGES|$PIP_INDEX_URL| $* \" in\n"
    "\t\t*\" --no-index \"*) ;;\n"
    "\t\t\"|\"*) echo \"$me: " HINT "\" >&2; exit 1 ;;\n"
    "\t\t*\" -i \"* | *\" --index-url\"*) ;;\n"
    "\t\t*\"|tool|| \"*) echo \"$me: " THERE "\" >&2; exit 1 ;;\n"
    "\t\tesac\n"
    "\t\tbreak ;;\n"
    "\tuninstall | freeze | inspect | list | show | check | config | search | cache | index | hash "
    "\\\n"
    "\t\t| completion | debug | help | run | venv | python | init | export | build | publish \\\n"
    "\t\t| self | version | tree) break ;;\n"
    "\tesac\n"
    "done\n"
    "case $me in pip*) exec python3 -m pip \"$@\" ;; esac\n"
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

/* Replaces pip/__main__.py, where the image has one. Its last lines are those of pip's own file. */
static const char module[] __attribute__((unused)) =
    "import os\n"
    "import sys\n"
    "\n"
    "if sys.path[0] in ('', os.getcwd()):\n"
    "    sys.path.pop(0)\n"
    "\n"
    "COMMANDS = {'install', 'download', 'wheel', 'lock', 'uninstall', 'freeze', 'inspect', "
    "'list',\n"
    "            'show', 'check', 'config', 'search', 'cache', 'index', 'hash', 'completion',\n"
    "            'debug', 'help'}\n"
    "\n"
    "\n"
    "def why_not(words):\n"
    "    command = next((word for word in words if word in COMMANDS), None)\n"
    "    if command not in ('install', 'download', 'wheel', 'lock') or '--no-index' in words:\n"
    "        return None\n"
    "    if not os.environ.get('HTTPS_PROXY'):\n"
    "        return '" HINT "'\n"
    "    named = os.environ.get('PIP_INDEX_URL') or any(\n"
    "        word == '-i' or word.startswith('--index-url') for word in words)\n"
    "    if os.environ.get('CAISSON_PACKAGES') == 'tool' and not named:\n"
    "        return '" THERE "'\n"
    "    return None\n"
    "\n"
    "\n"
    "if __name__ == '__main__':\n"
    "    reason = why_not(sys.argv[1:])\n"
    "    if reason:\n"
    "        sys.exit('pip: ' + reason)\n"
    "    from pip._internal.cli.main import main\n"
    "    sys.exit(main())\n";

/* `site` of every Python executes these lines when it starts. The first loads runtime/output; where that
 * cannot be loaded (another C library, an older Python), the interpreter goes on without it. The second
 * waits for an import of psutil, which asks /proc for figures of the machine that are not there. It gets
 * those of the sandbox from runtime/python/limits.py, as the commands below do. */
#define OUTPUT_FILE "usr/local/lib/caisson/output.so"
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
