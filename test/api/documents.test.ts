// The commands of the documents, pasted into a shell in the documents' order, print what the documents show.
import test from 'ava'
import { readDocument, sectionOf, stepsOf } from '../support/documents.ts'
import { runToEnd } from '../support/run-to-end.ts'
import { startService } from '../support/service.ts'

/** Request ids differ, and Node.js keeps the CR of a header line. */
const comparable = (text: string) =>
  text
    .replaceAll('\r', '')
    .replaceAll(/"request_id":"[^"]+"/g, '"request_id":"…"')
    .trim()

const texts = {
  'README.md, the tour': sectionOf('README.md', 'A tour'),
  'src/api/README.md': readDocument('src/api/README.md'),
  'config/README.md, maintenance': sectionOf('config/README.md', 'Maintenance'),
  'config/README.md, import': sectionOf('config/README.md', 'Import'),
}

test('documents: their commands print what they show', async t => {
  const service = await startService()
  t.teardown(() => service.stop())
  const port = service.port('http')
  const here = (text: string) =>
    text
      .replaceAll(/\b(localhost|127\.0\.0\.1):8000\b/g, `$1:${port}`)
      .replaceAll(/\blocalhost:8001\b/g, `localhost:${port + 1}`)
  const settings = {
    ports: [{ label: 'http', port, protocol: 'http' }],
    control: { socket: service.socket },
  }
  const env = {
    ...process.env,
    NODE_ENV: 'test',
    NODE_CONFIG: JSON.stringify(settings),
    // npm prints no names of scripts.
    npm_config_loglevel: 'silent',
  }
  for (const [title, text] of Object.entries(texts)) {
    const steps = stepsOf(text)
    t.true(steps.length > 0, title)
    for (const { commands, output } of steps) {
      const outcome = await runToEnd('bash', ['-euo', 'pipefail', '-c', here(commands)], env)
      t.is(outcome.code, 0, `${title}: ${commands}${outcome.stdout}${outcome.stderr}`)
      if (output !== undefined)
        t.is(comparable(outcome.stdout), comparable(here(output)), `${title}: ${commands}`)
    }
  }
})
