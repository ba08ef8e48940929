// The `bare` baseline: a hand-written server on node:http with prepared statements of mysql2 and ioredis, without any
// framework. It uses the fastest way that the drivers offer without more code: callbacks, and automatic pipelining.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Redis } from 'ioredis'
import { createPool, type ResultSetHeader, type RowDataPacket } from 'mysql2'
import { databaseUrl, port, redisAddress } from './environment.ts'

interface Group {
  id: number
  name: string
}
interface User {
  id: number
  first_name?: string
  last_name?: string
}
type GroupRow = RowDataPacket & Group
type UserRow = RowDataPacket & { id: number; first_name: string | null; last_name: string | null }

const TTL_SECONDS = 300
const pool = createPool({ uri: databaseUrl, connectionLimit: 10 })
const redis = new Redis(redisAddress, { enableAutoPipelining: true })

/** Executes a prepared statement. */
function execute<T extends RowDataPacket[] | ResultSetHeader>(
  sql: string,
  values: (string | number)[] = [],
): Promise<T> {
  return new Promise((resolve, reject) => {
    pool.execute<T>(sql, values, (error, result) => (error ? reject(error) : resolve(result)))
  })
}

const toUser = ({ id, first_name, last_name }: UserRow): User => ({
  id,
  ...(first_name !== null && { first_name }),
  ...(last_name !== null && { last_name }),
})

async function findUser(id: number): Promise<User | undefined> {
  const rows = await execute<UserRow[]>('SELECT id, first_name, last_name FROM users WHERE id = ?', [id])
  return rows[0] && toUser(rows[0])
}

async function findGroups(id: number): Promise<Group[]> {
  const key = `groups:${id}`
  const cached = await redis.get(key)
  if (cached !== null) return JSON.parse(cached)
  const rows = await execute<GroupRow[]>(
    'SELECT g.id, g.name FROM memberships m JOIN `groups` g ON g.id = m.group_id WHERE m.user_id = ? ORDER BY m.group_id',
    [id],
  )
  await redis.set(key, JSON.stringify(rows), 'EX', TTL_SECONDS)
  return rows
}

async function findPage(size: number) {
  const [rows, counted] = await Promise.all([
    execute<UserRow[]>('SELECT id, first_name, last_name FROM users ORDER BY id LIMIT ?', [String(size)]),
    execute<(RowDataPacket & { total: number })[]>('SELECT COUNT(*) AS total FROM users'),
  ])
  const groups = new Map<number, Group[]>(rows.map(({ id }) => [id, []]))
  if (rows.length > 0) {
    // Sorted by the columns of memberships: with g.id, MariaDB would start from `groups` and sort in a temporary table.
    const pairs = await execute<(GroupRow & { user_id: number })[]>(
      `SELECT m.user_id, g.id, g.name FROM memberships m JOIN \`groups\` g ON g.id = m.group_id
       WHERE m.user_id IN (${rows.map(() => '?').join()}) ORDER BY m.user_id, m.group_id`,
      [...groups.keys()],
    )
    for (const { user_id, id, name } of pairs) groups.get(user_id)?.push({ id, name })
  }
  return {
    users: rows.map(row => ({ ...toUser(row), groups: groups.get(row.id), meta: { status: 200 } })),
    meta: { status: 200, total_records: counted[0]?.total, start_index: 0, records_per_page: size },
  }
}

function readJson(request: IncomingMessage): Promise<Record<string, unknown>> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    request.on('data', chunk => chunks.push(chunk))
    request.on('end', () => {
      try {
        resolve(JSON.parse(Buffer.concat(chunks).toString()))
      } catch (error) {
        reject(error)
      }
    })
    request.on('error', reject)
  })
}

/** Inserts one user, or a whole batch with one INSERT and without a result per entry. */
async function create({ first_name, last_name, users }: Record<string, unknown>) {
  if (Array.isArray(users)) {
    const rows = users.map(user => [user.first_name, user.last_name, 0])
    const sql = 'INSERT INTO users (first_name, last_name, version) VALUES ?'
    await new Promise((resolve, reject) => {
      pool.query(sql, [rows], (error, result) => (error ? reject(error) : resolve(result)))
    })
    return { meta: { status: 200, created: rows.length } }
  }
  if (typeof first_name !== 'string' || typeof last_name !== 'string') return undefined
  const sql = 'INSERT INTO users (first_name, last_name, version) VALUES (?, ?, 0)'
  const { insertId } = await execute<ResultSetHeader>(sql, [first_name, last_name])
  return { id: insertId, first_name, last_name, meta: { status: 200 } }
}

async function update(id: number, body: Record<string, unknown>): Promise<User | undefined> {
  const changes = Object.entries({ first_name: body.first_name, last_name: body.last_name }).flatMap(
    ([name, value]) => (typeof value === 'string' ? [{ name, value }] : []),
  )
  if (changes.length > 0)
    await execute<ResultSetHeader>(
      `UPDATE users SET ${changes.map(({ name }) => `${name} = ?`).join()} WHERE id = ?`,
      [...changes.map(({ value }) => value), id],
    )
  return findUser(id)
}

function send(response: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body)
  response.writeHead(status, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(text),
  })
  response.end(text)
}

const fail = (response: ServerResponse, status: number, message: string): void =>
  send(response, status, { meta: { status, message } })

function sendUser(response: ServerResponse, user: User | undefined, groups?: Group[]): void {
  if (user === undefined) fail(response, 404, 'user not found')
  else send(response, 200, { ...user, ...(groups && { groups }), meta: { status: 200 } })
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const [path = '', query = ''] = (request.url ?? '').split('?')
  const withGroups = query.includes('include=groups')
  if (path === '/v1/users') {
    if (request.method === 'GET') {
      const size = Number(/records_per_page=(\d+)/.exec(query)?.[1] ?? 100)
      return send(response, 200, await findPage(size))
    }
    const created = await create(await readJson(request))
    return created
      ? send(response, 200, created)
      : fail(response, 400, 'first_name and last_name are required')
  }
  const id = Number(/^\/v1\/users\/(\d+)$/.exec(path)?.[1])
  if (!id) return fail(response, 404, 'not found')
  if (request.method === 'PATCH') return sendUser(response, await update(id, await readJson(request)))
  if (!withGroups) return sendUser(response, await findUser(id))
  return sendUser(response, ...(await Promise.all([findUser(id), findGroups(id)])))
}

createServer((request, response) => {
  answer(request, response).catch(error => {
    if (error.code === 'ER_DUP_ENTRY') return fail(response, 409, 'user already exists')
    console.error(error)
    fail(response, 500, 'internal error')
  })
}).listen(port, '127.0.0.1')
