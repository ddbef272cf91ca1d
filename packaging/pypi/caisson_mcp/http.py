# SPDX-License-Identifier: Apache-2.0
"""One request of HTTP, and the events of a stream (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""
import http.client
import json
import socket
from urllib.parse import urlsplit

CONNECT_S = 30
SILENCE_S = 60  # the server sends a comment every 15 s
READ_BYTES = 1 << 18
RETRY_MS = 1000  # of a stream that names none
REFUSAL_BYTES = 1 << 20  # of what is read of an answer that is no message


class Lost(Exception):
    """The server cannot be reached, or an answer is gone."""


class Refused(Exception):
    """The server answered with another status than 200; BODY: with these bytes."""

    def __init__(self, status, text, body=b''):
        super().__init__(text)
        self.status, self.body = status, body


class Reply:
    """An answer of the server whose body has not been read."""

    def __init__(self, url, connection, response):
        self.url, self.connection, self.response = url, connection, response
        self.status = response.status
        kind = response.getheader('Content-Type', '').split(';')[0].strip().lower()
        self.is_stream = self.status == 200 and kind == 'text/event-stream'
        self.is_message = self.status == 200 and kind == 'application/json'

    def header(self, name):
        return self.response.getheader(name)

    def read(self):
        try:
            return self.response.read()
        except (OSError, http.client.HTTPException) as e:
            raise Lost(f'the connection to {self.url} broke: {reason(e)}') from e

    def refusal(self):
        """What it says when it is neither a message nor a stream."""
        body = b''
        try:
            body = self.response.read(REFUSAL_BYTES)
            text = str(json.loads(body)['error']['message'])
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, RecursionError):
            text = self.header('Location') or self.response.reason
        return Refused(self.status, f'{self.url} answered {self.status}: {text}', body)

    def close(self):
        self.response.close()
        self.connection.close()


def reason(e):
    return getattr(e, 'strerror', None) or str(e) or type(e).__name__


class Line:
    """The way to the server: a connection for each request, so that none is found dead when it is used again."""

    def __init__(self, url, key):
        self.url, self.key = url, key
        self.parts = urlsplit(url)
        self.path = self.parts.path + ('?' + self.parts.query if self.parts.query else '')

    def send(self, method, headers, body=None, sent=None):
        """Gives a Reply. SENT is called when the request is on its way: what is sent after it arrives after it."""
        kind = http.client.HTTPSConnection if self.parts.scheme == 'https' else http.client.HTTPConnection
        connection = kind(self.parts.hostname, self.parts.port, timeout=CONNECT_S)
        if self.key:
            headers = {'Authorization': f'Bearer {self.key}', **headers}
        try:
            connection.connect()
            connection.sock.settimeout(SILENCE_S)
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            try:
                connection.request(method, self.path, body, headers)
            except (BrokenPipeError, ConnectionResetError):
                pass  # a server that refuses a message may not read the rest of it
            if sent:
                sent(connection.sock)
            return Reply(self.url, connection, connection.getresponse())
        except (OSError, http.client.HTTPException, ValueError) as e:
            connection.close()
            raise Lost(f'cannot reach {self.url}: {reason(e)}') from e


def cut(connection):
    """Ends a connection, and with it a read that another thread is in."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


class Events:
    """What has come of a stream, over all its connections."""

    def __init__(self):
        self.last_id = ''
        self.retry_ms = RETRY_MS

    def read(self, reply):
        """Gives the data of each message. Ends with the connection, whatever ended it."""
        kind, data, event_id = 'message', [], self.last_id
        for line in self.lines(reply):
            if not line:
                self.last_id = event_id  # not before: the server sends an event again that broke off
                if kind == 'message' and any(data):
                    yield b'\n'.join(data)
                kind, data = 'message', []
                continue
            name, _, value = line.partition(b':')
            value = value[1:] if value.startswith(b' ') else value
            if name == b'data':
                data.append(value)
            elif name == b'event':
                kind = value.decode('latin-1')
            elif name == b'id' and b'\0' not in value:
                event_id = value.decode('latin-1')
            elif name == b'retry' and value.isdigit():
                self.retry_ms = min(int(value), SILENCE_S * 1000)

    @staticmethod
    def lines(reply):
        pieces = []  # of a line that has not ended: a large answer comes in many, none is looked at twice
        while True:
            try:
                block = reply.response.read1(READ_BYTES)
            except (OSError, http.client.HTTPException, ValueError, AttributeError):
                return
            if not block:
                return
            first, *more = block.split(b'\n')
            pieces.append(first)
            if more:
                for line in (b''.join(pieces), *more[:-1]):
                    yield line[:-1] if line.endswith(b'\r') else line
                pieces = [more[-1]]
