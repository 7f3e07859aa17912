#!/usr/bin/env python3
"""A bot for rounds in the standard library of Python 3: it answers each message that the webhook brings."""

import base64, hmac, http.client, json, os, sys, time, urllib.error, urllib.parse, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = base64.b64decode(os.environ.get("BOT_SECRET", "").removeprefix("whsec_")) or sys.exit("BOT_SECRET is missing")
API, TOKEN = os.environ.get("ROUNDS_API_URL", "http://127.0.0.1:8080"), os.environ.get("ROUNDS_API_TOKEN")

def answer(message):  # it has account, kind, id, type, time and data
    return "Thank you, we have your message."

def signed(headers, body):
    at, given = headers.get("webhook-timestamp", ""), headers.get("webhook-signature", "").encode().split()
    content = f"{headers.get('webhook-id')}.{at}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.digest(KEY, content, "sha256"))
    return at.isdecimal() and abs(time.time() - int(at)) < 300 and any(hmac.compare_digest(g, expected) for g in given)

def send(key, message):
    """Queue the answer, and return the API's status. Under one key it is queued once, however often this is repeated."""
    url = f"{API}/v1/accounts/{urllib.parse.quote(message['account'], safe='')}/sends"
    body = json.dumps({"reply_to": message.get("handle"), "data": {"text": answer(message)}}).encode()
    headers = {"Idempotency-Key": key, "Content-Type": "application/json"} | ({"Authorization": f"Bearer {TOKEN}"} if TOKEN else {})
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=10) as reply:
            return reply.status
    except urllib.error.HTTPError as refusal:
        print(message["account"], message["id"], refusal.code, refusal.read().decode(), file=sys.stderr)
        return refusal.code
    except (OSError, http.client.HTTPException):  # nobody knows whether it was queued
        return 503

class Bot(BaseHTTPRequestHandler):
    timeout = 30  # seconds

    def do_POST(self):
        body = self.rfile.read(min(int(self.headers.get("content-length", 0)), 1 << 20))
        if not signed(self.headers, body):
            return self.send_error(401)
        status = send(self.headers["webhook-id"], json.loads(body)["data"])
        # The API refuses for good with 409 and 422. After anything else rounds brings the message again.
        self.send_response(204 if status in (202, 409, 422) else 503)
        if status in (429, 502, 503, 504):
            self.send_header("Retry-After", "1")
        self.end_headers()

    def log_message(self, *_):
        pass

ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("BOT_PORT", "9100"))), Bot).serve_forever()
