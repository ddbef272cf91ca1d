# SPDX-License-Identifier: Apache-2.0
# A server that costs little itself: "ok", or at /big two GiB.
import socket
import sys
import threading

BLOCK = b"x" * (1 << 20)


def answer(c):
    head = c.recv(65536)
    if b" /big " in head.split(b"\r\n")[0]:
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (2048 * len(BLOCK)))
        for _ in range(2048):
            c.sendall(BLOCK)
    else:
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    c.close()


listening = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=100)
print("serving", flush=True)
while True:
    threading.Thread(target=answer, args=(listening.accept()[0],), daemon=True).start()
