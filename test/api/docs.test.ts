// The documentation page at /v1/docs in a real browser: contents, search, requests, layout and Content-Security-Policy.
import test, { type ExecutionContext } from 'ava'
import { startBrowser } from '../support/browser.ts'
import { sectionOf } from '../support/documents.ts'
import { createClient } from '../support/http.ts'
import { apiKey } from '../support/issuer.ts'
import { startService } from '../support/service.ts'
import { until } from '../support/until.ts'

const service = await startService()
const token = 'writer-token'
const guarded = await startService({
  database: service.database,
  config: { auth: { keys: [apiKey('writer', 'write', token)] } },
})
const client = createClient(service.url)
const browser = await startBrowser()
test.after.always(async () => {
  client.close()
  await browser.close()
  await guarded.stop()
  await service.stop()
})

async function loadDocs(url: string) {
  const { page, problems } = await browser.open(`${url}/v1/docs`)
  await page.getByRole('heading', { level: 1, name: 'users-api' }).waitFor()
  await page.locator('.opblock').first().waitFor()

  return {
    page,
    problems,
    operations: () => page.locator('.opblock .opblock-summary-description').allTextContents(),

    /**
     * Opens an operation, fills in its fields and sends the request.
     * @param fields the values by parameter name; names with brackets are filters, which are folded
     * @returns the text of the displayed response
     */
    async tryOut(id: string, fields: Record<string, string> = {}): Promise<string | null> {
      const operation = page.locator(`.opblock[id$="-${id}"]`)
      await operation.locator('.opblock-summary-control').click()
      await operation.getByRole('button', { name: 'Try it out' }).click()
      if (Object.keys(fields).some(name => name.includes('[')))
        await operation.getByRole('button', { name: 'Show the filters' }).click()
      for (const [name, value] of Object.entries(fields))
        await operation.getByPlaceholder(name, { exact: true }).first().fill(value)
      await operation.getByRole('button', { name: 'Execute' }).click()
      const answer = operation.locator('.live-responses-table .response')
      await answer.waitFor()
      return answer.textContent()
    },
  }
}

/** Opens a page for one test. */
async function openDocs(t: ExecutionContext, url = service.url) {
  const docs = await loadDocs(url)
  t.teardown(() => docs.page.close())
  return docs
}

let shared: ReturnType<typeof loadDocs> | undefined
/**
 * Returns the page for tests that do not disturb each other: each opens operations of its own, or none, and clears its search.
 * Loading the page takes two seconds of processor time.
 */
const sharedDocs = () => (shared ??= loadDocs(service.url))

for (const protocol of ['http', 'https'] as const)
  test.serial(`page: lists the operations and sends requests, over ${protocol}`, async t => {
    const url = protocol === 'http' ? service.url : service.httpsUrl
    const { problems, operations, tryOut } = await openDocs(t, url)
    const shown = await operations()
    for (const summary of ['List users', 'Remove a user from a group', 'Get the OpenAPI document'])
      t.true(shown.includes(summary), summary)

    const id = await client.create('/v1/users', { first_name: protocol, last_name: 'Lovelace' })
    const one = await tryOut('getUser', { user_id: String(id) })
    t.regex(`${one}`, new RegExp(`^200.*"first_name": "${protocol}"`, 's'))
    const none = await tryOut('listUsers', { id: '!1', 'groups[*].name[prefix]': 'x' })
    t.regex(`${none}`, /^200.*"total_records": 0/s)
    t.deepEqual(problems, [])
  })

test.serial('page: the example body is prefilled and can be sent', async t => {
  const { problems, tryOut } = await sharedDocs()
  const answer = await tryOut('createUser', { 'Request-Id': 'tried-out' })
  t.regex(`${answer}`, /^200.*"first_name": "Ada".*location: \/v1\/users\/\d+.*request-id: tried-out/s)
  t.deepEqual(problems, [])
})

test.serial('page: the commands of the introduction have the address of the server', async t => {
  const { page, problems } = await sharedDocs()
  const [first = ''] = await page.locator('.info pre code').allTextContents()
  t.true(first.startsWith(`curl -s ${service.url}/v1/users `), first)
  t.false((await page.locator('.info').textContent())?.includes('localhost:8000'))
  t.deepEqual(problems, [])
})

test.serial(
  'page: the filters of a collection are folded, and stay as they are while they are hidden',
  async t => {
    const { page, problems, tryOut } = await openDocs(t)
    await tryOut('listUsers', { 'first_name[prefix]': 'x' })
    const operation = page.locator('#operations-Users-listUsers')
    const filter = operation.getByPlaceholder('first_name[prefix]')
    await operation.getByRole('button', { name: 'Hide the filters' }).click()
    await filter.waitFor({ state: 'hidden' })
    for (const name of ['start_index', 'If-None-Match'])
      t.true(await operation.getByPlaceholder(name).isVisible(), name)
    await operation.getByRole('button', { name: 'Show the filters' }).click()
    t.is(await filter.inputValue(), 'x')

    await page.locator('#operations-Users-getUser .opblock-summary-control').click()
    await page.locator('#operations-Users-deleteUsers .opblock-summary-control').click()
    await page.locator('#operations-Users-deleteUsers tr[data-param-name="id"]').waitFor()
    t.is(await page.getByRole('button', { name: 'the filters' }).count(), 1)
    t.deepEqual(problems, [])
  },
)

test.serial('page: the users of a group can be added and listed', async t => {
  const { problems, tryOut } = await sharedDocs()
  const group = String(await client.create('/v1/groups', { name: 'of the page' }))
  await client.create('/v1/users', { first_name: 'First', last_name: 'user' })
  t.regex(`${await tryOut('addGroupUsers', { group_id: group })}`, /^200.*"id": 1/s)
  const list = await tryOut('listGroupUsers', { group_id: group, start_index: '0' })
  t.regex(`${list}`, /^200.*"id": 1,.*"total_records": 1/s)
  t.deepEqual(problems, [])
})

test.serial('authorize: a token that is entered is sent with each request, until the log-out', async t => {
  const { page, problems, tryOut } = await openDocs(t, guarded.url)
  const refused = await tryOut('getUser', { user_id: '1' })
  t.regex(`${refused}`, /^401.*"code": "unauthorized".*www-authenticate: Bearer/s)
  t.true(
    problems.every(problem => problem.includes('401 (Unauthorized)')),
    problems.join(),
  )

  t.false(await page.getByText('Servers').isVisible())
  const dialog = page.locator('.dialog-ux')
  await page.getByRole('button', { name: 'Authorize', exact: true }).click()
  await dialog.getByLabel('auth-bearer-value').fill(token)
  await dialog.getByRole('button', { name: 'Apply credentials' }).click()
  await dialog.getByRole('button', { name: 'Close' }).first().click()
  const accepted = await tryOut('listUsers')
  t.regex(`${accepted}`, /^200/)

  await page.getByRole('button', { name: 'Authorize', exact: true }).click()
  await dialog.getByRole('button', { name: 'Remove authorization' }).click()
  await dialog.getByRole('button', { name: 'Close' }).first().click()
  const sent = page.waitForResponse('**/v1/users?*')
  await page.locator('#operations-Users-listUsers').getByRole('button', { name: 'Execute' }).click()
  t.is((await sent).status(), 401)
  // Chromium reports each 401 as a problem. The policy of the page causes none.
  t.true(
    problems.every(problem => problem.includes('401 (Unauthorized)')),
    problems.join(),
  )
})

test.serial('authorize: a page of an open API offers nothing to enter', async t => {
  const { page } = await sharedDocs()
  t.is(await page.getByRole('button', { name: 'Authorize' }).count(), 0)
  t.false(await page.locator('.scheme-container').isVisible())
})

test.serial('search: keeps the operations with the phrase in their path or description', async t => {
  const { page, problems, operations, tryOut } = await openDocs(t)
  await tryOut('listUsers')
  const search = page.getByLabel('Search')
  await search.fill('INVALID_BATCH')
  await page.getByText('List users').waitFor({ state: 'detached' })
  t.deepEqual((await operations()).toSorted(), [
    'Add a user to groups',
    'Add users to a group',
    'Create a group or a batch of groups',
    'Create a user or a batch of users',
    'Update several groups',
    'Update several users',
  ])
  await search.fill('membership_not')
  await page.getByText('Create a user or a batch').waitFor({ state: 'detached' })
  t.deepEqual((await operations()).toSorted(), [
    'Remove a user from a group',
    'Remove a user from several groups',
    'Remove several users from a group',
  ])
  t.deepEqual(problems, [])
})

test.serial('search: without results shows a message; a button or Escape clears it', async t => {
  const { page, problems } = await sharedDocs()
  const search = page.getByLabel('Search')
  const message = page.getByRole('status').filter({ hasText: "Nothing found for 'zzz'." })
  await search.fill('zzz')
  await message.getByRole('button', { name: 'Clear the search' }).click()
  await page.getByText('List users').waitFor()
  t.is(await search.inputValue(), '')

  await search.fill('zzz')
  await message.waitFor()
  await search.press('Escape')
  await page.getByText('List users').waitFor()
  t.deepEqual(problems, [])
})

test.serial(
  'page: an operation opens for reading; the examples of its parameters are shown but not sent',
  async t => {
    const { page, problems } = await openDocs(t)
    const operation = page.locator('#operations-Users-createUser')
    await operation.locator('.opblock-summary-control').click()
    await operation.getByText('For example, order-4711.').waitFor()
    await operation.getByText('For example, {{$guid}}.').waitFor()
    t.is(await operation.getByRole('button', { name: 'Execute' }).count(), 0)
    await operation.getByRole('button', { name: 'Try it out' }).click()
    await operation.getByRole('button', { name: 'Execute' }).waitFor()
    t.is(await operation.getByPlaceholder('Idempotency-Key').inputValue(), '')
    t.deepEqual(problems, [])
  },
)

test.serial('page: the focused element has an outline, in light and in dark mode', async t => {
  const { page, problems } = await sharedDocs()
  const control = page.locator('#operations-Users-listUsers .opblock-summary-control')
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    await page.locator(colorScheme === 'dark' ? 'html.dark-mode' : 'html:not(.dark-mode)').waitFor()
    for (const element of [page.getByLabel('Search'), control]) {
      await element.focus()
      await page.keyboard.press('Tab')
      await page.keyboard.press('Shift+Tab')
      t.is(await page.evaluate('getComputedStyle(document.activeElement).outlineStyle'), 'solid', colorScheme)
    }
  }
  await page.emulateMedia({ colorScheme: null })
  t.deepEqual(problems, [])
})

test.serial('page: fits a phone screen and follows the preferred color scheme', async t => {
  const { page, problems } = await openDocs(t)
  await page.setViewportSize({ width: 360, height: 740 })
  for (const id of ['listUsers', 'createUser', 'updateUser'])
    await page.locator(`#operations-Users-${id} .opblock-summary-control`).click()
  await page.getByRole('button', { name: 'Try it out' }).nth(2).waitFor()
  for (let at = 0; at < 3; at++) await page.getByRole('button', { name: 'Try it out' }).first().click()
  await page.getByRole('button', { name: 'Execute' }).nth(2).waitFor()
  t.is(await page.evaluate('document.documentElement.scrollWidth'), 360)

  const background = () => page.evaluate('getComputedStyle(document.body).backgroundColor')
  const light = await background()
  await page.emulateMedia({ colorScheme: 'dark' })
  await page.locator('html.dark-mode').waitFor()
  t.not(await background(), light)
  t.deepEqual(problems, [])
})

test.serial('page: its own buttons have the color of the text, in light and in dark mode', async t => {
  const { page, problems } = await openDocs(t)
  const colorOf = (selector: string): Promise<unknown> =>
    page.evaluate(`getComputedStyle(document.querySelector('${selector}')).color`)
  await page.locator('#operations-Users-listUsers .opblock-summary-control').click()
  await page.getByRole('button', { name: 'Show the filters' }).waitFor()
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    await page.locator(colorScheme === 'dark' ? 'html.dark-mode' : 'html:not(.dark-mode)').waitFor()
    // Buttons change their color gradually.
    await until(async () => (await colorOf('.filters .btn')) === (await colorOf('.parameters p')))
  }
  t.deepEqual(problems, [])
})

// The last tests on the shared page: Chromium reports what they provoke as problems.
test.serial('guide: its EventSource comes back after a response with an error', async t => {
  const { page } = await sharedDocs()
  const section = sectionOf('src/api/README.md', 'Keep another system in step')
  const [, follow = ''] = /^```js\n(.*?)^```$/ms.exec(section) ?? []
  const { text } = await client.get('/v1/changes?after=latest')
  const [, after = ''] = /after=(\d+)/.exec(text) ?? []
  await page.route(/changes\?/, route => route.fulfill({ status: 503 }), { times: 1 })
  const event = page.evaluate(`new Promise(resolve => (${follow})(${after}, resolve))`)
  const user_id = await client.create('/v1/users', { first_name: 'Ada', last_name: 'EventSource' })
  t.like(await event, { type: 'user.created', user_id })
})

/** Content that an attacker could inject. Resolves with the directives that block it. */
const attacks = `new Promise(resolve => {
  const blocked = new Set()
  addEventListener('securitypolicyviolation', event => {
    if (blocked.add(event.effectiveDirective).size === 5) resolve([...blocked].sort())
  })
  const elsewhere = 'http://127.0.0.1:9/'
  const add = (name, properties) => document.body.append(Object.assign(document.createElement(name), properties))
  add('script', { textContent: 'document.title = 1' })
  add('style', { textContent: '* { display: none }' })
  add('iframe', { src: elsewhere })
  add('img', { src: elsewhere })
  fetch(elsewhere).catch(() => {})
})`

test.serial('policy: blocks inline code and other origins', async t => {
  const { page } = await sharedDocs()
  t.deepEqual(await page.evaluate(attacks), [
    'connect-src',
    'frame-src',
    'img-src',
    'script-src-elem',
    'style-src-elem',
  ])
  const { headers } = await client.get('/v1/docs')
  t.is(
    headers['content-security-policy'],
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  )
})

test.serial(
  'files: respect Accept, support HEAD, and return 304 to a client with the current version',
  async t => {
    const accept = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
    const page = await client.get('/v1/docs', { accept })
    t.like(page, { status: 200, headers: { 'content-type': 'text/html; charset=utf-8' } })
    t.is((await client.get('/v1/docs', { accept: 'application/json' })).status, 406)

    const script = '/v1/docs/swagger-ui-bundle.js'
    const first = await client.get(script)
    t.like(first.headers, { 'content-type': 'text/javascript; charset=utf-8', 'cache-control': 'no-cache' })
    t.is(first.headers['content-length'], String(Buffer.byteLength(first.text)))
    const again = await client.get(script, { 'if-none-match': first.headers.etag })
    t.like(again, { status: 304, text: '' })
    const head = await client.send('HEAD', script)
    t.like(head, { status: 200, text: '' })
    t.is(head.headers['content-length'], first.headers['content-length'])
  },
)
