// A database that stands behind a proxy of the test.

/** The URL of a database as it is seen through a proxy on `port`. */
export function throughProxy(url: string, port: number): string {
  const behind = new URL(url)
  behind.searchParams.delete('socketPath')
  behind.host = `127.0.0.1:${port}`
  return behind.href
}
