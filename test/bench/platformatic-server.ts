// The `platformatic` baseline: Platformatic DB with its generated REST API under /v1, like the service's. It needs
// Node 22.19. The argument is the folder in which its package is installed.
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { databaseUrl, port } from './environment.ts'

interface Platformatic {
  create(root: string, config: object): Promise<{ start(options: { listen: boolean }): Promise<string> }>
}

const [folder = ''] = process.argv.slice(2)
const entry = createRequire(join(folder, 'package.json')).resolve('@platformatic/db')
const { create }: Platformatic = await import(pathToFileURL(entry).href)

const server = await create(folder, {
  server: { hostname: '127.0.0.1', port, logger: { level: 'error' } },
  db: {
    connectionString: databaseUrl,
    poolSize: 10,
    openapi: { prefix: '/v1' },
    graphql: false,
    events: false,
  },
  watch: false,
})
await server.start({ listen: true })
