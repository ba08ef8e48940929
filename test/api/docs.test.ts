// The page at /v1/docs in a real browser: read, searched, tried out, under its policy.
import test, { type ExecutionContext } from 'ava'
import { startBrowser } from '../support/browser.ts'
import { createClient } from '../support/http.ts'
import { startService } from '../support/service.ts'

const service = await startService()
const client = createClient(service.url)
const browser = await startBrowser()
test.after.always(async () => {
  client.close()
  await browser.close()
  await service.stop()
})

async function openDocs(t: ExecutionContext, url = service.url) {
  const { page, problems } = await browser.open(`${url}/v1/docs`)
  t.teardown(() => page.close())
  await page.getByRole('heading', { level: 1, name: 'users-api' }).waitFor()
  await page.locator('.opblock').first().waitFor()

  return {
    page,
    problems,
    operations: () => page.locator('.opblock .opblock-summary-description').allTextContents(),

    /** Opens an operation, fills its fields in, sends it; gives the answer as it is shown. */
    async tryOut(id: string, fields: Record<string, string> = {}): Promise<string | null> {
      const operation = page.locator(`#operations-Users-${id}`)
      await operation.locator('.opblock-summary-control').click()
      await operation.getByRole('button', { name: 'Try it out' }).click()
      for (const [name, value] of Object.entries(fields))
        await operation.getByPlaceholder(name, { exact: true }).fill(value)
      await operation.getByRole('button', { name: 'Execute' }).click()
      const answer = operation.locator('.live-responses-table .response')
      await answer.waitFor()
      return answer.textContent()
    },
  }
}

for (const protocol of ['http', 'https'] as const)
  test(`it lists every operation, and tries them out, over ${protocol}`, async t => {
    const url = protocol === 'http' ? service.url : service.httpsUrl
    const { problems, operations, tryOut } = await openDocs(t, url)
    const shown = await operations()
    for (const summary of ['List users', 'Take one group from one user', 'Get this document'])
      t.true(shown.includes(summary), summary)

    const id = await client.create('/v1/users', { first_name: protocol, last_name: 'Lovelace' })
    const one = await tryOut('getUser', { id: String(id) })
    t.regex(`${one}`, new RegExp(`^200.*"first_name": "${protocol}"`, 's'))
    const none = await tryOut('listUsers', { 'groups[*].name[prefix]': 'x' })
    t.regex(`${none}`, /^200.*"total_records": 0/s)
    t.deepEqual(problems, [])
  })

test('a body is filled in as the example says, and stored', async t => {
  const { problems, tryOut } = await openDocs(t)
  const answer = await tryOut('createUser', { 'Request-Id': 'tried-out' })
  t.regex(`${answer}`, /^200.*"first_name": "Ada".*location: \/v1\/users\/\d+.*request-id: tried-out/s)
  t.deepEqual(problems, [])
})

test('a search keeps what has the phrase in anything that is said of it', async t => {
  const { page, problems, operations, tryOut } = await openDocs(t)
  await tryOut('listUsers')
  const search = page.getByLabel('Search')
  await search.fill('INVALID_BATCH')
  await page.getByText('List users').waitFor({ state: 'detached' })
  t.deepEqual(await operations(), [
    'Create one user or many',
    'Add groups to one user',
    'Create one group or many',
  ])
  await search.fill('membership_not')
  await page.getByText('Create one user').waitFor({ state: 'detached' })
  t.deepEqual(await operations(), ['Take one group from one user'])
  t.deepEqual(problems, [])
})

test('a search without a hit says so, and is cleared by a button or by Escape', async t => {
  const { page, problems } = await openDocs(t)
  const search = page.getByLabel('Search')
  const nothing = page.getByRole('status').filter({ hasText: "Nothing found for 'zzz'." })
  await search.fill('zzz')
  await nothing.getByRole('button', { name: 'Clear the search' }).click()
  await page.getByText('List users').waitFor()
  t.is(await search.inputValue(), '')

  await search.fill('zzz')
  await nothing.waitFor()
  await search.press('Escape')
  await page.getByText('List users').waitFor()
  t.deepEqual(problems, [])
})

test('an operation is read first, with an example of its parameters that is not sent', async t => {
  const { page, problems } = await openDocs(t)
  const operation = page.locator('#operations-Users-createUser')
  await operation.locator('.opblock-summary-control').click()
  await operation.getByText('Such as order-4711.').waitFor()
  await operation.getByText('Such as 8e03978e-40d5-43e8-bc93-6894a57f9324.').waitFor()
  t.is(await operation.getByRole('button', { name: 'Execute' }).count(), 0)
  await operation.getByRole('button', { name: 'Try it out' }).click()
  await operation.getByRole('button', { name: 'Execute' }).waitFor()
  t.is(await operation.getByPlaceholder('Idempotency-Key').inputValue(), '')
  t.deepEqual(problems, [])
})

test('the keyboard is seen, in the light and in the dark', async t => {
  const { page, problems } = await openDocs(t)
  const control = page.locator('#operations-Users-listUsers .opblock-summary-control')
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    await page.locator(colorScheme === 'dark' ? 'html.dark-mode' : 'html:not(.dark-mode)').waitFor()
    for (const one of [page.getByLabel('Search'), control]) {
      await one.focus()
      await page.keyboard.press('Tab')
      await page.keyboard.press('Shift+Tab')
      t.is(await page.evaluate('getComputedStyle(document.activeElement).outlineStyle'), 'solid', colorScheme)
    }
  }
  t.deepEqual(problems, [])
})

test('it fits a phone, and is dark for who wants that', async t => {
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

/** What somebody would try who could put something into the page. */
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

test('its policy lets nothing else in', async t => {
  const { page } = await openDocs(t)
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

test('a browser is sent what it accepts, and once', async t => {
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
})
