// Picks an item of a list.

/** Returns the item at `index`, by default a random one; after the last item, the first one follows. @throws Error if the list is empty */
export function pick<T>(list: readonly T[], index = Math.floor(Math.random() * list.length)): T {
  const item = list[index % list.length]
  if (item === undefined) throw new Error('the list is empty')
  return item
}
