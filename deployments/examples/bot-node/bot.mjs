#!/usr/bin/env node
// A bot for rounds in Node, without any package: it answers each message that the webhook brings.

import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'
import { buffer } from 'node:stream/consumers'

const { BOT_SECRET = '', BOT_PORT = '9100', ROUNDS_API_URL = 'http://127.0.0.1:8080', ROUNDS_API_TOKEN } = process.env
const secret = Buffer.from(BOT_SECRET.replace(/^whsec_/, ''), 'base64')
if (secret.length === 0) throw new Error('BOT_SECRET is missing')

const answer = (message) => 'Thank you, we have your message.' // it has account, kind, id, type, time and data

function signed(headers, body) {
  const { 'webhook-id': id, 'webhook-timestamp': at, 'webhook-signature': given = '' } = headers
  const expected = Buffer.from('v1,' + createHmac('sha256', secret).update(`${id}.${at}.`).update(body).digest('base64'))
  const equal = (text) => text.length === expected.length && timingSafeEqual(Buffer.from(text, 'latin1'), expected)
  return Math.abs(Date.now() / 1000 - at) < 300 && given.split(' ').some(equal)
}

// Queues the answer, and returns the API's status. Under one key it is queued once, however often this is repeated.
async function send(key, message) {
  const headers = { 'Idempotency-Key': key, 'Content-Type': 'application/json' }
  if (ROUNDS_API_TOKEN) headers.Authorization = `Bearer ${ROUNDS_API_TOKEN}`
  const body = JSON.stringify({ reply_to: message.handle, data: { text: answer(message) } })
  const url = `${ROUNDS_API_URL}/v1/accounts/${encodeURIComponent(message.account)}/sends`
  try {
    const reply = await fetch(url, { method: 'POST', headers, body, signal: AbortSignal.timeout(10_000) })
    if (!reply.ok) console.error(message.account, message.id, reply.status, await reply.text())
    return reply.status
  } catch {
    return 503 // nobody knows whether it was queued
  }
}

createServer({ requestTimeout: 30_000 }, async (request, response) => {
  const body = await buffer(request).catch(() => '')
  if (!signed(request.headers, body)) return response.writeHead(401).end()
  const status = await send(request.headers['webhook-id'], JSON.parse(body).data)
  // The API refuses for good with 409 and 422. After anything else rounds brings the message again.
  const pause = [429, 502, 503, 504].includes(status) ? { 'Retry-After': '1' } : {}
  response.writeHead([202, 409, 422].includes(status) ? 204 : 503, pause).end()
}).listen(Number(BOT_PORT), '127.0.0.1')
