// Every limit can be configured and is inclusive. A request that exceeds a limit is rejected with the
// documented error.
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectOk } from '../support/expect.ts'
import { sendRaw } from '../support/http.ts'
import { connect } from '../support/raw.ts'
import { newPerson } from '../support/records.ts'

const limits = {
  bodyBytes: 300,
  batchEntries: 2,
  recordsPerPage: 5,
  filters: 1,
  membershipsPerUser: 1,
  urlBytes: 100,
  headerBytes: 1024,
  headers: 20,
  receivingBytes: 300,
}
const { service, api, close } = await openApi({ config: { limits } })
test.after.always(close)

test.serial('limits: bodyBytes: a longer body is 413', async t => {
  const bodyOf = (bytes: number) => JSON.stringify(newPerson()).padEnd(bytes, ' ')
  expectOk(t, await api.post('/v1/users', bodyOf(300)))
  expectError(t, await api.post('/v1/users', bodyOf(301)), 413, 'content_too_large')
})

test.serial('limits: batchEntries: a batch with more entries is limit_exceeded', async t => {
  expectOk(t, await api.post('/v1/users', { users: [newPerson(), newPerson()] }))
  expectError(
    t,
    await api.post('/v1/users', { users: [newPerson(), newPerson(), newPerson()] }),
    400,
    'limit_exceeded',
  )
  expectError(t, await api.post('/v1/groups', { groups: [1, 2, 3] }), 400, 'limit_exceeded')
})

test.serial('limits: receivingBytes: beyond it, the largest body that is being received is 503', async t => {
  const head = 'POST /v1/users HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n'
  const open = async () => {
    const client = await connect(service.port('http'))
    client.write(`${head}Content-Length: 300\r\nExpect: 100-continue\r\n\r\n`)
    await client.until(/^HTTP\/1.1 100 /)
    return client
  }
  const [first, second] = [await open(), await open()]
  const text = JSON.stringify(newPerson()).padEnd(300, ' ')
  first.write(text.slice(0, 120))
  // Only received bytes count, not the announced Content-Length.
  expectOk(t, await api.post('/v1/users', newPerson()))
  second.write(text.slice(0, 178))
  // The largest body is refused, not the one that comes last.
  expectOk(t, await api.post('/v1/users', newPerson()))
  await second.closed
  t.regex(second.text(), /HTTP\/1.1 503 .*Retry-After: \d+\r\n.*Connection: close\r\n.*"unavailable"/s)
  first.write(text.slice(120))
  await first.until(/HTTP\/1.1 200 /)
  first.socket.destroy()
  expectOk(t, await api.post('/v1/users', newPerson()))
})

test.serial('limits: recordsPerPage: a larger page is limit_exceeded', async t => {
  expectOk(t, await api.get('/v1/users?records_per_page=5'))
  expectError(t, await api.get('/v1/users?records_per_page=6'), 400, 'limit_exceeded')
})

test.serial('limits: filters: a query with more filters is limit_exceeded', async t => {
  expectOk(t, await api.get('/v1/users?first_name=a&sort=id&start_index=0&include=groups'))
  expectError(t, await api.get('/v1/users?first_name=a&groups[*].id=1'), 400, 'limit_exceeded')
})

test.serial('limits: filters: a query can have more filters than the database joins tables', async t => {
  const { api, close } = await openApi({ config: { limits: { filters: 100 } } })
  try {
    const user = await api.create('/v1/users', newPerson())
    const group = await api.create('/v1/groups', { name: 'three' })
    expectOk(t, await api.post(`/v1/users/${user}/groups`, { id: group }))
    for (const [filter, ids] of [
      [`groups[*].id=${group}`, [user]],
      ['groups[*].name=three', [user]],
      [`groups[*].id=!${group}`, []],
      ['groups[*].name=!four', [user]],
    ] as const) {
      const { status, body } = await api.get(`/v1/users?${Array(100).fill(filter).join('&')}`)
      t.is(status, 200, filter)
      t.deepEqual(
        body.users?.map(({ id }) => id),
        [...ids],
        filter,
      )
    }
  } finally {
    await close(t)
  }
})

test.serial('limits: membershipsPerUser: a further membership is limit_exceeded', async t => {
  const user = await api.create('/v1/users', newPerson())
  const groups = [
    await api.create('/v1/groups', { name: 'one' }),
    await api.create('/v1/groups', { name: 'two' }),
  ]
  expectOk(t, await api.post(`/v1/users/${user}/groups`, { id: groups[0] }))
  expectError(t, await api.post(`/v1/users/${user}/groups`, { id: groups[1] }), 400, 'limit_exceeded')
  t.is((await api.get(`/v1/users/${user}/groups`)).body.meta.records_per_page, 1)
})

test.serial('limits: urlBytes: a longer URL is 414', async t => {
  const target = '/v1/users?first_name='
  expectOk(t, await api.get(target.padEnd(100, 'a')))
  expectError(t, await api.get(target.padEnd(101, 'a')), 414, 'uri_too_long')
})

test.serial('limits: headerBytes: headers of this size are accepted, larger ones are 431', async t => {
  const ask = (padding: number) => {
    const lines = `Host: a\r\nConnection: close\r\nPad: ${'a'.repeat(padding)}\r\n`
    return sendRaw(service.url, `GET /v1/users HTTP/1.1\r\n${lines}\r\n`)
  }
  const padding = limits.headerBytes - 'Host: a\r\nConnection: close\r\nPad: \r\n'.length
  t.is((await ask(padding)).answer?.status, 200)
  expectError(t, (await ask(padding + 1)).answer, 431, 'headers_too_large')
})

test.serial('limits: headers: more headers are 431', async t => {
  const head = 'GET /v1/users HTTP/1.1\r\nHost: a\r\nConnection: close\r\n'
  const withHeaders = async (count: number) =>
    (await sendRaw(service.url, `${head}${'x:\r\n'.repeat(count - 2)}\r\n`)).answer
  t.is((await withHeaders(20))?.status, 200)
  for (const count of [21, 22, 23, 40, 200]) {
    const answer = await withHeaders(count)
    expectError(t, answer, 431, 'headers_too_large')
    t.is(answer?.body.meta.message, 'the headers exceed the limit of 1024 bytes or 20 headers')
  }
})
