# SPDX-License-Identifier: Apache-2.0
"""Servers in a sandbox that are no friends of who asks them. Each port does one thing; 8000 tells what 8001 was sent, and echoes."""
import base64, hashlib, json, socket, struct, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

seen = []


class Plain(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/seen":
            body, seen[:] = json.dumps([base64.b64encode(s).decode() for s in seen]), []
        else:
            body = json.dumps(self.headers.items())
        self.send_response(200)
        self.send_header("Content-Length", len(body))
        self.end_headers()
        self.wfile.write(body.encode())

    do_GET = do_POST = answer


def until_end(c):
    data = b""
    while more := c.recv(65536):
        data += more
    return data


def script(c):
    """Notes what it is sent, and answers GET /HEX with those bytes, any other request with 204."""
    data = c.recv(65536)
    path = data.split(b" ")[1].rsplit(b"/", 1)[-1] if data.count(b" ") > 1 else b""
    try:
        return c.sendall(bytes.fromhex(path.decode()))
    except ValueError:
        pass
    c.settimeout(0.05)
    try:
        while more := c.recv(65536): # what follows at once
            data += more
    except OSError:
        pass
    seen.append(data)
    c.sendall(b"HTTP/1.1 204 No\r\n\r\n")


def endless(c):
    c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        c.sendall(b"8000\r\n" + bytes(0x8000) + b"\r\n")


def early(c):
    """Answers before it has read anything, and resets."""
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly")
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    time.sleep(0.05)


def long_head(c):
    c.recv(65536)
    c.sendall(b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"x" * 1000) for i in range(1000)) + b"\r\n")


def one_line(c):
    c.recv(65536)
    while True:
        c.sendall(b"HTTP/1.1 200 " + b"x" * 65536)


def interim(c):
    while True:
        c.sendall(b"HTTP/1.1 103 Early\r\nLink: </x>\r\n\r\n" * 100)


def upgrade(c):
    """Becomes another protocol: reads to the end, then tells what it got, and closes."""
    head = b""
    while b"\r\n\r\n" not in head:
        head += c.recv(1)
    c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
    if b"/late" in head: # what is sent has to wait
        time.sleep(0.3)
    data = until_end(c)
    c.sendall(b"%d %s\n" % (len(data), hashlib.sha256(data).hexdigest().encode()))


def serve(port, what):
    listening = socket.create_server(("127.0.0.1", port), backlog=128)

    def one(c):
        with c:
            try:
                what(c)
            except OSError:
                pass

    while True:
        threading.Thread(target=one, args=(listening.accept()[0],), daemon=True).start()


for port, what in enumerate((script, endless, early, long_head, one_line, interim, upgrade), 8001):
    threading.Thread(target=serve, args=(port, what), daemon=True).start()
server = ThreadingHTTPServer(("127.0.0.1", 8000), Plain)
print("serving", flush=True)
server.serve_forever()
