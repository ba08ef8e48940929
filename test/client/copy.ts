// Keeps a copy of all users and groups in step until `signal` is aborted: reads the collections, then follows the feed.
import { setTimeout as delay } from 'node:timers/promises'

type Item = { id: number; groups?: { id: number }[]; user_id?: number; group_id?: number }
type Body = { users?: Item[]; groups?: Item[]; changes?: Item[]; meta: { links: { next: string } } }
export type Copy = { users: Map<number, Item>; groups: Map<number, Item>; position: number }
export async function keepCopy(url: string, copy: Copy, signal: AbortSignal, headers = {}): Promise<never> {
  async function get(path: string): Promise<Body | undefined> {
    for (;;) {
      const response = await fetch(url + path, { signal, headers }).catch(() => undefined)
      const text = await response?.text().catch(() => undefined)
      if (response?.status === 410) return undefined // The position has expired.
      if (response?.ok && text !== undefined) return JSON.parse(text)
      if (/^4(?!29|08)/.test(`${response?.status}`)) throw new Error(text) // A repetition would not help.
      await delay(200, undefined, { signal })
    }
  }
  async function read(of: 'users' | 'groups', query: string, ids: Iterable<number> = []) {
    const items = (await get(`/v1/${of}?${of === 'users' ? 'include=groups&' : ''}${query}`))?.[of]
    for (const id of ids) copy[of].delete(id) // Those that do not exist any more leave the copy.
    for (const item of items ?? []) copy[of].set(item.id, item)
    return items?.at(-1)?.id
  }
  for (;;) {
    copy.position = Number((await get('/v1/changes?after=latest'))?.meta.links.next.match(/after=(\d+)/)?.[1])
    for (const map of [copy.users, copy.groups]) map.clear()
    for (let id: number | undefined = 0; id !== undefined; ) id = await read('users', `id[gt]=${id}`)
    for (let id: number | undefined = 0; id !== undefined; ) id = await read('groups', `id[gt]=${id}`)
    for (let page = await get(`/v1/changes?after=${copy.position}`); page !== undefined; ) {
      const users = new Set(page.changes?.flatMap(({ user_id }) => user_id ?? []))
      const groups = new Set(page.changes?.flatMap(({ group_id }) => group_id ?? []))
      if (users.size > 0) await read('users', `id[in]=${[...users]}`, users)
      if (groups.size > 0) await read('groups', `id[in]=${[...groups]}`, groups)
      for (const user of groups.size > 0 ? copy.users.values() : []) // They end with their group.
        user.groups = user.groups?.flatMap(({ id }) => copy.groups.get(id) ?? []) ?? []
      copy.position = page.changes?.at(-1)?.id ?? copy.position
      page = await get(`/v1/changes?after=${copy.position}&wait=30`)
    }
  }
}
