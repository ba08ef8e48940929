// A database that stands behind a door of the test.

/** The URL of a database as it is seen through a door on `port`. */
export function throughDoor(url: string, port: number): string {
  const behind = new URL(url)
  behind.searchParams.delete('socketPath')
  behind.host = `127.0.0.1:${port}`
  return behind.href
}
