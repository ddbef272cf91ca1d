# SPDX-License-Identifier: Apache-2.0
# client.py hostile|total|points: a client of `caisson stdio` (descriptor 3 leads to it, 4 comes from it), for a machine without
# Node. Prints one "ok NAME" / "not ok NAME" line a case. Runs in a copy of an image's root, with the machine's own /proc, and its
# cgroups on /mnt.
import glob, json, os, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
DEADLINE_S = 180  # of whatever must come about by itself


class Server:
    def __init__(self):
        self.to, self.come, self.last = os.fdopen(3, "w", buffering=1), os.fdopen(4, "r"), 0
        self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "vm", "version": "1"})
        self.to.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def ask(self, method, /, **params):
        self.last += 1
        self.to.write(json.dumps({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}) + "\n")
        for line in self.come:
            answer = json.loads(line)
            if answer.get("id") == self.last and "method" not in answer:
                return answer.get("result") or answer
        raise SystemExit("the server is gone")

    def tool(self, tool, /, **arguments):
        r = self.ask("tools/call", name=tool, arguments=arguments)
        return r.get("structuredContent", {}).get("result") or r

    def run(self, code, session, **more):
        return self.tool("sandbox_run_python", code=code, session_id=session, **more)


def tell(name, held, *why):
    print(("ok " if held else "not ok ") + name)
    if not held:
        print("# " + " ".join(str(w) for w in why).replace("\n", "\n# ")[-1500:], flush=True)


# ---- the hostile cases that control groups hold, as tests/suites/hostile/main.ts --export wrote them ----

def ended_well(r, ends):
    if ends == "any":
        return True
    if ends == "killed":
        return r["exit_code"] == 137 or "MemoryError" in r["stderr"]
    return r["exit_code"] == (-1 if ends == "timeout" else int(ends))


def survivors(mark):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as f:
                if mark.encode() in f.read():
                    found.append(name)
        except OSError:
            pass
    return found


def hostile(s):
    for line in open(HERE + "/table", encoding="utf-8"):
        case, held, ends, attack = line.rstrip("\n").split("\t")
        mark = f"hostile-{case}-vm"
        with open(f"{HERE}/{case}.py", encoding="utf-8") as f:
            r = s.run(f.read().replace("@MARK@", mark), "v2")
        lines = r.get("stdout", "").split("\n")
        broken = [l for l in lines if l.startswith("BROKEN")]
        made = sum(l.startswith("HELD") for l in lines)
        left = survivors(mark)  # those of the run are gone when its answer comes
        after = s.run("print('next')", "v2")
        tell(f"{case} {attack}", not broken and made >= int(held) and "exit_code" in r and ended_well(r, ends) and not left and after.get("stdout") == "next\n",
             broken, made, left, r, after)
    swap = [open(f).read().strip() for f in glob.glob("/mnt/**/caisson-*/s*/memory.swap.max", recursive=True)]
    tell("no sandbox may swap", set(swap) == {"0"}, swap)


# ---- all sandboxes together ----

def total(s):
    limits = [open(f).read().strip() for f in glob.glob("/mnt/**/caisson-*/memory.max", recursive=True)]
    tell("the limit of all", str(320 << 20) in limits, limits)
    r = s.run("f = open('fill', 'wb')\nfor i in range(304): f.write(bytes(1 << 20))\nprint('written')", "full")
    burn = "import time\nt, c = time.monotonic(), time.process_time()\nwhile time.monotonic() < t + 4: pass\nprint(time.process_time() - c)"
    used = s.run(burn, "full")
    tell("half a processor, and no more", float(used.get("stdout") or 99) < 3, used)
    tell("files of a workspace are memory of the sandbox", r.get("stdout") == "written\n", r)
    end, refused, n = time.monotonic() + DEADLINE_S, False, 0
    while not refused and time.monotonic() < end:
        n += 1
        r = s.run("print(1)", f"next-{n}")
        refused = "all sandboxes together" in json.dumps(r)
        s.tool("sandbox_close_session", session_id=f"next-{n}")
        time.sleep(0.5)  # the server looks every two seconds
    tell("near the limit of all no new sandbox", refused, r)
    s.tool("sandbox_close_session", session_id="full")
    end, r = time.monotonic() + DEADLINE_S, {}
    while r.get("stdout") != "1\n" and time.monotonic() < end:
        r = s.run("print(1)", "again")
        time.sleep(0.5)
    tell("and one again when there is room", r.get("stdout") == "1\n", r)


# ---- kept states: a child of init copies the files, in the group of the sandbox ----

def points(s):
    def text(r):
        return json.dumps(r)
    r = s.run("x = 1\nopen('f', 'w').write('old' * 1000000)", "kept", stateful=True)
    r2 = s.tool("sandbox_checkpoint", session_id="kept", name="here")
    tell("a checkpoint", "here" in text(r2) and not r2.get("isError"), r, r2)
    s.run("x = 2\nopen('f', 'w').write('new')", "kept", stateful=True)
    r = s.tool("sandbox_restore", session_id="kept", name="here")
    r2 = s.run("print('x is', x, 'size', len(open('f').read()))", "kept", stateful=True)
    tell("back to it: state and files", "x is 1 size 3000000" in text(r2), r, r2)


# ---- a root user: its processes of several users are in the one group of the sandbox ----

BOMB = """
import os, time
n, users = 0, (0, 1, 33, 129, 970, 1000, 1011, 65534)
try:
    for i in range(500):
        if os.fork() == 0:
            os.setsid(); os.setgroups([]); os.setgid(users[i % 8]); os.setuid(users[i % 8])
            os.execvp("sleep", ["sleep", "1000"])
        n += 1
except OSError: pass
print("few" if n < 64 else "many", os.getuid())
"""


def rooted(s):
    made = s.tool("sandbox_create", session_id="rooted", root=True)
    tell("a sandbox with a root user", not made.get("isError"), made)
    s.tool("sandbox_write_file", session_id="rooted", path="bomb.py", content=BOMB)
    r = s.tool("sandbox_run_shell", session_id="rooted", user="root", command="python3 bomb.py; touch /etc/new && stat -c %U /etc/new")
    tell("its fork bomb of eight users ends at the limit of the sandbox", "few 0\\nroot" in json.dumps(r), r)
    r = s.tool("sandbox_run_shell", session_id="rooted", command="id -u; ls -d /proc/[0-9]* | wc -l")
    left = [p for p in glob.glob("/proc/[0-9]*/cmdline") if open(p, "rb").read() == b"sleep\0" + b"1000\0"]
    tell("nothing of it is left", "1000\\n" in json.dumps(r) and not left, r, left)


{"hostile": hostile, "total": total, "points": points, "rooted": rooted}[sys.argv[1]](Server())
