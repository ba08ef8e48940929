// The API client of `npm run load`, against a service that this process plays.
import http from 'node:http'
import test, { type ExecutionContext } from 'ava'
import { createApi } from '../../../src/cli/import/api-client.ts'
import { listenOnFreePort } from '../../support/ports.ts'

const fine = '{"meta": {"status": 200}}'

/** Starts a service. @param answer gets the number of each request, from 1 on */
async function startService(
  t: ExecutionContext,
  answer: (response: http.ServerResponse, number: number) => void,
) {
  const paths: string[] = []
  const server = http.createServer((request, response) => answer(response, paths.push(request.url ?? '')))
  const url = `http://127.0.0.1:${await listenOnFreePort(server)}`
  t.teardown(() => server.close())
  return { url, paths }
}

test('api client: a response that is cut off is requested again', async t => {
  const { url, paths } = await startService(t, (response, number) => {
    if (number > 1) return void response.end(fine)
    response
      .writeHead(200, { 'Content-Length': fine.length })
      .write(fine.slice(0, 9), () => response.destroy())
  })
  const waits: string[] = []
  await createApi(url, 5000, line => waits.push(line)).assertReachable()
  t.deepEqual(waits, [`waiting up to 5 s for ${url}: the response was cut off`])
  t.is(paths.length, 2)
})

test('api client: a URL can end with a slash, and without patience the service has time to answer', async t => {
  const { url, paths } = await startService(t, response => void setImmediate(() => response.end(fine)))
  await createApi(`${url}/`, 0, () => {}).assertReachable()
  t.deepEqual(paths, ['/v1/groups?records_per_page=1'])
})
