// The parts of a sequence of raw bytes: requests, valid or not, and the responses that a port owes them.

export interface Part {
  /** `ID` is the Request-Id. */
  readonly text: string
  /**
   * The responses in their order: the status and the Request-Id, `new` for one that the parser made, and `close` if
   * nothing is answered behind it. `|` separates alternatives.
   */
  readonly data: readonly string[]
  readonly control: readonly string[]
  /** Whether bytes behind its response can reset the connection, which can take the response with it (RFC 9112, 9.6). */
  readonly resets?: true
}

/** The number of characters of each Request-Id. */
export const ID_LENGTH = 18

const head = 'Host: a\r\nRequest-Id: ID\r\n'
const json = `${head}Content-Type: application/json\r\n`
const user = '{"first_name":"ID","last_name":"sent"}'
const lengthOf = (body: string) => body.replaceAll('ID', ' '.repeat(ID_LENGTH)).length
const withBody = (lines: string, body: string) => `${lines}Content-Length: ${lengthOf(body)}\r\n\r\n${body}`
const create = (headers: string, body: string) =>
  withBody(`POST /v1/users HTTP/1.1\r\n${json}${headers}`, body)
const get = (headers: string, target = '/v1/users/0', version = '1.1') =>
  `GET ${target} HTTP/${version}\r\n${head}${headers}\r\n`
const tooLarge = `X: ${'a'.repeat(17_000)}\r\n`
const smuggled = create('', '{"first_name":"smuggled"}')

export const requests: Readonly<Record<string, Part>> = {
  GET: { text: get(''), data: ['404 ID'], control: ['400 ID'] },
  'GET page': { text: get('', '/v1/docs'), data: ['200 ID'], control: ['400 ID'] },
  'GET health': { text: get('', '/healthcheck/http'), data: ['404 ID'], control: ['200'] },
  'GET behind an empty line': { text: `\r\n${get('')}`, data: ['404 ID'], control: ['400 ID'] },
  'GET with a target that is no URL': {
    text: get('', 'http://[::/v1/users'),
    data: ['400 ID'],
    control: ['400 ID'],
  },
  HEAD: { text: get('').replace('GET', 'HEAD'), data: ['404 ID'], control: ['400 ID'] },
  POST: { text: create('', user), data: ['200 ID'], control: ['405 ID'] },
  'POST with a request as its body': { text: create('', smuggled), data: ['400 ID'], control: ['405 ID'] },
  'POST in chunks': {
    text: `POST /v1/users HTTP/1.1\r\n${json}Transfer-Encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\nT: a\r\n\r\n`,
    data: ['400 ID'],
    control: ['405 ID'],
  },
  'POST that waits for 100': {
    text: create('Expect: 100-continue\r\n', user),
    data: ['100', '200 ID'],
    control: ['405 ID close'],
    resets: true,
  },
  'POST that waits for 100 and is not valid': {
    text: create('Expect: 100-continue\r\n', '{}'),
    data: ['100', '400 ID'],
    control: ['405 ID close'],
    resets: true,
  },
  'GET that expects more': {
    text: get('Expect: more\r\n'),
    data: ['417 ID'],
    control: ['417 ID close'],
    resets: true,
  },
  'GET with Upgrade': {
    text: get('Connection: Upgrade\r\nUpgrade: h2c\r\n'),
    data: ['404 ID close'],
    control: ['400 ID close'],
    resets: true,
  },
  'POST with Upgrade': {
    text: create('Connection: Upgrade\r\nUpgrade: h2c\r\n', smuggled),
    data: ['400 ID close'],
    control: ['405 ID close'],
    resets: true,
  },
  'GET that closes': {
    text: get('Connection: close\r\n'),
    data: ['404 ID close'],
    control: ['400 ID close'],
    resets: true,
  },
  'GET of HTTP/1.0': {
    text: get('', '/v1/users/0', '1.0'),
    data: ['404 ID close'],
    control: ['400 ID close'],
    resets: true,
  },
  CONNECT: {
    text: `CONNECT a:1 HTTP/1.1\r\n${head}\r\n`,
    data: ['405 ID close'],
    control: ['405 ID close'],
  },
  'GET that is too large': {
    text: get(tooLarge),
    data: ['431 ID close'],
    control: ['431 ID close'],
  },
  'HEAD that is too large': {
    text: get(tooLarge).replace('GET', 'HEAD'),
    data: ['431 ID close'],
    control: ['431 ID close'],
  },
  garbage: { text: 'garbage\r\n\r\n', data: ['400 new close'], control: ['400 new close'] },
  'HTTP/2': {
    text: 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    data: ['400 new close'],
    control: ['400 new close'],
  },
  'GET with a space before a colon': {
    text: get('').replace('Host', 'Host '),
    data: ['400 new close'],
    control: ['400 new close'],
  },
  'POST with two lengths': {
    text: create('Transfer-Encoding: chunked\r\n', '{}'),
    data: ['400 new close'],
    control: ['400 new close'],
  },
}

/** Requests that do not end. `END` is 400 if the client ends its side, and 408 if it waits. */
export const unfinished: Readonly<Record<string, Part>> = {
  'half a line': { text: 'GET /v1/us', data: ['END new close'], control: ['END new close'] },
  'half a head': { text: get('').slice(0, -2), data: ['END new close'], control: ['END new close'] },
  'half a body': {
    text: create('', `${user} `).slice(0, -1),
    data: ['END ID close'],
    control: ['405 ID|END ID close'],
  },
  'a body that is too large': {
    text: `POST /v1/users HTTP/1.1\r\n${json}Content-Length: 9000000\r\n\r\n`,
    data: ['413 ID close|END ID close'],
    control: ['405 ID|END ID close'],
  },
  'a chunk that is not valid': {
    text: `POST /v1/users HTTP/1.1\r\n${json}Transfer-Encoding: chunked\r\n\r\nzz\r\n`,
    data: ['400 ID close'],
    control: ['405 ID|400 ID close'],
  },
}
