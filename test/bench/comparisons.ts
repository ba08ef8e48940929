// What is compared with what. A row of the table is an entry of this list.
import type { ServerName } from './servers.ts'

/** `{id}` stands for the id of a random user, `{unique}` for a text that was never sent before. */
export interface Request {
  readonly method: 'GET' | 'POST' | 'PATCH'
  readonly path: string
  readonly body?: string
}

export interface Opponent {
  readonly server: ServerName
  /** How many times as fast as this one the service aims to be; without it the figure is there to be known. */
  readonly aim?: number
  /** Its answer is not the contract's: only its status is checked. */
  readonly ownAnswer?: true
}

export interface Comparison {
  /** Chooses it on the command line. */
  readonly name: string
  readonly title: string
  readonly request: Request
  readonly against: readonly Opponent[]
  /** Requests at a time; 64 unless given. */
  readonly connections?: number
  /** Processes that serve; 1 unless given. */
  readonly workers?: number
  /** Each request on a connection of its own; otherwise they are kept alive. */
  readonly closing?: true
  /** How many rows a request writes; 1 unless given. */
  readonly rows?: number
}

const BATCH_ENTRIES = 1000
const newUser = '{"first_name":"{unique}","last_name":"Bench"}'

export const comparisons: readonly Comparison[] = [
  {
    name: 'get',
    title: 'GET a user with groups',
    request: { method: 'GET', path: '/v1/users/{id}?include=groups' },
    against: [
      { server: 'bare', aim: 2.5 },
      { server: 'conventional', aim: 3 },
      { server: 'constant', aim: 0.8 },
    ],
  },
  {
    name: 'platformatic',
    title: 'GET a user',
    request: { method: 'GET', path: '/v1/users/{id}' },
    against: [{ server: 'platformatic', aim: 4, ownAnswer: true }],
  },
  {
    name: 'page',
    title: 'GET a page of 100 with groups',
    request: { method: 'GET', path: '/v1/users?records_per_page=100&include=groups' },
    against: [{ server: 'bare', aim: 1.5 }, { server: 'conventional' }],
  },
  {
    name: 'post',
    title: 'POST a user',
    request: { method: 'POST', path: '/v1/users', body: newUser },
    against: [{ server: 'bare', aim: 2 }, { server: 'conventional' }],
  },
  {
    name: 'patch',
    title: 'PATCH a user',
    request: { method: 'PATCH', path: '/v1/users/{id}', body: '{"last_name":"{unique}"}' },
    against: [{ server: 'bare', aim: 1.5 }, { server: 'conventional' }],
  },
  {
    name: 'batch',
    title: `POST a batch of ${BATCH_ENTRIES}, rows`,
    request: {
      method: 'POST',
      path: '/v1/users',
      body: `{"users":[${Array(BATCH_ENTRIES).fill(newUser).join()}]}`,
    },
    against: [{ server: 'bare', aim: 0.5, ownAnswer: true }],
    // Some thousand rows at a time keep every server busy; more would only wait in line for longer than a round lasts.
    connections: 8,
    rows: BATCH_ENTRIES,
  },
  {
    name: 'connect',
    title: 'GET a user with groups, a connection for each request, 2 workers',
    request: { method: 'GET', path: '/v1/users/{id}?include=groups' },
    against: [{ server: 'cluster', aim: 1.5 }],
    workers: 2,
    closing: true,
  },
  {
    name: 'log',
    title: 'GET a user with groups, against the service with a line in its log for each request',
    request: { method: 'GET', path: '/v1/users/{id}?include=groups' },
    against: [{ server: 'logging' }],
  },
]
