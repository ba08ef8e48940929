// Remembers the clients that check the health of a port at a steady interval, such as proxies, and the last response to
// each. Operators see from it whether a proxy has noticed a drain. A client that checks only now and then is not listed.
import * as z from 'zod'
import type { Moment } from '../port-states.ts'

/** Limit of clients per port. */
const MAX_CLIENTS = 4096
/** After a longer pause between two checks, the client starts anew. */
const MAX_INTERVAL_MS = 60_000
/** The number of processes that can check from one address, such as that of a NAT gateway, and still be recognized. */
const MAX_PROCESSES = 3
/** The intervals of a steady client differ at most by this factor: HAProxy and Envoy can vary theirs at random. */
const MAX_VARIATION = 2
/** A checker is forgotten after this many of its intervals without a check. */
const EXPIRY_INTERVALS = 3
const MAX_TIMES = 2 * MAX_PROCESSES + 1

export const checkerSchema = z.object({
  address: z.string(),
  /** Time of the last check, ISO 8601. */
  seen: z.string(),
  /** HTTP status of the response to the last check. */
  status: z.int(),
  /** HAProxy's view of the server, from the header X-Haproxy-Server-State. */
  server_state: z.string().nullable(),
  /** The number of checks since the maintenance of the port began; 0 while it serves. */
  noticed: z.int(),
})
type Checker = Readonly<z.output<typeof checkerSchema>>

interface Check extends Omit<Checker, 'seen' | 'noticed'> {
  /** The start of the port's maintenance, which identifies it; null while it serves. */
  readonly maintenance: string | null
}

interface Client {
  readonly checker: Checker
  /** The one that `checker.noticed` is about. */
  readonly maintenance: string | null
  /** The times of the last checks, as `performance.now()`, the latest one last. */
  readonly times: readonly number[]
  /** Stays true when the interval changes, as HAProxy's does with `fastinter`, unless the client was forgotten. */
  readonly isSteady: boolean
}

/**
 * Whether checks come at a steady interval: the last two intervals are about the same. If several processes share an
 * address, their checks alternate, so the intervals are also compared over every second and every third check.
 * @param times in ms, ascending
 */
export function isSteady(times: readonly number[]): boolean {
  for (let step = 1; step <= MAX_PROCESSES; step++) {
    const [first, middle, last] = [times.at(-1 - 2 * step), times.at(-1 - step), times.at(-1)]
    if (first === undefined || middle === undefined || last === undefined) return false
    const [before, latest] = [middle - first, last - middle]
    if (Math.max(before, latest) <= MAX_VARIATION * Math.min(before, latest)) return true
  }
  return false
}

/** The longest of the last intervals: after a change to shorter ones, the previous interval still counts for a while. */
function intervalOf(times: readonly number[]): number {
  return Math.max(...times.slice(1).map((time, at) => time - (times[at] ?? time)))
}

/** Whether the client is a checker now: it is forgotten after three intervals without a check. */
function isChecker(client: Client, nowMs: number): boolean {
  const { times } = client
  const expiryMs = EXPIRY_INTERVALS * Math.min(MAX_INTERVAL_MS, intervalOf(times))
  return client.isSteady && nowMs - (times.at(-1) ?? nowMs) < expiryMs
}

/** Identifies a client. Several HAProxy processes at one address are told apart by what they report. */
function keyOf({ address, server_state }: Pick<Check, 'address' | 'server_state'>): string {
  const [haproxy = ''] = /name=[^;]*; node=[^;]*/.exec(server_state ?? '') ?? []
  return `${address} ${haproxy}`
}

/**
 * Returns the key of the client that has not checked for longest, among those that are no checkers if there is one. A client that
 * names itself anew with each check would displace all checkers between two of their checks.
 */
function dispensable(clients: ReadonlyMap<string, Client>, nowMs: number): string {
  // A Map keeps insertion order, so the least recently seen client is the first.
  const [first = ''] = clients.keys()
  for (const [key, client] of clients) if (!isChecker(client, nowMs)) return key
  return first
}

/** Returns how many checks of the client have failed because of a maintenance. */
const noticedBy = (client: Client | undefined, maintenance: string | null): number =>
  client?.maintenance === maintenance ? client.checker.noticed : 0

export type Checkers = ReturnType<typeof createCheckers>

export function createCheckers() {
  const byLabel = new Map<string, Map<string, Client>>()

  return {
    record(label: string, { maintenance, ...check }: Check, now: Moment): void {
      const known = byLabel.get(label) ?? new Map<string, Client>()
      byLabel.set(label, known)
      const [key, nowMs] = [keyOf(check), now.ms]
      const before = known.get(key)
      const wasChecker = before !== undefined && isChecker(before, nowMs)
      const pauseMs = nowMs - (before?.times.at(-1) ?? -Infinity)
      const previous = wasChecker || pauseMs <= MAX_INTERVAL_MS ? (before?.times ?? []) : []
      const times = [...previous, nowMs].slice(-MAX_TIMES)
      known.delete(key)
      if (known.size >= MAX_CLIENTS) known.delete(dispensable(known, nowMs))
      known.set(key, {
        checker: {
          ...check,
          seen: now.date.toISOString(),
          noticed: maintenance === null ? 0 : noticedBy(before, maintenance) + 1,
        },
        maintenance,
        times,
        isSteady: wasChecker || isSteady(times),
      })
    },

    /** @param maintenance the start of the port's maintenance; null while it serves */
    list(label: string, maintenance: string | null, nowMs: number): Checker[] {
      const known = [...(byLabel.get(label)?.values() ?? [])]
      const checkers = known.filter(client => isChecker(client, nowMs))
      return checkers.map(client => ({ ...client.checker, noticed: noticedBy(client, maintenance) }))
    },
  }
}
