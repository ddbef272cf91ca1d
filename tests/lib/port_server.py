# SPDX-License-Identifier: Apache-2.0
# A server in a sandbox, for ports.test.ts: one port speaks HTTP as frameworks do, the other answers with whatever bytes the path asks for.
import base64, contextlib, hashlib, json, socket, struct, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

GO, ENDED = threading.Event(), threading.Event()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def say(self, status, data=b"", *headers):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", len(data))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def answer(self):
        at = urlsplit(self.path)
        q = {k: v[0] for k, v in parse_qs(at.query).items()}
        if at.path == "/ws":
            return self.socket()
        if at.path == "/echo/late":
            time.sleep(float(q["s"]))
        body = self.body()
        if at.path.startswith("/echo"):
            self.say(200, json.dumps({"method": self.command, "path": self.path, "headers": self.headers.items(),
                                      "bytes": len(body), "sha": hashlib.sha256(body).hexdigest()}).encode(), ("Content-Type", "application/json"))
        elif at.path == "/bytes":
            self.send_response(200)
            self.send_header("Content-Length", q["n"])
            self.end_headers()
            for i in range(int(q["n"]) // 65536):
                self.wfile.write(bytes([i % 251]) * 65536)
        elif at.path == "/chunks":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b"5\r\nfirst\r\n")
            GO.wait()
            self.wfile.write(b"6\r\nsecond\r\n0\r\n\r\n")
        elif at.path == "/go":
            GO.set()
            self.say(204)
        elif at.path == "/ended":  # an answer of the other port
            ENDED.wait()
            self.say(204)
        elif at.path == "/large":
            self.say(302, b"", ("Content-Type", "text/html"), ("Refresh", "0;url=/"), ("Location", "/x"), *[("X-Filler", "x" * 3000)] * 8)
        elif at.path == "/to":
            self.say(302, b"", ("Location", q["to"]), ("Set-Cookie", "a=b; Path=/"), ("Clear-Site-Data", '"*"'), ("Service-Worker-Allowed", "/"),
                     ("Strict-Transport-Security", "max-age=1"), ("X-Own", "kept"))
        elif at.path == "/sleep":
            time.sleep(float(q.get("s", 1000)))
            self.say(204)
        else:
            self.say(404, b"no such page")

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = answer

    def socket(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.send_header("Sec-WebSocket-Protocol", self.headers.get("Sec-WebSocket-Protocol", "none"))
        self.end_headers()
        self.close_connection = True
        while len(head := self.rfile.read(2)) == 2:  # each message comes back without its mask
            n = head[1] & 127
            n = int.from_bytes(self.rfile.read({126: 2, 127: 8}[n]), "big") if n > 125 else n
            mask = self.rfile.read(4)
            data = self.rfile.read(n)
            data = bytes(b ^ mask[i % 4] for i, b in enumerate(data))
            size = bytes([n]) if n < 126 else b"\x7e" + n.to_bytes(2, "big") if n < 65536 else b"\x7f" + n.to_bytes(8, "big")
            self.wfile.write(head[:1] + size + data)
            if head[0] & 15 == 8:
                return


def raw_answer(c):
    _, answer, *how = c.recv(65536).split(b" ")[1].decode().split("/")
    answer = bytes.fromhex(answer)
    if how:
        ENDED.clear()
    c.sendall(answer)
    if how:
        c.settimeout(1)
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with contextlib.suppress(OSError):
            while True:
                c.sendall(answer * 100)
    c.close()
    if how:
        ENDED.set()


def raw(port):
    """Answers GET /HEX with those bytes, and closes; GET /HEX/again with them until nobody reads any more, and resets."""
    listening = socket.create_server(("127.0.0.1", port))
    while True:
        c, _ = listening.accept()
        threading.Thread(target=raw_answer, args=(c,), daemon=True).start()


if __name__ == "__main__":
    threading.Thread(target=raw, args=(int(sys.argv[2]),), daemon=True).start()
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    print("serving", flush=True)
    server.serve_forever()
