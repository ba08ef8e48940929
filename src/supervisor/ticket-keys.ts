// The keys of the TLS session tickets that several nodes share: derived from the secret in a file and from the time, so that
// the nodes agree without a message and no key is used for long.
import { hkdfSync } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Config } from '../config/config.ts'
import { hasCode, reasonOf } from '../core/error-reason.ts'
import type { Log } from '../core/log.ts'
import { createFaultLog } from '../core/repeat.ts'
import type { DesiredStateStore } from './desired-state.ts'

const KEY_BYTES = 48
const MIN_SECRET_BYTES = 32
/** A session cannot be resumed after the key has changed: with a shorter period, more clients need a full handshake. */
const PERIOD_MS = 3_600_000

/** Derives the keys of the period that contains `nowMs`, in milliseconds since 1970 (HKDF, RFC 5869). */
export function deriveTicketKeys(secret: Uint8Array, nowMs: number): Buffer {
  const info = `users-api TLS session tickets ${Math.floor(nowMs / PERIOD_MS)}`
  return Buffer.from(hkdfSync('sha256', secret, '', info, KEY_BYTES))
}

async function readSecret(file: string): Promise<Buffer> {
  const secret = await readFile(file).catch((error: unknown) => {
    // The message of this error does not name the file.
    throw hasCode(error, 'EISDIR') ? new Error(`${file} is a folder`) : error
  })
  if (secret.length < MIN_SECRET_BYTES)
    throw new Error(
      `${file} has ${secret.length} bytes; it needs at least ${MIN_SECRET_BYTES} random bytes, such as from openssl rand -out ${file} ${KEY_BYTES}`,
    )
  return secret
}

/** Without `tls.ticketKeyFile`, it does nothing: the workers keep the random keys of the desired state. */
export function createTicketKeys({ tls }: Pick<Config, 'tls'>, log: Log, desired: DesiredStateStore) {
  const { ticketKeyFile } = tls
  let secret: Uint8Array = new Uint8Array()
  const withFaultLog = createFaultLog(
    log,
    'changed TLS ticket key cannot be used, the old one stays',
    'the file of the TLS ticket key can be used again',
  )

  function use(): void {
    const ticketKeys = deriveTicketKeys(secret, Date.now()).toString('base64')
    if (ticketKeys !== desired.current().ticketKeys) desired.set({ ticketKeys })
  }

  return {
    /** Reads the file and writes the keys to the desired state. @throws Error that names the setting */
    async load(): Promise<void> {
      if (ticketKeyFile === null) return
      secret = await readSecret(ticketKeyFile).catch((error: unknown) => {
        throw new Error(`tls.ticketKeyFile cannot be used: ${reasonOf(error)}`)
      })
      use()
    },
    /** Reads the file again, and derives the keys of the period. A fault is logged once, and so is its end; the old secret stays. */
    async refresh(): Promise<void> {
      if (ticketKeyFile === null) return
      await withFaultLog(async () => {
        const found = await readSecret(ticketKeyFile)
        if (!found.equals(secret)) log.info('TLS ticket key changed')
        secret = found
      })
      use()
    },
  }
}
