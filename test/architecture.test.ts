// The house rules that a compiler does not check: which way imports point, and who may touch the process.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import test from 'ava'

const src = fileURLToPath(new URL('../src', import.meta.url))
const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter(file => file.endsWith('.ts'))
const textOf = (file: string) => readFileSync(join(src, file), 'utf8')

const entries = [
  'supervisor.ts',
  'worker.ts',
  'start.ts',
  'stop.ts',
  'migrate.ts',
  'ops.ts',
  'load.ts',
  'dev.ts',
]

/** The modules of the project that `file` imports at run time, as paths under src. */
function importsOf(file: string): string[] {
  const statements = textOf(file).matchAll(/^import (?!type )[^;]*? from '(\.[^']+)'/gms)
  return [...statements].map(([, path = '']) => normalize(join(dirname(file), path)))
}

const importing = (from: (file: string) => boolean, to: (file: string) => boolean) =>
  files.filter(from).flatMap(file =>
    importsOf(file)
      .filter(to)
      .map(imported => `${file} → ${imported}`),
  )

const under = (folder: string) => (file: string) => file.startsWith(`${folder}/`)

test('the supervisor loads no Koa, Knex or Redis, nor what does', t => {
  const reached = new Set<string>()
  const visit = (file: string): void => {
    if (reached.has(file)) return
    reached.add(file)
    importsOf(file).forEach(visit)
  }
  visit('supervisor.ts')
  t.true(reached.size > 5)
  for (const file of reached) t.notRegex(textOf(file), /from '(koa|@koa\/router|knex|ioredis|mysql2)'/, file)
})

test('imports point down: store knows no handlers and no Koa, the supervisor no workers', t => {
  t.deepEqual(
    importing(under('store'), file => under('http')(file) && file !== 'http/errors.ts'),
    [],
  )
  t.deepEqual(importing(under('supervisor'), under('resources')), [])
  t.deepEqual(importing(under('supervisor'), under('store')), [])
  t.deepEqual(importing(under('http'), under('supervisor')), [])
  t.deepEqual(
    importing(
      () => true,
      file => entries.includes(file),
    ),
    [],
  )
})

test('every route comes from the table that the document is made of, too', t => {
  const routers = files.filter(file => /^import (?!type ).*'@koa\/router'/m.test(textOf(file)))
  t.deepEqual(routers, ['http/routes.ts'])
})

test('only config.ts reads the environment; only entries end the process or listen to signals', t => {
  const users = (pattern: RegExp) => files.filter(file => pattern.test(textOf(file)))
  t.deepEqual(users(/process\.env\b/), ['config.ts'])
  const enders = users(/process\.exit\(|process\.on\(\s*'SIG/)
  t.deepEqual(
    enders.filter(file => !entries.includes(file)),
    [],
  )
})

test('the types are strict: no any, no non-null assertion, no silenced check', t => {
  for (const file of files)
    t.notRegex(
      textOf(file),
      /\bas any\b|: any\b|<any>|@ts-ignore|@ts-expect-error|biome-ignore|[\w)\]]!\.|as unknown as/,
      file,
    )
})

test('no file is about more than one thing: 220 lines at the most', t => {
  for (const file of files)
    t.true(textOf(file).trimEnd().split('\n').length <= 220, relative(src, join(src, file)))
})
