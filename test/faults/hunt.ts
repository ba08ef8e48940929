// The hunt for a stale read, in the manner of Jepsen: clients write and read at random through every worker, all that
// they saw is recorded, and afterwards it is looked for what cannot have been.
import assert from 'node:assert/strict'
import { type Answer, type Body, type Client, createClient } from '../support/http.ts'
import { impossibleReads, type Seen } from './history.ts'

const userCount = 8
const groupCount = 10
/** After so many versions a user is in the same groups again. */
const cycle = 2 ** groupCount
const connections = 24
const readers = 16

export interface Catch {
  operations: number
  /** What single registers were seen at; one include shows several. */
  reads: number
  impossible: string[]
  /** Of each operation. */
  durationsMs: number[]
}

const pick = <T>(list: readonly T[]): T => {
  const item = list[Math.floor(Math.random() * list.length)]
  if (item === undefined) throw new Error('nothing to pick from')
  return item
}

/** The set of groups that a user is in at `version`: each version differs from the one before by one group. */
function grayCode(version: number): number {
  const place = version % cycle
  return place ^ (place >> 1)
}

function versionOfGray(code: number): number {
  let version = 0
  for (let rest = code; rest > 0; rest >>= 1) version ^= rest
  return version
}

function next(versions: number[], at: number): number {
  const version = (versions[at] ?? 0) + 1
  versions[at] = version
  return version
}

let huntCount = 0

/** Hunts with new users and groups until `isOver`. @throws Error about an answer that is no success */
export async function hunt(url: string, isOver: (operations: number) => boolean): Promise<Catch> {
  // Different connections end at different workers.
  const clients = Array.from({ length: connections }, () => createClient(url))
  const prefix = `hunt ${process.pid} ${++huntCount}`
  const setup = pick(clients)
  const groups: number[] = []
  const groupVersions = Array.from({ length: groupCount }, () => 0)
  const nameOf = (group: number, version: number) => `${prefix} ${group} ${version}`
  for (let group = 0; group < groupCount; group++)
    groups.push(await setup.create('/v1/groups', { name: nameOf(group, 0) }))
  const users: number[] = []
  const userVersions = Array.from({ length: userCount }, () => 0)
  for (let user = 0; user < userCount; user++)
    users.push(await setup.create('/v1/users', { first_name: prefix, last_name: `${user}` }))

  const history: Seen[] = []
  const result: Catch = { operations: 0, reads: 0, impossible: [], durationsMs: [] }
  let tick = 0

  /** @returns the answer and when it was asked for and given */
  async function ask(send: (api: Client) => Promise<Answer>) {
    const began = tick++
    const beganMs = performance.now()
    const answer = await send(pick(clients))
    result.durationsMs.push(performance.now() - beganMs)
    assert.equal(answer.status, 200, answer.text)
    result.operations++
    return { answer, began, ended: tick++ }
  }

  async function write(register: string, version: number, send: (api: Client) => Promise<Answer>) {
    const { began, ended } = await ask(send)
    history.push({ register, kind: 'write', version, began, ended })
  }

  function record(body: Body, seen: Pick<Seen, 'began' | 'ended'>): void {
    const user = users.indexOf(Number(body.id))
    let code = 0
    for (const { id, name = '' } of body.groups ?? []) {
      const group = groups.indexOf(Number(id))
      code |= 1 << group
      const version = Number(name.slice(nameOf(group, 0).length - 1))
      history.push({ register: `group ${group}`, kind: 'read', version, ...seen })
    }
    // Its versions repeat themselves: of those that there are, the newest with this set is meant.
    const newest = userVersions[user] ?? 0
    const version = newest - ((newest - versionOfGray(code)) & (cycle - 1))
    history.push({ register: `user ${user}`, kind: 'read', version, ...seen })
  }

  async function moveUser(user: number): Promise<void> {
    const version = next(userVersions, user)
    const [before, after] = [grayCode(version - 1), grayCode(version)]
    const id = groups[Math.log2(before ^ after)]
    const path = `/v1/users/${users[user]}/groups`
    await write(`user ${user}`, version, api =>
      after > before ? api.post(path, { id }) : api.delete(`${path}/${id}`),
    )
  }

  async function renameGroup(group: number): Promise<void> {
    const version = next(groupVersions, group)
    await write(`group ${group}`, version, api =>
      api.patch(`/v1/groups/${groups[group]}`, { name: nameOf(group, version) }),
    )
  }

  async function readOne(): Promise<void> {
    const { answer, ...seen } = await ask(api => api.get(`/v1/users/${pick(users)}?include=groups`))
    record(answer.body, seen)
  }

  async function readAll(): Promise<void> {
    const query = `include=groups&first_name=${encodeURIComponent(prefix)}`
    const { answer, ...seen } = await ask(api => api.get(`/v1/users?${query}`))
    for (const user of answer.body.users ?? []) record(user, seen)
  }

  const read = () => (Math.random() < 0.05 ? readAll() : readOne())

  /** A user and a group or two are this client's alone to write. */
  async function readAndWrite(own: number): Promise<void> {
    while (!isOver(result.operations)) {
      const chance = Math.random()
      if (chance < 0.1) await moveUser(own)
      else if (chance < 0.15) await renameGroup(own)
      else if (chance < 0.17 && own + userCount < groupCount) await renameGroup(own + userCount)
      else await read()
    }
  }
  async function readOnly(): Promise<void> {
    while (!isOver(result.operations)) await read()
  }

  await Promise.all([
    ...users.map((_, own) => readAndWrite(own)),
    ...Array.from({ length: readers }, readOnly),
  ])
  for (const client of clients) client.close()
  result.reads = history.filter(({ kind }) => kind === 'read').length
  result.impossible = impossibleReads(history)
  return result
}
