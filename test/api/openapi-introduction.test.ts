// The introduction of the OpenAPI document: its commands return the responses that it shows.
import test from 'ava'
import { createClient } from '../support/http.ts'
import { apiKey } from '../support/issuer.ts'
import { readContract } from '../support/openapi.ts'
import { runToEnd } from '../support/run-to-end.ts'
import { startService } from '../support/service.ts'

const token = 'writer-token'

for (const [api, keys] of [
  ['an open API', []],
  ['an API with callers', [apiKey('writer', 'write', token)]],
] as const)
  test.serial(`introduction: its commands return the responses that it shows, on ${api}`, async t => {
    const service = await startService({ config: { auth: { keys } } })
    t.teardown(() => service.stop())
    const client = createClient(service.url)
    t.teardown(() => client.close())
    const { info } = JSON.parse((await client.get('/v1/openapi.json')).text)
    const introduction: string = info.description
    t.regex(
      introduction,
      /^A JSON API for users[^.]*\.(\n\nEvery request needs a token.*)?\n\n## First requests\n/,
    )

    const blocks = [...introduction.matchAll(/```(sh|json)\n(.*?)\n```/gs)]
    const languages = blocks.map(([, language]) => language)
    t.deepEqual(languages, ['sh', 'json', 'sh', 'sh', 'json', 'sh', 'json'])
    let printed = ''
    for (const [, language, text = ''] of blocks)
      if (language === 'json') t.is(printed, text)
      else {
        const commands = text.replaceAll('http://localhost:8000', service.url)
        const { code, stdout, stderr } = await runToEnd('sh', ['-ec', commands], {
          ...process.env,
          TOKEN: token,
        })
        t.is(code, 0, stderr)
        t.notRegex(stdout, /"message":(?!"\d+ of)/, commands)
        printed = stdout
      }
  })

test.serial('introduction: its table has every operator, and each filter in it is accepted', async t => {
  const service = await startService()
  t.teardown(() => service.stop())
  const client = createClient(service.url)
  t.teardown(() => client.close())
  const { document } = await readContract(client)
  const introduction: string = document.info.description
  const [, table = ''] = introduction.split('## Filters')
  const filters = [...table.matchAll(/`([^`]+=[^`]+)`/g)].map(([, filter = '']) => filter)
  const names = document.paths['/v1/users']?.get?.parameters.map(({ name }) => name) ?? []
  t.deepEqual(
    [...new Set(filters.map(filter => filter.split('=')[0] ?? ''))]
      .filter(name => /^\w/.test(name) && !name.includes('*'))
      .sort(),
    names.filter(name => /^(id|last_name)(\[\w+])?$/.test(name)).sort(),
  )
  for (const filter of filters) {
    const { status, text } = await client.get(`/v1/users?${encodeURI(filter)}`)
    t.is(status, 200, text)
  }
})
