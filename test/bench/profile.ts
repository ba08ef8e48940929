// Profiles the CPU time of a worker under load and lists the functions that use the most of it themselves.
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, readdir, readFile } from 'node:fs/promises'
import { SourceMap, type SourceMapping } from 'node:module'
import { join } from 'node:path'
import * as z from 'zod'
import { measureAll } from './compare.ts'
import type { Comparison } from './comparisons.ts'
import { startServer, withServers } from './servers.ts'
import type { Stores } from './stores.ts'
import { runWrk } from './wrk.ts'

const USERS = 1000
const WARM_UP_SECONDS = 3
const FUNCTIONS = 10

/** The format of https://chromedevtools.github.io/devtools-protocol/tot/Profiler/#type-Profile; times in microseconds. */
const profile = z.object({
  nodes: z.array(
    z.object({
      id: z.number(),
      callFrame: z.object({
        functionName: z.string(),
        url: z.string(),
        lineNumber: z.number(),
        columnNumber: z.number(),
      }),
    }),
  ),
  endTime: z.number(),
  startTime: z.number(),
  samples: z.array(z.number()),
  timeDeltas: z.array(z.number()),
})
type Profile = z.infer<typeof profile>
type Frame = Profile['nodes'][number]['callFrame']

/** Reads the profile of the worker. The supervisor writes another one into the same folder. */
async function readProfile(folder: string): Promise<Profile> {
  for (const file of await readdir(folder)) {
    const found = profile.parse(JSON.parse(await readFile(join(folder, file), 'utf8')))
    if (found.nodes.some(({ callFrame }) => callFrame.url.endsWith('/dist/worker.js'))) return found
  }
  throw new Error('the worker wrote no profile')
}

/** Returns the source map that the build has put beside a file. */
function sourceMapOf(url: string): SourceMap | undefined {
  if (!url.startsWith('file:')) return undefined
  const map = new URL(`${url}.map`)
  return existsSync(map) ? new SourceMap(JSON.parse(readFileSync(map, 'utf8'))) : undefined
}

/** Returns for example `src/listener/traffic.ts:36`, or `native` for code that is not JavaScript. */
function placeOf({ url, lineNumber, columnNumber }: Frame, map: SourceMap | undefined): string {
  if (url === '') return 'native'
  const origin: Partial<SourceMapping> = map?.findEntry(lineNumber, columnNumber) ?? {}
  const { originalSource: file = url, originalLine: line = lineNumber } = origin
  return `${file.replace(/^.*\/node_modules\/|^.*\/(?=(?:src|dist)\/)/, '')}:${line + 1}`
}

/** Returns the functions with the largest self time in the last `seconds` of the profile, and their shares. */
function largest({ nodes, samples, timeDeltas, startTime, endTime }: Profile, seconds: number): string[][] {
  const maps = new Map(
    [...new Set(nodes.map(({ callFrame }) => callFrame.url))].map(url => [url, sourceMapOf(url)]),
  )
  const functions = new Map(
    nodes.map(({ id, callFrame }) => [
      id,
      [callFrame.functionName || '(anonymous)', placeOf(callFrame, maps.get(callFrame.url))] as const,
    ]),
  )
  const counts = new Map<string, number>()
  let total = 0
  let timeUs = startTime
  for (const [index, id] of samples.entries()) {
    timeUs += timeDeltas[index] ?? 0
    const [name = '', place = ''] = functions.get(id) ?? []
    if (timeUs < endTime - seconds * 1e6 || name === '(idle)') continue
    const key = `\`${name}\`|${place}`
    counts.set(key, (counts.get(key) ?? 0) + 1)
    total++
  }
  return [...counts]
    .toSorted(([, one], [, other]) => other - one)
    .slice(0, FUNCTIONS)
    .map(([key, count]) => [...key.split('|'), `${((100 * count) / total).toFixed(1)} %`])
}

/** @param seconds length of each profile. @returns the table as Markdown */
export const measureProfile = (
  chosen: readonly Comparison[],
  stores: Stores,
  seconds: number,
  signal: AbortSignal,
): Promise<string> =>
  measureAll(chosen, ['request', 'function', 'file', 'self time'], async ({ title, request }) => {
    const databaseUrl = await stores.createPopulated(USERS)
    const folder = await mkdtemp(join(stores.folder, 'profile-'))
    const node = [process.execPath, '--cpu-prof', `--cpu-prof-dir=${folder}`]
    const settings = { databaseUrl, redisUrl: stores.redisUrl, folder: stores.folder, workers: 1, node }
    await withServers([() => startServer('service', settings)], async servers => {
      for (const { url } of servers)
        for (const length of [WARM_UP_SECONDS, seconds])
          await runWrk(
            { url, request, users: USERS, connections: 64, seconds: length, closing: false },
            signal,
          )
    })
    await stores.clear()
    return largest(await readProfile(folder), seconds).map((cells, row) => [row === 0 ? title : '', ...cells])
  })
