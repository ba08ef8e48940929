// Messages between processes of different versions.
import test from 'ava'
import {
  type DesiredState,
  type Heartbeat,
  parseSupervisorMessage,
  parseWorkerMessage,
} from '../../../src/core/messages.ts'

/** Returns a copy with one more field in every object of `value`. */
function withUnknownFields(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withUnknownFields)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).map(([key, part]) => [key, withUnknownFields(part)] as const)
  return { ...Object.fromEntries(entries), ofTheNextVersion: 1 }
}

const port = { state: 'serving', connections: 3, active: 2, inFlight: 1, unanswered: {}, quietMs: 0 } as const
const traffic = { responses: { '2xx': 7 }, latency: [7, 0], latencySumMs: 2 }
const heartbeat: Heartbeat = {
  type: 'heartbeat',
  appliedRevision: 4,
  ports: { http: port },
  traffic: { http: traffic },
  routes: { http: { '/v1/users/:user_id': traffic } },
  lagMs: 1,
  lagP99Ms: 1,
  cache: { hits: 1, misses: 2, state: 'connected' },
  pool: { used: 1, free: 2, waiting: 0, max: 10 },
  rssBytes: 1e6,
}
const { ports: _, traffic: __, routes, ...fields } = heartbeat
const desired: DesiredState = {
  type: 'desired-state',
  revision: 4,
  ports: { http: { port: 80, state: 'draining' } },
  keyPairs: { https: { certificate: 'c', key: 'k' } },
  ticketKeys: '',
  issuerKeys: { 'https://issuer.test/': { text: '{"keys":[]}', beganMs: 1 } },
  logLevel: 'info',
}

test('messages: a heartbeat with unknown fields is read', t => {
  t.deepEqual(parseWorkerMessage(heartbeat), heartbeat)
  const next = {
    ...Object(withUnknownFields(fields)),
    ports: { http: { ...port, ofTheNextVersion: 1 } },
    traffic: { http: { ...traffic, ofTheNextVersion: 1 } },
    routes,
  }
  t.deepEqual(parseWorkerMessage(next), heartbeat)
})

test('messages: other messages with unknown fields are read', t => {
  for (const message of [
    { type: 'hello' },
    { type: 'listening' },
    { type: 'issuer-keys', source: 'https://issuer.test/', keys: { text: '{"keys":[]}', beganMs: 1 } },
    { type: 'fatal', exitCode: 78, reason: 'invalid settings' },
  ] as const)
    t.deepEqual(parseWorkerMessage(withUnknownFields(message)), message)
  const next = {
    ...desired,
    ports: { http: withUnknownFields(desired.ports.http) },
    keyPairs: { https: withUnknownFields(desired.keyPairs.https) },
    ofTheNextVersion: 1,
  }
  t.deepEqual(parseSupervisorMessage(next), desired)
})

test('messages: a message of an unknown type, or without a required field, is not read', t => {
  t.is(parseWorkerMessage({ type: 'of the next version' }), undefined)
  t.is(parseWorkerMessage(fields), undefined)
  t.is(parseSupervisorMessage({ ...desired, revision: undefined }), undefined)
  const { issuerKeys: _, ...earlier } = desired
  t.deepEqual(
    parseSupervisorMessage(earlier),
    earlier,
    'a supervisor of an earlier version keeps no keys of issuers',
  )
  for (const message of [null, 'hello', 7]) t.is(parseWorkerMessage(message), undefined)
})
