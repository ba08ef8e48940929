// Forwards each change to another address, as a webhook or a queue would get it: in order, and at least once.
import { readFile, rename, writeFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'

const [service = '', target = '', file = 'position'] = process.argv.slice(2)
let after = await readFile(file, 'utf8').catch(() => '') // Without it, from the oldest change on.
for (;;) {
  const page = await fetch(`${service}/v1/changes?wait=30${after && `&after=${after}`}`).catch(() => null)
  if (/^4(?!29|08)/.test(`${page?.status}`)) throw new Error(await page?.text()) // 410: copy all again.
  const body = page?.ok ? await page.json().catch(() => undefined) : undefined
  for (const change of body?.changes ?? []) {
    const headers = { 'Content-Type': 'application/json' }
    const sent = { method: 'POST', headers, body: JSON.stringify(change) }
    while (!(await fetch(target, sent).catch(() => null))?.ok) await delay(1000)
    after = String(change.id)
    await writeFile(`${file}.new`, after)
    await rename(`${file}.new`, file)
  }
  if (body === undefined) await delay(1000)
}
