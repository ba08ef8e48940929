// A Jepsen-style register workload: clients read and write at random through all workers and record every operation.
// The recorded history is then checked for linearizability.
import assert from 'node:assert/strict'
import { type Answer, type Body, type Client, createClient } from '../support/http.ts'
import { pick } from '../support/pick.ts'
import { findViolations, type Operation } from './history.ts'

const userCount = 8
const groupCount = 10
/** After this many versions, a user's set of groups repeats. */
const cycle = 2 ** groupCount
const connections = 24
const readers = 16

export interface WorkloadResult {
  operations: number
  /** Number of register reads. A response with `include=groups` reads several registers. */
  reads: number
  violations: string[]
  /** Duration of each operation. */
  durationsMs: number[]
}

/**
 * Returns a user's set of groups at `version` as a bit mask. Consecutive versions differ in one group, so each version
 * is one request.
 */
function grayCode(version: number): number {
  const position = version % cycle
  return position ^ (position >> 1)
}

function versionOfGray(code: number): number {
  let version = 0
  for (let rest = code; rest > 0; rest >>= 1) version ^= rest
  return version
}

function nextVersion(versions: number[], index: number): number {
  const version = (versions[index] ?? 0) + 1
  versions[index] = version
  return version
}

let runCount = 0

/**
 * Creates users and groups and runs the workload on them until `isOver` returns true. The registers are the users' sets
 * of groups and the groups' names.
 * @throws AssertionError if a response is not 200
 */
export async function runRegisterWorkload(
  url: string,
  isOver: (operations: number) => boolean,
): Promise<WorkloadResult> {
  // Separate connections reach all workers.
  const clients = Array.from({ length: connections }, () => createClient(url))
  const prefix = `register ${process.pid} ${++runCount}`
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

  const history: Operation[] = []
  const result: WorkloadResult = { operations: 0, reads: 0, violations: [], durationsMs: [] }
  let tick = 0

  async function perform(send: (api: Client) => Promise<Answer>) {
    const began = tick++
    const startedMs = performance.now()
    const answer = await send(pick(clients))
    result.durationsMs.push(performance.now() - startedMs)
    assert.equal(answer.status, 200, answer.text)
    result.operations++
    return { answer, began, ended: tick++ }
  }

  async function write(register: string, version: number, send: (api: Client) => Promise<Answer>) {
    const { began, ended } = await perform(send)
    history.push({ register, kind: 'write', version, began, ended })
  }

  function recordRead(body: Body, interval: Pick<Operation, 'began' | 'ended'>): void {
    const user = users.indexOf(Number(body.id))
    let code = 0
    for (const { id, name = '' } of body.groups ?? []) {
      const group = groups.indexOf(Number(id))
      code |= 1 << group
      const version = Number(name.slice(nameOf(group, 0).length - 1))
      history.push({ register: `group ${group}`, kind: 'read', version, ...interval })
    }
    // Sets of groups repeat every `cycle` versions: the newest version with this set is the one that was read.
    const newest = userVersions[user] ?? 0
    const version = newest - ((newest - versionOfGray(code)) & (cycle - 1))
    history.push({ register: `user ${user}`, kind: 'read', version, ...interval })
  }

  async function changeMembership(user: number): Promise<void> {
    const version = nextVersion(userVersions, user)
    const [before, after] = [grayCode(version - 1), grayCode(version)]
    const id = groups[Math.log2(before ^ after)]
    const path = `/v1/users/${users[user]}/groups`
    await write(`user ${user}`, version, api =>
      after > before ? api.post(path, { id }) : api.delete(`${path}/${id}`),
    )
  }

  async function renameGroup(group: number): Promise<void> {
    const version = nextVersion(groupVersions, group)
    await write(`group ${group}`, version, api =>
      api.patch(`/v1/groups/${groups[group]}`, { name: nameOf(group, version) }),
    )
  }

  async function readOne(): Promise<void> {
    const { answer, ...interval } = await perform(api => api.get(`/v1/users/${pick(users)}?include=groups`))
    recordRead(answer.body, interval)
  }

  async function readAll(): Promise<void> {
    const query = `include=groups&first_name=${encodeURIComponent(prefix)}`
    const { answer, ...interval } = await perform(api => api.get(`/v1/users?${query}`))
    for (const user of answer.body.users ?? []) recordRead(user, interval)
  }

  const read = () => (Math.random() < 0.05 ? readAll() : readOne())

  /** Each user and each group has exactly one client that writes it. */
  async function readAndWrite(own: number): Promise<void> {
    while (!isOver(result.operations)) {
      const chance = Math.random()
      if (chance < 0.1) await changeMembership(own)
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
  result.violations = findViolations(history)
  return result
}
