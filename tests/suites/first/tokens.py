# SPDX-License-Identifier: Apache-2.0
"""tokens.py ADDRESS PORT CERTIFICATE KEY: where a registry sends clients for a token. Everybody may pull what is below real/, and nothing else."""
import base64
import http.server
import json
import ssl
import subprocess
import sys
import time
import urllib.parse

ADDRESS, PORT, CERTIFICATE, KEY = sys.argv[1:]


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b'=').decode()


def token(service, scope):
    with open(CERTIFICATE, encoding='ascii') as f:
        der = base64.b64encode(ssl.PEM_cert_to_DER_cert(f.read())).decode()
    kind, name, actions = scope.split(':') if scope.count(':') == 2 else ('', '', '')
    access = [{'type': kind, 'name': name, 'actions': ['pull']}] if name.startswith('real/') and 'pull' in actions else []
    now = int(time.time())
    claims = {'iss': 'tokens', 'sub': '', 'aud': service, 'exp': now + 300, 'nbf': now - 10, 'iat': now, 'jti': str(now), 'access': access}
    text = '.'.join(encoded(json.dumps(part).encode()) for part in ({'typ': 'JWT', 'alg': 'RS256', 'x5c': [der]}, claims))
    signature = subprocess.run(['openssl', 'dgst', '-sha256', '-sign', KEY], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout
    return f'{text}.{encoded(signature)}'


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        if 'Authorization' in self.headers:
            print('CREDENTIALS CAME', flush=True)
        body = json.dumps({'token': token(query.get('service', ''), query.get('scope', ''))}).encode()
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer((ADDRESS, int(PORT)), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(CERTIFICATE, KEY)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
