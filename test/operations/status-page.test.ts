// The status page in a real browser: drain and resume, traffic, outages and the Content-Security-Policy.
import { randomUUID } from 'node:crypto'
import test, { type ExecutionContext } from 'ava'
import { startBrowser } from '../support/browser.ts'
import { startLoad } from '../support/load.ts'
import { check, createOperator } from '../support/operator.ts'
import { connect } from '../support/raw.ts'
import { type Service, type ServiceOptions, startService } from '../support/service.ts'
import { atSteadyInterval } from '../support/steady-interval.ts'

const browser = await startBrowser()
test.after.always(() => browser.close())

async function start(t: ExecutionContext, options: ServiceOptions = {}): Promise<Service> {
  const service = await startService({ workers: 2, ...options })
  t.teardown(() => service.stop())
  return service
}

async function openPage(t: ExecutionContext, service: Service) {
  const opened = await browser.open(service.controlUrl)
  const { page } = opened
  t.teardown(() => page.close())
  return {
    ...opened,
    heading: (name: string) => page.getByRole('heading', { level: 1, name, exact: true }).waitFor(),
    /** Waits until the card of this port contains all of these texts. */
    card(label: string, ...texts: (string | RegExp)[]) {
      const card = page.getByRole('region', { name: `Port ${label}`, exact: true })
      return Promise.all(texts.map(text => card.filter({ hasText: text }).waitFor()))
    },
  }
}

test.serial('drain and resume: the page follows every state', async t => {
  const service = await start(t)
  const operator = createOperator(service)
  const { page, problems, loads, heading, card } = await openPage(t, service)
  await heading('All ports are serving')
  await card('http', 'No regular health checks')
  const body = JSON.stringify({ name: randomUUID() })
  const slow = await connect(service.port('http'))
  slow.write(`POST /v1/groups HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n`)
  slow.write(`Content-Length: ${body.length}\r\n\r\n`)
  await card('http', '1 in flight')

  await operator.becomeChecker('http', 'http', 4000)
  await card(
    'http',
    'serving',
    '200',
    `checks on ${operator.controlPort('http')}`,
    'by start',
    'Checked by 1 checker',
  )
  t.is(await page.title(), 'serving · users-api')
  await operator.run('drain', 'http by=<img/src=x>')
  await heading('http is draining')
  await card('http', 'draining', '404', 'mode 404', 'by <img/src=x>', '1 in flight')
  await card('https', 'serving', '200', '0 in flight')
  t.is(await page.title(), 'draining http · users-api')

  await card('http', '0 of 1 checker noticed', '127.0.0.1', 'not yet')
  await operator.health('http')
  await operator.health('http')
  await card('http', '1 of 1 checker noticed', '✓ noticed')
  const headers = { 'X-Haproxy-Server-State': 'DOWN 1/2' }
  await check(operator.controlPort('http'), '/healthcheck/http', { headers })
  await card('http', '1 of 1 proxy noticed', 'reports DOWN 1/2')
  slow.write(body)
  await heading('http is drained')
  t.is(await page.title(), 'drained http · users-api')
  await operator.run('drain', 'https:refuse')
  await card('https', 'drained', 'refused', 'other ports answer 404')

  await operator.run('resume', 'https')
  await operator.run('resume', 'http')
  await heading('All ports are serving')
  t.is(loads(), 1)
  t.deepEqual(problems, [])
})

test.serial(
  'header and states: the node and its version; no state wraps, and cards are compact on a phone',
  async t => {
    const service = await start(t, { env: { NODE_NAME: 'node-1' } })
    const operator = createOperator(service)
    const { page, heading, card } = await openPage(t, service)
    const { version } = await operator.status()
    await page.getByText(new RegExp(`^node-1 · users-api ${version.replaceAll('.', '\\.')} · \\d`)).waitFor()
    // A proxy is forgotten after three intervals, which are longer than this test.
    await atSteadyInterval(4000, async () => {
      for (const node of ['lb1', 'lb2']) {
        const headers = { 'X-Haproxy-Server-State': `UP; name=a/b; node=${node}` }
        await check(operator.controlPort('http'), '/healthcheck/http', { headers })
      }
      return (await operator.status()).ports.http?.checkers.length === 2
    })
    await card('http', 'Checked by 2 proxies', /reports UP.*reports UP/s)
    await card('http', /received 200 \d+ s ago.*received 200 \d+ s ago/s)
    await operator.run('drain', 'http')
    await operator.run('drain', 'https:refuse')
    await heading('http is drained, https is drained')
    await card('https', 'refused', 'other ports answer 404')
    /** The top and the bottom edge of an element of a card. */
    const edges = (label: string, selector: string) =>
      page
        .getByRole('region', { name: `Port ${label}`, exact: true })
        .locator(selector)
        .evaluate(element => {
          const { top, bottom } = element.getBoundingClientRect()
          return [Math.round(top), Math.round(bottom)] as const
        })
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 800 })
      for (const label of ['http', 'https']) {
        const [[top, bottom], [stateTop, stateBottom], [answerTop]] = [
          await edges(label, '[data-is=label]'),
          await edges(label, '.state'),
          await edges(label, '.answer'),
        ]
        t.true(stateTop < bottom && stateBottom > top, `${label} is beside its state at ${width} px`)
        t.true(answerTop < bottom, `${label} is beside its answer at ${width} px`)
      }
    }
    const height = await page.evaluate('document.documentElement.scrollHeight')
    t.true(Number(height) < 1300, `${height} px`)
  },
)

test.serial('traffic, workers, memory and pool are shown, also on a narrow screen', async t => {
  const service = await start(t)
  const { page, problems, card } = await openPage(t, service)
  const load = await startLoad({ url: service.url, clients: 4, pauseMs: 20 })
  t.teardown(load.stop)
  await card('http', /Requests per second[1-9]/, /p50 [\d.]+ m?s/, /p99 [\d.]+ m?s/, /Connections4/)
  for (const pid of await service.workers())
    await page.getByRole('row', { name: new RegExp(`^${pid} ready .* \\d+$`) }).waitFor()
  await page
    .getByRole('region', { name: 'Database connections' })
    .filter({ hasText: 'none waiting' })
    .waitFor()
  await page.locator('.plot path:not(.area)[d*=L]').first().waitFor({ state: 'attached' })
  await page.getByText('Change feed: 0 waiting readers, ').waitFor()
  const tops = await page
    .locator('#inside > *')
    .evaluateAll(boxes => boxes.map(box => box.getBoundingClientRect().top))
  t.is(new Set(tops).size, 1, 'workers, Redis and the pool are side by side')

  await page.setViewportSize({ width: 360, height: 740 })
  t.is(await page.evaluate('document.documentElement.scrollWidth'), 360)
  t.deepEqual(problems, [])
})

test.serial('Redis down: shown as unreachable, while all ports keep serving', async t => {
  const service = await start(t, { workers: 1, env: { REDIS_URL: 'redis://127.0.0.1:9' } })
  const { page, problems, heading } = await openPage(t, service)
  await heading('All ports are serving')
  await page.getByRole('region', { name: 'Redis' }).filter({ hasText: 'unreachable' }).waitFor()
  t.deepEqual(problems, [])
})

test.serial('supervisor down: the page shows since when, and recovers without a reload', async t => {
  const first = await start(t, { workers: 1 })
  const { page, problems, loads, heading } = await openPage(t, first)
  await heading('All ports are serving')
  // The clock of the computer is set back during a poll. The page goes on.
  const setBack = '{ const now = Date.now; Date.now = () => now() - 3_600_000 }'
  await page.route('**/status', route => page.evaluate(setBack).then(() => route.continue()), { times: 1 })
  for (let poll = 0; poll < 2; poll++) await page.waitForResponse('**/status')
  first.supervisor.kill('SIGKILL')
  await page.getByRole('heading', { level: 1, name: /^No answer since \d\d:\d\d:\d\d$/ }).waitFor()
  t.is(await page.title(), 'no answer · users-api')
  await page.getByRole('link', { name: String(first.port('https') + 1) }).waitFor()

  const ports = (['http', 'https'] as const).map(label => ({
    label,
    port: first.port(label),
    protocol: label,
  }))
  await start(t, { workers: 1, database: first.database, config: { ports } })
  await heading('All ports are serving')
  t.is(loads(), 1)
  t.deepEqual(
    problems.filter(problem => !/net::ERR_(CONNECTION|EMPTY)/.test(problem)),
    [],
  )
})

/** Actions that injected content would try; resolves with the CSP directives that blocked them. */
const attacks = `new Promise(resolve => {
  const blocked = new Set()
  const end = () => resolve([...blocked].sort())
  addEventListener('securitypolicyviolation', event => {
    if (blocked.add(event.effectiveDirective).size === 5) end()
  })
  // Not a wait: the deadline if a directive blocks nothing.
  setTimeout(end, 60_000)
  new Image().src = 'http://127.0.0.1:9/'
  fetch('http://127.0.0.1:9/').catch(() => {})
  document.body.append(Object.assign(document.createElement('iframe'), { src: 'http://127.0.0.1:9/' }))
  document.body.append(Object.assign(document.createElement('style'), { textContent: '* { display: none }' }))
  try { document.body.innerHTML = '<p>' } catch {}
})`

test.serial(
  'Content-Security-Policy: blocks injected markup, styles and requests to other hosts',
  async t => {
    const service = await start(t, { workers: 1 })
    const { page, heading } = await openPage(t, service)
    await heading('All ports are serving')
    t.deepEqual(await page.evaluate(attacks), [
      'connect-src',
      'frame-src',
      'img-src',
      'require-trusted-types-for',
      'style-src-elem',
    ])
    const answer = await check(service.port('http') + 1, '/', { method: 'HEAD' })
    if (answer === 'refused') return t.fail()
    t.is(answer.text, '')
    t.like(answer.headers, {
      'content-type': 'text/html; charset=utf-8',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
    })
    const policy = `${answer.headers['content-security-policy']}`
    t.regex(
      policy,
      /^default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-[^']+'; connect-src 'self'; /,
    )
  },
)
