// The certificates of the https ports: reads and checks them, and writes them to the desired state of the workers.
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import { createSecureContext } from 'node:tls'
import { generate } from 'selfsigned'
import type { Config, DataPortConfig } from '../config/config.ts'
import type { KeyPair } from '../core/messages.ts'
import { writeAtomically } from '../core/write-file.ts'
import type { DesiredStateStore } from './desired-state.ts'

const YEAR_MS = 365 * 86_400_000

/** @throws Error with the reason if the pair cannot be used */
function checkKeyPair({ certificate, key }: KeyPair): void {
  const parsed = new X509Certificate(certificate)
  if (!parsed.checkPrivateKey(createPrivateKey(key)))
    throw new Error('the key does not match the certificate')
  if (Date.parse(parsed.validTo) <= Date.now())
    throw new Error(`the certificate expired on ${parsed.validTo}`)
  createSecureContext({ cert: certificate, key })
}

/** Returns the self-signed certificate in `file`, which also holds its key. Generates it if it is missing or unusable. */
async function selfSigned(file: string): Promise<KeyPair> {
  try {
    const pem = await readFile(file, 'utf8')
    const pair = { certificate: pem, key: pem }
    checkKeyPair(pair)
    return pair
  } catch {
    const name = hostname()
    const generated = await generate([{ name: 'commonName', value: name }], {
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
    const pem = `${generated.private}\n${generated.cert}\n`
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

/** The fields by which an operator identifies a certificate. */
function describe({ certificate }: KeyPair): object {
  const { subject, validTo, fingerprint256 } = new X509Certificate(certificate)
  return { subject, valid_to: new Date(validTo).toISOString(), fingerprint: fingerprint256 }
}

/**
 * Reads the certificates into the desired state.
 * @returns a description of each certificate, by label
 * @throws Error that names the port and the fault of its certificate; then none has changed
 */
export async function loadCertificates(
  config: Pick<Config, 'ports' | 'stateFile'>,
  desired: DesiredStateStore,
): Promise<Record<string, object>> {
  const keyPairs = await readKeyPairs(config)
  desired.set({ keyPairs })
  return Object.fromEntries(Object.entries(keyPairs).map(([label, pair]) => [label, describe(pair)]))
}
