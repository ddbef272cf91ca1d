# SPDX-License-Identifier: Apache-2.0
"""newcomer.py IMAGE SECONDS WAY COMMAND...: gets the first answer of a Caisson that has no image yet, in at most SECONDS from now. WAY is
run, stdio or serve. Each must tell how far the download is."""
import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request

BEGAN = time.monotonic()
IMAGE, MOST, WAY, *COMMAND = sys.argv[1:]
CHART = IMAGE == 'science'
CODE = 'import pandas as pd\npd.Series([3, 1, 2]).plot()\nprint(6 * 7)' if CHART else 'print(6 * 7)'


def demand(true, what):
    if not true:
        sys.exit(f'no: {what}')


def run():
    r = subprocess.run([*COMMAND, 'run', '--out', 'results', '-c', CODE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    demand(r.stdout == '42\n', r.stdout + r.stderr)
    demand(re.search(r'fetching \d+ layers? .*\d+/\d+ MB', r.stderr), r.stderr)
    if CHART:
        with open('results/figure-1.png', 'rb') as f:
            demand(f.read(4) == b'\x89PNG', 'a chart')


def stdio():
    server = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    told = []

    def ask(number, method, params):
        server.stdin.write(json.dumps({'jsonrpc': '2.0', 'id': number, 'method': method, 'params': params}) + '\n')
        server.stdin.flush()
        for line in server.stdout:
            message = json.loads(line)
            if message.get('method') == 'notifications/progress':
                told.append(message['params'].get('message', ''))
            if message.get('id') == number:
                return message['result']
        sys.exit('no: the server ended')

    ask(1, 'initialize', {'protocolVersion': '2025-06-18', 'capabilities': {}, 'clientInfo': {'name': 'newcomer', 'version': '1'}})
    # A call waits 45 s at most, then it says that the next one waits for the rest.
    for number in range(2, 6):
        r = ask(number, 'tools/call', {'name': 'sandbox_run_python', 'arguments': {'code': CODE}, '_meta': {'progressToken': number}})
        if 'call again' not in r['content'][0]['text']:
            break
    demand(not r.get('isError') and r['content'][0]['text'].startswith('42\n'), r)
    demand(any(re.search(r'fetching \d+ layers?, \d+/\d+ MB', t) for t in told), told)
    demand(not CHART or any(c['type'] == 'image' for c in r['content']), 'a chart')
    server.stdin.close()
    demand(server.wait() == 0, 'the end of the server')


def serve():
    server = subprocess.Popen([*COMMAND, 'serve', '--listen', '127.0.0.1:8181'], stdout=subprocess.PIPE, text=True)
    url = 'http://127.0.0.1:8181'

    def ask(path, body=None):
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(f'{url}/api/v1{path}', data=data, headers={'Content-Type': 'application/json'})) as r:
                return json.load(r)
        except urllib.error.HTTPError as e:
            return json.load(e)

    try:
        for line in server.stdout:
            if 'Stop with Ctrl-C' in line:
                break
        with urllib.request.urlopen(url) as page:
            demand(b'<html' in page.read(), 'the page')
        lines = []
        while not any(re.search(r'fetching \d+ layers? +\d+/\d+ MB', t) for t in lines):
            build = ask('/images')['build']
            demand(build and build['state'] in ('downloading', 'done'), build)
            lines = build['lines']
            time.sleep(0.1)
        for _ in range(5):
            made = ask('/sandboxes', {'kind': 'stored', 'name': 'first'})
            if 'call again' not in json.dumps(made):
                break
        demand('id' in made, made)
        r = ask(f'/sandboxes/{made["id"]}/runs', {'wait': True, 'code': CODE})
        demand('"stdout": "42' in json.dumps(r), r)
        demand(not CHART or 'figure-1.png' in json.dumps(r), r)
    finally:
        server.terminate()
        server.wait()


{'run': run, 'stdio': stdio, 'serve': serve}[WAY]()
took = time.monotonic() - BEGAN
print(f'took {took:.1f} s')
demand(took <= float(MOST), f'an answer within {MOST} s: it took {took:.1f} s')
