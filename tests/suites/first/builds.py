# SPDX-License-Identifier: Apache-2.0
"""builds.py PROGRAM STATE DIGEST: templates that begin with images of real registries (run has these), by E2B's API.

A line for each case; the exit status is 1 if one failed."""
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

PROGRAM, STATE, DIGEST = sys.argv[1:]
AT = '11.9.0.1'
KEY = 'the-key-of-a-server-for-builds'
SETTINGS = {'SANDBOX_STATE_DIR': STATE, 'SANDBOX_IMAGE': 'base', 'SANDBOX_API_KEY': KEY, 'SANDBOX_FACES': 'e2b', 'SANDBOX_ROOT': 'on', 'SANDBOX_TEMPLATES': 'on', 'SANDBOX_HTTP_PORT': 'off',
            'SANDBOX_PULLS': ' '.join(f'{AT}:{port}/*' for port in (5000, 5001, 5002)), 'SANDBOX_PROFILE': 'full'}
CASES = [
    ('a tag, as OCI', f'{AT}:5000/real/base:oci', None),
    ('a tag, as Docker', f'{AT}:5000/real/base:docker', None),
    ('a digest', f'{AT}:5000/real/base@{DIGEST}', None),
    ('a tag that is not there', f'{AT}:5000/real/base:none', 'has no image real/base:none'),
    ('the same again', f'{AT}:5000/real/base:none', 'the registry is asked again in'),
    ('a digest that is not there', f'{AT}:5000/real/base@sha256:{"a" * 64}', 'has no image real/base:sha256:'),
    ('a registry that wants a password', f'{AT}:5001/real/base:oci', 'wants a login for this image'),
    ('a registry that gives tokens to everybody', f'{AT}:5002/real/base:oci', None),
    ('a repository that it gives to nobody', f'{AT}:5002/private/base:oci', 'wants a login for this image'),
]


def ask(base, method, path, body=None):
    request = urllib.request.Request(f'{base}/faces/e2b{path}', method=method, data=None if body is None else json.dumps(body).encode(),
                                     headers={'X-API-Key': f'e2b_{KEY.encode().hex()}', 'Content-Type': 'application/json'})
    try:
        with urllib.request.urlopen(request) as answer:
            text = answer.read()
    except urllib.error.HTTPError as e:
        raise SystemExit(f'{method} {path}: {e.code} {e.read().decode()}') from None
    return json.loads(text) if text else {}


def build(base, reference):
    made = ask(base, 'POST', '/v3/templates', {'name': 'real'})
    at = f'/templates/{made["templateID"]}/builds/{made["buildID"]}'
    ask(base, 'POST', f'/v2{at}', {'fromImage': reference, 'steps': [{'type': 'RUN', 'args': ['python3 -c "print(6 * 7)" >/srv/built && grep -qx 42 /srv/built', 'root']}]})
    until = time.monotonic() + 120
    while time.monotonic() < until:
        status = ask(base, 'GET', f'{at}/status')
        if status['status'] in ('ready', 'error'):
            return status
        time.sleep(0.2)
    raise SystemExit(f'{reference}: the build has not ended')


server = subprocess.Popen([PROGRAM, 'serve', '--listen', '127.0.0.1:18181'], env={**os.environ, **SETTINGS}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
failed = 0
try:
    for line in server.stderr:
        if '127.0.0.1:18181' in line:
            break
    for what, reference, refusal in CASES:
        began = time.monotonic()
        got = build('http://127.0.0.1:18181', reference)
        reason = (got.get('reason') or {}).get('message', '')
        good = got['status'] == 'ready' if refusal is None else got['status'] == 'error' and refusal in reason
        failed += not good
        print(f'took {"ok" if good else "FAILED"}  {what} ({time.monotonic() - began:.1f} s) {reason}', flush=True)
finally:
    server.terminate()
    server.wait(60)
sys.exit(failed > 0)
