// The certificates of the https ports: reads and checks them, also when their files change, and writes them to the desired
// state of the workers.
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { createSecureContext } from 'node:tls'
import { isDeepStrictEqual } from 'node:util'
import type { Config, DataPortConfig } from '../config/config.ts'
import { reasonOf } from '../core/error-reason.ts'
import type { Log } from '../core/log.ts'
import type { KeyPair } from '../core/messages.ts'
import { createFaultLog } from '../core/repeat.ts'
import { writeAtomically } from '../core/write-file.ts'
import type { DesiredStateStore } from './desired-state.ts'

const CERTIFICATE_LINE = '-----BEGIN CERTIFICATE-----'

/** Parses the content of a file. OpenSSL's reason alone does not tell which file it is about. @param fault what is wrong with it */
function parse<T>(fault: string, content: () => T): T {
  try {
    return content()
  } catch (error) {
    throw new Error(`${fault} (${reasonOf(error)})`)
  }
}

/** @throws Error with the reason if the pair cannot be used */
function checkKeyPair({ certificate, key }: KeyPair): void {
  const first = parse('its file has no certificate in PEM', () => new X509Certificate(certificate))
  const privateKey = parse('the file of its key has no key in PEM without a passphrase', () =>
    createPrivateKey(key),
  )
  if (!first.checkPrivateKey(privateKey))
    throw new Error('the key does not match the certificate, which must be the first one in its file')
  // OpenSSL ignores such a line, and clients would not get the certificate that it begins.
  if (CERTIFICATE_LINE.startsWith(certificate.trimEnd().split('\n').at(-1) ?? ''))
    throw new Error('its file is incomplete: it ends where a further certificate begins')
  parse('its file and its key cannot be used for TLS', () => createSecureContext({ cert: certificate, key }))
}

/** Returns why clients reject the certificate at this time; undefined if they accept it. */
function untimely({ certificate }: KeyPair): string | undefined {
  const { validFrom, validTo } = new X509Certificate(certificate)
  if (Date.parse(validTo) <= Date.now()) return `the certificate expired on ${validTo}`
  if (Date.parse(validFrom) > Date.now()) return `the certificate is not valid before ${validFrom}`
  return undefined
}

/** Checks a pair that is to replace another one. @throws Error with the reason if the other one should stay */
function checkReplacement(pair: KeyPair): void {
  checkKeyPair(pair)
  const reason = untimely(pair)
  if (reason !== undefined) throw new Error(reason)
}

/** Returns the self-signed certificate in `file`, which also holds its key. Generates it if it is missing or unusable. */
export async function selfSigned(file: string): Promise<KeyPair> {
  try {
    const pem = await readFile(file, 'utf8')
    const pair = { certificate: pem, key: pem }
    checkReplacement(pair)
    return pair
  } catch {
    // Loaded only here: its packages are larger than the supervisor itself, and most starts need none of them.
    const { generateCertificate } = await import('./self-signed.ts')
    const pem = await generateCertificate()
    writeAtomically(file, pem)
    return { certificate: pem, key: pem }
  }
}

/** Reads the certificate of a port, which is self-signed if the settings name no files. */
async function readKeyPair({ certificate, key }: DataPortConfig, folder: string): Promise<KeyPair> {
  if (typeof certificate !== 'string' || typeof key !== 'string')
    return selfSigned(join(folder, 'self-signed.pem'))
  const [chain, privateKey] = await Promise.all([readFile(certificate, 'utf8'), readFile(key, 'utf8')])
  return { certificate: chain, key: privateKey }
}

/** The fields by which an operator identifies a certificate. */
function describe({ certificate }: KeyPair) {
  const { subject, subjectAltName = '', validTo, fingerprint256 } = new X509Certificate(certificate)
  return {
    // Some certificates have only alternative names. The types do not know that Node.js has no subject then.
    subject: subject || subjectAltName,
    valid_to: new Date(validTo).toISOString(),
    fingerprint: fingerprint256,
  }
}

type Description = ReturnType<typeof describe>

export type Certificates = ReturnType<typeof createCertificates>

export function createCertificates(
  config: Pick<Config, 'ports' | 'stateFile'>,
  log: Log,
  desired: DesiredStateStore,
) {
  const folder = dirname(config.stateFile)
  const httpsPorts = config.ports.filter(({ protocol }) => protocol === 'https')
  let descriptions: Readonly<Record<string, Description>> = {}
  const withFaultLog = createFaultLog(
    log,
    'changed certificate cannot be used, the old one stays',
    'the files of all certificates can be used again',
  )
  /** The faults of certificates that have been logged. */
  const reported = new Set<string>()

  /** Logs once for each certificate that clients reject it at this time: the service goes on, also for other ports. */
  function reportUntimely(): void {
    for (const [label, pair] of Object.entries(desired.current().keyPairs)) {
      const reason = untimely(pair)
      const key = `${reason} ${descriptions[label]?.fingerprint}`
      if (reason === undefined || reported.has(key)) continue
      reported.add(key)
      log.error({ label, reason }, 'clients REJECT the certificate: replace its files')
    }
  }

  /**
   * Reads the certificates of all ports, and uses those that are not in use yet. Contents are compared, so a swapped symbolic
   * link counts. The first certificate of a port may have expired: other ports need none.
   * @throws Error that names each port whose certificate cannot be used, and why: its old one stays
   */
  async function update(): Promise<void> {
    const faults: string[] = []
    for (const port of httpsPorts) {
      const { label } = port
      try {
        const pair = await readKeyPair(port, folder)
        const { keyPairs } = desired.current()
        if (isDeepStrictEqual(pair, keyPairs[label])) continue
        if (keyPairs[label] === undefined) checkKeyPair(pair)
        else checkReplacement(pair)
        desired.set({ keyPairs: { ...keyPairs, [label]: pair } })
        descriptions = { ...descriptions, [label]: describe(pair) }
      } catch (error) {
        faults.push(`the certificate of ${label} cannot be used: ${reasonOf(error)}`)
      }
    }
    if (faults.length > 0) throw new Error(faults.join('; '))
  }

  return {
    /**
     * Reads the certificates of all ports.
     * @returns a description of each one, by label
     * @throws Error that names each port whose certificate cannot be used, and why: its old one stays
     */
    async load(): Promise<Readonly<Record<string, Description>>> {
      await update()
      reportUntimely()
      return descriptions
    },
    /**
     * Uses the certificates whose files have changed. After a fault, the old certificates stay. A fault is logged unless it was the
     * same before, and so is the end of all faults. Also logs a certificate that clients reject at this time.
     */
    async refresh(): Promise<void> {
      const before = descriptions
      await withFaultLog(update)
      for (const [label, description] of Object.entries(descriptions))
        if (description !== before[label]) log.info({ label, ...description }, 'certificate changed')
      reportUntimely()
    },
    /** Returns when the port's certificate expires, ISO 8601; null without a certificate. */
    validTo: (label: string): string | null => descriptions[label]?.valid_to ?? null,
  }
}
