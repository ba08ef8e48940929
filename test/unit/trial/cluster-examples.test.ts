// The examples in config/cluster/ have the settings with which the trial cluster runs, apart from names and addresses.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import type { Place } from '../../trial/database-cluster.ts'
import { galeraArgs } from '../../trial/galera.ts'
import { groupArgs } from '../../trial/group-replication.ts'
import { sentinelSettings } from '../../trial/sentinel.ts'

const place: Place = {
  number: 1,
  data: '/data',
  folder: '/run',
  socketPath: '/run/mysql.sock',
  port: 1,
  clusterPort: 2,
  transferPort: 3,
  url: 'mysql://127.0.0.1:1/',
}
/** What depends on the machine. The trial has no programs for complete copies. */
const own = /address|seeds|host|group_name$|sst_method|wsrep_provider$/

type Settings = Map<string, string>

const textOf = (file: string) =>
  readFileSync(fileURLToPath(new URL(`../../../config/cluster/${file}`, import.meta.url)), 'utf8')

function settingsIn(file: string): Settings {
  const lines = textOf(file).matchAll(/^(\w+) = (.*)$/gm)
  return new Map([...lines].map(([, name = '', value = '']) => [name, value.replaceAll('"', '')]))
}

function settingsOf(args: readonly string[]): Settings {
  const pairs = args.map(arg => /^--([^=]+)=(.*)$/s.exec(arg))
  return new Map(pairs.map(pair => [pair?.[1]?.replaceAll('-', '_') ?? '', pair?.[2] ?? '']))
}

const optionsIn = (settings: Settings) => settings.get('wsrep_provider_options')?.split(';') ?? []

test('config/cluster/galera.cnf: has the settings of the trial', t => {
  const example = settingsIn('galera.cnf')
  const trial = settingsOf(galeraArgs(place, [place], '/library'))
  t.true(example.size >= 10)
  for (const [name, value] of example)
    if (!own.test(name) && name !== 'wsrep_provider_options') t.is(trial.get(name), value, name)
  t.deepEqual(
    optionsIn(example),
    optionsIn(trial).filter(option => /^(gcache|evs|gcs)/.test(option)),
  )
})

test('config/cluster/group-replication.cnf: has the settings of the trial', t => {
  const example = settingsIn('group-replication.cnf')
  const trial = settingsOf(groupArgs(place, [place], 'group', false))
  t.true(example.size >= 10)
  for (const [name, value] of example) if (!own.test(name)) t.is(trial.get(name), value, name)
})

test('config/cluster/sentinel.conf: has the settings of the trial', t => {
  const example = textOf('sentinel.conf').match(/^sentinel .*$/gm) ?? []
  t.deepEqual(
    example.map(line => line.replace('10.0.0.1', '127.0.0.1')),
    sentinelSettings(3, 6379, 'password'),
  )
})
