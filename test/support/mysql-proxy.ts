// A proxy in front of MySQL that answers one chosen statement with an error, or cuts its connection.
import type net from 'node:net'
import { openTcpProxy } from './tcp-proxy.ts'

/** The content of an ERR packet. */
export interface Refusal {
  readonly errno: number
  readonly sqlState: string
  readonly message?: string
}

/**
 * A refused statement does not reach the server, nor does one with `no rows`, which succeeds without having changed a row.
 * `cut before`: the connection ends before the server receives the
 * statement. `cut after`: the server executes the statement, but the connection ends before its answer. `no answer`: the server
 * does not receive the statement, and the connection stays open.
 */
export type Fault = Refusal | 'no rows' | 'cut before' | 'cut after' | 'no answer'

export const interrupted: Refusal = { errno: 1317, sqlState: '70100' }

const HEADER_BYTES = 4
const COM_QUERY = 3

/** Returns the text of a COM_QUERY packet, with its command byte and query attributes; undefined for others. */
function statementIn(bytes: Buffer): string | undefined {
  if (bytes.length <= HEADER_BYTES || bytes[3] !== 0 || bytes[HEADER_BYTES] !== COM_QUERY) return undefined
  return bytes.toString('utf8', HEADER_BYTES + 1)
}

/** Returns the packet of an answer: OK without rows, or ERR. */
function answerOf(fault: Refusal | 'no rows'): Buffer {
  if (fault === 'no rows') return Buffer.from([7, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0])
  const payload = Buffer.from(`\xff__#${fault.sqlState}${fault.message ?? 'refused by the proxy'}`, 'latin1')
  payload.writeUInt16LE(fault.errno, 1)
  const header = Buffer.from([0, 0, 0, 1])
  header.writeUIntLE(payload.length, 0, 3)
  return Buffer.concat([header, payload])
}

/** Opens a proxy to the MySQL server of `url`. */
export async function openMysqlProxy(url: string) {
  let armed: { statement: RegExp; fault: Fault; times: number; unless: RegExp | undefined } | undefined
  let struck = 0
  const withoutAnswer = new Set<net.Socket>()
  /** The statements of each connection since its last BEGIN. */
  const transactions = new WeakMap<net.Socket, string>()

  /** Returns the fault of a packet to the server, if it is the chosen statement. */
  function faultOf(bytes: Buffer, client: net.Socket): Fault | undefined {
    const statement = statementIn(bytes)
    if (statement === undefined) return undefined
    const transaction = (statement.includes('BEGIN') ? '' : (transactions.get(client) ?? '')) + statement
    transactions.set(client, transaction)
    if (armed === undefined || !armed.statement.test(statement) || armed.unless?.test(transaction))
      return undefined
    const { fault } = armed
    struck++
    if (--armed.times === 0) armed = undefined
    return fault
  }

  const proxy = await openTcpProxy(url, (to, bytes, client) => {
    if (to === 'client') {
      if (withoutAnswer.delete(client)) client.destroy()
      return !client.destroyed
    }
    const fault = faultOf(bytes, client)
    if (fault === undefined) return true
    if (fault === 'cut after') withoutAnswer.add(client)
    else if (fault === 'cut before') client.destroy()
    else if (fault !== 'no answer') client.write(answerOf(fault))
    return fault === 'cut after'
  })

  const through = new URL(url)
  through.searchParams.delete('socketPath')
  through.host = `127.0.0.1:${proxy.port}`
  return {
    url: through.href,
    proxy,
    /**
     * Applies `fault` to the next `times` statements that match `statement`, on all connections.
     * @param unless matches a statement of the transactions without the fault
     */
    arm(statement: RegExp, fault: Fault, times = 1, unless?: RegExp): void {
      armed = { statement, fault, times, unless }
      struck = 0
    },
    disarm(): void {
      armed = undefined
    },
    /** Returns how many statements had the fault since `arm`. */
    struck: () => struck,
  }
}
