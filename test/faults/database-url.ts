// Rewrites a database URL so that connections go through a TCP proxy.

/** Returns `url` with the host replaced by the proxy that listens on `port`. */
export function throughProxy(url: string, port: number): string {
  const proxied = new URL(url)
  proxied.searchParams.delete('socketPath')
  proxied.host = `127.0.0.1:${port}`
  return proxied.href
}
