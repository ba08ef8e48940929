// The configuration of the compiled tests, which `npm test` and `npm run test:unit` run. `npx ava` runs the source with tsx.
import { cpSync } from 'node:fs'
import { resolve } from 'node:path'

/** The settings of the project, without config/local.json of a developer. */
const settings = resolve('var/tests/config')
cpSync('config', settings, { recursive: true, filter: path => path !== 'config/local.json' })

/** Folders in the order in which their files start: those whose tests take longest come first, so that none is left to run alone. */
const folders = ['operations', 'commands', 'unit/listener', 'cluster', 'cache', 'api', 'database', 'unit']
const rank = file => folders.findIndex(folder => file.includes(`/tests/test/${folder}/`))

export default {
  files: ['var/tests/test/**/*.test.js'],
  sortTestFiles: (one, other) => rank(one) - rank(other) || (one < other ? -1 : 1),
  nodeArguments: ['--enable-source-maps'],
  environmentVariables: { NODE_CONFIG_DIR: settings },
  timeout: '2m',
  workerThreads: false,
}
