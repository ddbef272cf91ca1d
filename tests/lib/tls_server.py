# SPDX-License-Identifier: Apache-2.0
# Servers in a sandbox that speak TLS, one whose certificate is an attack, and one whose certificate is good but large (wide.pem): python3 tls_server.py HTTPS HUGE [WIDE], beside port_server.py, which is called server.py there.
import os, socket, ssl, sys, threading
from http.server import ThreadingHTTPServer
from server import Handler as Plain  # port_server.py

HTTPS, HUGE = int(sys.argv[1]), int(sys.argv[2])
names = {}


def der(tag, *parts):
    body = b"".join(parts)
    n = len(body)
    size = bytes([n]) if n < 128 else bytes([0x80 | (n.bit_length() + 7) // 8]) + n.to_bytes((n.bit_length() + 7) // 8, "big")
    return bytes([tag]) + size + body


def certificate(bits):
    """One with an RSA key whose modulus and exponent both have that many bits. Its signatures verify nothing, and cost all the same."""
    number = der(2, b"\0" + b"\xff" * (bits // 8))
    rsa = der(0x30, bytes.fromhex("06092a864886f70d0101010500"))
    sha = der(0x30, bytes.fromhex("06092a864886f70d01010b0500"))
    name = der(0x30, der(0x31, der(0x30, bytes.fromhex("0603550403"), der(12, b"x"))))
    key = der(0x30, rsa, der(3, b"\0", der(0x30, number, number)))
    when = der(0x30, der(23, b"200101000000Z"), der(23, b"400101000000Z"))
    return der(0x30, der(0x30, der(0xa0, der(2, b"\2")), der(2, b"\1"), sha, name, when, name, key), sha, der(3, b"\0" * (bits // 8)))


def message(kind, body):
    whole = bytes([kind]) + len(body).to_bytes(3, "big") + body
    return b"".join(b"\x16\3\3" + len(part).to_bytes(2, "big") + part for part in (whole[i:i + 16000] for i in range(0, len(whole), 16000)))


def huge(port, bits=64000):
    """TLS 1.2 as far as the signature of the key exchange, which the client verifies."""
    cert = certificate(bits)
    point = bytes.fromhex("046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c2964fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5")
    hello = message(2, b"\3\3" + os.urandom(32) + b"\0\xc0\x2f\0" + b"\0\5\xff\1\0\1\0")
    listed = len(cert).to_bytes(3, "big") + cert
    sent = message(11, len(listed).to_bytes(3, "big") + listed)
    exchange = message(12, b"\3\0\x17" + bytes([len(point)]) + point + b"\4\1" + (bits // 8).to_bytes(2, "big") + b"\x7f" * (bits // 8))
    listening = socket.create_server(("127.0.0.1", port))
    while True:
        c, _ = listening.accept()
        c.recv(65536)
        try:
            c.sendall(hello + sent + exchange + message(14, b""))
            c.recv(65536)
        except OSError:
            pass
        c.close()


class Handler(Plain):
    def answer(self):
        if self.path == "/name":
            return self.say(200, str(names.get(self.connection)).encode())
        return Plain.answer(self)

    do_GET = do_POST = answer


def https(port, file):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    context.sni_callback = lambda sock, name, _: names.__setitem__(sock, name)
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    return server


server = https(HTTPS, "server.pem")
if len(sys.argv) > 3:
    threading.Thread(target=https(int(sys.argv[3]), "wide.pem").serve_forever, daemon=True).start()
threading.Thread(target=huge, args=(HUGE,), daemon=True).start()
print("serving", flush=True)
server.serve_forever()
