// The rules of the source tree that the compiler does not check: the order of the rooms, and which files may use the
// environment, signals and third-party modules.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import test from 'ava'

/**
 * Each folder of `src`, a room, imports only from itself and from the folders before it. The entries, which are the files of
 * `src` itself, import from all of them.
 */
const rooms = [
  'config',
  'core',
  'model',
  'cache',
  'database',
  'listener',
  'api',
  'worker',
  'supervisor',
  'cli',
]

/**
 * The sub-folders of a room in their order. Each imports only from itself, from the sub-folders before it, and from the
 * files of the room outside its sub-folders, which may import from any of them.
 */
const subfolders: Readonly<Record<string, readonly string[]>> = {
  database: ['counting', 'reading', 'lane', 'writing', 'feed', 'migrations'],
  api: ['callers', 'requests', 'openapi', 'middleware', 'resources', 'changes', 'docs'],
  supervisor: ['fleet', 'control-ports'],
  cli: ['private-servers', 'pm2', 'operator', 'import'],
}

const src = fileURLToPath(new URL('../../src', import.meta.url))
const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter(file => file.endsWith('.ts'))
const textOf = (file: string) => readFileSync(join(src, file), 'utf8')
const isEntry = (file: string) => !file.includes('/')
const roomOf = (file: string) => file.split('/')[0] ?? ''
/** The sub-folder of a room in which a file is; undefined if it is in the room itself. */
const subfolderOf = (file: string) => (file.split('/').length > 2 ? file.split('/')[1] : undefined)

/** The modules of the project that `file` imports, as paths under src. */
function importsOf(file: string, pattern: RegExp): string[] {
  return [...textOf(file).matchAll(pattern)].map(([, path = '']) => normalize(join(dirname(file), path)))
}

/** Returns where the files match, such as `core/log.ts:7: process.env`. @param pattern with the flag g */
const placesOf = (pattern: RegExp, among: readonly string[] = files): string[] =>
  among.flatMap(file => {
    const text = textOf(file)
    const lineAt = (index: number) => text.slice(0, index).split('\n').length
    return [...text.matchAll(pattern)].map(({ 0: found, index }) => `${file}:${lineAt(index)}: ${found}`)
  })

/** `import type`, `export … from` and `import()` included. */
const allImportsOf = (file: string) => importsOf(file, /\b(?:from|import) ?\(?'(\.[^']+)'/g)
const runtimeImportsOf = (file: string) =>
  importsOf(file, /^(?:import|export) (?!type )[^;]*? from '(\.[^']+)'/gms)

/** The first import cycle that is reachable from `file`; `path` is the chain of imports that leads to it. */
function cycleFrom(file: string, visited: Set<string>, path: readonly string[] = []): string[] | undefined {
  if (path.includes(file)) return [...path.slice(path.indexOf(file)), file]
  if (visited.has(file)) return undefined
  visited.add(file)
  for (const imported of allImportsOf(file)) {
    const cycle = cycleFrom(imported, visited, [...path, file])
    if (cycle !== undefined) return cycle
  }
  return undefined
}

test('rooms: every folder of src is in the ordered list', t => {
  const folders = new Set(files.filter(file => !isEntry(file)).map(roomOf))
  t.deepEqual([...folders].sort(), [...rooms].sort())
})

test('rooms: no import points to a later room or to an entry', t => {
  const imports = files.flatMap(file => allImportsOf(file).map(imported => [file, imported] as const))
  t.true(imports.length > 300)
  const wrong = imports.filter(([file, imported]) => {
    if (isEntry(imported)) return true
    return !isEntry(file) && rooms.indexOf(roomOf(imported)) > rooms.indexOf(roomOf(file))
  })
  t.deepEqual(
    wrong.map(([file, imported]) => `${file} → ${imported}`),
    [],
    `the order: ${rooms.join(', ')}`,
  )
})

test('sub-folders: every sub-folder of a room is in its ordered list', t => {
  for (const room of rooms) {
    const folders = files.filter(file => roomOf(file) === room).flatMap(file => subfolderOf(file) ?? [])
    t.deepEqual([...new Set(folders)].sort(), [...(subfolders[room] ?? [])].sort(), room)
  }
})

test('sub-folders: no import points to a later one', t => {
  const wrong = files.flatMap(file => {
    const [order = [], own] = [subfolders[roomOf(file)], subfolderOf(file)]
    if (own === undefined) return []
    const isLater = (imported: string) =>
      roomOf(imported) === roomOf(file) && order.indexOf(subfolderOf(imported) ?? '') > order.indexOf(own)
    return allImportsOf(file)
      .filter(isLater)
      .map(imported => `${file} → ${imported}; the order: ${order.join(', ')}`)
  })
  t.deepEqual(wrong, [])
})

test('files: no import cycle', t => {
  const visited = new Set<string>()
  for (const file of files) t.is(cycleFrom(file, visited)?.join(' → '), undefined)
})

/**
 * The files that are loaded when `entry` runs, itself included, with the chain of imports that leads to each. Imports without
 * names and dynamic ones count, too.
 */
function loadedBy(entry: string): Map<string, string> {
  const chains = new Map<string, string>()
  const visit = (file: string, chain: string): void => {
    if (chains.has(file)) return
    chains.set(file, chain)
    const imported = [...runtimeImportsOf(file), ...importsOf(file, /\bimport ?\(?'(\.[^']+)'/g)]
    for (const next of imported) visit(next, `${chain} → ${next}`)
  }
  visit(entry, entry)
  return chains
}

// A reload replaces the code and the packages of the workers, but not those of the supervisor.
test('supervisor: loads no web framework, no database driver and no Redis client, and nothing that uses them', t => {
  const loaded = loadedBy('supervisor.ts')
  t.true(loaded.size > 5)
  const isWrong = (file: string) =>
    ['model', 'cache', 'database', 'api'].includes(roomOf(file)) ||
    /from '(koa|@koa\/router|knex|ioredis|mysql2)'/.test(textOf(file))
  t.deepEqual(
    [...loaded].flatMap(([file, chain]) => (isWrong(file) ? chain : [])),
    [],
  )
})

// The other commands, and a service under systemd or in a container, work without it.
test('pm2: only `npm start` and `npm stop` load it', t => {
  const loadsPm2 = (entry: string) =>
    [...loadedBy(entry).keys()].some(file => /\b(?:from|import) ?\(?'pm2\b/.test(textOf(file)))
  t.deepEqual(files.filter(isEntry).filter(loadsPm2).sort(), ['start.ts', 'stop.ts'])
})

test('routes: one file creates routers, from the table that the OpenAPI document is generated from', t => {
  const routers = files.filter(file => /^import (?!type ).*'@koa\/router'/m.test(textOf(file)))
  t.deepEqual(routers, ['api/router.ts'])
})

test('errors: the OpenAPI document shows errors of the functions that the handlers call, and creates none itself', t => {
  const describing = files.filter(file => /^api\/openapi\/|-operations\.ts$/.test(file))
  t.true(describing.length > 3)
  t.deepEqual(placesOf(/new ApiError\(/g, describing), [])
})

test('environment: only config/ reads it; only entries end the process or handle signals', t => {
  const reading = placesOf(/process\.env\b/g)
  t.true(reading.length > 0)
  t.deepEqual(
    reading.filter(place => !place.startsWith('config/')),
    [],
  )
  const inRooms = files.filter(file => !isEntry(file))
  t.deepEqual(placesOf(/process\.exit\(|process\.on\(\s*'SIG/g, inRooms), [])
})

// The lint finds `any` and `!`, unless a comment silences it.
test('types: no silenced check', t => {
  t.deepEqual(placesOf(/@ts-ignore|@ts-expect-error|@ts-nocheck|biome-ignore|as unknown as/g), [])
})

test('types: a parsed JSON text is unknown until a guard has checked it', t => {
  t.deepEqual(placesOf(/: (?!unknown\b)[\w<>, [\]]+ = JSON\.parse\(/g), [])
})

test('files: at most 220 lines', t => {
  const lengths = files.map(file => [file, textOf(file).trimEnd().split('\n').length] as const)
  t.deepEqual(
    lengths.filter(([, length]) => length > 220),
    [],
  )
})
