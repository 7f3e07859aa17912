#!/usr/bin/env node
// A connector for rounds in Node, without any package.
//
// It reports the lines of text files: an account NAME has the file NAME.log in a
// directory, and each of its lines is a message. All state is in the cursor, which is
// the number of bytes read so far, so any number of copies may run. A text that is sent
// to an account becomes a file in NAME.sent. A line that begins with @FILE carries the
// file of that name in NAME.files.
//
//   export CONNECTOR_SECRET=whsec_$(head -c 24 /dev/urandom | base64)
//   node connector.mjs --dir /var/log/inbox --port 9000

import { createHash, createHmac, randomUUID, timingSafeEqual } from 'node:crypto'
import { access, link, mkdir, open, rm, stat } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { parseArgs } from 'node:util'

const MAX_REQUEST = 1 << 20 // bytes
const MAX_LINE = 64 << 10 // bytes of one message; the rest of a longer line is left out
const MAX_PAGE = 4 << 20 // bytes of lines on a page
const TOLERANCE = 300 // seconds that a signature may be old, or ahead
const PLAIN_NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$/

// An error of the account, which rounds acts on by its kind.
class Failure extends Error {
  constructor(kind, message) {
    super(message)
    this.kind = kind
  }
}

// Whether a request has a valid signature of Standard Webhooks.
function signed(key, headers, body) {
  const id = headers['webhook-id'] ?? ''
  const timestamp = headers['webhook-timestamp'] ?? ''
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE) return false
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest()
  // While secrets are changed there may be several, one for each secret.
  return (headers['webhook-signature'] ?? '').split(' ').some((signature) => {
    const [version, value = ''] = signature.split(',')
    const given = Buffer.from(value, 'base64')
    return version === 'v1' && given.length === expected.length && timingSafeEqual(given, expected)
  })
}

// Delivers a text: it becomes the file NAME.sent/SEND_ID.json. The file gets its name in
// one step, and only if there is none of that name. So a send that comes again, even
// after a crash of this program, is delivered once.
async function send(directory, request) {
  const name = request.account.id
  if (!PLAIN_NAME.test(name)) throw new Failure('config', "the account's id must be letters, digits, dots, dashes and underscores")
  if (request.type !== 'text') throw new Failure('rejected', 'only texts can be sent')
  try {
    await access(join(directory, `${name}.log`))
  } catch (error) {
    throw error.code === 'ENOENT' ? new Failure('gone', 'there is no such file') : error
  }
  const outbox = join(directory, `${name}.sent`)
  await mkdir(outbox, { recursive: true, mode: 0o700 })
  const part = join(outbox, `${randomUUID()}.part`)
  const file = await open(part, 'wx', 0o600)
  try {
    await file.writeFile(JSON.stringify({ to: request.to, text: request.data.text }))
    await file.sync()
    await link(part, join(outbox, `${request.send_id}.json`))
  } catch (error) {
    if (error.code !== 'EEXIST') throw error // otherwise it was delivered before
  } finally {
    await file.close()
    await rm(part)
  }
  return { id: request.send_id }
}

// The data of a line's message. "@plan.pdf Here it is" is about the file plan.pdf in the
// folder NAME.files, whose URL is a path at this connector.
async function content(directory, account, text) {
  const name = text.startsWith('@') ? text.slice(1).split(' ')[0] : ''
  if (!PLAIN_NAME.test(name)) return { text }
  try {
    const found = await stat(join(directory, `${account}.files`, name))
    return found.isFile() ? { text, files: [{ url: `/files/${account}/${name}`, name, size: found.size }] } : { text }
  } catch {
    return { text }
  }
}

// Gives a file to a signed request.
async function give(key, directory, request, response) {
  if (!signed(key, request.headers, '')) return response.writeHead(401).end()
  const [, folder, account = '', name = ''] = request.url.split('/')
  if (folder !== 'files' || !PLAIN_NAME.test(account) || !PLAIN_NAME.test(name)) return response.writeHead(404).end()
  let file
  try {
    file = await open(join(directory, `${account}.files`, name))
  } catch {
    return response.writeHead(404).end()
  }
  response.writeHead(200, { 'Content-Type': 'application/octet-stream', 'Content-Length': (await file.stat()).size })
  await pipeline(file.createReadStream(), response)
}

// One page: the lines after the cursor, or null if there are none.
async function check(directory, request) {
  const name = request.account.id
  if (!PLAIN_NAME.test(name)) {
    throw new Failure('config', "the account's id must be letters, digits, dots, dashes and underscores")
  }
  let cursor = request.cursor ?? 0
  let reset = false
  if (!Number.isSafeInteger(cursor) || cursor < 0) throw new Failure('cursor_invalid', 'the cursor must be a number of bytes')
  let file
  try {
    file = await open(join(directory, `${name}.log`))
  } catch (error) {
    throw error.code === 'ENOENT' ? new Failure('gone', 'there is no such file') : error
  }
  try {
    const { size: length, mtimeMs } = await file.stat()
    if (cursor > length) [cursor, reset] = [0, true] // the file was replaced by a new one
    const buffer = Buffer.alloc(Math.min(MAX_PAGE, length - cursor))
    const { bytesRead } = await file.read(buffer, 0, buffer.length, cursor)
    const messages = []
    let start = 0
    let more = false
    for (;;) {
      const end = buffer.subarray(0, bytesRead).indexOf(0x0a, start)
      if (end < 0) {
        // Text after the last end of line is still being written, or on the next page.
        more = start > 0 && cursor + bytesRead < length
        break
      }
      if (messages.length === request.limit) {
        more = true
        break
      }
      const line = buffer.subarray(start, end)
      messages.push({
        // The text is part of the id, because another file may have taken the name.
        id: `${cursor + start}-${createHash('sha256').update(line).digest('hex').slice(0, 16)}`,
        type: 'line',
        time: new Date(mtimeMs).toISOString(),
        data: await content(directory, name, line.subarray(0, MAX_LINE).toString('utf8').replace(/\r$/, '')),
      })
      start = end + 1
    }
    if (start === 0 && bytesRead === MAX_PAGE) throw new Failure('config', `a line is longer than ${MAX_PAGE} bytes`)
    if (messages.length === 0 && !reset) return null
    return { messages, next_cursor: cursor + start, has_more: more, cursor_reset: reset }
  } finally {
    await file.close()
  }
}

// The body of a request, or null if it is too long.
async function read(request) {
  const parts = []
  let size = 0
  for await (const part of request) {
    size += part.length
    if (size > MAX_REQUEST) return null
    parts.push(part)
  }
  return Buffer.concat(parts)
}

// Whether a send has the fields that are needed here.
function sendable(asked) {
  return typeof asked.to === 'string' && typeof asked.data?.text === 'string' && /^[A-Za-z0-9_-]{1,128}$/.test(asked.send_id)
}

async function answer(key, directory, request) {
  if (request.method !== 'POST') return [405]
  const body = await read(request)
  if (body === null) return [413]
  if (!signed(key, request.headers, body)) return [401]
  let asked
  try {
    asked = JSON.parse(body)
  } catch {
    return [400]
  }
  const sending = request.url === '/send'
  if (typeof asked?.account?.id !== 'string' || !(sending ? sendable(asked) : Number.isInteger(asked.limit))) return [400]
  try {
    const page = await (sending ? send : check)(directory, asked)
    return page === null ? [204] : [200, page]
  } catch (error) {
    if (error instanceof Failure) return [200, { error: { kind: error.kind, code: error.kind, message: error.message } }]
    return [503]
  }
}

const { values: options } = parseArgs({
  options: {
    dir: { type: 'string', default: '.' },
    host: { type: 'string', default: '127.0.0.1' },
    port: { type: 'string', default: '9000' },
  },
})
const secret = (process.env.CONNECTOR_SECRET ?? '').replace(/^whsec_/, '')
if (!/^[A-Za-z0-9+/]{4,}={0,2}$/.test(secret)) {
  console.error('CONNECTOR_SECRET must hold base64, with or without whsec_ before it')
  process.exit(1)
}
const key = Buffer.from(secret, 'base64')
const server = createServer({ requestTimeout: 30_000 }, async (request, response) => {
  let [status, page] = [400]
  try {
    if (request.method === 'GET') return await give(key, options.dir, request, response)
    ;[status, page] = await answer(key, options.dir, request)
  } catch {
    // The request broke off.
  }
  if (response.headersSent) return response.destroy()
  if (status === 413) response.setHeader('Connection', 'close')
  if (page === undefined) return response.writeHead(status).end()
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(page))
})
server.listen(Number(options.port), options.host, () => console.log(`http://${options.host}:${server.address().port}/`))
