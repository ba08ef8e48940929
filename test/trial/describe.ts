// The trial cluster as text for a terminal.
import type { Trial } from './trial.ts'

const NAME_WIDTH = 12
const ADDRESS_WIDTH = 34

/** Returns the parts with their addresses and process ids, one per line. */
export function describeParts({ parts, nodes, url }: Trial): string {
  const row = (name: string, address: string, more: string) =>
    `  ${name.padEnd(NAME_WIDTH)}${address.padEnd(ADDRESS_WIDTH)}${more}`
  const lines = parts.map(part => {
    const page = nodes.find(({ name }) => name === part.name)?.controlUrl
    const process = part.pid() === undefined ? 'not running' : `pid ${part.pid()}`
    return row(part.name, part.address, page === undefined ? process : `${process}, status page ${page}/`)
  })
  return [row('API', `${url}/v1/users`, ''), ...lines].join('\n')
}

/** Returns what to try. */
export function describeTrial(trial: Trial, restartSeconds: number): string {
  const { url, title, nodes, databases, redis, base } = trial
  const pid = (part: { pid(): number | undefined } | undefined) => part?.pid()
  return `three nodes on ${title}

${describeParts(trial)}

Try, with this in another terminal:
  while sleep 0.2; do curl -s -o /dev/null -w '%{http_code} ' -H 'Content-Type: application/json' -d '{"first_name": "Ada", "last_name": "'$RANDOM$RANDOM'"}' ${url}/v1/users; done
  kill -9 ${pid(nodes[1])}    node2: only requests in flight on it fail
  kill ${pid(nodes[2])}       node3, in good order: no request fails
  kill -9 ${pid(databases[0])}    database1: writes wait or get 503 for a few seconds, until the others agree that it is gone
  kill -9 ${pid(redis[0])}    redis1, the master at the start: no request fails, and a replica takes over

What has ended starts again after ${restartSeconds} s. The status pages of the nodes and the page of HAProxy show the effect.
\`npm run cluster -- status\` shows the process ids, \`npm run cluster -- stop\` stops everything. The next start begins with an
empty database. Logs and data are in ${base}.
`
}
