// Imports users, groups and memberships through the API. Existing records are left unchanged, so that a file can be
// loaded again. Users are imported in batches, so that the memory does not depend on the size of the file.
import { quoted } from '../../core/quoted.ts'
import type { Api, Entry } from './api-client.ts'
import type { ImportProgress, Tallies } from './import-progress.ts'
import type { Person, Source } from './source.ts'

const BATCH_SIZE = 500
const CONCURRENT_REQUESTS = 16

/** A person's membership in a group, with the ids of both. */
interface Membership {
  readonly person: Person
  readonly user: number
  /** The name of the group. */
  readonly name: string
  readonly group: number
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
  const workers = Array.from({ length: CONCURRENT_REQUESTS }, async () => {
    for (const [index, item] of remaining) await work(item, index)
  })
  await Promise.all(workers)
}

function groupBy<T, K>(items: readonly T[], keyOf: (item: T) => K): Map<K, T[]> {
  const grouped = new Map<K, T[]>()
  for (const item of items) {
    const group = grouped.get(keyOf(item))
    if (group === undefined) grouped.set(keyOf(item), [item])
    else group.push(item)
  }
  return grouped
}

const titleOf = ({ place, fields }: Person) => `${place}: ${Object.values(fields).map(quoted).join(' ')}`

/** @throws FatalError if the service becomes unavailable; records that were imported before it remain */
export async function load(source: Source, api: Api, report: ImportProgress): Promise<Tallies> {
  const tally = () => ({ created: 0, unchanged: 0, failed: 0 })
  const tallies: Tallies = { users: tally(), groups: tally(), memberships: tally() }
  /** The ids of the groups by name; undefined for a group that could not be created. */
  const groups = new Map<string, number | undefined>()

  /**
   * Counts the result of a create, and reports a failure as one of `title`.
   * @returns the id of the record, which may have existed before; undefined after a failure
   */
  async function settle(
    kind: 'users' | 'groups',
    fields: Readonly<Record<string, string>>,
    title: string,
    entry: Entry | undefined,
  ): Promise<number | undefined> {
    const exists = entry?.meta.code?.endsWith('_exists') === true
    const id = exists ? await api.find(kind, fields) : (entry?.id ?? entry?.meta.message)
    if (typeof id === 'number') {
      tallies[kind][exists ? 'unchanged' : 'created']++
      return id
    }
    tallies[kind].failed++
    report.failed(title, id ?? 'the service gave no reason')
    return undefined
  }

  async function importGroups(names: readonly string[]): Promise<void> {
    const missing = [...new Set(names)].filter(name => !groups.has(name))
    if (missing.length === 0) return
    const fields = missing.map(name => ({ name }))
    const { entries } = await api.create('/v1/groups', 'groups', fields)
    await inParallel(fields, async (field, index) => {
      const id = await settle('groups', field, `group ${quoted(field.name)}`, entries[index])
      groups.set(field.name, id)
    })
  }

  /** Returns the memberships of a person, except in groups that could not be created, which are reported already. */
  function membershipsOf(person: Person, user: number): Membership[] {
    const names = [...new Set(person.groups)]
    const known = names.flatMap(name => {
      const group = groups.get(name)
      return group === undefined ? [] : [{ person, user, name, group }]
    })
    tallies.memberships.failed += names.length - known.length
    return known
  }

  /** Imports memberships with one request for each user or for each group, whichever are fewer. */
  async function importMemberships(memberships: readonly Membership[]): Promise<void> {
    const byUser = groupBy(memberships, one => one.user)
    const byGroup = groupBy(memberships, one => one.group)
    const isByUser = byUser.size <= byGroup.size
    /** Why a membership could not be stored. */
    const reasons = new Map<Membership, string>()
    let newOnes = 0
    await inParallel([...(isByUser ? byUser : byGroup)], async ([id, own]) => {
      const references = own.map(one => ({ id: isByUser ? one.group : one.user }))
      const { entries, created } = isByUser
        ? await api.create(`/v1/users/${id}/groups`, 'groups', references)
        : await api.create(`/v1/groups/${id}/users`, 'users', references)
      newOnes += created
      for (const [index, membership] of own.entries()) {
        const meta = entries[index]?.meta
        if (meta !== undefined && meta.status !== 200) reasons.set(membership, meta.message)
      }
    })
    tallies.memberships.created += newOnes
    tallies.memberships.unchanged += memberships.length - newOnes - reasons.size
    tallies.memberships.failed += reasons.size
    // In the order of the file.
    for (const one of memberships) {
      const reason = reasons.get(one)
      if (reason !== undefined) report.failed(`${titleOf(one.person)}: group ${quoted(one.name)}`, reason)
    }
  }

  async function importUsers(persons: readonly Person[]): Promise<void> {
    await importGroups(persons.flatMap(person => person.groups))
    const fields = persons.map(person => person.fields)
    const { entries } = await api.create('/v1/users', 'users', fields)
    const memberships: Membership[][] = []
    await inParallel(persons, async (person, index) => {
      const id = await settle('users', person.fields, titleOf(person), entries[index])
      if (id !== undefined) memberships[index] = membershipsOf(person, id)
    })
    await importMemberships(memberships.flat())
  }

  await importGroups(source.groups)
  for await (const batch of batchesOf(source.users)) {
    const persons: Person[] = []
    for (const one of batch)
      if ('fault' in one) {
        tallies.users.failed++
        report.failed(one.place, one.fault)
      } else persons.push(one)
    if (persons.length > 0) await importUsers(persons)
    report.progress(batch.at(-1)?.share ?? 1, tallies)
  }
  return tallies
}
