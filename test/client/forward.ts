// Forwards each change to another address, as a webhook or a queue would get it: in order, and at least once.
import { readFile, rename, writeFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'

const [service = '', target = '', file = 'position'] = process.argv.slice(2)
let after = await readFile(file, 'utf8').catch(() => '0')
for (;;) {
  const page = await fetch(`${service}/v1/changes?after=${after}&wait=30`).catch(() => undefined)
  if (page?.status === 410) throw new Error(`the changes after ${after} are gone: copy the collections again`)
  const { changes = [] } = page?.ok ? JSON.parse(await page.text()) : {}
  for (const change of changes) {
    const body = JSON.stringify(change)
    while (!(await fetch(target, { method: 'POST', body }).catch(() => undefined))?.ok) await delay(1000)
    after = String(change.id)
    await writeFile(`${file}.new`, after)
    await rename(`${file}.new`, file)
  }
  if (!page?.ok) await delay(1000)
}
