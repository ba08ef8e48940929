// The configuration of the compiled tests, which `npm test` and `npm run test:unit` run. `npx ava` runs the source with tsx.
import { resolve } from 'node:path'

/** Folders in the order in which their files start: those whose tests take longest come first, so that none is left to run alone. */
const folders = ['operations', 'commands', 'unit/listener', 'cluster', 'cache', 'api', 'database', 'unit']
const rank = file => folders.findIndex(folder => file.includes(`/tests/test/${folder}/`))

export default {
  files: ['var/tests/test/**/*.test.js'],
  sortTestFiles: (one, other) => rank(one) - rank(other) || (one < other ? -1 : 1),
  nodeArguments: ['--enable-source-maps'],
  // The settings of the project, without config/local.json of a developer: `npm run compile` copies them.
  environmentVariables: { NODE_CONFIG_DIR: resolve('var/tests/config') },
  // A test of many requests shows no progress, and on a busy machine some take a minute.
  timeout: '5m',
  workerThreads: false,
}
