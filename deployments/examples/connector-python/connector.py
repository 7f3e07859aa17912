#!/usr/bin/env python3
"""A connector for rounds in the standard library of Python 3.

It reports the lines of text files: an account NAME has the file NAME.log in a
directory, and each of its lines is a message. All state is in the cursor, the
number of bytes that were read, so that any number of copies may run. A text that
is sent to an account becomes a file in NAME.sent. A line that begins with @FILE
carries the file of that name in NAME.files.

    export CONNECTOR_SECRET=whsec_$(head -c 24 /dev/urandom | base64)
    python3 connector.py --dir /var/log/inbox --port 9000
"""

import argparse
import base64
import datetime
import hashlib
import hmac
import json
import os
import re
import shutil
import sys
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_REQUEST = 1 << 20  # bytes
MAX_LINE = 64 << 10  # bytes of one message; the rest of a longer line is left out
MAX_PAGE = 4 << 20  # bytes of lines on a page
TOLERANCE = 300  # seconds that a signature may be old, or ahead
PLAIN_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


class Failure(Exception):
    """An error of the account, which rounds acts on by its kind."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


def signed(key, headers, body):
    """Whether a request has a valid signature of Standard Webhooks."""
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    try:
        if abs(time.time() - int(timestamp)) > TOLERANCE:
            return False
    except ValueError:
        return False
    content = message_id.encode() + b"." + timestamp.encode() + b"." + body
    expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    # While secrets are changed there may be several, one for each secret.
    for signature in headers.get("webhook-signature", "").split():
        version, _, value = signature.partition(",")
        if version == "v1" and hmac.compare_digest(value.encode(), expected.encode()):
            return True
    return False


def check(directory, request):
    """One page: the lines after the cursor, or None if there are none."""
    name = request["account"]["id"]
    if not PLAIN_NAME.fullmatch(name):
        raise Failure("config", "the account's id must be letters, digits, dots, dashes and underscores")
    cursor, reset = request.get("cursor"), False
    if cursor is None:
        cursor = 0
    if not isinstance(cursor, int) or isinstance(cursor, bool) or cursor < 0:
        raise Failure("cursor_invalid", "the cursor must be a number of bytes")
    try:
        file = open(os.path.join(directory, name + ".log"), "rb")
    except FileNotFoundError:
        raise Failure("gone", "there is no such file") from None
    with file:
        if cursor > os.fstat(file.fileno()).st_size:  # the file was replaced by a new one
            cursor, reset = 0, True
        modified = datetime.datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, datetime.timezone.utc)
        file.seek(cursor)
        messages, end, more = [], cursor, False
        for line in iter(file.readline, b""):
            if not line.endswith(b"\n"):
                break  # the line is still being written
            if len(messages) == request["limit"] or end - cursor >= MAX_PAGE:
                more = True
                break
            messages.append(
                {
                    # The text is part of the id, because another file may have taken the name.
                    "id": f"{end}-{hashlib.sha256(line).hexdigest()[:16]}",
                    "type": "line",
                    "time": modified.isoformat(),
                    "data": content(directory, name, line[:MAX_LINE].decode("utf-8", "replace").rstrip("\r\n")),
                }
            )
            end += len(line)
    if not messages and not reset:
        return None
    return {"messages": messages, "next_cursor": end, "has_more": more, "cursor_reset": reset}


def content(directory, account, line):
    """The data of a line's message. "@plan.pdf Here it is" is about the file plan.pdf in the
    folder NAME.files, whose URL is a path at this connector."""
    name = line[1:].partition(" ")[0]
    path = os.path.join(directory, account + ".files", name)
    if not line.startswith("@") or not PLAIN_NAME.fullmatch(name) or not os.path.isfile(path):
        return {"text": line}
    return {"text": line, "files": [{"url": f"/files/{account}/{name}", "name": name, "size": os.path.getsize(path)}]}


def send(directory, request):
    """Deliver a text: it becomes the file NAME.sent/SEND_ID.json. The file gets its name
    in one step, and only if there is none of that name. So a send that comes again, even
    after a crash of this program, is delivered once."""
    name = request["account"]["id"]
    if not PLAIN_NAME.fullmatch(name):
        raise Failure("config", "the account's id must be letters, digits, dots, dashes and underscores")
    if request["type"] != "text":
        raise Failure("rejected", "only texts can be sent")
    if not os.path.exists(os.path.join(directory, name + ".log")):
        raise Failure("gone", "there is no such file")
    outbox = os.path.join(directory, name + ".sent")
    os.makedirs(outbox, mode=0o700, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=outbox, suffix=".part") as file:
        json.dump({"to": request["to"], "text": request["data"]["text"]}, file)
        file.flush()
        os.fsync(file.fileno())
        try:
            os.link(file.name, os.path.join(outbox, request["send_id"] + ".json"))
        except FileExistsError:
            pass  # it was delivered before
    return {"id": request["send_id"]}


def well_formed(request, path):
    """Whether a request has the fields that are needed here."""
    try:
        if path == "/send":
            texts = request["send_id"], request["account"]["id"], request["to"], request["type"], request["data"]["text"]
            return all(isinstance(text, str) for text in texts) and bool(re.fullmatch("[A-Za-z0-9_-]{1,128}", request["send_id"]))
        return isinstance(request["account"]["id"], str) and isinstance(request["limit"], int)
    except (KeyError, TypeError):
        return False


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_POST(self):
        try:
            length = int(self.headers.get("content-length", ""))
        except ValueError:
            length = -1
        if not 0 <= length <= MAX_REQUEST:
            self.close_connection = True
            return self.answer(413 if length > MAX_REQUEST else 411)
        body = self.rfile.read(length)
        if not signed(self.server.key, self.headers, body):
            return self.answer(401)
        try:
            request = json.loads(body)
        except ValueError:
            return self.answer(400)
        if not well_formed(request, self.path):
            return self.answer(400)
        try:
            page = (send if self.path == "/send" else check)(self.server.directory, request)
        except Failure as failure:
            return self.answer(200, {"error": {"kind": failure.kind, "code": failure.kind, "message": str(failure)}})
        except OSError:
            return self.answer(503)
        return self.answer(204) if page is None else self.answer(200, page)

    def do_GET(self):
        """Give a file to a signed request."""
        if not signed(self.server.key, self.headers, b""):
            return self.answer(401)
        _, folder, account, name = (self.path.split("/") + [""] * 4)[:4]
        if folder != "files" or not PLAIN_NAME.fullmatch(account) or not PLAIN_NAME.fullmatch(name):
            return self.answer(404)
        try:
            file = open(os.path.join(self.server.directory, account + ".files", name), "rb")
        except OSError:
            return self.answer(404)
        with file:
            self.send_response(200)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(os.fstat(file.fileno()).st_size))
            self.end_headers()
            shutil.copyfileobj(file, self.wfile)

    def answer(self, status, value=None):
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass  # rounds logs what fails


def main():
    parser = argparse.ArgumentParser(description="A connector for rounds that reports the lines of files.")
    parser.add_argument("--dir", default=".", help="where the files are, NAME.log for the account NAME")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9000, help="0: any that is free")
    options = parser.parse_args()
    try:
        key = base64.b64decode(os.environ["CONNECTOR_SECRET"].removeprefix("whsec_"), validate=True)
    except (KeyError, ValueError):
        sys.exit("CONNECTOR_SECRET must hold base64, with or without whsec_ before it")
    server = ThreadingHTTPServer((options.host, options.port), Handler)
    server.daemon_threads = True
    server.key, server.directory = key, options.dir
    print(f"http://{options.host}:{server.server_address[1]}/", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
