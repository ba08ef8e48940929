// The certificates of the https ports: read and checked by the supervisor, which hands them to every worker.
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import { createSecureContext } from 'node:tls'
import { generate } from 'selfsigned'
import type { Config, DataPortConfig } from '../config/config.ts'
import type { KeyPair } from '../core/messages.ts'
import { writeAtomically } from '../core/write-file.ts'

const YEAR_MS = 365 * 86_400_000

/** @throws Error that says why this pair cannot serve */
function checkKeyPair({ certificate, key }: KeyPair): void {
  const parsed = new X509Certificate(certificate)
  if (!parsed.checkPrivateKey(createPrivateKey(key)))
    throw new Error('the key belongs to another certificate')
  if (Date.parse(parsed.validTo) <= Date.now())
    throw new Error(`the certificate expired on ${parsed.validTo}`)
  createSecureContext({ cert: certificate, key })
}

/** A certificate of this machine's own making, one file with its key; made anew when it is missing or expired. */
async function selfSigned(file: string): Promise<KeyPair> {
  try {
    const pem = await readFile(file, 'utf8')
    const pair = { certificate: pem, key: pem }
    checkKeyPair(pair)
    return pair
  } catch {
    const name = hostname()
    const made = await generate([{ name: 'commonName', value: name }], {
      keyType: 'ec',
      algorithm: 'sha256',
      notAfterDate: new Date(Date.now() + YEAR_MS),
      extensions: [
        {
          name: 'subjectAltName',
          altNames: [
            { type: 2, value: 'localhost' },
            { type: 2, value: name },
            { type: 7, ip: '127.0.0.1' },
            { type: 7, ip: '::1' },
          ],
        },
      ],
    })
    const pem = `${made.private}\n${made.cert}\n`
    writeAtomically(file, pem)
    return { certificate: pem, key: pem }
  }
}

async function readKeyPair(port: DataPortConfig, folder: string): Promise<KeyPair> {
  if (typeof port.certificate !== 'string' || typeof port.key !== 'string')
    return selfSigned(join(folder, 'self-signed.pem'))
  const [certificate, key] = await Promise.all([
    readFile(port.certificate, 'utf8'),
    readFile(port.key, 'utf8'),
  ])
  checkKeyPair({ certificate, key })
  return { certificate, key }
}

async function readKeyPairs(config: Pick<Config, 'ports' | 'stateFile'>): Promise<Record<string, KeyPair>> {
  const pairs: Record<string, KeyPair> = {}
  for (const port of config.ports) {
    if (port.protocol !== 'https') continue
    try {
      pairs[port.label] = await readKeyPair(port, dirname(config.stateFile))
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      throw new Error(`the certificate of ${port.label} cannot be used: ${reason}`)
    }
  }
  return pairs
}

/** What an operator recognizes a certificate by. */
function describe({ certificate }: KeyPair): object {
  const { subject, validTo, fingerprint256 } = new X509Certificate(certificate)
  return { subject, valid_to: new Date(validTo).toISOString(), fingerprint: fingerprint256 }
}

/**
 * Reads the certificates; those of later workers are the same until they are read again.
 * @throws Error that names the port and what is wrong with its certificate
 */
export async function loadCertificates(config: Pick<Config, 'ports' | 'stateFile'>) {
  let pairs = await readKeyPairs(config)
  return {
    /** By label. */
    pairs: (): Readonly<Record<string, KeyPair>> => pairs,
    /**
     * Reads them again.
     * @returns what each one is, by label
     * @throws Error about a bad one: then none has changed
     */
    async reload(): Promise<Record<string, object>> {
      pairs = await readKeyPairs(config)
      return Object.fromEntries(Object.entries(pairs).map(([label, pair]) => [label, describe(pair)]))
    },
  }
}
