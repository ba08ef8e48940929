// Imports users, groups and memberships through the API. Existing records are left unchanged, so that a file can be
// loaded again. Users are imported in batches, so that the memory does not depend on the size of the file.
import type { Api, Entry } from './api-client.ts'
import { type Person, quoted, type Source } from './source.ts'

const BATCH_SIZE = 500
/** The number of concurrent requests. */
const CONCURRENCY = 16

interface Tally {
  created: number
  unchanged: number
  failed: number
}
export type Tallies = Readonly<Record<'people' | 'groups' | 'memberships', Tally>>

export interface Observer {
  /** @param share the processed share of the file, from 0 to 1 */
  progress(share: number, tallies: Tallies): void
  /** @param what the entry that failed */
  failed(what: string, reason: string): void
}

async function* batchesOf<T>(all: Iterable<T> | AsyncIterable<T>): AsyncGenerator<T[]> {
  let batch: T[] = []
  for await (const one of all) {
    batch.push(one)
    if (batch.length < BATCH_SIZE) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}

async function inParallel<T>(items: readonly T[], work: (item: T, index: number) => Promise<void>) {
  const remaining = items.entries()
  const workers = Array.from({ length: CONCURRENCY }, async () => {
    for (const [index, item] of remaining) await work(item, index)
  })
  await Promise.all(workers)
}

const alreadyExists = (entry: Entry | undefined) => entry?.meta.code?.endsWith('_exists') === true

const titleOf = ({ line, fields }: Person) => `line ${line}: ${Object.values(fields).map(quoted).join(' ')}`

/** @throws UnavailableError if the service becomes unavailable; records that were imported before it remain */
export async function load(source: Source, api: Api, observer: Observer): Promise<Tallies> {
  const tally = (): Tally => ({ created: 0, unchanged: 0, failed: 0 })
  const tallies: Tallies = { people: tally(), groups: tally(), memberships: tally() }
  /** The groups by name: the id, or the reason why the group could not be created. */
  const groups = new Map<string, number | string>()

  /**
   * Counts the result of a create and finds the id of a record that already exists.
   * @returns the id, or the reason
   */
  async function resolveId(
    kind: 'users' | 'groups',
    fields: Readonly<Record<string, string>>,
    entry: Entry | undefined,
  ): Promise<number | string> {
    const { people, groups } = tallies
    const counts = kind === 'users' ? people : groups
    const id = alreadyExists(entry) ? await api.find(kind, fields) : entry?.id
    if (id === undefined) counts.failed++
    else if (alreadyExists(entry)) counts.unchanged++
    else counts.created++
    return id ?? entry?.meta.message ?? 'it was deleted during the import'
  }

  async function importGroups(names: readonly string[]): Promise<void> {
    const missing = [...new Set(names)].filter(name => !groups.has(name))
    if (missing.length === 0) return
    const fields = missing.map(name => ({ name }))
    const { entries } = await api.create('/v1/groups', 'groups', fields)
    await inParallel(fields, async (field, index) => {
      const group = await resolveId('groups', field, entries[index])
      groups.set(field.name, group)
      if (typeof group === 'string') observer.failed(`group ${quoted(field.name)}`, group)
    })
  }

  async function importMemberships(person: Person, id: number): Promise<void> {
    const names = [...new Set(person.groups)]
    const known = names.flatMap(name => {
      const group = groups.get(name)
      return typeof group === 'number' ? { name, id: group } : []
    })
    // The reasons for the missing groups have already been reported.
    tallies.memberships.failed += names.length - known.length
    if (known.length === 0) return
    const references = known.map(group => ({ id: group.id }))
    const { entries, created } = await api.create(`/v1/users/${id}/groups`, 'groups', references)
    const failures = entries.flatMap(({ meta }, index) =>
      meta.status === 200
        ? []
        : { name: known[index]?.name ?? '', reason: meta.message ?? 'the service gave no reason' },
    )
    tallies.memberships.created += created
    tallies.memberships.failed += failures.length
    tallies.memberships.unchanged += entries.length - created - failures.length
    // One line per reason, because a user can have very many groups.
    for (const reason of new Set(failures.map(failure => failure.reason))) {
      const [first = '', ...others] = failures.flatMap(one => (one.reason === reason ? [one.name] : []))
      const more = others.length > 0 ? ` and ${others.length} more` : ''
      observer.failed(`${titleOf(person)}: group ${quoted(first)}${more}`, reason)
    }
  }

  async function importPeople(persons: readonly Person[]): Promise<void> {
    await importGroups(persons.flatMap(person => person.groups))
    const { entries } = await api.create(
      '/v1/users',
      'users',
      persons.map(({ fields }) => fields),
    )
    await inParallel(persons, async (person, index) => {
      const id = await resolveId('users', person.fields, entries[index])
      if (typeof id === 'string') observer.failed(titleOf(person), id)
      else await importMemberships(person, id)
    })
  }

  await importGroups(source.groups)
  for await (const batch of batchesOf(source.people)) {
    const persons: Person[] = []
    for (const one of batch)
      if ('fault' in one) {
        tallies.people.failed++
        observer.failed(`line ${one.line}`, one.fault)
      } else persons.push(one)
    if (persons.length > 0) await importPeople(persons)
    observer.progress(batch.at(-1)?.share ?? 1, tallies)
  }
  return tallies
}
