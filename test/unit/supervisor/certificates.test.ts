// What the log says about certificates while the service runs.
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { createLog } from '../../../src/core/log.ts'
import { createCertificates } from '../../../src/supervisor/certificates.ts'
import { createDesiredState } from '../../../src/supervisor/desired-state.ts'
import { generateCertificate } from '../../../src/supervisor/self-signed.ts'
import { folder } from '../../support/folder.ts'

const dayMs = 86_400_000

/** Returns a file with a certificate of a year and its key, certificates that read it, and the lines that they log. */
async function prepare(t: ExecutionContext) {
  const file = join(folder(t), 'both.pem')
  const pem = await generateCertificate()
  writeFileSync(file, pem)
  const lines: string[] = []
  const add = (_: object | string, text = _) => lines.push(String(text))
  const log = Object.assign(createLog('silent', 'supervisor'), { info: add, error: add })
  const ports = [{ label: 'https', port: 443, protocol: 'https' as const, certificate: file, key: file }]
  const open = () => createCertificates({ ports, stateFile: file }, log, createDesiredState('silent', {}))
  return { file, pem, open, takeLines: () => lines.splice(0) }
}

test.serial(
  'certificates: that one has expired is logged once, while the service runs and at a start',
  async t => {
    const { open, takeLines } = await prepare(t)
    const certificates = open()
    await certificates.load()
    await certificates.refresh()
    t.deepEqual(takeLines(), [])
    const { now } = Date
    t.teardown(() => {
      Date.now = now
    })
    Date.now = () => now() + 400 * dayMs
    for (let reads = 0; reads < 2; reads++) await certificates.refresh()
    const rejected = ['clients REJECT the certificate: replace its files']
    t.deepEqual(takeLines(), rejected)
    await open().load()
    t.deepEqual(takeLines(), rejected)
  },
)

test.serial('certificates: the same fault is logged again after its end, and its end once', async t => {
  const { file, pem, open, takeLines } = await prepare(t)
  const certificates = open()
  await certificates.load()
  for (let rounds = 0; rounds < 2; rounds++) {
    rmSync(file)
    for (let reads = 0; reads < 2; reads++) await certificates.refresh()
    t.deepEqual(takeLines(), ['changed certificate cannot be used, the old one stays'])
    writeFileSync(file, pem)
    for (let reads = 0; reads < 2; reads++) await certificates.refresh()
    t.deepEqual(takeLines(), ['the files of all certificates can be used again'])
  }
})
