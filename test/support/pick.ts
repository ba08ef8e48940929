// Picks an item of a list by any index, such as a generated one.

/** Returns the item at `index`; after the last item, the first one follows. @throws Error if the list is empty */
export function pick<T>(list: readonly T[], index: number): T {
  const item = list[index % list.length]
  if (item === undefined) throw new Error('the list is empty')
  return item
}
