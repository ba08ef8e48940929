// The list of benchmark comparisons. Each entry is one block of rows in the table.
import type { ServerName } from './servers.ts'

/** A request template: `{id}` is the id of a random user, `{unique}` is a text that no earlier request contained. */
export interface Request {
  readonly method: 'GET' | 'POST' | 'PATCH'
  readonly path: string
  readonly body?: string
  /** Each request has a new Idempotency-Key. */
  readonly keyed?: true
}

/** A server that the service is compared with. */
export interface Baseline {
  readonly server: ServerName
  /** The server's responses have another format: only the status is compared. */
  readonly statusOnly?: true
}

export interface Comparison {
  /** Selects the comparison on the command line. */
  readonly name: string
  readonly title: string
  readonly request: Request
  readonly baselines: readonly Baseline[]
  /** Concurrent connections; 64 by default. */
  readonly connections?: number
  /** Concurrent connections of the warm-up; by default as many as later. */
  readonly burst?: number
  /** Worker processes; 1 by default. */
  readonly workers?: number
  /** Opens a connection for each request instead of keeping connections alive. */
  readonly closing?: true
  /** The connections use TLS. Each one is for one request and resumes a session. */
  readonly tls?: true
  /** Rows that one request writes; 1 by default. */
  readonly rows?: number
}

const BATCH_ENTRIES = 1000
const newUser = '{"first_name":"{unique}","last_name":"Bench"}'
/** @param entry returns the entry with an index */
const batchOf = (entry: (index: number) => string) =>
  `{"users":[${Array.from({ length: BATCH_ENTRIES }, (_, index) => entry(index)).join()}]}`

export const comparisons: readonly Comparison[] = [
  {
    name: 'get',
    title: 'GET a user with groups',
    request: { method: 'GET', path: '/v1/users/{id}?include=groups' },
    baselines: [{ server: 'bare' }, { server: 'conventional' }, { server: 'constant' }],
  },
  {
    name: 'platformatic',
    title: 'GET a user',
    request: { method: 'GET', path: '/v1/users/{id}' },
    baselines: [{ server: 'platformatic', statusOnly: true }],
  },
  {
    name: 'page',
    title: 'GET a page of 100 with groups',
    request: { method: 'GET', path: '/v1/users?records_per_page=100&include=groups' },
    baselines: [{ server: 'bare' }, { server: 'conventional' }],
  },
  {
    name: 'post',
    title: 'POST a user',
    request: { method: 'POST', path: '/v1/users', body: newUser },
    baselines: [
      { server: 'bare' },
      { server: 'conventional' },
      { server: 'no-feed' },
      { server: 'no-search' },
    ],
  },
  {
    name: 'post-key',
    title: 'POST a user with an Idempotency-Key',
    request: { method: 'POST', path: '/v1/users', body: newUser, keyed: true },
    // It ignores the key.
    baselines: [{ server: 'bare' }],
  },
  {
    name: 'patch',
    title: 'PATCH a user',
    request: { method: 'PATCH', path: '/v1/users/{id}', body: '{"last_name":"{unique}"}' },
    baselines: [{ server: 'bare' }, { server: 'conventional' }, { server: 'no-feed' }],
  },
  {
    name: 'batch',
    title: `POST a batch of ${BATCH_ENTRIES} users, in rows/s`,
    request: { method: 'POST', path: '/v1/users', body: batchOf(() => newUser) },
    baselines: [{ server: 'bare', statusOnly: true }, { server: 'no-feed' }, { server: 'no-search' }],
    // Eight batches of 1000 rows keep every server busy. With more, requests would wait longer than a round lasts.
    connections: 8,
    rows: BATCH_ENTRIES,
  },
  {
    name: 'patches',
    title: `PATCH a batch of ${BATCH_ENTRIES} users, in rows/s`,
    request: {
      method: 'PATCH',
      path: '/v1/users',
      body: batchOf(index => `{"id":${index + 1},"last_name":"{unique}"}`),
    },
    baselines: [{ server: 'no-feed', statusOnly: true }],
    connections: 8,
    rows: BATCH_ENTRIES,
  },
  {
    name: 'get-256',
    title: 'GET a user with groups, 256 connections',
    request: { method: 'GET', path: '/v1/users/{id}?include=groups' },
    baselines: [{ server: 'bare' }],
    connections: 256,
  },
  {
    name: 'post-256',
    title: 'POST a user, 256 connections',
    request: { method: 'POST', path: '/v1/users', body: newUser },
    baselines: [{ server: 'bare' }],
    connections: 256,
  },
  {
    name: 'get-burst',
    title: 'GET a user with groups, after a burst on 512 connections',
    request: { method: 'GET', path: '/v1/users/{id}?include=groups' },
    baselines: [{ server: 'bare' }],
    burst: 512,
  },
  {
    name: 'post-burst',
    title: 'POST a user, after a burst on 512 connections',
    request: { method: 'POST', path: '/v1/users', body: newUser },
    baselines: [{ server: 'bare' }],
    burst: 512,
  },
  {
    name: 'connect',
    title: 'GET a user with groups, one connection per request, 2 workers',
    request: { method: 'GET', path: '/v1/users/{id}?include=groups' },
    baselines: [{ server: 'cluster' }],
    workers: 2,
    closing: true,
  },
  {
    name: 'connect-tls',
    title: 'GET a user with groups over TLS, one connection with a resumed session per request, 2 workers',
    request: { method: 'GET', path: '/v1/users/{id}?include=groups' },
    baselines: [{ server: 'cluster-tls' }],
    workers: 2,
    connections: 16,
    tls: true,
  },
  {
    name: 'log',
    title: 'GET a user with groups, compared with request logging',
    request: { method: 'GET', path: '/v1/users/{id}?include=groups' },
    baselines: [{ server: 'logging' }],
  },
  {
    name: 'auth-key',
    title: 'GET a user with groups, compared with an API key in each request',
    request: { method: 'GET', path: '/v1/users/{id}?include=groups' },
    baselines: [{ server: 'auth-key' }],
  },
  {
    name: 'auth-jwt',
    title: 'GET a user with groups, compared with a JWT in each request',
    request: { method: 'GET', path: '/v1/users/{id}?include=groups' },
    baselines: [{ server: 'auth-jwt' }],
  },
]
