// The documents: links and anchors lead somewhere, named files, scripts, settings, error codes and commands exist.
import { existsSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import test from 'ava'
import * as z from 'zod'
import { root } from '../../src/config/root.ts'
import { statuses } from '../../src/core/api-error.ts'
import { commandNames } from '../../src/supervisor/command-names.ts'
import { projectFiles, readDocument, sectionOf } from '../support/documents.ts'

const files = projectFiles()
const documents = files.filter(file => file.endsWith('.md'))

/** Files that the reader of a document creates. */
const others = ['config/local.json', 'api.d.ts', 'src/model/roles.ts']

const withoutCode = (text: string) => text.replaceAll(/^```.*?^```$/gms, '')

/** Returns the anchors that GitHub creates for the headings of a document. */
function anchorsOf(path: string): string[] {
  const seen = new Map<string, number>()
  return [...withoutCode(readDocument(path)).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => {
    const text = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    const anchor = text
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-')
    const count = seen.get(anchor) ?? 0
    seen.set(anchor, count + 1)
    return count === 0 ? anchor : `${anchor}-${count}`
  })
}

/** Returns the targets of links and images, except those on other sites. */
function targetsOf(path: string): string[] {
  const text = withoutCode(readDocument(path)).replaceAll(/`[^`\n]*`/g, '')
  const links = [...text.matchAll(/\]\(([^)\s]+)\)|(?:src|srcset|href)="([^"]+)"/g)]
  return links.map(([, link, attribute]) => link ?? attribute ?? '').filter(link => !/^\w+:/.test(link))
}

test('documents: links and images lead to files and headings of the project', t => {
  t.true(documents.length >= 8)
  const broken = documents.flatMap(path =>
    targetsOf(path)
      .filter(target => {
        const [file = '', anchor] = target.split('#')
        const linked = file === '' ? path : normalize(join(dirname(path), decodeURI(file)))
        if (!existsSync(join(root, linked))) return true
        return anchor !== undefined && !anchorsOf(linked).includes(anchor)
      })
      .map(target => `${path}: ${target}`),
  )
  t.deepEqual(broken, [])
})

test('documents: the files that they name exist', t => {
  const pattern = /`((?:[\w@.-]+\/)*[\w@.-]+\.(?:ts|js|json|md|cfg|cnf|conf|ya?ml|service|html|css|svg))`/g
  const missing = documents.flatMap(path =>
    [...withoutCode(readDocument(path)).matchAll(pattern)]
      .map(([, name = '']) => name)
      .filter(name => !others.includes(name) && !/^(?:var|dist)\//.test(name))
      .filter(name => {
        const last = name.replace(/^(?:\.\.?\/)+/, '')
        return !files.some(file => file === last || file.endsWith(`/${last}`))
      })
      .map(name => `${path}: ${name}`),
  )
  t.deepEqual(missing, [])
})

test('documents: the npm scripts that they name exist', t => {
  const scripts = z.object({ scripts: z.record(z.string(), z.string()) })
  const names = Object.keys(scripts.parse(JSON.parse(readDocument('package.json'))).scripts)
  const missing = documents.flatMap(path =>
    [...readDocument(path).matchAll(/npm run (?:--silent )?([a-z]+(?:[:-][a-z]+)*)/g)]
      .map(([, name = '']) => name)
      .filter(name => !names.includes(name))
      .map(name => `${path}: npm run ${name}`),
  )
  t.deepEqual(missing, [])
})

test('README: at most 200 lines', t => {
  t.true(readDocument('README.md').trimEnd().split('\n').length <= 200)
})

/** Returns the path and the value of each setting. Lists count as one value. */
function leavesOf(value: unknown, path: readonly string[] = []): [string, unknown][] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [[path.join('.'), value]]
  return Object.entries(value).flatMap(([key, part]) => leavesOf(part, [...path, key]))
}

test('settings.md: has a row for each setting of default.json, with its default, and no others', t => {
  // The tables of all settings, without that of the fields of a port.
  const tables = readDocument('config/settings.md').matchAll(/^\| setting \|.*\n(?:\|.*\n)+/gm)
  const rows = [...tables].flatMap(([table]) => table.match(/^\| `[\w.]+` \| .*? \|/gm) ?? [])
  const leaves = leavesOf(JSON.parse(readDocument('config/default.json')))
  t.true(leaves.length > 40)
  const expected = leaves.map(
    ([name, value]) => `| \`${name}\` | ${name === 'ports' ? 'see below' : `\`${JSON.stringify(value)}\``} |`,
  )
  const missing = expected.filter(row => !rows.includes(row))
  const superfluous = rows.filter(row => !expected.includes(row))
  t.deepEqual({ missing, superfluous }, { missing: [], superfluous: [] })
})

test('src/api/README.md: lists every error code', t => {
  const text = readDocument('src/api/README.md')
  const table = text.slice(text.indexOf('| status | codes |'))
  const missing = Object.keys(statuses).filter(code => !table.includes(`\`${code}\``))
  t.deepEqual(missing, [])
})

test('config/README.md: has a row for each command of operators', t => {
  const text = readDocument('config/README.md')
  const missing = commandNames.filter(name => !new RegExp(`^\\| \`${name}[ \`]`, 'm').test(text))
  t.deepEqual(missing, [])
})

test('config/README.md: has a row for each result of the health check, in the order of the code', t => {
  const health = readDocument('src/supervisor/control-ports/health.ts')
  const codes = [...health.matchAll(/ status: \d+, code: '(\w+)'/g)].map(([, code = '']) => code)
  t.true(codes.length > 3)
  const rows = sectionOf('config/README.md', 'Health checks').matchAll(/^\| \d+ \| `(\w+)`/gm)
  t.deepEqual([...rows].map(([, code = '']) => code).slice(-codes.length), codes)
})

test('config/README.md: names every metric of the service', t => {
  const names =
    readDocument('src/supervisor/control-ports/metrics.ts').match(/(?<=')(?:http|users_api)_\w+(?=')/g) ?? []
  t.true(names.length > 15)
  const text = readDocument('config/README.md')
  t.deepEqual(
    names.filter(name => !text.includes(`\`${name}\``)),
    [],
  )
})

test('config/README.md: has a row for each message of log.warn and log.error', t => {
  const call = /\blog\.(?:warn|error)\((?:[^()]|\([^()]*\))*?'([^'\n]+)',?\s*\)/g
  const messages = files
    .filter(file => /^src\/.*\.ts$/.test(file))
    .flatMap(file => [...readDocument(file).matchAll(call)].map(([, message = '']) => message))
  t.true(messages.length > 15)
  const cells = sectionOf('config/README.md', 'Log').match(/^\|[^|]*/gm) ?? []
  t.deepEqual(
    messages.filter(message => !cells.some(cell => cell.includes(`\`${message}\``))),
    [],
  )
})
