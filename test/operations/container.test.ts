// The files in config/container: HAProxy accepts its configuration; ports, paths, times and file names agree with each
// other, with the settings and with the code.
import { readFile } from 'node:fs/promises'
import test from 'ava'
import { evalArgs, moduleOf } from '../support/child-code.ts'
import { configFile, runTool } from '../support/config-tools.ts'
import { runToEnd } from '../support/run-to-end.ts'

const readContainerFile = (name: string) => readFile(configFile(`container/${name}`), 'utf8')
const dockerfile = await readContainerFile('Dockerfile')

/** The settings of the service in the image. */
async function imageSettings() {
  const NODE_CONFIG = /NODE_CONFIG='(.*)'/.exec(dockerfile)?.[1] ?? ''
  const code = `
    const { loadConfig } = await import('${moduleOf('config/config')}')
    console.log(JSON.stringify(await loadConfig()))`
  const { stdout, stderr } = await runToEnd(process.execPath, [...evalArgs, code], {
    PATH: process.env.PATH,
    NODE_ENV: 'production',
    NODE_CONFIG,
  })
  if (stdout === '') throw new Error(stderr)
  const { host, control, ports, drain } = JSON.parse(stdout)
  const [{ label, port }] = ports
  return { host, control, label, port, controlPort: port + control.offset, ports, drain }
}

/** The seconds that the first group of `pattern` matches in the file. */
async function secondsIn(name: string, pattern: RegExp): Promise<number> {
  return Number(pattern.exec(await readContainerFile(name))?.[1])
}

test('image: its settings are valid in production; other machines reach both ports', async t => {
  const { host, control, ports } = await imageSettings()
  t.is(host, '0.0.0.0')
  t.is(control.host, '0.0.0.0')
  t.is(ports.length, 1)
})

test('ports and paths: those of the image, HAProxy, Compose and Kubernetes are the same', async t => {
  const { label, port, controlPort } = await imageSettings()
  t.regex(dockerfile, new RegExp(`^EXPOSE ${port} ${controlPort}$`, 'm'))
  t.regex(dockerfile, new RegExp(`http://127\\.0\\.0\\.1:${controlPort}/livez`))

  const haproxy = await readContainerFile('haproxy.cfg')
  t.regex(haproxy, new RegExp(`^ +http-check send meth GET uri /healthcheck/${label}$`, 'm'))
  t.regex(haproxy, new RegExp(`check port ${controlPort} `))
  t.regex(haproxy, new RegExp(`^ +server-template .* users-api:${port}$`, 'm'))

  const kubernetes = await readContainerFile('kubernetes.yaml')
  t.regex(kubernetes, new RegExp(`name: http, containerPort: ${port} `))
  t.regex(kubernetes, new RegExp(`name: control, containerPort: ${controlPort} `))
  for (const [probe, path] of [
    ['liveness', '/livez'],
    ['readiness', '/readyz'],
  ])
    t.regex(kubernetes, new RegExp(`${probe}Probe:\n +httpGet: { path: ${path}, port: control }`))
  t.regex(
    kubernetes,
    new RegExp(` dist/ops\\.js drain ${label} && node dist/ops\\.js wait ${label}\\]$`, 'm'),
  )
})

test('times: a stop and a preStop end within their grace periods', async t => {
  const { delayMs, deadlineMs } = (await imageSettings()).drain
  const compose = await secondsIn('compose.yaml', /^ +stop_grace_period: (\d+)s$/m)
  t.true(1000 * compose > delayMs + deadlineMs)
  const kubernetes = await secondsIn('kubernetes.yaml', /^ +terminationGracePeriodSeconds: (\d+)$/m)
  t.true(1000 * kubernetes > deadlineMs + delayMs + deadlineMs)
  const readme = await secondsIn('README.md', /--stop-timeout (\d+) /)
  t.true(1000 * readme > delayMs + deadlineMs)
})

test('image: keeps the files of swagger-ui that the service uses', async t => {
  const routes = await readFile(configFile('../src/api/docs/docs-routes.ts'), 'utf8')
  const used = [...routes.matchAll(/swaggerUiFolder, '(.+?)'/g)].map(([, name = '']) => name)
  t.true(used.length > 0)
  for (const name of ['package.json', ...used]) t.true(dockerfile.includes(`! -name ${name} `), name)
})

test('HAProxy: accepts haproxy.cfg', async t => {
  await runTool(t, 'haproxy', ['-c', '-f', configFile('container/haproxy.cfg')])
  t.pass()
})
