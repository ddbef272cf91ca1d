# SPDX-License-Identifier: Apache-2.0
"""Stdio on this side, Streamable HTTP on the other. Messages go through as they are; the bridge adds what HTTP needs: the key, the
session, the revision, and connections that are made again when they break."""
import os
import signal
import subprocess
import sys
import threading

from caisson_mcp import messages
from caisson_mcp.http import Events, Line, Lost, Refused, cut

DRAIN_S = 5  # that calls may still take after the end of the input, as with `caisson stdio`
GOODBYE_S = 3
TRIES = 5  # to come back to a stream, one after the other without any event
PAUSE_MOST_S = 10
ACCEPT = {'Accept': 'application/json, text/event-stream', 'Content-Type': 'application/json'}


def tell(text):
    print(f'caisson-mcp: {text}', file=sys.stderr, flush=True)


class Call:
    """A message that is under way, with the ids of its requests that have no answer yet."""

    def __init__(self, line):
        self.line = line
        self.parts = messages.read(line)
        self.waiting = {messages.written(m['id']) for m in self.parts if messages.is_request(m)}
        self.only = self.parts[0] if len(self.parts) == 1 and isinstance(self.parts[0].get('method'), str) else None
        self.method = self.only['method'] if self.only else ''
        self.revision = messages.revision_of(self.only) if self.only else ''
        self.session = ''
        self.cancelled = False
        self.connection = None
        self.sent = threading.Event()

    def is_sent(self, connection):
        self.connection = connection
        self.sent.set()


class Bridge:
    def __init__(self, place, output):
        self.line = Line(place.url, place.key)
        self.has_key = bool(place.key)
        self.output = output
        self.output_lock = threading.Lock()
        self.calls = set()
        self.change = threading.Condition()
        self.session = ''
        self.revision = ''
        self.hello = None  # the message `initialize`
        self.renewal = threading.Lock()
        self.ending = threading.Event()

    # ---- output

    def put(self, data):
        with self.output_lock:
            try:
                self.output.write(messages.one_line(data) + b'\n')
                self.output.flush()
            except (OSError, ValueError):
                os._exit(1)  # nobody reads answers any more

    def take(self, data, call):
        """Passes on a message that came for CALL, or on the stream of the session (None)."""
        for m in messages.read(data) if call and call.waiting else []:
            if messages.is_answer(m):
                call.waiting.discard(messages.written(m['id']))
            if call.method == 'initialize' and isinstance(m.get('result'), dict):
                self.revision, self.hello = str(m['result'].get('protocolVersion', '')), call.line
        self.put(data)

    def fail(self, call, error):
        status = error.status if isinstance(error, Refused) else None
        if call.cancelled or self.ending.is_set():
            return
        if call.parts and not call.waiting:
            tell(str(error))
            return
        for request_id in sorted(call.waiting) or ['null']:  # what cannot be read has no id
            self.put(messages.failure(request_id, str(error), status))
        call.waiting.clear()

    # ---- requests

    def headers_for(self, call):
        if call.revision:
            return {**ACCEPT, **messages.modern_headers(call.only, call.revision)}
        return {**ACCEPT, **self.session_headers(call)}

    def session_headers(self, call):
        if call.method == 'initialize':
            return {}
        call.session = self.session
        return {**({'Mcp-Session-Id': self.session} if self.session else {}), **({'MCP-Protocol-Version': self.revision} if self.revision else {})}

    def explained(self, refused, call):
        """The refusal in words that say what to do."""
        url, text = self.line.url, str(refused)
        if refused.status == 401:
            text = f'{url} does not accept the key in CAISSON_KEY' if self.has_key else f'{url} needs a key: set CAISSON_KEY'
        elif refused.status == 404 and call.session:
            text = f'{url} does not know this session any more, and a new one could not be begun: connect again'
        elif refused.status == 404:
            text = f'there is no MCP at {url} (404): the path of a server of Caisson is /mcp'
        return Refused(refused.status, text)

    def post(self, call):
        """Sends a message and passes on what comes back, to the last answer."""
        try:
            reply = self.line.send('POST', self.headers_for(call), call.line, call.is_sent)
            if reply.status == 404 and call.session and self.renewed(call.session):
                reply.close()
                reply = self.line.send('POST', self.headers_for(call), call.line, call.is_sent)
            if call.method == 'initialize' and reply.status == 200:
                self.session = reply.header('Mcp-Session-Id') or ''
            if reply.is_message:
                self.take(reply.read(), call)
            elif reply.is_stream:
                self.follow(reply, call)
            elif reply.status not in (200, 202, 204):
                self.refused(reply.refusal(), call)
            reply.close()
            if call.waiting:
                raise Lost(f'{self.line.url} gave no answer')
        except (Lost, Refused) as e:
            self.fail(call, e)
        finally:
            call.sent.set()

    def refused(self, refusal, call):
        """A refusal that is an answer to the request itself goes through."""
        if refusal.status not in (401, 404):
            for m in messages.read(refusal.body):
                if messages.is_answer(m) and (messages.written(m['id']) in call.waiting or not call.parts):
                    self.take(refusal.body, call)
                    return
        raise self.explained(refusal, call)

    def follow(self, reply, call):
        """Reads the stream of CALL; comes back to it when it breaks off before the answer."""
        events, failures = Events(), 0
        while True:
            for data in events.read(reply):
                failures = 0
                self.take(data, call)
            reply.close()
            if not call.waiting or call.cancelled or self.ending.is_set():
                return
            if not events.last_id or call.revision:
                raise Lost(f'the connection to {self.line.url} broke before the answer; the call may have had effects')
            reply, failures = self.back(events, call.session, failures, call)

    def back(self, events, session, failures, call=None):
        """A new connection to a stream. Gives it, and how many tries in a row brought nothing."""
        while True:
            failures += 1
            if failures > TRIES and call:
                raise Lost(f'the connection to {self.line.url} broke before the answer, and the answer cannot be had any more; the call may have had effects')
            pause_s = min(events.retry_ms / 1000 * 2 ** min(failures - 1, 10), PAUSE_MOST_S) if failures > 0 else 0
            if self.ending.wait(pause_s):
                raise Lost('the bridge ends')
            headers = {'Accept': 'text/event-stream', 'Mcp-Session-Id': session, 'MCP-Protocol-Version': self.revision}
            if events.last_id:
                headers['Last-Event-ID'] = events.last_id
            try:
                reply = self.line.send('GET', headers)
            except Lost:
                continue
            if reply.is_stream:
                return reply, failures
            refusal = reply.refusal()
            reply.close()
            if reply.status < 500 and reply.status not in (409, 429):
                if call and reply.status == 404:
                    raise Lost(f'{self.line.url} does not know this call any more, as it was started again; the call may have had effects')
                raise self.explained(refusal, call) if call else refusal

    # ---- the session

    def renewed(self, session):
        """Begins a new session in place of SESSION, which the server has forgotten, as it does when it starts again."""
        with self.renewal:
            if self.session != session:
                return True  # somebody else has
            try:
                reply = self.line.send('POST', ACCEPT, self.hello)
                new = reply.header('Mcp-Session-Id')
                reply.close()
                if reply.status != 200 or not new:
                    return False
                self.session = new
                self.line.send('POST', {**ACCEPT, 'Mcp-Session-Id': new, 'MCP-Protocol-Version': self.revision},
                               b'{"jsonrpc":"2.0","method":"notifications/initialized"}').close()
            except Lost:
                return False
        tell('the server has forgotten the session; a new one was begun, without earlier subscriptions')
        self.listen()
        return True

    def listen(self):
        if self.session:
            threading.Thread(target=self.listening, args=(self.session,), daemon=True).start()

    def listening(self, session):
        """Passes on what the server sends of itself, as long as the session lasts."""
        events, failures = Events(), -1  # the first time at once
        while self.session == session and not self.ending.is_set():
            try:
                reply, failures = self.back(events, session, failures)
            except Lost:
                return
            except Refused as e:
                if not events.last_id or e.status != 404:
                    return  # no such stream here, or no such session any more: the next message tells
                events.last_id = ''  # what was kept is gone; what comes from now on is not
                continue
            for data in events.read(reply):
                failures = 0
                self.put(data)
            reply.close()

    # ---- input

    def work(self, call):
        try:
            self.post(call)
        finally:
            with self.change:
                self.calls.discard(call)
                self.change.notify_all()

    def cancel(self, m):
        """Marks the call that M cancels. True: nothing is left to be sent, as the modern era cancels by closing the connection."""
        wanted = messages.written(messages.params_of(m).get('requestId'))
        with self.change:
            call = next((c for c in self.calls if wanted in c.waiting), None)
        if not call:
            return False
        call.cancelled = True
        if call.revision and call.connection:
            cut(call.connection)
        return bool(call.revision)

    def message(self, line):
        call = Call(line)
        if call.method == 'notifications/cancelled' and self.cancel(call.only):
            return
        if not call.waiting or call.method == 'initialize':
            self.post(call)  # what comes next is sent after it
            if call.method == 'notifications/initialized':
                self.listen()
            return
        with self.change:
            self.calls.add(call)
        threading.Thread(target=self.work, args=(call,), daemon=True).start()
        call.sent.wait()

    def is_busy(self):
        return any(c.method != 'subscriptions/listen' for c in self.calls)

    def drain(self):
        """The input has ended: waits for answers that are under way."""
        with self.change:
            if not self.change.wait_for(lambda: not self.is_busy(), DRAIN_S):
                tell(f'the input ended, and {len(self.calls)} calls took longer than {DRAIN_S} s')

    def goodbye(self):
        self.ending.set()
        if not self.session:
            return
        headers = {'Mcp-Session-Id': self.session, 'MCP-Protocol-Version': self.revision}

        def leave():
            try:
                self.line.send('DELETE', headers).close()
            except Lost:
                pass  # it forgets the session by itself
        leaving = threading.Thread(target=leave, daemon=True)
        leaving.start()
        leaving.join(GOODBYE_S)


def lines(source):
    for line in iter(source.readline, b''):
        line = line.strip()
        if line:
            yield line


def nowhere(place):
    """There is no Caisson: every request is told so."""
    for line in lines(sys.stdin.buffer):
        for request_id in sorted(Call(line).waiting):
            sys.stdout.buffer.write(messages.failure(request_id, place.why) + b'\n')
            sys.stdout.buffer.flush()
    return 1


def on_signal(number, _frame):
    raise SystemExit(128 + number)


def replace(command):
    if os.name == 'posix':
        os.execv(command[0], command)
    return subprocess.call(command)


def main(place):
    tell(place.say)
    if place.command:
        return replace(place.command)
    if not place.url:
        return nowhere(place)
    bridge = Bridge(place, sys.stdout.buffer)
    for name in ('SIGTERM', 'SIGINT', 'SIGHUP'):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), on_signal)
    status = 0
    try:
        for line in lines(sys.stdin.buffer):
            bridge.message(line)
        bridge.drain()
    except SystemExit as e:
        status = e.code
    bridge.goodbye()
    with bridge.output_lock:  # no line is cut off
        os._exit(status)
